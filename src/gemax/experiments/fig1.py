"""Figure 1: g learns a bimodal distribution, with a fixed and with a learned similarity.

Claim: with a fixed similarity g learns the distribution, whether it is discrete or continuous. A similarity that
is learned from the objective alone also works in the discrete case, but in the continuous case it flattens the
distribution. The adjacency regulariser prevents this.

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
from gemax.experiments.claims import Claim, decide
from gemax.experiments.experiment import Experiment, FigureResult
from gemax.experiments.statistics import estimate_mean, mean_and_interval
from gemax.networks import mlp
from gemax.runs.files import write_arrays
from gemax.runs.plots import hide_frame
from gemax.stopping import check_stop

MIN_X, MAX_X = 0.0, 30.0
"""The support of the distribution, and m_min and m_max of `alg:soft1h`."""


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of `tab:gaussianhyper`."""

    batch_size: int = 256
    """States in each of the two minibatches of `alg:taco`."""
    num_negatives: int = 8
    """n_neg."""
    embedding_penalty: float = 1e-6
    """w_reg: weight of ‖f(x)‖²."""
    num_buckets: int = 30
    """n_bucket of the soft one-hot encoding."""
    hidden_size: int = 128
    embedding_size: int = 64
    training_steps: int = 1000
    learning_rate: float = 1e-3
    adam_beta1: float = 0.0
    adam_beta2: float = 0.95
    fixed_similarity_scale: float = 2.0
    """c of the fixed similarity, for which f is the identity."""
    learned_similarity_scale: float = 1.0
    """c of the learned similarity."""


class Setting(NamedTuple):
    """A kind of distribution and a kind of similarity: one of the four curves."""

    is_discrete: bool
    is_learned: bool

    @property
    def name(self) -> str:
        """Name in files and claim ids."""
        kind = "discrete" if self.is_discrete else "continuous"
        return f"{kind}-{'learned' if self.is_learned else 'fixed'}"


SETTINGS = [Setting(is_discrete, is_learned) for is_discrete in (True, False) for is_learned in (False, True)]


class Outcome(NamedTuple):
    """The learned distributions and the true distribution of one setting."""

    setting: Setting
    points: Float[np.ndarray, " points"]
    learned: Float[np.ndarray, "seeds points"]
    truth: Float[np.ndarray, " points"]
    smoothed_truth: Float[np.ndarray, " points"]
    """p_k of the true distribution under the fixed similarity, normalised."""


class Batch(NamedTuple):
    """A batch of states. The networks are applied once to each distinct state."""

    distinct: Float[Array, " distinct"]
    row: Int[Array, " N"]
    """Index of each state in `distinct`."""


def density(x: Float[Array, " N"]) -> Float[Array, " N"]:
    """Returns the unnormalised density of a mixture of two truncated normals with weights 0.3 and 0.7."""
    standard = 8.0 / MAX_X * x - 4.0
    left = jnp.where(standard < 0, 0.3 * jnp.exp(-0.5 * (standard + 2.0) ** 2), 0.0)
    right = jnp.where(standard >= 0, 0.7 * jnp.exp(-0.5 * (standard - 2.0) ** 2), 0.0)
    return left + right


def support(setting: Setting) -> Float[Array, " points"]:
    """Returns the 30 points of the discrete distribution, or the centres of 300 bins for the continuous one."""
    if setting.is_discrete:
        return jnp.linspace(MIN_X, MAX_X, 30)
    return MIN_X + (MAX_X - MIN_X) * (jnp.arange(300) + 0.5) / 300


def true_probability(setting: Setting) -> Float[Array, " points"]:
    """Returns the true distribution on its support."""
    weight = density(support(setting))
    return weight / weight.sum()


def sample_states(setting: Setting, key: PRNGKeyArray, num_states: int) -> Batch:
    """Samples states from the true distribution."""
    if setting.is_discrete:
        logits = jnp.log(true_probability(setting))
        return Batch(support(setting), jax.random.categorical(key, logits, shape=(num_states,)))
    mode_key, normal_key = jax.random.split(key)
    mode = jnp.where(jax.random.uniform(mode_key, (num_states,)) < 0.3, -2.0, 2.0)
    normal = jax.random.truncated_normal(normal_key, -2.0, 2.0, (num_states,))
    return Batch(MAX_X / 8.0 * (normal + mode + 4.0), jnp.arange(num_states))


def learn(setting: Setting, hyper: Hyperparameters, key: PRNGKeyArray) -> Float[Array, " points"]:
    """Trains g, and f if the similarity is learned. Returns p ∝ 1 / g on the support."""
    g_network = mlp((hyper.hidden_size, hyper.hidden_size, 1))
    f_network = mlp((hyper.hidden_size, hyper.hidden_size, hyper.embedding_size))
    optimiser = optax.adam(hyper.learning_rate, b1=hyper.adam_beta1, b2=hyper.adam_beta2)
    scale = hyper.learned_similarity_scale if setting.is_learned else hyper.fixed_similarity_scale

    def encode(x: Float[Array, " N"]) -> Float[Array, "N buckets"]:
        return soft_one_hot(x, hyper.num_buckets, MIN_X, MAX_X)

    def log_g(parameters, x: Float[Array, " N"]) -> Float[Array, " N"]:
        return log_g_of(g_network.apply(parameters["g"], encode(x))[:, 0])

    def embed(parameters, x: Float[Array, " N"]) -> Float[Array, "N D"]:
        return f_network.apply(parameters["f"], encode(x)) if setting.is_learned else x[:, None]

    def loss(parameters, states: Batch, others: Batch, negatives_key: PRNGKeyArray) -> Float[Array, ""]:
        log_g_states = log_g(parameters, states.distinct)[states.row]
        embedding = embed(parameters, states.distinct)[states.row]
        shape = (hyper.batch_size, hyper.num_negatives)
        negatives = others.row[sample_negatives(negatives_key, shape, hyper.batch_size)]
        negative_embedding = embed(parameters, others.distinct)[negatives]
        similarity = exponential_similarity_of_pairs(embedding, negative_embedding, scale=scale)
        objective = gem_objective(log_g_states, similarity.mean(axis=1))
        penalty = embedding_penalty(embedding) if setting.is_learned else 0.0
        return -objective + hyper.embedding_penalty * penalty

    def update(carry, key: PRNGKeyArray):
        parameters, opt_state = carry
        states_key, others_key, negatives_key = jax.random.split(key, 3)
        states = sample_states(setting, states_key, hyper.batch_size)
        others = sample_states(setting, others_key, hyper.batch_size)
        gradient = jax.grad(loss)(parameters, states, others, negatives_key)
        updates, opt_state = optimiser.update(gradient, opt_state)
        return (optax.apply_updates(parameters, updates), opt_state), None

    g_key, f_key, training_key = jax.random.split(key, 3)
    inputs = encode(support(setting))
    parameters = {"g": g_network.init(g_key, inputs), "f": f_network.init(f_key, inputs)}
    keys = jax.random.split(training_key, hyper.training_steps)
    (parameters, _), _ = jax.lax.scan(update, (parameters, optimiser.init(parameters)), keys)
    inverse_g = jnp.exp(-log_g(parameters, support(setting)))
    return inverse_g / inverse_g.sum()


def run(setting: Setting, num_seeds: int, hyper: Hyperparameters) -> Outcome:
    """Trains all seeds of one setting in one compiled call."""
    keys = jax.random.split(jax.random.key(0), num_seeds)
    learned = jax.jit(jax.vmap(partial(learn, setting, hyper)))(keys)
    points, truth = support(setting), true_probability(setting)
    similarity = exponential_similarity(points[:, None], points[:, None], scale=hyper.fixed_similarity_scale)
    smoothed = similarity_profile(similarity, truth)
    arrays = (points, learned, truth, smoothed / smoothed.sum())
    return Outcome(setting, *(np.asarray(array, np.float64) for array in arrays))


def compute(folder: Path, smoke: bool) -> list[Outcome]:
    """Trains the four settings, or reads their outcomes from the folder."""
    hyper = Hyperparameters(training_steps=20) if smoke else Hyperparameters()
    path = folder / f"fig1-{hyper.training_steps}.npz"
    fields = Outcome._fields[1:]
    if not path.exists():
        arrays = {}
        for setting in SETTINGS:
            check_stop()
            outcome = run(setting, 2 if smoke else 5, hyper)
            arrays |= {f"{setting.name} {field}": getattr(outcome, field) for field in fields}
        write_arrays(path, arrays)
    with np.load(path, allow_pickle=False) as saved:
        return [
            Outcome(setting, *(saved[f"{setting.name} {field}"] for field in fields)) for setting in SETTINGS
        ]


def total_variation(p: Float[np.ndarray, "*seeds points"], q: Float[np.ndarray, " points"]) -> np.ndarray:
    """Returns the total variation distance: 0 for equal and 1 for disjoint distributions."""
    return np.asarray(0.5 * np.abs(p - q).sum(axis=-1))


def decide_setting(outcome: Outcome) -> Claim:
    """Decides the claim about one setting."""
    setting, uniform = outcome.setting, np.full_like(outcome.truth, 1.0 / len(outcome.truth))
    to_truth, to_smoothed, to_uniform = (
        total_variation(outcome.learned, other) for other in (outcome.truth, outcome.smoothed_truth, uniform)
    )
    if setting.is_discrete:
        claim, distance, values = "g learns the truth", "to the truth ≤ 0.1", to_truth
    elif setting.is_learned:
        claim, distance = "nearer to the uniform than to the truth", "to the uniform - to the truth ≤ 0"
        values = to_uniform - to_truth
    else:
        claim, distance = "g learns the truth, smoothed by the kernel", "to the smoothed truth ≤ 0.1"
        values = to_smoothed
    return decide(
        f"fig1-{setting.name}",
        f"{setting.name.replace('-', ' distribution, ')} similarity: {claim}",
        f"total variation {distance}",
        estimate_mean(values),
        total_variation_to_truth=to_truth.round(4).tolist(),
        total_variation_to_smoothed_truth=to_smoothed.round(4).tolist(),
        total_variation_to_uniform=to_uniform.round(4).tolist(),
        total_variation_of_truth_to_uniform=round(float(total_variation(outcome.truth, uniform)), 4),
    )


def plot(outcomes: Sequence[Outcome]) -> Figure:
    """Plots the discrete distributions on the left and the continuous ones on the right, with 95 % intervals."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    axes = dict(zip((True, False), figure.subplots(1, 2), strict=True))
    for (is_discrete, is_learned), points, learned, truth, smoothed in outcomes:
        axis = axes[is_discrete]
        # Converts the probabilities of bins to a density.
        factor = 1.0 if is_discrete else len(points) / (MAX_X - MIN_X)
        if not is_learned:
            axis.fill_between(points, factor * truth, color="0.85", label="truth", linewidth=0)
            style = {"color": "0.4", "linestyle": ":", "label": "truth, smoothed by the kernel"}
            axis.plot(points, factor * smoothed, **style)
        label, colour = ("learned", "tab:orange") if is_learned else ("fixed", "tab:blue")
        middle, half_width = mean_and_interval(factor * learned)
        axis.plot(points, middle, color=colour, label=f"{label} similarity", linewidth=1.5)
        low, high = middle - half_width, middle + half_width
        axis.fill_between(points, low, high, color=colour, alpha=0.25, linewidth=0)
    for is_discrete, axis in axes.items():
        title, ylabel = ("discrete", "probability") if is_discrete else ("continuous", "density")
        axis.set(title=title, xlabel="x", ylabel=ylabel, xlim=(MIN_X, MAX_X))
        axis.set_ylim(bottom=0.0)
        hide_frame(axis)
        axis.legend(frameon=False)
    return figure


def analyse(outcomes: list[Outcome]) -> FigureResult:
    """Plots the four settings and decides their claims."""
    return FigureResult(plot(outcomes), [decide_setting(outcome) for outcome in outcomes])


EXPERIMENT = Experiment(
    "Learning a bimodal distribution",
    "A fixed similarity learns the distribution. A learned similarity flattens the continuous distribution.",
    analyse,
    compute=compute,
)
