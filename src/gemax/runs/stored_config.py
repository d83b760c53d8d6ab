"""The configuration of a run that already exists: read with trust, and compared with its checkpoints."""

from collections.abc import Mapping
from typing import Any

from gemax.runs.run_directory import CONFIG, RunDirectory
from gemax.runs.trust import check_trust
from gemax.settings import check_setting
from gemax.training.assemble import CustomParts
from gemax.training.config import SAFE_FIELDS, SECTION_OF, Config, check_changeable, config_from_json


def changed_config(config: Config, changes: Mapping[str, Any]) -> Config:
    """Returns the configuration with some fields changed, for a run that is resumed.

    Raises:
        ValueError: A setting is unknown, or cannot be changed in a run that exists.
    """
    for name in changes:
        check_setting(name, SECTION_OF)
        check_changeable(name)
    return config.replace(**changes)


def read_trusted_config(run: RunDirectory, custom: CustomParts | None) -> Config:
    """Returns the configuration of a run.

    Raises:
        UntrustedError: It names a module to import, and the run was made elsewhere.
        ValueError: It is damaged.
    """
    config = config_from_json(run.read_config())
    is_given = custom is not None and (custom.trust or custom.make_env is not None)
    check_trust(run.path, config.env.env_id, is_own=run.is_own, trust=is_given)
    return config


def check_not_edited(run: RunDirectory, config: Config, metadata: dict[str, Any]) -> None:
    """Raises ValueError if `config.json` was edited after a checkpoint with this metadata was written.

    What gemax changes itself is signed. Without a signature that can be checked, settings of the section `run` that
    `gemax resume` can change, for example the number of updates, do not count as an edit.
    """
    saved = metadata.get("config")
    if run.is_own or not isinstance(saved, dict):
        return
    values = {name: saved.get(section, {}).get(name) for name, section in SECTION_OF.items()}
    edited = [
        f"{name} is {value!r}, was {values[name]!r}"
        for name, value in config.flat.items()
        if value != values[name] and not (name in SAFE_FIELDS and SECTION_OF[name] == "run")
    ]
    if edited:
        raise ValueError(
            f"{run.path / CONFIG} was edited after the run was saved: {'; '.join(edited)}. Restore these values, or "
            "train a new run."
        )
