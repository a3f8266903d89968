"""The explorer: its numbers equal those of the tables, and no name becomes code."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from headspec import tables
from headspec.errors import MissingError
from headspec.explorer.finished import write_explorer
from headspec.explorer.heads import BOUNDED, GROUP, MEASURES, heads
from headspec.explorer.page import ASSETS, data, harmless
from headspec.explorer.views import STUDY_TABLES, VIEWS, find_tables, load_tables
from headspec.heads.ranking import importance_map, top_heads
from headspec.pipeline.commands import findings
from headspec.pipeline.commands.summary import summarize
from support.data.explored import HOSTILE, study


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    return study(tmp_path_factory.mktemp("explored") / "results" / "small", tasks=HOSTILE)


@pytest.fixture(scope="module")
def views(results) -> dict:
    return data(load_tables(find_tables(results)))["views"]


def text(column) -> list[str | None]:
    """A column of names, of which the page has each once."""
    return [None if place is None else column["values"][place] for place in column["places"]]


def ends(view) -> list[tuple[str | None, str | None]]:
    """Target and source of every row."""
    return list(zip(text(view["target"]), text(view["source"]), strict=True))


def test_data_are_those_of_the_tables(results, views):
    combined = tables.read(results / "tables" / "combined.parquet")
    assert text(views["combined"]["task"]) == combined["task"].tolist()
    np.testing.assert_allclose(views["combined"]["dissociation"], combined["dissociation"], rtol=1e-5)


def test_every_view_is_drawn_by_one_script():
    scripts = "".join(path.read_text() for path in (ASSETS / "views").iterdir())
    assert sorted(re.findall(r"^PAGES\.(\w+) = ", scripts, re.M)) == sorted(VIEWS)


def test_the_page_begins_as_the_summary_does(results, views):
    """With what was found, which counts no models that learnt nothing."""
    folded, _ = summarize(results, None)
    said = [line.strip().removeprefix("found").strip() for line in folded.split("\n\n")[0].splitlines()]
    for line in said[-len(views["found"]) + 1 :]:
        assert line in views["found"]
    assert views["found"][0].startswith("frozen: ")
    assert "no better unpruned than a constant prediction" in views["found"][0]


def test_every_table_of_the_summary_is_one_of_the_page():
    assert {"combined", *findings.OPTIONAL} <= {*STUDY_TABLES}


def test_ranks_give_the_heads_that_are_pruned(results, views):
    group = views["heads"][0]
    run = results / "runs" / group["model"] / group["mixture"] / group["method"] / "seed0"
    table = tables.read(run / "importance.parquet")
    for task, ranks in group["ranks"].items():
        expected = top_heads(importance_map(table, task), 5)
        assert [rank < 5 for rank in ranks[0]] == expected.ravel().tolist()


def test_measures_are_means_over_seeds_with_those_of_their_intervals(results, views):
    table = tables.read(results / "tables" / "heads.parquet")
    for group in views["heads"]:
        assert list(group["measures"]) == ["importance", *MEASURES]
        rows = table[(table[GROUP] == [group[name] for name in GROUP]).all(axis=1)]
        for measure, task in itertools.product(MEASURES, group["ranks"]):
            means = rows[(rows["measure"] == measure) & (rows["task"] == task)].groupby(["layer", "head"])
            shown = group["measures"][measure][task]
            np.testing.assert_allclose(shown["value"], means["value"].mean(), rtol=1e-3)
            assert ("low" in shown) == (measure in BOUNDED)
            if measure in BOUNDED:
                np.testing.assert_allclose(shown["low"], means["ci_low"].mean(), rtol=1e-3)


def test_roles_are_those_of_most_seeds_and_say_what_of(results):
    """Places are whole numbers, also where other heads have none, which makes floats."""
    study = load_tables(find_tables(results))
    table = study.tables["head_roles"]
    first = (table["layer"] == 0) & (table["head"] < 3)
    table[["role", "relation", "offset"]] = ["none", None, np.nan]
    table.loc[first & (table["head"] == 0), ["role", "offset"]] = ["positional", -1]
    table.loc[first & (table["head"] == 1), ["role", "relation"]] = ["syntactic", "obj"]
    table.loc[first & (table["head"] == 2) & (table["seed"] == 0), "role"] = "rare word"  # half of the seeds
    roles = heads(study)[0]["roles"]
    assert roles["role"][:3] == ["positional", "syntactic", "none"]
    assert roles["of"][:3] == ["\u22121", "obj", None]


def test_gains_are_those_of_pairs_and_predictions_have_one_task_left_out(results, views):
    pairs = list(itertools.permutations(HOSTILE, 2))
    table = tables.read(results / "tables" / "gains.parquet")
    gains = table[table["method"] == "tuned"].set_index(["task", "mixture"])["difference"]
    shown = dict(zip(ends(views["gains"]), views["gains"]["difference"], strict=True))
    assert sorted(shown) == sorted(pairs) and set(views["gains"]["alone"]) == {0.8}
    for target, source in pairs:
        mixture = "+".join(task for task in HOSTILE if task in (target, source))
        assert shown[target, source] == pytest.approx(gains[target, mixture], rel=1e-5)
    table = tables.read(results / "tables" / "gain_predictions.parquet").query("held_out == 1")
    predictions = views["gain_predictions"]
    assert ends(predictions) == list(zip(table["target"], table["source"], strict=True))
    np.testing.assert_allclose(predictions["predicted"], table["predicted"], rtol=1e-5)


def test_the_atlas_alone_has_its_own_importance(results):
    names = ("heads", "head_roles", "task_differences", "pruning_curves", "belief", "agreement")
    views = data(load_tables(path for path in find_tables(results) if path.stem in names))["views"]
    table = tables.read(results / "tables" / "heads.parquet").query("measure == 'importance'")
    group = views["heads"][0]
    rows = table[(table[GROUP] == [group[name] for name in GROUP]).all(axis=1)]
    for task, shown in group["measures"]["importance"].items():
        seeds = rows[rows["task"] == task].groupby(["layer", "head"])["value"]
        for name, expected in {"value": seeds.mean(), "low": seeds.min(), "high": seeds.max()}.items():
            np.testing.assert_allclose(shown[name], expected, rtol=1e-3)
        first = rows[(rows["task"] == task) & (rows["seed"] == group["seeds"][0])]
        assert group["ranks"][task][0].index(0) == first["value"].to_numpy().argmax()
    assert not views["combined"]


def test_names_end_neither_data_nor_title(results, tmp_path):
    """And the same tables give the same bytes."""
    html, again = (write_explorer(results, tmp_path / f"{n}.html").read_text() for n in "ab")
    assert html == again and html.count("</script>") == html.count("<script") == 2
    content = re.search(r'id="data">(.*?)</script>', html, re.S)[1]
    assert "<" not in content
    assert set(HOSTILE) <= set(json.loads(content)["views"]["combined"]["task"]["values"])
    assert harmless("\u2028<!--&") == '"\\u2028\\u003c!--\\u0026"'  # ends of lines of a script, too


def test_views_without_tables_are_empty_and_missing_numbers_null(results, tmp_path):
    study = load_tables(path for path in find_tables(results) if path.stem == "combined")
    study.tables["combined"].loc[0, "ci_low"] = np.nan
    views = data(study)["views"]
    assert views["combined"]["ci_low"][0] is None and not views["heads"] and not views["improvement"]
    with pytest.raises(MissingError, match="expected results of a study"):
        find_tables(tmp_path)
    with pytest.raises(KeyError, match="'layers' is not a table of a view"):
        study.table("layers")
