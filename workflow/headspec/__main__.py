"""Run the command ``headspec``, also as ``python -m headspec`` from a clone that is not installed."""

import sys


def main() -> None:
    """Run the command line; without the packages of studies, say how to get them."""
    try:
        from headspec import cli

        cli.main()
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "headspec":
            raise
        sys.exit(f"headspec: {error.msg}; commands and studies need: pip install 'headspec[study]'")


if __name__ == "__main__":
    main()
