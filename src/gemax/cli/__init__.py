"""The command line: a file a verb, each a thin shell over the library.

Verbs import what they need when they run, so that `gemax --help` answers at once.
"""

import sys

DESCRIPTION = "Geometric entropy maximisation in JAX: agents that explore."


def main(arguments: list[str] | None = None) -> int:
    """The `gemax` command; gives the exit code. `--debug`, anywhere, shows the traceback of an error."""
    from tyro.extras import subcommand_cli_from_dict

    import gemax
    from gemax.cli.doctor import doctor
    from gemax.cli.reproduce import reproduce
    from gemax.cli.worlds import worlds

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"gemax {gemax.__version__}")
        return 0
    debug = "--debug" in arguments
    verbs = {"reproduce": reproduce, "worlds": worlds, "doctor": doctor}
    try:
        return subcommand_cli_from_dict(
            verbs,
            prog="gemax",
            description=DESCRIPTION,
            args=[argument for argument in arguments if argument != "--debug"],
        )
    except (ValueError, OSError) as error:
        if debug:
            raise
        print(f"gemax: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gemax: stopped.", file=sys.stderr)
        return 130
