"""Flags from dataclasses with their help, and checks of flags before they are parsed."""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields, make_dataclass
from typing import Annotated, Any, TypeVar

from tyro.conf import Suppress, arg

from gemax.settings import ELSEWHERE, NOT_A_SETTING, did_you_mean, hint_for_setting
from gemax.training.config import SECTION_OF, check_changeable

Verb = TypeVar("Verb", bound=Callable[..., int])
ARGUMENTS = {"env_id": "the first argument, ENV", "progress": "always on"}
"""Settings of Python that are no flags."""


def check_verb(arguments: list[str], verbs: Iterable[str]) -> None:
    """Raises ValueError if the first argument is no verb."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        hint = did_you_mean(arguments[0], verbs)
        raise ValueError(f"there is no command {arguments[0]!r}.{hint} `gemax --help` lists all.")


def join_lines(verb: Verb) -> Verb:
    """Returns a verb whose docstring has each argument in one line, since tyro keeps line breaks."""
    verb.__doc__ = re.sub(r"\n {12}(?=\S)", " ", verb.__doc__ or "")
    return verb


def check_flags(verb: str, arguments: list[str]) -> None:
    """Raises ValueError for a flag that belongs to another library, or that `gemax resume` cannot change."""
    for name in flag_names(arguments):
        flag = f"--{name.replace('_', '-')}"
        if name in ELSEWHERE:
            ours = ELSEWHERE[name]
            known = ARGUMENTS.get(ours, f"--{ours.replace('_', '-')}")
            raise ValueError(f"there is no flag {flag}. In gemax it is {known}.")
        if name in NOT_A_SETTING:
            raise ValueError(f"there is no flag {flag}.{hint_for_setting(name, ())}")
        if verb == "resume" and name in SECTION_OF:
            check_changeable(name)


def flag_names(arguments: list[str]) -> list[str]:
    """Returns the names of all flags, with underscores."""
    return [
        argument[2:].split("=")[0].replace("-", "_") for argument in arguments if argument.startswith("--")
    ]


def with_help(settings: type, hidden: Collection[str] = ()) -> type:
    """Returns a dataclass whose flags have the docstrings of its fields as help, each as one paragraph.

    tyro keeps the line breaks of a docstring. Hidden fields have no flag.
    """
    help_texts = field_docstrings(settings)
    flags: list[Any] = [
        (
            field.name,
            Suppress[field.type]
            if field.name in hidden
            else Annotated[field.type, arg(help=help_texts[field.name])],
            field,
        )
        for field in fields(settings)
    ]
    namespace = {"__doc__": settings.__doc__}
    return make_dataclass(settings.__name__, flags, bases=(settings,), frozen=True, namespace=namespace)


def field_docstrings(settings: type) -> dict[str, str]:
    """Returns the docstring of every field of a dataclass and its bases, without line breaks."""
    found = {}
    for base in reversed(settings.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, text in itertools.pairwise(definition.body):
            match statement, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found
