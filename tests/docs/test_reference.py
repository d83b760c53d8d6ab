"""The reference documents every public name, argument, setting, command and metric."""

import importlib
import inspect
import re
import tomllib
from dataclasses import is_dataclass
from functools import partial
from typing import get_args

import jax
import pytest

from gemax.cli import VERBS
from gemax.rewards.config import Method
from gemax.training.assemble import assemble
from gemax.training.config import SECTIONS
from gemax.training.loop import state_shapes
from gemax.training.presets import configure
from tests.docs.blocks import REPOSITORY
from tests.parameters import fast_or_slow

REFERENCE = REPOSITORY / "docs" / "reference"
TEXT = "\n".join(page.read_text() for page in sorted(REFERENCE.glob("*.md")))
DOCUMENTED = set(re.findall(r"^\.\. auto(?:function|class):: (\S+)", TEXT, re.MULTILINE))
INTEGRATIONS = ["gemax.integrations.gymnasium", "gemax.integrations.stable_baselines3"]
PUBLIC = {
    f"{module}.{name}"
    for module in ["gemax", *INTEGRATIONS]
    for name in importlib.import_module(module).__all__
    if name != "__version__"
}


def find(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_the_reference():
    assert PUBLIC <= DOCUMENTED


def test_the_reference_has_no_other_names():
    assert {
        "gemax.experiments.compare.Comparison",
        "gemax.runs.run_metrics.RunMetrics",
    } == DOCUMENTED - PUBLIC


def functions_of(path):
    """Returns a function, or a class and the methods that no base class has. Records of fields have none."""
    public = find(path)
    if not isinstance(public, type):
        return [public]
    if issubclass(public, tuple) or is_dataclass(public):
        return []  # the reference shows the docstrings of the fields
    inherited = {name for base in public.__mro__[1:] for name in vars(base)} - {"__init__"}
    own = [name for name in vars(public) if name not in inherited and inspect.isfunction(vars(public)[name])]
    return [
        public if name == "__init__" else vars(public)[name]
        for name in own
        if name == "__init__" or name[0] != "_"
    ]


@pytest.mark.parametrize("path", sorted(path for path in PUBLIC if functions_of(path)))
def test_docstrings_describe_every_argument(path):
    for function in functions_of(path):
        described = set(re.findall(r"^ +(\w+): ", inspect.getdoc(function) or "", re.MULTILINE))
        names = set(inspect.signature(function).parameters) - {"self"}
        assert inspect.getdoc(function)
        assert names <= described or len(names) < 2, f"{function} does not describe {names - described}"


def test_every_extra_is_in_the_installation_page():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    page = (REPOSITORY / "docs" / "installation.md").read_text()
    extras = set(project["optional-dependencies"]) - {"test", "check", "fuzz"}
    assert set(re.findall(r"'gemax\[([\w-]+)\]'", page)) == extras


def test_every_section_of_the_configuration_is_in_the_reference():
    assert re.findall(r"```\{gemax-settings\} (\w+)", TEXT) == list(SECTIONS)


def test_every_verb_is_in_the_reference():
    assert set(re.findall(r"```\{gemax-help\} (\w+)", TEXT)) == set(VERBS)


@pytest.mark.parametrize("method", fast_or_slow(sorted({*get_args(Method)} - {"custom"}), ["gem", "oracle"]))
def test_every_metric_is_in_the_reference(method):
    config = configure("two-rooms", method=method, num_envs=8, unroll_length=4, unroll_period=4)
    trainer = assemble(config)
    _, metrics = jax.eval_shape(partial(trainer.collector.update, trainer), state_shapes(trainer))
    documented = set(re.findall(r"`(\w+)`", (REFERENCE / "metrics.md").read_text()))
    assert {*metrics, "update", "frames", "seconds", "entropy_share"} <= documented
