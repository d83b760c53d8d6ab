"""The command line: one file per verb, each a thin layer over the library.

Verbs import what they need when they run, so that `gemax --help` is fast.
"""

import sys

from gemax.cli.compilation_cache import NO_CACHE_FLAG, use_compilation_cache
from gemax.cli.failures import describe_failure
from gemax.cli.streams import tolerant_streams
from gemax.stopping import Stopped, catch_stop_signals, check_stop, stop_signals_of_program

DESCRIPTION = (
    "Geometric entropy maximisation in JAX: agents that explore. `gemax --version` prints the version; `--debug` "
    "after any command shows the traceback of an error; `--no-compilation-cache` neither reads nor stores compiled "
    "programs."
)

DEBUG_FLAG = "--debug"


def main(arguments: list[str] | None = None) -> int:
    """Runs the `gemax` command and returns its exit code. Without arguments, those of the program are used."""
    if arguments is not None:
        with catch_stop_signals():
            return run_command(arguments)
    with stop_signals_of_program(), tolerant_streams():
        return run_command(sys.argv[1:])


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


def _run_verb(arguments: list[str]) -> int:
    from tyro.extras import subcommand_cli_from_dict

    import gemax
    from gemax.cli.bench import bench
    from gemax.cli.collect import collect
    from gemax.cli.compare import compare
    from gemax.cli.doctor import doctor
    from gemax.cli.envs import envs
    from gemax.cli.evaluate import evaluate
    from gemax.cli.flags import check_flags, check_verb, join_lines
    from gemax.cli.record import record
    from gemax.cli.reproduce import reproduce
    from gemax.cli.resume import resume
    from gemax.cli.train import train
    from gemax.cli.view import view

    if arguments == ["--version"]:
        print(f"gemax {gemax.__version__}")
        return 0
    verbs = {
        verb.__name__: join_lines(verb)
        for verb in (train, resume, evaluate, record, compare, collect, reproduce, view, bench, envs, doctor)
    }
    check_stop()
    check_verb(arguments, verbs)
    if arguments[:1] in (["train"], ["resume"]):
        check_flags(arguments[0], arguments[1:])
    # `train` parses its own flags, because their defaults depend on the environment.
    if arguments[:1] == ["train"]:
        return train(arguments[1:])
    return subcommand_cli_from_dict(verbs, prog="gemax", description=DESCRIPTION, args=arguments)
