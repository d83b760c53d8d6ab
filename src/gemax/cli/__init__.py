"""The command line: a file a verb, each a thin shell over the library.

Verbs import what they need when they run, so that `gemax --help` answers at once.
"""

import sys

EXIT_CODES = {"EnvironmentFault": 3, "CheckpointError": 4, "NumericalError": 5}
"""Of faults that have one of their own; by name, since their modules import jax."""

DESCRIPTION = "Geometric entropy maximisation in JAX: agents that explore."


def main(arguments: list[str] | None = None) -> int:
    """The `gemax` command; gives the exit code. `--debug`, anywhere, shows the traceback of an error."""
    from tyro.extras import subcommand_cli_from_dict

    import gemax
    from gemax.cli.collect import collect
    from gemax.cli.doctor import doctor
    from gemax.cli.evaluate import evaluate
    from gemax.cli.reproduce import reproduce
    from gemax.cli.resume import resume
    from gemax.cli.train import train
    from gemax.cli.worlds import worlds
    from gemax.runs.signals import Terminated, cleaning_up

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"gemax {gemax.__version__}")
        return 0
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    verbs = {
        "train": train,
        "resume": resume,
        "evaluate": evaluate,
        "collect": collect,
        "reproduce": reproduce,
        "worlds": worlds,
        "doctor": doctor,
    }
    try:
        with cleaning_up():
            if arguments[:1] == ["train"]:
                return train(arguments[1:])
            return subcommand_cli_from_dict(
                verbs,
                prog="gemax",
                description=DESCRIPTION,
                args=arguments,
            )
    except (ValueError, OSError) as error:
        if debug:
            raise
        return _refuse(error, 2)
    except Exception as error:
        # Faults that know their exit code are for users; all others are ours, and show where they come from.
        exit_code = EXIT_CODES.get(type(error).__name__)
        if debug or exit_code is None:
            raise
        return _refuse(error, exit_code)
    except KeyboardInterrupt as stop:
        print("gemax: stopped.", file=sys.stderr)
        return 143 if isinstance(stop, Terminated) else 130


def _refuse(error: Exception, exit_code: int) -> int:
    print(f"gemax: {error}", file=sys.stderr)
    return exit_code
