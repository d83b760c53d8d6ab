"""Checks flags before they are parsed: names from other libraries, and settings that a run keeps for good."""

from gemax.settings import ELSEWHERE, NOT_A_SETTING, hint_for_setting
from gemax.training.config import SECTION_OF, check_changeable

ARGUMENTS = {"env_id": "the first argument, ENV", "progress": "always on"}
"""Settings of Python that are no flags."""


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
