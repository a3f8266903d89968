"""headspec: how attention heads specialise under multi-task learning.

Names for notebooks are loaded on first use.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headspec.heads.any_model.curves.curve import head_curve
    from headspec.heads.any_model.curves.recovery import recovery
    from headspec.heads.any_model.generated import Generated
    from headspec.heads.any_model.harness import evaluate
    from headspec.heads.any_model.head_importance import head_importance
    from headspec.heads.behaviours.maps import attention_maps
    from headspec.heads.behaviours.table import head_behaviours
    from headspec.heads.knockouts.table import joint_knockouts
    from headspec.heads.ranking import exclusive_heads, ranked_heads, top_heads
    from headspec.models.export.keeping import load, save
    from headspec.models.export.slicing import remove_heads
    from headspec.models.gates import HeadGates
    from headspec.plots.curves import plot_curve
    from headspec.plots.dissociation import plot_dissociation
    from headspec.plots.drawing.heat_maps import heat_map
    from headspec.plots.drawing.page import write_page
    from headspec.statistics.dissociation.decompose import decompose, shared_fragility
    from headspec.statistics.dissociation.notebook import dissociate
    from headspec.training.causal_gating import causal_head_gating

#: read from a text file, so that a new version does not change the code of any stage
__version__ = (Path(__file__).parent / "VERSION").read_text(encoding="utf-8").strip()
#: name: its module; an import statement would make jobs run again after changes of the module
PUBLIC = {
    "Generated": "heads.any_model.generated",
    "HeadGates": "models.gates",
    "decompose": "statistics.dissociation.decompose",
    "dissociate": "statistics.dissociation.notebook",
    "attention_maps": "heads.behaviours.maps",
    "causal_head_gating": "training.causal_gating",
    "evaluate": "heads.any_model.harness",
    "exclusive_heads": "heads.ranking",
    "head_behaviours": "heads.behaviours.table",
    "head_curve": "heads.any_model.curves.curve",
    "head_importance": "heads.any_model.head_importance",
    "heat_map": "plots.drawing.heat_maps",
    "joint_knockouts": "heads.knockouts.table",
    "load": "models.export.keeping",
    "plot_curve": "plots.curves",
    "plot_dissociation": "plots.dissociation",
    "ranked_heads": "heads.ranking",
    "recovery": "heads.any_model.curves.recovery",
    "remove_heads": "models.export.slicing",
    "save": "models.export.keeping",
    "shared_fragility": "statistics.dissociation.decompose",
    "top_heads": "heads.ranking",
    "write_page": "plots.drawing.page",
}
#: modules that are available as attributes
MODULES = ("compat",)
__all__ = [
    "Generated",
    "HeadGates",
    "attention_maps",
    "causal_head_gating",
    "head_behaviours",
    "decompose",
    "dissociate",
    "evaluate",
    "exclusive_heads",
    "head_curve",
    "head_importance",
    "heat_map",
    "joint_knockouts",
    "load",
    "plot_curve",
    "plot_dissociation",
    "ranked_heads",
    "recovery",
    "remove_heads",
    "save",
    "shared_fragility",
    "top_heads",
    "write_page",
]


def __getattr__(name: str) -> object:
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in PUBLIC:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC, *MODULES})
