"""The command line: one file per verb, each a thin layer over the library.

Verbs import what they need when they run, and `gemax --help` imports no verb, so that it is fast.
"""

import gc
import shutil
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module

from gemax.cli.compilation_cache import NO_CACHE_FLAG, use_compilation_cache
from gemax.cli.failures import describe_failure
from gemax.cli.streams import tolerant_streams
from gemax.stopping import Stopped, catch_stop_signals, check_stop, stop_signals_of_program

DESCRIPTION = (
    "Geometric entropy maximisation in JAX: agents that explore. `gemax --version` prints the version; `--debug` "
    "after any command shows the traceback of an error; `--no-compilation-cache` neither reads nor stores compiled "
    "programs."
)

VERBS = {
    "train": "Trains an agent to explore an environment. Writes metrics, checkpoints and plots to a run directory.",
    "resume": "Resumes a run, bit-exactly unless a setting is changed. gym: environments start new episodes.",
    "evaluate": "Evaluates the policy of a run with sampled and with greedy actions: return, coverage and entropy.",
    "record": "Films episodes of the policy of a run. In gridworlds, the film shows how the visited cells fill the "
    "map.",
    "compare": "Compares runs in a table and one figure, grouped by environment, method and settings.",
    "collect": "Writes episodes of the policy of a run as a Minari dataset.",
    "reproduce": "Reproduces the paper: trains the missing runs, plots every figure and tests every claim.",
    "view": "Shows runs in the browser: live curves, where the agent has been, the geometry, and episodes.",
    "bench": "Trains the methods on a suite of sparse-reward tasks with default settings, and writes one table.",
    "envs": "Lists the environments, or shows one: its map and an observation.",
    "doctor": "Lists versions, hardware and optional packages, and ends with a verdict.",
}
"""The first paragraph of each verb's docstring. `gemax --help` prints them without the time to import the verbs."""

DEBUG_FLAG = "--debug"
OBJECTS_PER_COLLECTION = 50_000
"""Number of new objects after which Python searches for cycles, in the whole process."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the `gemax` command and returns its exit code. Without arguments, those of the program are used."""
    if arguments is not None:
        with catch_stop_signals():
            return run_command(arguments)
    # Imports and tracing create millions of objects. Python would search them for cycles all the time, which takes a
    # tenth of the time to the first update.
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    with stop_signals_of_program(), tolerant_streams():
        exit_code = run_command(sys.argv[1:])
        # Python would search the millions of objects of JAX for cycles before it exits, which takes half a second.
        gc.freeze()
        return exit_code


def run_command(arguments: list[str]) -> int:
    """Runs a verb. Reports errors in one line; `--debug` shows their traceback."""
    debug = DEBUG_FLAG in arguments
    if not {NO_CACHE_FLAG, "--help", "-h"} & set(arguments):
        use_compilation_cache()
    try:
        return _run_verb([argument for argument in arguments if argument not in (DEBUG_FLAG, NO_CACHE_FLAG)])
    except Stopped as stop:
        print("gemax: stopped.", file=sys.stderr)
        return 128 + stop.signal
    except Exception as error:
        if debug:
            raise
        message, exit_code = describe_failure(error)
        print(message, file=sys.stderr)
        return exit_code


def help_text() -> str:
    """Returns what `gemax --help` prints."""
    width = shutil.get_terminal_size().columns - 2
    lines = [f"usage: gemax [-h] {{{','.join(VERBS)}}}", "", *textwrap.wrap(DESCRIPTION, width)]
    lines += ["", "options:", "  -h, --help  show this help message and exit", "", "subcommands:"]
    for name, summary in VERBS.items():
        lines += textwrap.wrap(f"  {name:<11}{summary}", width, subsequent_indent=" " * 13)
    return "\n".join([*lines, "", "`gemax SUBCOMMAND --help` shows the flags of one of them."])


def _run_verb(arguments: list[str]) -> int:
    import gemax

    if arguments == ["--version"]:
        print(f"gemax {gemax.__version__}")
        return 0
    if arguments[:1] in (["--help"], ["-h"]):
        print(help_text())
        return 0
    from gemax.cli.flags import check_flags, check_verb, join_lines

    check_stop()
    check_verb(arguments, VERBS)
    if arguments[:1] in (["train"], ["resume"]):
        check_flags(arguments[0], arguments[1:])
    # `train` parses its own flags, because their defaults depend on the environment.
    if arguments[:1] == ["train"]:
        return _load_verb("train")(arguments[1:])
    from tyro.extras import subcommand_cli_from_dict

    # All verbs, so that a wrong flag is answered with the verb that has it.
    verbs = {name: join_lines(_load_verb(name)) for name in VERBS}
    return subcommand_cli_from_dict(verbs, prog="gemax", description=DESCRIPTION, args=arguments)


def _load_verb(name: str) -> Callable[..., int]:
    return getattr(import_module(f"gemax.cli.{name}"), name)
