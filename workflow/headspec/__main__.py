"""Run the command ``headspec`` as ``python -m headspec``, also from a clone that is not installed."""

from headspec.cli import main

main()
