"""The command line: one file per verb, each a thin layer over the library.

Verbs import what they need when they run, so that `gemax --help` is fast.
"""

import sys

from gemax.errors import GemaxError

DESCRIPTION = (
    "Geometric entropy maximisation in JAX: agents that explore. `gemax --version` prints the version; `--debug` "
    "after any command shows the traceback of an error."
)


def main(arguments: list[str] | None = None) -> int:
    """Runs the `gemax` command and returns its exit code. `--debug` shows the traceback of an error."""
    from tyro.extras import subcommand_cli_from_dict

    import gemax
    from gemax.cli.bench import bench
    from gemax.cli.collect import collect
    from gemax.cli.doctor import doctor
    from gemax.cli.envs import envs
    from gemax.cli.evaluate import evaluate
    from gemax.cli.reproduce import reproduce
    from gemax.cli.resume import resume
    from gemax.cli.train import train
    from gemax.runs.signals import Terminated, interrupt_on_sigterm

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"gemax {gemax.__version__}")
        return 0
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    verbs = {
        verb.__name__: verb for verb in (train, resume, evaluate, collect, reproduce, bench, envs, doctor)
    }
    try:
        with interrupt_on_sigterm():
            # `train` parses its own flags, because their defaults depend on the environment.
            if arguments[:1] == ["train"]:
                return train(arguments[1:])
            return subcommand_cli_from_dict(verbs, prog="gemax", description=DESCRIPTION, args=arguments)
    except (ValueError, OSError, GemaxError) as error:
        # Other exceptions are bugs of gemax and keep their traceback.
        if debug:
            raise
        print(f"gemax: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, GemaxError) else 2
    except KeyboardInterrupt as stop:
        print("gemax: stopped.", file=sys.stderr)
        return 143 if isinstance(stop, Terminated) else 130
