"""Which jobs of IAT, similarity, head atlas and gates run again after an edit."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from support.data.treebanks import conllu, sentences
from support.running.edits import at_import, setting
from support.running.every_stage import TARGETS
from support.running.studies import Folder

pytestmark = pytest.mark.thorough


@pytest.fixture
def study(every_stage_finished, tmp_path) -> Folder:
    return every_stage_finished.copy(tmp_path / "study")


def responses(study: Folder) -> None:
    path = study.path / "brain" / "responses.parquet"
    frame = pd.read_parquet(path)
    frame.assign(voxels=[2 * voxels for voxels in frame["voxels"]]).to_parquet(path)


def other_trees(study: Folder) -> None:
    conllu(Path(study.path, "texts", "more.conllu"), sentences(60, 2))
    study.set("atlas.treebank.source", "texts/more.conllu")


#: jobs after those that train and measure
COMPARED = {"similarity": 1, "correlation": 1}
ENCODED = {"voxels": 1, "brain_encoding": 1} | COMPARED
AFTER_IAT = {"importance": 1, "prune": 1, "iat_dissociation": 1, "specialization": 1, "improvement": 1}
RANKED = {"cumulative": 2, "rankings": 1, "belief": 1}
KEPT = {"gate_tables": 1, "kept_roles": 1}
ROLES_AFTER = {"attended_after": 3, "roles_after": 3, "kept_roles": 1}
EVERY_PRUNED_RUN = {"learn_gates": 2, "pruned_run": 12, "pruned_run_and_keep": 2} | KEPT | ROLES_AFTER
#: edit: the target, the change, and the jobs that would run, but for those of figures
EDITS: dict[str, tuple[str, Callable[[Folder], None], dict[str, int]]] = {
    # the sweep uses this value for its other key
    "alpha": ("iat", setting("iat.alpha", 0.5), {"retrain": 3, "evaluate": 3} | AFTER_IAT),
    "a control added": ("iat", setting("iat.controls", ["random", "bottom"]),
                        {"retrain": 1, "evaluate": 1, "improvement": 1}),
    "a sampling added": ("iat", setting("iat.samplings", ["annealed"]),
                         {"train_and_keep": 1, "branch": 1, "retrain": 1, "evaluate": 2, "improvement": 1}),
    "where the kept state is": (
        "iat", setting("iat.reserve", 0.3),
        {"train_and_keep": 1, "branch": 2, "retrain": 5, "evaluate": 6, "transfer": 1, "transfer_scores": 1}
        | AFTER_IAT | {"importance": 2, "prune": 2}),
    "IAT's module": ("iat", at_import("headspec/training/iat.py"),
                     {"branch": 2, "retrain": 5, "evaluate": 5} | AFTER_IAT),
    "a variant that the study lacks": ("iat", at_import("headspec/training/variants/rescored.py"), {}),
    "comparison of methods": ("iat", at_import("headspec/statistics/improvement.py"),
                              {"improvement": 1, "specialization": 1}),
    "number of sentences": ("all", setting("similarity.max_sentences", 45),
                            {"sentences": 1, "tokenize_texts": 1, "representations": 1} | COMPARED),
    "samples": ("all", setting("similarity.samples", 25),
                {"text_embedding": 1, "sensitivity": 4} | COMPARED),
    "nuisance regressors": ("all", setting("brain.nuisance", []), ENCODED),
    "responses": ("all", responses, ENCODED),
    "a measure of affinity": ("all", at_import("headspec/similarity/gradient_affinity.py"),
                              {"sensitivity": 3} | COMPARED),
    "the permutation test": ("all", at_import("headspec/statistics/correlation.py"),
                             {"correlation": 1, "dissociation": 1, "iat_dissociation": 1, "rankings": 1,
                              "belief": 1}),
    "draws": ("atlas", setting("atlas.draws", 3), RANKED),
    "rules of relevance": ("atlas", setting("atlas.relevance", "attnlrp"),
                           {"relevance": 2, "heads": 1} | RANKED),
    "confidence": ("atlas", setting("dissociation.confidence", 0.9),
                   {"heads": 1, "single_heads": 1, "rankings": 1, "belief": 1}),
    "treebank": ("atlas", other_trees, {"treebank": 1, "attended": 2, "roles": 2, "heads": 1, "belief": 1}),
    "roles": ("atlas", at_import("headspec/statistics/atlas/roles.py"),
              {"roles": 2, "heads": 1, "belief": 1}),
    "gates that rank": ("atlas", setting("gates.penalty", 0.1),
                        {"learn_gates": 2, "pruned_run": 2} | RANKED),
    "numbers of heads that rank none": ("atlas", setting("gates.kept", [0.25]), {}),
    "penalty": ("gates", setting("gates.penalty", 0.04), {"learn_gates": 2, "pruned_run": 4} | KEPT),
    "rescorings": ("gates", setting("gates.rescorings", 3), {"pruned_run": 2} | KEPT),
    "a number of heads added": ("gates", setting("gates.kept", [0.25, 0.5]),
                                {"pruned_run": 8, "pruned_run_and_keep": 2} | KEPT | ROLES_AFTER),
    "source": ("gates", setting("gates.source", "l0"), {"pruned_run": 2} | KEPT),
    "a model that is to be kept": ("gates", setting("gates.keep_models", ["subset", "ablation"]),
                                   {"pruned_run_and_keep": 2} | KEPT | ROLES_AFTER),
    "sentences of roles": ("gates", setting("atlas.sentences", 55),
                           {"attended": 1, "roles": 1} | ROLES_AFTER),
    "gates that learn": ("gates", at_import("headspec/training/gated.py"), EVERY_PRUNED_RUN),
}  # fmt: skip


@pytest.mark.parametrize(("target", "change", "expected"), EDITS.values(), ids=EDITS)
def test_an_edit_reruns_what_depends_on_it(study, target, change, expected):
    change(study)
    rules = study.plan(target).rules.items()
    made = {rule: n for rule, n in rules if rule not in TARGETS and not rule.startswith("figure_")}
    assert made == expected
