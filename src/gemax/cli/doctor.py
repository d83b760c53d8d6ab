"""`gemax doctor`: lists versions and hardware, and warns about untested ones."""

import platform

TESTED_PYTHON = "3.11"
TESTED_JAX = "0.10"


def doctor() -> int:
    """Lists versions and hardware, and warns about untested ones."""
    import jax
    from rich.console import Console

    from gemax.runs.provenance import provenance

    console, facts = Console(highlight=False), provenance()
    platforms = [device.platform for device in jax.devices()]
    devices = [f"{device.platform} {device.id}" for device in jax.devices()]
    for name, value in {**facts, "devices": ", ".join(devices)}.items():
        console.print(f"{name:>8}  {value}")
    for warning in _untested(platform.python_version(), facts["jax"], platforms):
        console.print(f"[yellow]untested:[/] {warning}")
    return 0


def _untested(python: str, jax_version: str, platforms: list[str]) -> list[str]:
    warnings = []
    if not python.startswith(f"{TESTED_PYTHON}."):
        warnings.append(f"Python {python}; the tests run on {TESTED_PYTHON}.")
    if not jax_version.startswith(f"{TESTED_JAX}."):
        warnings.append(f"jax {jax_version}; the tests run on {TESTED_JAX}.")
    if set(platforms) != {"cpu"}:
        warnings.append("accelerators; the tests run on CPUs only.")
    return warnings
