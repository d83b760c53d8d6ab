"""`gemax doctor`: lists versions, hardware and optional packages, and ends with a verdict."""

import platform
import re
from pathlib import Path

TESTED_PYTHON = "3.11"
TESTED_JAX = "0.10"


def doctor() -> int:
    """Lists versions, hardware and optional packages, and ends with a verdict."""
    import jax
    from rich.console import Console

    from gemax.extras import EXTRAS, is_installed
    from gemax.runs.provenance import provenance

    console, facts = Console(highlight=False), provenance()
    platforms = [device.platform for device in jax.devices()]
    devices = [f"{device.platform} {device.id}" for device in jax.devices()]
    for name, value in {**facts, "devices": ", ".join(devices), **what_fits()}.items():
        console.print(f"{name:>17}  {value}", soft_wrap=True)
    console.print("\noptional packages:")
    for name, extra in EXTRAS.items():
        # Printed without markup: the command contains brackets.
        state = "installed" if is_installed(name) else f"not installed: {extra.install}"
        console.print(f"{name:>17}  {state} ({extra.purpose})", markup=False, soft_wrap=True)
    warnings = untested(platform.python_version(), facts["jax"], platforms, has_avx2=has_avx2())
    for warning in warnings:
        console.print(f"[yellow]untested:[/] {warning}")
    print(f"\n{verdict(warnings, _works())}")
    return 0


def what_fits() -> dict[str, str]:
    """Returns how much memory and disk space there is, and which sizes of runs and maps fit."""
    import shutil

    from gemax.envs.gridworld import MAX_OPEN_SIDE, MAX_STATES
    from gemax.training.memory import available_bytes, bytes_per_update, max_num_envs
    from gemax.training.presets import configure

    config, free = configure("two-rooms"), available_bytes()
    return {
        "memory": f"{free / 1e9:.1f} GB available; in two-rooms an update needs at least "
        f"{bytes_per_update(config) / 1e9:.2f} GB, and num_envs up to about {max_num_envs(config, free):,} may fit",
        "disk": f"{shutil.disk_usage('.').free / 1e9:.1f} GB free here",
        "maps": f"up to {MAX_OPEN_SIDE} × {MAX_OPEN_SIDE} cells without walls, and {MAX_STATES:,} states",
    }


def verdict(warnings: list[str], works: bool) -> str:
    """Returns the last line of the report."""
    if not works:
        return "gemax does not work here: JAX computes a wrong result. Install JAX again."
    if warnings:
        return "gemax works here. What is listed as untested should work, but the tests do not run with it."
    return "gemax works here, with versions that the tests run with. Try: gemax train two-rooms"


def has_avx2() -> bool:
    """Returns whether an x86 CPU has AVX2, which JAX is built for. Other CPUs and systems are not asked."""
    try:
        flags = re.search(r"^flags\s*:.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return True
    return flags is None or "avx2" in flags[0].split()


def untested(python: str, jax_version: str, platforms: list[str], *, has_avx2: bool = True) -> list[str]:
    """Returns a sentence about each version or device that the tests do not run with."""
    warnings = []
    if not python.startswith(f"{TESTED_PYTHON}."):
        warnings.append(f"Python {python}; the tests run on {TESTED_PYTHON}.")
    if not jax_version.startswith(f"{TESTED_JAX}."):
        warnings.append(f"jax {jax_version}; the tests run on {TESTED_JAX}.")
    if set(platforms) != {"cpu"}:
        warnings.append("accelerators; the tests run on CPUs only.")
    if not has_avx2:
        warnings.append("a CPU without AVX2; the tests run on CPUs that have it.")
    return warnings


def _works() -> bool:
    """Compiles and runs a small function on the default device."""
    import jax.numpy as jnp
    from jax import jit

    return bool(jit(lambda x: jnp.sum(x * x))(jnp.arange(4.0)) == 14.0)
