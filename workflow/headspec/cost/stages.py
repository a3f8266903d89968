"""The costs of all stages, from the modules `cost` beside them."""

import importlib
from pathlib import Path

from headspec.errors import HeadspecError, listing
from headspec.models.passes import STAGES, Stage

for path in sorted(Path(__file__).parents[1].glob("*/cost.py")):
    importlib.import_module(f"headspec.{path.parent.name}.cost")


def stage_cost(stage: str) -> Stage:
    """Return the costs of a stage; HeadspecError if it has none."""
    if stage not in STAGES:
        raise HeadspecError(
            f"stage {stage!r}: expected one of {listing(STAGES)}, or a new one in a module cost.py beside it"
        )
    return STAGES[stage]
