"""`gemax worlds`: what there is to explore."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.text import Text

    from gemax.worlds.base import World


def worlds(
    name: Annotated[Positional[str | None], arg(metavar="WORLD")] = None,
    /,
    map: Annotated[Path | None, arg(metavar="FILE")] = None,  # noqa: A002 the flag that users type
    horizon: int = 40,
    observation: Literal["pixels", "squares"] = "pixels",
    out: Path = Path(),
    seed: int = 0,
) -> int:
    """Lists the worlds, or shows one: its map and what the agent sees of it.

    Args:
        name: A world to draw in the terminal and to save as a picture. All are listed without it.
        map: A map of your own instead, as a text file.
        horizon: The length of an episode on a map of your own.
        observation: What the agent sees: 8 × 8 pixels a square, or a pixel a square.
        out: The folder for the picture.
        seed: Which start and which reward are drawn.
    """
    from rich.console import Console

    from gemax.worlds.registry import make_world, world_of_map

    console = Console()
    if map is not None:
        _show(console, world_of_map(map, horizon, observation=observation), out, seed)
    elif name is not None:
        _show(console, make_world(name, observation=observation), out, seed)
    else:
        _list(console)
    return 0


def _list(console: "Console") -> None:
    from rich import box
    from rich.table import Table

    from gemax.worlds.registry import WORLDS, make_world

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("world", "sees", "horizon", "squares", "states", "steps", "ceiling"):
        table.add_column(heading, no_wrap=heading in ("world", "sees"))
    for name in WORLDS:
        world = make_world(name)
        shape = "×".join(map(str, world.observation.shape))
        table.add_row(name, shape, str(world.horizon), *_finite_facts(world))
    console.print(table)
    console.print(
        "steps: the shortest way to the reward, from the nearest and from the farthest start.\n"
        "ceiling: the largest entropy of visits to squares, in nats, with the reward as plain floor.\n"
        "`gemax worlds NAME` draws a world."
    )


def _finite_facts(world: "World") -> list[str]:
    if world.finite is None:
        return ["–", "–", "–", "–"]
    from gemax.core.ceiling import entropy_ceiling
    from gemax.worlds.gridworld import steps_to_reward

    steps = steps_to_reward(world.finite.model)
    ceiling = entropy_ceiling(world.finite.reward_free_model)
    way = f"{steps.min()}" if steps.min() == steps.max() else f"{steps.min()}–{steps.max()}"
    return [
        str(len(world.finite.square_positions)),
        str(world.finite.num_states),
        way,
        f"{ceiling.entropy:.3f}",
    ]


def _show(console: "Console", world: "World", out: Path, seed: int) -> None:
    import jax
    import numpy as np
    from PIL import Image
    from rich.columns import Columns

    from gemax.runs.files import write_image
    from gemax.worlds.pixels import PIXELS_FOR_PEOPLE

    state, timestep = jax.jit(world.reset)(jax.random.key(seed))
    picture, path = world.picture(state), out / f"{world.name}.png"
    observation, images = np.asarray(timestep.observation), []
    if world.finite:
        images.append(_in_terminal(console, picture, PIXELS_FOR_PEOPLE))
        images.append(_in_terminal(console, observation, world.finite.pixels_per_square))
        height = picture.shape[0]
        enlarged = Image.fromarray(observation).resize(
            (observation.shape[1] * height // observation.shape[0], height), Image.Resampling.NEAREST
        )
        picture = np.concatenate(
            [picture, np.full((height, 24, 3), 255, np.uint8), np.asarray(enlarged)], axis=1
        )
    console.print(
        f"[bold]{world.name}[/]: horizon {world.horizon}, {world.num_actions} actions, "
        f"observations of shape {world.observation.shape}",
        highlight=False,
    )
    if world.finite:
        squares, states, way, ceiling = _finite_facts(world)
        console.print(
            f"{squares} squares, {states} states, {way} steps to the reward, entropy ceiling {ceiling} nats",
            highlight=False,
        )
        console.print("The map, and what the agent sees:")
    else:
        console.print(f"The agent sees {np.round(observation.astype(float), 4).tolist()}", highlight=False)
    if images:
        console.print(Columns(images, padding=(0, 4)))
    write_image(path, picture)
    console.print(f"Saved as {path}", highlight=False)


def _in_terminal(console: "Console", picture: "np.ndarray", pixels: int) -> "Text":
    """A picture in characters: one sample of every so many pixels, two rows of samples a line.

    Without colours, a letter a sample instead, as in map files.
    """
    from rich.color import Color
    from rich.style import Style
    from rich.text import Text

    from gemax.worlds.pixels import LETTERS

    samples = picture[pixels // 2 :: pixels, pixels // 2 :: pixels].astype(int).tolist()
    if console.color_system is None:
        return Text("\n".join("".join(LETTERS.get(tuple(colour), "?") for colour in row) for row in samples))
    lines = []
    for top in range(0, len(samples), 2):
        below = samples[top + 1] if top + 1 < len(samples) else [(0, 0, 0)] * len(samples[top])
        line = Text(no_wrap=True)
        for upper, lower in zip(samples[top], below, strict=True):
            line.append("▀", Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        lines.append(line)
    return Text("\n").join(lines)
