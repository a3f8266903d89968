"""headspec: how attention heads specialise under multi-task learning.

What a notebook needs is here, and loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headspec.heads.head_importance import head_importance
    from headspec.heads.ranking import top_heads
    from headspec.models.export.slicing import remove_heads
    from headspec.models.gates import HeadGates
    from headspec.plots.drawing.heat_map import heat_map

#: name: its module, which is not imported by a statement because jobs would then run again after its changes
PUBLIC = {
    "HeadGates": "models.gates",
    "head_importance": "heads.head_importance",
    "heat_map": "plots.drawing.heat_map",
    "remove_heads": "models.export.slicing",
    "top_heads": "heads.ranking",
}
__all__ = ["HeadGates", "head_importance", "heat_map", "remove_heads", "top_heads"]


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
