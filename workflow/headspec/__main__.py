"""Run the command ``headspec``, also as ``python -m headspec`` from a clone that is not installed."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line; if snakemake is missing, exit and say how to install it."""
    if not find_spec("snakemake"):
        sys.exit("headspec: commands need snakemake, which is not there: pip install 'headspec[study]'")
    from headspec import cli

    cli.main()


if __name__ == "__main__":
    main()
