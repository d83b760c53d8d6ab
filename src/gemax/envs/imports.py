"""Functions that make environments, stored in a configuration as `module:qualname` and imported again.

Importing runs the code of a module, so `read_trusted_config` checks first that the user trusts the run.
"""

import importlib
import os
import sys
from collections.abc import Callable
from functools import reduce
from types import ModuleType
from typing import Any


def import_path(factory: Any) -> str | None:
    """Returns the `module:qualname` of a function or class, or None if it cannot be imported in another program.

    Lambdas, partial functions, and functions of a script, a notebook or another function cannot be.
    """
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    if not module or not name or module == "__main__" or not is_qualname(name):
        return None
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return f"{module}:{name}" if found is factory else None


def import_factory(path: str) -> Callable[..., Any]:
    """Imports `module:qualname`. The module may be in the current folder.

    Raises:
        ValueError: There is no such module, or it has no such function.
    """
    module_name, _, name = path.rpartition(":")
    try:
        module = import_from_here(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{path} needs the module {error.name}, which is not found: install it, or run gemax in its folder."
        ) from error
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError as error:
        raise ValueError(f"the module {module_name} has no {name}: {error}.") from error


def import_from_here(module: str) -> ModuleType:
    """Imports a module that the user names, or trusts. It may be in the current folder, which is searched last."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module(module)


def is_qualname(name: str) -> bool:
    """Returns whether a text can be the name of a function or class in a module, such as `Maze` or `Envs.make`."""
    return all(part.isidentifier() for part in name.split("."))
