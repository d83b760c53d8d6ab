"""Checks of settings. The type of a field declares its allowed values and bounds."""

import difflib
import functools
import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

PROGRAM_FOLDER = "GEMAX_PROGRAM_FOLDER"
"""Environment variable: the folder of `training.stored_programs`, which the command line sets."""


def check_count(name: str, value: int) -> None:
    """Raises a ValueError for numbers below 1."""
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value}.")


def check_alpha(name: str, value: float) -> None:
    """Raises a ValueError for a Tsallis index of 2 or more, for which the objective has no maximum."""
    if not value < 2:
        raise ValueError(f"{name} must be below 2, where 1 is Shannon; got {value}.")


def check_positive(name: str, value: float) -> None:
    """Raises a ValueError for zero, negative and non-finite numbers."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite; got {value}.")


def check_nonnegative(name: str, value: float) -> None:
    """Raises a ValueError for negative and non-finite numbers."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be zero or more, and finite; got {value}.")


def check_fraction(name: str, value: float) -> None:
    """Raises a ValueError for numbers outside of [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1]; got {value}.")


def check_seed(name: str, value: int) -> None:
    """Raises a ValueError for a number that is not a seed. JAX would silently use its last 32 bits."""
    if not 0 <= value < 2**32:
        raise ValueError(f"{name} must be at least 0 and below 2**32; got {value}.")


def check_checkpoint(name: str, value: str) -> None:
    """Raises a ValueError for a text that names no checkpoint."""
    if value not in ("newest", "best") and not value.isdecimal():
        raise ValueError(f"{name} must be newest, best or the number of an update; got {value!r}.")


PositiveInt: TypeAlias = Annotated[int, check_count]
Seed: TypeAlias = Annotated[int, check_seed]
NonNegativeInt: TypeAlias = Annotated[int, check_nonnegative]
NonNegative: TypeAlias = Annotated[float, check_nonnegative]
Positive: TypeAlias = Annotated[float, check_positive]
Fraction: TypeAlias = Annotated[float, check_fraction]
CheckpointName: TypeAlias = Annotated[str, check_checkpoint]
TsallisIndex: TypeAlias = Annotated[float, check_alpha]


def check_fields(settings: Any) -> None:
    """Checks every field of a dataclass against its type: allowed values of a `Literal`, bounds of an `Annotated`.

    Raises:
        ValueError: A field has a value that its type does not allow.
    """
    check_values(type(settings), vars(settings))


def check_values(settings: type, values: Mapping[str, Any]) -> None:
    """Checks values by name against the fields of a dataclass, as `check_fields` does, before it is made."""
    for name, rule in _rules_of(settings).items():
        rule.check(name, values[name])


TYPES = {
    bool: (bool, "true or false"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "text"),
}
"""Accepted types of a field, and their names for users. NumPy's numbers are accepted too."""


class Rule(NamedTuple):
    """The values that the type of a field allows."""

    is_optional: bool
    """Whether None is allowed."""
    words: tuple[str, ...]
    """The words of a `Literal`."""
    expected: Any
    """The type of values that are none of the words. None if there are no such values."""
    bounds: tuple[Callable[[str, Any], None], ...]

    def check(self, name: str, value: Any) -> None:
        """Raises ValueError if a value is not allowed."""
        if value is None and self.is_optional:
            return
        if self.words:
            if isinstance(value, str) and value in self.words:
                return
            if self.expected is None:
                raise ValueError(f"{name} must be one of {', '.join(self.words)}; got {value!r}.")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} must be {' or '.join(self.words)}, or a number; got {value!r}.")
        if type(value) is not self.expected and self.expected in TYPES:
            accepted, words = TYPES[self.expected]
            # In Python, True is an integer.
            if not isinstance(value, accepted) or isinstance(value, bool):
                raise ValueError(f"{name} must be {words}; got {value!r}.")
        for check in self.bounds:
            check(name, value)


@functools.cache
def _rules_of(settings: type) -> dict[str, Rule]:
    """Returns the rules of the fields. Read once, because some commands make thousands of configurations."""
    return {name: _rule(hint) for name, hint in get_type_hints(settings, include_extras=True).items()}


def _rule(hint: Any) -> Rule:
    """Returns the rule of a type: one of `TYPES` with bounds, words, or words and numbers; each may be optional."""
    is_optional = NoneType in get_args(hint)
    if is_optional:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    words: tuple[str, ...] = ()
    if get_origin(hint) in (Union, UnionType):
        literal, hint = get_args(hint)
        words = get_args(literal)
    if get_origin(hint) is Literal:
        return Rule(is_optional, get_args(hint), None, ())
    if get_origin(hint) is Annotated:
        expected, *bounds = get_args(hint)
        return Rule(is_optional, words, expected, tuple(bounds))
    return Rule(is_optional, words, hint, ())


def field_names(settings: type) -> list[str]:
    """Returns the names of a dataclass's fields, in order."""
    return [field.name for field in fields(settings)]


ELSEWHERE = {
    "algo": "method", "algorithm": "method", "batch_size": "num_minibatches", "clip_coef": "policy_clip",
    "clip_range": "policy_clip", "ent_coef": "entropy_cost", "entropy_coef": "entropy_cost", "env_name": "env_id",
    "gae_lambda": "vtrace_lambda", "gamma": "discount", "int_coef": "intrinsic_scale", "log_dir": "out",
    "lr": "learning_rate", "n_envs": "num_envs", "n_epochs": "update_epochs", "n_seeds": "seeds",
    "n_steps": "unroll_length", "num_env_steps": "frames", "num_seeds": "seeds", "num_steps": "unroll_length",
    "num_timesteps": "frames", "output_dir": "out", "project": "wandb", "save_freq": "checkpoint_every",
    "save_path": "out", "tensorboard_log": "tensorboard", "timesteps": "frames", "total_frames": "frames",
    "total_steps": "frames", "total_timesteps": "frames", "update_every": "unroll_period", "verbose": "progress",
    "wandb_project": "wandb",
}  # fmt: skip
"""Names of settings in other libraries, and the names that they have here."""
NOT_A_SETTING = {
    "device": "JAX chooses the device: set the environment variable JAX_PLATFORMS to cpu or cuda",
    "policy": "the network is always a recurrent one; its sizes are torso_size, lstm_size and head_size",
    "policy_kwargs": "the sizes of the networks are torso_size, lstm_size and head_size",
    "net_arch": "the sizes of the networks are torso_size, lstm_size and head_size",
    "vf_coef": "policy and value are not weighted against each other",
}
"""Names of settings in other libraries that are none here, and what to do instead."""


def check_setting(name: str, known: Iterable[str]) -> None:
    """Raises ValueError if there is no such setting. The message has its name here, or a similar one."""
    known = set(known)
    if name not in known:
        raise ValueError(f"there is no setting {name!r}.{hint_for_setting(name, known)}")


def hint_for_setting(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message about an unknown setting, or an empty string."""
    if name in NOT_A_SETTING:
        return f" {NOT_A_SETTING[name][0].upper()}{NOT_A_SETTING[name][1:]}."
    if name in ELSEWHERE:
        return f" In gemax it is {ELSEWHERE[name]}."
    return did_you_mean(name, known)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a suggestion for the end of an error message, or an empty string."""
    matches = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {matches[0]}?" if matches else ""


def import_function(package: str, path: str) -> Callable[..., Any]:
    """Imports the function `module:function` of a package."""
    module, _, function = path.partition(":")
    return getattr(importlib.import_module(f"{package}.{module}"), function)
