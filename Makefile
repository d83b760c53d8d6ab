# `make train` trains an agent in 2-Rooms. `make test` runs all checks and the fast tests. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: train test check lint types imports docs notebook pictures browser test-browser test-runs test-slow test-faults test-ray test-install reliability test-peers clean fuzz

train: $(VENV)/.installed
	$(BIN)/gemax train two-rooms

test: check
	$(BIN)/python -m pytest

# Debian's chromium without windows, for the tests of `gemax view` in `make test`. Playwright, which drives it, is a test dependency.
browser: $(VENV)/.installed-dev
	command -v chromium-headless-shell || (apt-get update && apt-get install --yes chromium-headless-shell)

test-browser: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/view -m browser --numprocesses=0

# Runs that are trained, killed and resumed, also in child processes.
test-runs: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "whole_runs and not slow and not slow_fault"

test-slow: $(VENV)/.installed-dev
	JAX_DISABLE_MOST_OPTIMIZATIONS=false XLA_FLAGS= $(BIN)/python -m pytest -m slow --numprocesses=0 --timeout=3600

test-faults: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow_fault

# Ray clusters and several JAX devices, in child processes. One at a time, since each uses all cores.
test-ray: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/launch -m "(ray or devices) and not slow" --numprocesses=0

# A wheel in a fresh environment. Downloads all dependencies.
test-install: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/install -m install --numprocesses=0

# All tests that inject a fault, fast and slow ones.
reliability: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m fault --reliability=results/reliability.md

# Damaged files, configurations and command lines, a million in all. Stops with an error if one of them crashes gemax.
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzzing --inputs 1000000 --out results/fuzz.json
	$(BIN)/python -m tests.fuzzing --engine hypothesis --inputs 60000 --out results/fuzz.json
	$(PIP_INSTALL) --editable ".[fuzz]"
	$(BIN)/python -m tests.fuzzing --engine atheris --inputs 500000 --out results/fuzz.json

# Libraries with many dependencies are installed in a separate virtual environment.
test-peers: .venv-peers/.installed
	.venv-peers/bin/python -m pytest tests/peers -m peers --numprocesses=0

check: lint types imports docs

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/basedpyright --level error

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

docs: $(VENV)/.installed-dev
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build

# Executes the tutorial in place, at full length.
notebook: $(VENV)/.installed-dev
	$(BIN)/jupyter execute --inplace --timeout=3600 docs/tutorial.ipynb

# Trains 2-Rooms and takes the pictures of its page in a browser.
pictures: $(VENV)/.installed-dev
	$(BIN)/python docs/pictures.py

clean:
	rm -rf $(VENV) docs/_build

# `.installed` has what users install, `.installed-dev` what contributors need. A changed constraint reinstalls.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP_INSTALL) --editable ".[test,check]"
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Benchmarks. gymnax and the peers in PyTorch need separate virtual environments.
.PHONY: bench-envs bench-random bench-training bench-host bench-methods bench-learning bench-sb3 bench-wrapper bench-rewards bench-peers bench-solve bench-earlier bench-switches bench-minigrid-peers bench-numpy bench-startup bench-signals bench-growth benchmarks bench-finetune bench-four-rooms bench-minigrid-speed bench-explore bench-view bench-actors bench-lag
bench-envs: .venv-bench/.installed
	.venv-bench/bin/python benchmarks/envs.py

bench-random: $(VENV)/.installed
	$(BIN)/python benchmarks/random_policy.py

bench-training: $(VENV)/.installed
	$(BIN)/python benchmarks/training.py

bench-host: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/host.py

bench-methods: $(VENV)/.installed
	$(BIN)/python benchmarks/methods.py

bench-learning: $(VENV)/.installed
	$(BIN)/python benchmarks/learning.py

bench-sb3: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/sb3.py

bench-minigrid-speed: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/minigrid_speed.py

bench-finetune: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/finetune.py

bench-four-rooms: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/four_rooms.py

bench-actors: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/actors.py

bench-lag: $(VENV)/.installed
	$(BIN)/python benchmarks/lag.py

bench-view: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/view.py

bench-explore: $(VENV)/.installed-dev
	$(BIN)/gemax bench explore --tasks all

bench-wrapper: .venv-speed/.installed
	.venv-speed/bin/python benchmarks/wrapper.py

bench-rewards: .venv-speed/.installed
	.venv-speed/bin/python benchmarks/rewards.py

bench-numpy: $(VENV)/.installed
	$(BIN)/python benchmarks/numpy_inference.py

bench-startup: $(VENV)/.installed
	$(BIN)/python benchmarks/startup.py

bench-signals: $(VENV)/.installed
	$(BIN)/python benchmarks/signals.py

bench-growth: $(VENV)/.installed
	$(BIN)/python benchmarks/growth.py

bench-peers: .venv-speed/.installed
	.venv-speed/bin/python benchmarks/peers.py

bench-solve: .venv-speed/.installed
	.venv-speed/bin/python benchmarks/solve.py

bench-earlier: $(VENV)/.installed
	$(BIN)/python benchmarks/earlier.py

bench-switches: $(VENV)/.installed
	$(BIN)/python benchmarks/switches.py

bench-minigrid-peers: .venv-speed/.installed
	.venv-speed/bin/python benchmarks/minigrid_peers.py

# Writes results/benchmarks.md from the last results of all benchmarks.
benchmarks: $(VENV)/.installed
	$(BIN)/python benchmarks/report.py

.venv-bench/.installed: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/requirements.txt --editable .
	touch $@

# Peers in PyTorch. rllte without its dependencies: it requires Gymnasium below 1.0, torchvision and simulators, which its
# rewards do not need.
.venv-speed/.installed: constraints.txt pyproject.toml
	$(PYTHON) -m venv .venv-speed
	.venv-speed/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		torch==2.13.0 torchrl==0.14.1 stable-baselines3 sb3-contrib minigrid termcolor omegaconf pynvml \
		--editable ".[gymnasium]"
	.venv-speed/bin/python -m pip install --quiet --disable-pip-version-check --no-deps rllte-core==1.0.1
	touch $@

.venv-peers/.installed: tests/peers/requirements.txt constraints.txt pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--requirement tests/peers/requirements.txt --editable .
	touch $@
