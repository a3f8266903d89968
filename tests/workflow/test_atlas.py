"""The head atlas of a tiny study: tables, figures, the registry of measures, a measure that is added."""

import pandas as pd
import pytest

from headspec import tables
from headspec.errors import HeadspecError
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.heads.ranking import top_heads
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.pipeline import preflight
from support.running.edits import at_import
from support.running.every_stage import RANKINGS
from support.running.studies import HEADS, LAYERS, changed

pytestmark = pytest.mark.thorough

LEARNT = {"l0", "subset"}


def test_tables_have_every_head_and_ranking(every_stage_finished):
    results = every_stage_finished.results
    made = {path.stem: pd.read_parquet(path) for path in (results / "tables").glob("*.parquet")}
    heads = made["heads"]
    assert (heads.groupby("measure").size() == 2 * 2 * LAYERS * HEADS).all()  # methods, tasks
    assert (heads["ci_low"] <= heads["value"]).all() and (heads["n"] == 40).all()
    assert len(made["head_roles"]) == 2 * LAYERS * HEADS
    curves = made["pruning_curves"]
    assert set(curves["ranking"]) == {*RANKINGS, "importance_all", "random"}
    assert set(curves["fraction"]) == {0.0, 0.3, 0.5, 1.0}
    assert set(curves["order"]) == set(made["pruning_areas"]["order"]) == {"top", "bottom"}
    assert set(made["ranking_dissociation"]["ranking"]) == set(RANKINGS)
    assert len(made["single_heads"]) == 2 * 2 * LAYERS * HEADS
    differences = made["task_differences"]
    assert differences.groupby(["method", "measure"]).size().tolist() == [LAYERS * HEADS] * 2 * 4
    belief = made["belief"]
    assert len(belief) == 2 * 3 * (len(RANKINGS) + 2)  # methods, tasks and their mean
    learnt = belief[belief["ranking"].isin(LEARNT)]
    assert learnt["area"].notna().all() and learnt["ablation_spearman"].isna().all()
    assert not LEARNT & {*made["agreement"]["measure_a"], *made["agreement"]["measure_b"]}


@pytest.mark.parametrize(("method", "kept"), [("l0", "open"), ("subset", "0.7")])
def test_learnt_gates_prune_as_they_rank(every_stage_finished, method, kept):
    """Of every example, the prediction without the heads whose own gates have the largest scores."""
    results = every_stage_finished.results
    run = results / "runs/bert/tone+topic/tuned/seed0"
    gates = pd.read_parquet(run / f"gates/{method}/per_task/{kept}/gates.parquet").query("task == 'tone'")
    last = gates[gates["step"] == gates["step"].max()]
    scores = last.pivot(index="layer", columns="head", values="score").to_numpy()
    mask = Mask("tone", "top", 0.5, None, top_heads(scores, LAYERS * HEADS // 2))
    examples = Examples(tables.read(results / "tokens/bert/tone/validation.parquet"))
    found = predictions(MultiTask.load(run / "model"), {"tone": examples}, [mask], Device("cpu", None))
    expected = pd.Series(found["tone"][0].filled(), examples.example)
    of_method = pd.read_parquet(run / "atlas/cumulative.parquet").query(
        "ranking == @method and task == 'tone' and order == 'top' and fraction == 0.5"
    )
    assert len(of_method) == 40
    assert of_method["prediction"].to_numpy() == pytest.approx(expected.loc[of_method["example"]].to_numpy())


HEADS_PY = "workflow/headspec/config/measures/heads.py"
LAST = '"random": HeadMeasure("random", ranks=False),'


def test_a_measure_made_from_another_table_is_a_module_and_a_line(every_stage_finished, tmp_path):
    copy = every_stage_finished.copy(tmp_path / "copy")
    made = 'made_from="relevance", function="headspec.atlas.last_layer:last_layer"'
    copy.replace(HEADS_PY, LAST, LAST + f'"last_layer": HeadMeasure("last layer", "last_layer", {made}),')
    module = copy.path / "workflow" / "headspec" / "atlas" / "last_layer.py"
    module.write_text(
        "def last_layer(heads):\n"
        "    heads = heads[heads['measure'] == 'importance']\n"
        "    return heads.assign(value=1.0 * heads['layer'])\n"
    )
    copy.set("atlas.rankings", ["importance", "last_layer"])
    copy.snakemake("results/tiny/tables/belief.parquet")
    heads = pd.read_parquet(copy.results / "tables" / "heads.parquet").query("measure == 'last_layer'")
    assert len(heads) == 2 * 2 * LAYERS * HEADS and (heads["value"] == heads["layer"]).all()
    agreement = pd.read_parquet(copy.results / "tables" / "agreement.parquet")
    assert "last_layer" in set(agreement["measure_a"])
    assert "last_layer" in set(pd.read_parquet(copy.results / "tables" / "belief.parquet")["ranking"])
    at_import("headspec/atlas/last_layer.py")(copy)
    assert {"derived", "cumulative", "heads"} <= set(copy.plan("atlas").rules)
    copy.set("atlas.rankings", ["importance", "last-layer"])
    assert "Did you mean 'last_layer'?" in copy.snakemake("atlas", fails=True)


def test_too_few_sentences_for_roles_are_refused(every_stage_finished, monkeypatch):
    """Without a treebank; a text is one sentence here."""
    monkeypatch.chdir(every_stage_finished.path)
    config = changed(every_stage_finished.config, {
        "atlas.treebank": None, "tasks.tone.validation_examples": 24, "tasks.topic.validation_examples": 24,
    })  # fmt: skip
    with pytest.raises(HeadspecError, match="texts, which have 48 sentences; expected at least 50"):
        preflight.check(preflight.load(config))
