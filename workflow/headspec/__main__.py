"""``python -m headspec`` is the command ``headspec``, also from a clone that is not installed."""

from headspec.cli import main

main()
