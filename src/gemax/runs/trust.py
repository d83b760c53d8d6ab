"""Tells the user's own runs from others: their configuration is signed with a key that only the user can read.

A configuration can name a module that gemax imports to make the environment, and importing runs its code. So a run that
was made elsewhere needs the user's consent. Everything else in a run directory is data.
"""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemax.envs.registry import is_factory, module_of

KEY_BYTES = 32


class UntrustedError(ValueError):
    """A run that was made elsewhere names a module to import."""


def sign(config: Mapping[str, Any]) -> str | None:
    """Returns the signature of a configuration. None if no key can be read or written."""
    key = _read_key() or _make_key()
    return None if key is None else _digest(key, config)


def is_signed(config: Mapping[str, Any], signature: Any) -> bool:
    """Returns whether the user signed a configuration on this machine."""
    key = _read_key()
    return (
        key is not None
        and isinstance(signature, str)
        and hmac.compare_digest(signature.encode(), _digest(key, config).encode())
    )


def check_trust(path: Path, env_id: str, *, is_own: bool, trust: bool) -> None:
    """Raises UntrustedError if a run names a module, is not the user's own, and the user does not trust it.

    Modules of gemax that register environments need no trust. Functions in them do: they could be any function.
    """
    module = module_of(env_id)
    is_registered_by_gemax = (
        module is not None and module.partition(".")[0] == "gemax" and not is_factory(env_id)
    )
    if module is None or is_own or trust or is_registered_by_gemax:
        return
    raise UntrustedError(
        f"{path} imports the module {module}, which can run any code, and the run does not carry your signature "
        "from this machine. If you trust it, pass --trust (in Python: trust=True)."
    )


def key_path() -> Path:
    """Returns the file of the key, in the user's state folder."""
    folder = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(folder) / "gemax" / "key"


def _digest(key: bytes, config: Mapping[str, Any]) -> str:
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _read_key() -> bytes | None:
    """Returns the key. None if there is none, or if others could have read it."""
    try:
        path = key_path()
        status = path.stat()
        key = path.read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    is_private = status.st_uid == os.getuid() and not status.st_mode & 0o077
    return key if is_private and len(key) == KEY_BYTES else None


def _make_key() -> bytes | None:
    """Writes and returns a new key. None if that is not possible."""
    with contextlib.suppress(OSError, RuntimeError):
        path = key_path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".key.{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        # A key that exists here is damaged, or others could have read it. Of two processes, the last one wins, and the
        # runs of the other one need trust.
        os.replace(temporary, path)
    return _read_key()
