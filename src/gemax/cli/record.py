"""`gemax record`: films the policy of a run."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


def record(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    out: Annotated[Path | None, arg(metavar="FILE")] = None,
    checkpoint: Annotated[Literal["newest", "best"] | int, arg(metavar="newest|best|UPDATE")] = "newest",
    episodes: Annotated[int | None, arg(metavar="N")] = None,
    seed: int = 0,
    greedy: bool = False,
    fps: int = 12,
    max_episode_steps: Annotated[int | None, arg(metavar="STEPS")] = None,
    trust: bool = False,
) -> int:
    """Films episodes of the policy of a run. In gridworlds, the film shows how the visited cells fill the map.

    Args:
        run: The run directory.
        out: The film, a .gif file, or an .mp4 file if ffmpeg is installed. The default is RUN/episode.gif.
        checkpoint: The policy that acts: the newest one, the best one (highest mean return of 100 episodes), or
            that of an update.
        episodes: Number of episodes. The default is 1, or 8 in gridworlds.
        seed: Random seed of the episodes.
        greedy: Take the most probable action instead of sampling.
        fps: Images per second.
        max_episode_steps: Cut episodes of `gym:` environments after this many steps.
        trust: Import the module of the environment although the run was made elsewhere.
    """
    from gemax.runs.handle import open_run
    from gemax.runs.progress import make_console

    console = make_console()
    film = open_run(run, trust=trust).record(
        run / "episode.gif" if out is None else out,
        checkpoint=checkpoint,
        episodes=episodes,
        seed=seed,
        greedy=greedy,
        fps=fps,
        max_episode_steps=max_episode_steps,
        log=console.print,
    )
    console.print(f"Film: {film} ({film.stat().st_size / 1e3:,.0f} kB)", soft_wrap=True)
    return 0
