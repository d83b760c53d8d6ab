"""Names environments that users pass as Python objects, so that a configuration can refer to them."""

import inspect
from typing import Any

from gemax.envs.base import JaxEnv
from gemax.envs.imports import import_path
from gemax.envs.registry import CUSTOM, GYM_PREFIX, JAX_PREFIX
from gemax.training.assemble import MakeEnv


def name_of_env(env: JaxEnv | MakeEnv) -> tuple[str, MakeEnv | None]:
    """Returns the `env_id` of a user's environment, and the function that makes it unless it can be imported."""
    if isinstance(env, JaxEnv):
        return f"{JAX_PREFIX}{CUSTOM}", lambda: env
    prefix, path = JAX_PREFIX if makes_jax_env(env) else GYM_PREFIX, import_path(env)
    return (f"{prefix}{CUSTOM}", env) if path is None else (f"{prefix}{path}", None)


def makes_jax_env(make: MakeEnv) -> bool:
    """Returns whether a function makes a `JaxEnv`: by its return type if it is annotated, otherwise by calling it."""
    if isinstance(make, type):
        return False
    try:
        annotation: Any = inspect.signature(make).return_annotation
    except (TypeError, ValueError):
        annotation = inspect.Signature.empty
    if annotation is not inspect.Signature.empty:
        return annotation in (JaxEnv, "JaxEnv", "gemax.JaxEnv")
    try:
        made = make()
    except Exception:
        return False  # training makes the environment again, and reports the error
    if isinstance(made, JaxEnv):
        return True
    close = getattr(made, "close", None)
    if callable(close):
        close()
    return False
