"""Private names of other packages, which have no public one for them: used only where a test would notice."""

import ast
import re
from pathlib import Path

from headspec.provenance.code_hash import LIBRARY
from support.paths import ROOT

#: what for, and a test that reaches it: run it, also the slow ones, after an upgrade of the package
NAMES = {
    # Python: finalizers of torch's libraries take 30 ms in every fork; nothing public lists them
    "_registry": "pipeline/test_warm.py",
    # torch: one call for all weights; PyTorch's optimizers use them, too
    "_foreach_copy_": "training/variants/test_variants.py",
    "_foreach_zero_": "training/variants/test_variants.py",
    # torch: whether a tensor is a view of a weight or a gate
    "_base": "models/internals/test_propagation.py",
    # accelerate: the device of a module whose weights are offloaded
    "_hf_hook": "models/test_placement.py",
    # transformers: what runs a layer that computes again in backward passes
    "_gradient_checkpointing_func": "models/test_placement.py",
    # torch: a model that is spread over GPUs stays there when it is moved
    "_apply": "models/language/test_spread.py",
    # torch: children by name, those that are `None` or shared included
    "_modules": "models/export/test_keeping.py",
    # torch: tensors anywhere in a model's output
    "_pytree": "heads/any_model/test_scores.py",
    # transformers: which attention a model computes; only its setter is public
    "_attn_implementation": "models/export/test_slicing.py",
    # transformers: weights that are tied, which a saved model leaves out
    "_tied_weights_keys": "models/export/test_keeping.py",
    # transformers: an emptied projection is not initialised on loading
    "_is_hf_initialized": "models/test_every_type.py",
    # transformers: GPT-2's second attention, beside the interface
    "_upcast_and_reordered_attn": "models/test_unchanged.py",
    # transformers: left out of what the store compares, as it is the folder
    "_name_or_path": "training/test_store.py",
    # transformers: types that a plugin has registered
    "_extra_content": "workflow/test_other_configs.py",
    # sacrebleu: counts of sentences, which add up to scores of samples
    "_extract_corpus_statistics": "tasks/test_translation_metrics.py",
    # Snakemake: records of results, which copies bring along
    "_read_record": "pipeline/test_records.py",
    "_write_record": "pipeline/test_records.py",
    # Snakemake: marks of jobs that ended after an interrupted Snakemake
    "_filter_incomplete_keys": "pipeline/test_records.py",
    "_unmark_incomplete": "pipeline/test_records.py",
    # Snakemake: rules and jobs, of which the interface only prints
    "_workflow": "cost/test_graph.py",
    # Snakemake: resource: the cores of a run
    "_cores": "workflow/commands/test_view.py",
}


def private_names(path: Path) -> set[str]:
    """Private attributes and modules that a module reads or sets and does not define, also by `getattr`."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    ours, used = {"_asdict", "_fields", "_replace", "_exit", "_getframe"}, set()  # public in Python's docs
    for node in nodes:
        texts: list[ast.expr | None] = []
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                ours.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                ours.add(name)
            case ast.Attribute(attr=name):
                used.add(name)
            case ast.Import(names=names):
                used.update(part for each in names for part in each.name.split("."))
            case ast.ImportFrom(names=names, module=module):
                used |= {*(module or "").split("."), *(each.name for each in names)}
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, text, *_]):
                texts = [text]
            case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[text, *_]):
                texts = [text]
            case ast.Subscript(slice=text) | ast.Assign(value=text):
                texts = [text]
        used |= {str(text.value) for text in texts if isinstance(text, ast.Constant)}
    return {name for name in used - ours if re.fullmatch("_[^_].*", name)}


def test_every_private_name_has_a_test():
    assert set(NAMES) == set().union(*map(private_names, LIBRARY.parent.rglob("*.py")))
    assert [test for test in NAMES.values() if not (ROOT / "tests" / test).exists()] == []
