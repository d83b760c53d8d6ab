"""Starts a Ray cluster on this machine, or joins a running one.

Import Ray only through this module, because it is optional. Start the cluster before JAX computes anything: Ray forks,
and a process with threads that forks can deadlock.
"""

import contextlib
import importlib.util
import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gemax.errors import ClusterError
from gemax.launch.temporary import temporary_folder

OBJECT_STORE_BYTES = 512 * 2**20
"""Memory for objects in a cluster that gemax starts. Ray's default is 30 % of the machine."""
CONNECT_SECONDS = 5.0
AGENT_SECONDS = 10
"""Time that Ray's agents search for a cluster that gemax has started and that was killed. Ray's default is a minute."""
FOLDER_PREFIX = "gemax-ray-"
"""Start of the name of the temporary folder of a cluster."""
QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}


def import_ray() -> Any:
    """Returns the module `ray`.

    Raises:
        ValueError: It is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise ValueError("launcher ray needs Ray: pip install 'gemax[ray]'")
    import ray

    return ray


@contextlib.contextmanager
def ray_cluster(address: str, num_cpus: int) -> Iterator[Any]:
    """Yields `ray`, connected to the cluster at `address`. Without an address, starts a cluster on this machine.

    That cluster has `num_cpus` logical CPUs, listens on the loopback interface only, requires a random token, and ends
    with the `with` block, as do its temporary files.

    Raises:
        ValueError: Ray is not installed, or the cluster cannot be joined.
        ClusterError: The cluster does not start.
    """
    if not address:
        _restrict_to_this_machine()
    ray = import_ray()
    with contextlib.ExitStack() as stack:
        folder = None if address else stack.enter_context(temporary_folder(FOLDER_PREFIX))
        stack.callback(ray.shutdown)
        with _own_sigterm_handler():
            if folder is None:
                _join(ray, address)
            else:
                _start(ray, num_cpus, folder)
        yield ray


def _start(ray: Any, num_cpus: int, folder: Path) -> None:
    """Starts a cluster on this machine."""
    try:
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=str(folder),
            **QUIET,
        )
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ClusterError(
            f"Ray did not start a cluster on this machine. Try again when the machine is less busy: {reason}"
        ) from error


def _restrict_to_this_machine() -> None:
    """Makes the next cluster of this process listen on the loopback interface and require a token."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = (
        "0"  # its name is older than its use: no other machine may join
    )
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(AGENT_SECONDS))


def _join(ray: Any, address: str) -> None:
    """Joins a running cluster."""
    if address != "auto":
        _check_reachable(address)
    try:
        ray.init(address=address, **QUIET)
    except Exception as error:
        reason = " ".join(str(error).split())
        if "Version mismatch" in reason:
            message = (
                "has other versions of Ray or Python than this machine. Install the same on all machines"
            )
        elif isinstance(error, ray.exceptions.AuthenticationError) or "uthentication" in reason:
            message = "refuses the token. Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as on the cluster"
        else:
            message = "cannot be joined. Run gemax on a machine of the cluster, after `ray start` there"
        raise ValueError(f"the Ray cluster at {address} {message}: {reason}") from error


def _check_reachable(address: str) -> None:
    """Raises a ValueError if nothing listens at HOST:PORT. Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise ValueError(f"ray_address must be auto or HOST:PORT, such as 10.0.0.1:6379; got {address!r}.")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ValueError(
            f"no Ray cluster answers at {address}: {error}. `ray start --head` prints the address of its cluster."
        ) from error


@contextlib.contextmanager
def _own_sigterm_handler() -> Iterator[None]:
    """Restores the handler of SIGTERM, which `ray.init` replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not in the main thread, where Ray does not replace it either
            signal.signal(signal.SIGTERM, handler)
