"""`gemax envs`: lists the environments, or shows one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.text import Text

    from gemax.envs.base import FiniteEnv, JaxEnv

GAP = 24
"""Pixels between the map and the observation in the saved image."""


def envs(
    env_id: Annotated[Positional[str | None], arg(metavar="ENV")] = None,
    /,
    map: Annotated[Path | None, arg(metavar="FILE")] = None,  # noqa: A002 (the name of the flag)
    horizon: int = 40,
    observation: Literal["pixels", "cells"] = "pixels",
    out: Path = Path(),
    seed: int = 0,
) -> int:
    """Lists the environments, or shows one: its map and an observation.

    Args:
        env_id: Environment to draw in the terminal and to save as an image. The default is to list all environments.
        map: Text file with a custom map to show instead of ENV.
        horizon: Episode length of the custom map.
        observation: Observations of gridworlds: `pixels` has 8 × 8 pixels per cell, `cells` has one.
        out: Folder for the image.
        seed: Random seed of the first state.
    """
    from rich.console import Console

    from gemax.envs.gridworld import custom_map
    from gemax.envs.registry import make_env

    console = Console(highlight=False)
    if map is not None:
        _show(console, custom_map(map, horizon, observation=observation), out, seed)
    elif env_id is not None:
        _show(console, make_env(env_id, observation=observation), out, seed)
    else:
        _list(console)
    return 0


def _list(console: "Console") -> None:
    from rich import box
    from rich.table import Table

    from gemax.envs.registry import ENVS, make_env

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("environment", "observation", "horizon", "cells", "states", "steps", "ceiling"):
        table.add_column(heading, no_wrap=heading in ("environment", "observation"))
    for env_id in ENVS:
        env = make_env(env_id)
        shape = "×".join(map(str, env.spec.observation.shape))
        facts = "––––" if env.finite is None else _facts(env.finite)
        table.add_row(env_id, shape, str(env.spec.horizon), *facts)
    console.print(table)
    console.print(
        "steps: length of the shortest path to the reward, from the nearest and from the farthest start.\n"
        "ceiling: maximum entropy of cell visits in nats, without the reward.\n"
        "`gemax envs ENV` draws an environment."
    )


def _facts(finite: "FiniteEnv") -> list[str]:
    """Returns the numbers of cells and states, the steps to the reward and the entropy ceiling."""
    from gemax.core.ceiling import entropy_ceiling
    from gemax.envs.gridworld import steps_to_reward
    from gemax.stopping import check_stop

    steps = steps_to_reward(finite.model)
    steps_range = "–".join(map(str, sorted({steps.min(), steps.max()})))
    ceiling = entropy_ceiling(finite.reward_free_model, callback=check_stop).entropy
    return [str(len(finite.cell_positions)), str(finite.num_states), steps_range, f"{ceiling:.3f}"]


def _show(console: "Console", env: "JaxEnv", out: Path, seed: int) -> None:
    import jax
    import numpy as np
    from rich.columns import Columns

    from gemax.envs.render.gridworld import RENDER_PIXELS
    from gemax.runs.files import write_image

    state, timestep = jax.jit(env.reset)(jax.random.key(seed))
    image, observation = env.render(state), np.asarray(timestep.observation)
    console.print(
        f"[bold]{env.spec.name}[/]: horizon {env.spec.horizon}, {env.spec.num_actions} actions, "
        f"observations of shape {env.spec.observation.shape}"
    )
    if env.finite is None:
        console.print(f"Observation: {np.round(observation.astype(float), 4).tolist()}")
    else:
        cells, states, steps, ceiling = _facts(env.finite)
        console.print(
            f"{cells} cells, {states} states, {steps} steps to the reward, entropy ceiling {ceiling} nats"
        )
        console.print("The map and the observation:")
        sizes = ((image, RENDER_PIXELS), (observation, env.finite.pixels_per_cell))
        console.print(Columns([_text_image(console, *size) for size in sizes], padding=(0, 4)))
        image = _side_by_side(image, observation)
    path = out / f"{env.spec.name}.png"
    write_image(path, image)
    console.print(f"Saved as {path}")


def _side_by_side(image: "np.ndarray", observation: "np.ndarray") -> "np.ndarray":
    """Returns the image, and the observation enlarged to the same height beside it."""
    import numpy as np
    from PIL import Image

    height = image.shape[0]
    width = observation.shape[1] * height // observation.shape[0]
    enlarged = Image.fromarray(observation).resize((width, height), Image.Resampling.NEAREST)
    return np.concatenate([image, np.full((height, GAP, 3), 255, np.uint8), np.asarray(enlarged)], axis=1)


def _text_image(console: "Console", image: "np.ndarray", pixels_per_cell: int) -> "Text":
    """Returns an image as text with one sample per cell: two rows of colours per line, or letters as in map files."""
    from rich.color import Color
    from rich.style import Style
    from rich.text import Text

    from gemax.envs.render.gridworld import LETTERS

    centre = slice(pixels_per_cell // 2, None, pixels_per_cell)
    rows = image[centre, centre].astype(int).tolist()
    if console.color_system is None:
        return Text("\n".join("".join(LETTERS.get(tuple(colour), "?") for colour in row) for row in rows))
    rows += [[(0, 0, 0)] * len(rows[0])] * (len(rows) % 2)
    lines = []
    for upper_row, lower_row in zip(rows[::2], rows[1::2], strict=True):
        line = Text(no_wrap=True)
        for upper, lower in zip(upper_row, lower_row, strict=True):
            line.append("▀", Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        lines.append(line)
    return Text("\n").join(lines)
