"""Options that say where runs execute. Imports nothing heavy, because the command line reads its flags from here."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gemax.envs.registry import find_env
from gemax.training.config import Config

Launcher: TypeAlias = Literal["local", "ray"]


@dataclass(frozen=True)
class RunLaunchOptions:
    """Where several runs execute. A run has the same result on every machine of the same kind."""

    launcher: Launcher = "local"
    """Where actors and runs execute: on this machine (`local`) or on a Ray cluster (`ray`)."""
    ray_address: str = ""
    """Ray cluster to join, HOST:PORT, or `auto` for the one on this machine. By default, one is started and stopped."""
    cpus_per_run: float = 1.0
    """CPUs that each of several runs reserves on a Ray cluster."""


@dataclass(frozen=True)
class LaunchOptions(RunLaunchOptions):
    """Where a run executes, which is no part of its configuration.

    Several devices only round differently. With actors, the policy that acts lags behind, and results differ.
    """

    actors: int = 0
    """Number of Ray actors that step `gym:` environments, with `--launcher ray`. They share `--num-envs`."""
    devices: int = 1
    """Number of JAX devices to divide the environments between (gemax environments only)."""

    def check(self, config: Config, num_seeds: int = 1) -> None:
        """Raises a ValueError if these options do not fit together, or not to the configuration.

        `num_seeds` is the number of seeds that are trained as separate runs.
        """
        env, is_compiled = config.env, find_env(config.env.env_id).is_compiled
        for name, value, least in (("actors", self.actors, 0), ("devices", self.devices, 1)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}.")
        if self.launcher == "local" and (self.actors or self.ray_address):
            name = "actors" if self.actors else "ray_address"
            raise ValueError(f"{name} needs a launcher: add `--launcher ray`.")
        if self.actors and config.run.seeds > 1:
            raise ValueError(f"actors are for one seed; got {config.run.seeds} seeds. Leave out one of both.")
        if self.launcher == "ray" and not self.actors and num_seeds == 1:
            raise ValueError("launcher ray needs `--actors N`, or several seeds with `--seeds N`.")
        if self.actors and is_compiled:
            raise ValueError(
                f"actors are for gym: environments. {env.env_id} is compiled: use `--devices N` to divide it."
            )
        if self.actors > env.num_envs:
            raise ValueError(
                f"actors must be at most num_envs ({env.num_envs}), the total over all actors; got {self.actors}."
            )
        if self.actors and config.agent.returns != "vtrace":
            raise ValueError(
                f"returns must be vtrace for actors, whose policy lags behind; got {config.agent.returns}."
            )
        if self.devices > 1 and not is_compiled:
            raise ValueError(f"devices must be 1 for {env.env_id}: only gemax environments are divided.")
        if env.num_envs % self.devices:
            raise ValueError(f"devices must divide num_envs ({env.num_envs}); got {self.devices}.")
