"""`gemax doctor`: what this machine has, and what of it was never tried."""

import platform

TESTED_PYTHON = "3.11"
TESTED_JAX = "0.10"


def doctor() -> int:
    """Lists versions and hardware, and says what is untested."""
    from rich.console import Console

    from gemax.runs.provenance import provenance

    console = Console()
    facts = provenance()
    for name, value in facts.items():
        console.print(f"{name:>8}  {value}", highlight=False)
    devices = _devices()
    console.print(f"{'devices':>8}  {', '.join(devices)}", highlight=False)
    for warning in _untested(platform.python_version(), facts["jax"], devices):
        console.print(f"[yellow]untested:[/] {warning}", highlight=False)
    return 0


def _devices() -> list[str]:
    import jax

    return [f"{device.platform} {device.id}" for device in jax.devices()]


def _untested(python: str, jax_version: str, devices: list[str]) -> list[str]:
    warnings = []
    if not python.startswith(f"{TESTED_PYTHON}."):
        warnings.append(f"Python {python}; the tests run on {TESTED_PYTHON}.")
    if not jax_version.startswith(f"{TESTED_JAX}."):
        warnings.append(f"jax {jax_version}; the tests run on {TESTED_JAX}.")
    if any(not device.startswith("cpu") for device in devices):
        warnings.append("accelerators; the tests run on CPUs only.")
    return warnings
