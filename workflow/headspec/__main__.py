"""Run the command ``headspec`` as ``python -m headspec``, even from a clone that is not installed."""

from headspec.cli import main

main()
