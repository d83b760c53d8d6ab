"""Figure 1: what g learns of a distribution with two humps, under a fixed and under a learned similarity.

Claim: with a fixed similarity g learns the distribution, whether it is discrete or continuous. A similarity that
is learned from the objective alone also works in the discrete case, but in the continuous one it flattens the
distribution out: this is why the adjacency regulariser is needed.

`sec:similarity`, `tab:gaussianhyper`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray
from matplotlib.figure import Figure

from gemax.core.encoding import soft_one_hot
from gemax.core.expectation import sample_negatives
from gemax.core.objective import embedding_penalty, gem_objective, log_g_of
from gemax.core.similarity import exponential_similarity, exponential_similarity_of_pairs, similarity_profile
from gemax.experiments.claims import Claim, claim_at_most
from gemax.experiments.experiment import Experiment, Shown
from gemax.experiments.statistics import estimate_of, mean_and_interval, mean_of
from gemax.networks import mlp
from gemax.runs.files import write_arrays

SMALLEST, LARGEST = 0.0, 30.0
"""The support of the distribution, and m_min and m_max of `alg:soft1h`."""


@dataclass(frozen=True)
class Hyperparameters:
    """`tab:gaussianhyper`, to the letter."""

    batch_size: int = 256
    """States in each of the two minibatches of `alg:taco`."""
    num_negatives: int = 8
    """n_neg."""
    regularisation: float = 1e-6
    """w_reg, against an embedding that drifts."""
    num_buckets: int = 30
    """n_bucket of the soft one-hot."""
    hidden_size: int = 128
    embedding_size: int = 64
    training_steps: int = 1000
    learning_rate: float = 1e-3
    adam_beta1: float = 0.0
    adam_beta2: float = 0.95
    fixed_similarity_scale: float = 2.0
    """c with f the identity."""
    learned_similarity_scale: float = 1.0
    """c with f trained."""


class Setting(NamedTuple):
    """One of the four curves."""

    is_discrete: bool
    is_learned: bool

    @property
    def name(self) -> str:
        """For files and tables."""
        return (
            f"{'discrete' if self.is_discrete else 'continuous'}-{'learned' if self.is_learned else 'fixed'}"
        )

    @property
    def words(self) -> str:
        """For people."""
        return self.name.replace("-", " distribution, ") + " similarity"


SETTINGS = tuple(
    Setting(is_discrete, is_learned) for is_discrete in (True, False) for is_learned in (False, True)
)


class Outcome(NamedTuple):
    """What was learned in one setting, a row a seed, beside the truth."""

    setting: Setting
    points: Float[np.ndarray, " points"]
    learned: Float[np.ndarray, "seeds points"]
    truth: Float[np.ndarray, " points"]
    smoothed_truth: Float[np.ndarray, " points"]
    """The truth as the fixed similarity sees it: its similarity profile."""


class Drawn(NamedTuple):
    """A batch of states. Networks see each distinct state once, however often it was drawn."""

    distinct: Float[Array, " distinct"]
    number: Int[Array, " N"]
    """Which of the distinct states each of the N is."""


def density(x: Float[Array, " N"]) -> Float[Array, " N"]:
    """The mixture of two truncated normals, up to a factor: three tenths in the left hump, the rest in the right."""
    standard = 8.0 / LARGEST * x - 4.0
    left = jnp.where(standard < 0, 0.3 * jnp.exp(-0.5 * (standard + 2.0) ** 2), 0.0)
    right = jnp.where(standard >= 0, 0.7 * jnp.exp(-0.5 * (standard - 2.0) ** 2), 0.0)
    return left + right


def support(setting: Setting) -> Float[Array, " points"]:
    """The 30 points of the discrete distribution; the middles of 300 equal cells for the continuous one."""
    if setting.is_discrete:
        return jnp.linspace(SMALLEST, LARGEST, 30)
    return SMALLEST + (LARGEST - SMALLEST) * (jnp.arange(300) + 0.5) / 300


def true_probability(setting: Setting) -> Float[Array, " points"]:
    """The distribution that the states are drawn from, on its support."""
    weight = density(support(setting))
    return weight / weight.sum()


def draw(setting: Setting, key: PRNGKeyArray, num_states: int) -> Drawn:
    """States drawn from the distribution."""
    if setting.is_discrete:
        logits = jnp.log(true_probability(setting))
        return Drawn(support(setting), jax.random.categorical(key, logits, shape=(num_states,)))
    hump_key, normal_key = jax.random.split(key)
    middle = jnp.where(jax.random.uniform(hump_key, (num_states,)) < 0.3, -2.0, 2.0)
    normal = jax.random.truncated_normal(normal_key, -2.0, 2.0, (num_states,))
    return Drawn(LARGEST / 8.0 * (normal + middle + 4.0), jnp.arange(num_states))


def learn(setting: Setting, hyper: Hyperparameters, key: PRNGKeyArray) -> Float[Array, " points"]:
    """Trains g, and f where the similarity is learned; gives p ∝ 1 / g on the support."""
    g_network = mlp((hyper.hidden_size, hyper.hidden_size, 1))
    f_network = mlp((hyper.hidden_size, hyper.hidden_size, hyper.embedding_size))
    optimiser = optax.adam(hyper.learning_rate, b1=hyper.adam_beta1, b2=hyper.adam_beta2)
    scale = hyper.learned_similarity_scale if setting.is_learned else hyper.fixed_similarity_scale

    def encode(x: Float[Array, " N"]) -> Float[Array, "N buckets"]:
        return soft_one_hot(x, hyper.num_buckets, SMALLEST, LARGEST)

    def log_g(parameters, x: Float[Array, " N"]) -> Float[Array, " N"]:
        return log_g_of(g_network.apply(parameters["g"], encode(x))[:, 0])

    def embed(parameters, x: Float[Array, " N"]) -> Float[Array, "N D"]:
        return f_network.apply(parameters["f"], encode(x)) if setting.is_learned else x[:, None]

    def loss(parameters, states: Drawn, others: Drawn, negatives_key: PRNGKeyArray) -> Float[Array, ""]:
        log_g_states = log_g(parameters, states.distinct)[states.number]
        embedding = embed(parameters, states.distinct)[states.number]
        shape = (hyper.batch_size, hyper.num_negatives)
        negatives = others.number[sample_negatives(negatives_key, shape, hyper.batch_size)]
        negative_embedding = embed(parameters, others.distinct)[negatives]
        similarity = exponential_similarity_of_pairs(embedding, negative_embedding, scale=scale)
        objective = gem_objective(log_g_states, similarity.mean(axis=1))
        penalty = embedding_penalty(embedding) if setting.is_learned else 0.0
        return -objective + hyper.regularisation * penalty

    def update(carry, key: PRNGKeyArray):
        parameters, optimiser_state = carry
        states_key, others_key, negatives_key = jax.random.split(key, 3)
        states = draw(setting, states_key, hyper.batch_size)
        others = draw(setting, others_key, hyper.batch_size)
        gradient = jax.grad(loss)(parameters, states, others, negatives_key)
        updates, optimiser_state = optimiser.update(gradient, optimiser_state)
        return (optax.apply_updates(parameters, updates), optimiser_state), None

    g_key, f_key, training_key = jax.random.split(key, 3)
    inputs = encode(support(setting))
    parameters = {"g": g_network.init(g_key, inputs), "f": f_network.init(f_key, inputs)}
    keys = jax.random.split(training_key, hyper.training_steps)
    (parameters, _), _ = jax.lax.scan(update, (parameters, optimiser.init(parameters)), keys)
    inverse_g = jnp.exp(-log_g(parameters, support(setting)))
    return inverse_g / inverse_g.sum()


def run(setting: Setting, num_seeds: int, hyper: Hyperparameters) -> Outcome:
    """All seeds of one setting, in one compiled call."""
    keys = jax.random.split(jax.random.key(0), num_seeds)
    learned = jax.jit(jax.vmap(partial(learn, setting, hyper)))(keys)
    points, truth = support(setting), true_probability(setting)
    similarity = exponential_similarity(points[:, None], points[:, None], scale=hyper.fixed_similarity_scale)
    smoothed = similarity_profile(similarity, truth)
    arrays = (points, learned, truth, smoothed / smoothed.sum())
    return Outcome(setting, *(np.asarray(array, np.float64) for array in arrays))


def total_variation(p: Float[np.ndarray, "*seeds points"], q: Float[np.ndarray, " points"]) -> np.ndarray:
    """Half the summed difference of two distributions: 0 if equal, 1 if disjoint."""
    return np.asarray(0.5 * np.abs(p - q).sum(axis=-1))


def claim_of(outcome: Outcome) -> Claim:
    """Whether the figure shows in this setting what the paper says, for every seed, and by how much."""
    uniform = np.full_like(outcome.truth, 1.0 / len(outcome.truth))
    to_truth = total_variation(outcome.learned, outcome.truth)
    to_smoothed = total_variation(outcome.learned, outcome.smoothed_truth)
    to_uniform = total_variation(outcome.learned, uniform)
    setting = outcome.setting
    if setting.is_learned and not setting.is_discrete:
        words, measure = (
            "nearer to the uniform than to the truth",
            "total variation to the uniform - to the truth",
        )
        values, bar = to_uniform - to_truth, 0.0
    elif setting.is_discrete:
        words, measure = "g learns the truth", "total variation to the truth"
        values, bar = to_truth, 0.1
    else:
        words, measure = "g learns the truth, smoothed by the kernel", "total variation to the smoothed truth"
        values, bar = to_smoothed, 0.1
    return claim_at_most(
        f"fig1-{setting.name}",
        f"{setting.words}: {words}",
        measure,
        estimate_of(mean_of, values),
        bar,
        total_variation_to_truth=to_truth.round(4).tolist(),
        total_variation_to_smoothed_truth=to_smoothed.round(4).tolist(),
        total_variation_to_uniform=to_uniform.round(4).tolist(),
        total_variation_of_truth_to_uniform=round(float(total_variation(outcome.truth, uniform)), 4),
    )


def plot(outcomes: Sequence[Outcome]) -> Figure:
    """The discrete distributions on the left, the continuous ones on the right; bands are 95 % intervals."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    panels = dict(zip((True, False), figure.subplots(1, 2), strict=True))
    for is_discrete, panel in panels.items():
        panel.set_title("discrete" if is_discrete else "continuous")
        panel.set_xlabel("x")
        panel.set_ylabel("probability" if is_discrete else "density")
    for outcome in outcomes:
        panel = panels[outcome.setting.is_discrete]
        # Cells of the grid to density: the area under the continuous curves is one.
        unit = 1.0 if outcome.setting.is_discrete else len(outcome.points) / (LARGEST - SMALLEST)
        if not outcome.setting.is_learned:
            panel.fill_between(outcome.points, unit * outcome.truth, color="0.85", label="truth", linewidth=0)
            smoothed = unit * outcome.smoothed_truth
            panel.plot(
                outcome.points, smoothed, color="0.4", linestyle=":", label="truth, smoothed by the kernel"
            )
        colour = "tab:orange" if outcome.setting.is_learned else "tab:blue"
        mean, half_width = mean_and_interval(unit * outcome.learned)
        label = "learned similarity" if outcome.setting.is_learned else "fixed similarity"
        panel.plot(outcome.points, mean, color=colour, label=label, linewidth=1.5)
        panel.fill_between(
            outcome.points, mean - half_width, mean + half_width, color=colour, alpha=0.25, linewidth=0
        )
    for panel in panels.values():
        panel.set_xlim(SMALLEST, LARGEST)
        panel.set_ylim(bottom=0.0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
    return figure


def work(folder: Path, smoke: bool) -> list[Outcome]:
    """Trains the four settings, unless the folder has what was learned."""
    hyper = Hyperparameters(training_steps=20) if smoke else Hyperparameters()
    kept = folder / f"fig1-{hyper.training_steps}.npz"
    if not kept.exists():
        outcomes = {setting.name: run(setting, 2 if smoke else 5, hyper) for setting in SETTINGS}
        arrays = {
            f"{name} {field}": getattr(outcome, field)
            for name, outcome in outcomes.items()
            for field in Outcome._fields[1:]
        }
        write_arrays(kept, arrays)
    with np.load(kept, allow_pickle=False) as arrays:
        return [
            Outcome(setting, *(arrays[f"{setting.name} {field}"] for field in Outcome._fields[1:]))
            for setting in SETTINGS
        ]


def show(outcomes: list[Outcome]) -> Shown:
    """The four curves, and whether each is what the paper says."""
    return Shown({"fig1": plot(outcomes)}, [claim_of(outcome) for outcome in outcomes])


EXPERIMENT = Experiment(
    "fig1",
    "What g learns of a distribution with two humps",
    "A fixed similarity learns the distribution; a learned one flattens the continuous distribution out.",
    lambda preset: {},
    show,
    work=work,
)
