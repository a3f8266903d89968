"""Lines of the summary on gates, sharing, probes, single heads and contrasts, also without dissociation."""

from pathlib import Path

from headspec import tables
from headspec.pipeline import state
from headspec.pipeline.commands import summary
from support.figures import frame
from support.schemas import SCHEMAS

RUN = {"model": "m", "mixture": "a+b", "method": "tuned"}


def told(**rows: list[dict]) -> str:
    """The summary of tables with these rows."""
    frames = {name: frame(name, each) for name, each in rows.items()}
    return summary.text(frame("combined", []), Path("results"), **frames)


def found(**rows: list[dict]) -> list[str]:
    """The lines of what was found."""
    return [line[11:] for line in told(**rows).split("\n\n")[0].splitlines()]


def test_gates_count_by_what_they_are_compared_with():
    """Means over tasks where a mixture has several, else the task's own rows."""
    base = RUN | {"scope": "per_task", "fraction": 0.1, "metric": "mean"}
    alone = base | {"mixture": "a", "method": "single", "task": "a", "metric": "f1"}
    down, up = {"difference": -0.1, "p_holm": 0.01}, {"difference": 0.1, "p_holm": 0.02}
    unclear = {"difference": -0.2, "p_holm": 0.2}
    rows = [
        base | {"way": "l0", "task": "mean", "against": "whole"} | down,
        base | {"way": "l0", "task": "a", "against": "whole", "metric": "f1"} | up,
        base | {"way": "l0", "task": "mean", "against": "importance"} | up,
        base | {"way": "random", "task": "mean", "against": "importance"} | unclear,
        base | {"way": "whole", "task": "mean", "fraction": 1.0},
        alone | {"way": "l0", "against": "whole"} | unclear,
    ]
    assert found(budgets=rows) == [
        "fewer heads, against importance: the metric is lower in 0 of 2 rows (p < 0.05), higher in 1",
        "fewer heads, against whole: the metric is lower in 1 of 2 rows (p < 0.05), higher in 0",
    ]
    assert "6 rows by pruning method and number of heads: tables/budgets.parquet" in told(budgets=rows)


def test_differences_of_models_that_learnt_nothing_count_nowhere():
    down = {"difference": -0.1, "p_holm": 0.01, "task": "mean", "metric": "mean"}
    nothing = RUN | down | {"mixture": "c+d", "unpruned_at_chance": True}
    base = {"scope": "per_task", "way": "l0", "fraction": 0.1, "against": "whole"}
    lines = found(
        budgets=[each | base for each in (RUN | down, nothing)],
        sharing=[RUN | down, nothing],
        improvement=[nothing | {"method": "iat", "against": "tuned", "value": 0.5}],
    )
    assert [line.split(": ")[1] for line in lines] == [
        "the metric is lower in 1 of 1 rows (p < 0.05), higher in 0",
        "the mean metric is lower in 1 of 1 mixtures (p < 0.05), higher in 0",
    ]


def test_sharing_probes_and_single_heads():
    shared = RUN | {"task": "mean", "metric": "mean", "difference": 0.1, "p_holm": 0.01}
    alone = RUN | {"mixture": "a", "method": "single", "task": "a", "metric": "f1"}
    probe = RUN | {"task": "a", "heads": "best", "label": None, "selectivity_low": 0.1}
    others = [{"task": "b", "selectivity_low": -0.1}, {"heads": "mean"}, {"label": "NOUN"}]
    change = RUN | {"task": "a", "heads": "best", "label": None, "change": 0.1}
    head = RUN | {"task": "a", "measure": "ablation", "layer": 0, "change": -0.1}
    roles = enumerate(["positional", "none", "none"])
    assert found(
        sharing=[shared, shared | {"task": "a", "metric": "f1", "difference": -1.0}, alone],
        probes=[probe | each for each in ({}, *others)],
        probe_changes=[change | {"before": "pretrained", "p_holm": 0.01}, change | {"before": "random"}],
        single_heads=[head | {"head": i, "p_holm": 0.03 * i} for i in range(4)],
        head_roles=[RUN | {"seed": 0, "layer": 0, "head": i, "role": role} for i, role in roles],
    ) == [
        "single heads, ablation: the metric is lower in 2 of 4 rows (p < 0.05), higher in 0",
        "roles of heads: 2 none, 1 positional",
        "tasks together, against each alone: the mean metric is lower in 0 of 1 mixtures (p < 0.05), higher "
        "in 1",
        "selectivity of the best heads: interval above 0 in 1 of 2 probes",
        "what the best heads know, against pretrained: lower in 0 of 1 probes (p < 0.05), higher in 1",
        "what the best heads know, against random: not tested in 1 probes, with fewer than three seeds",
    ]


def test_pairs_across_paradigms():
    row = {"model": "m", "contrast": "paradigms", "method": "tuned", "mixture": "across paradigms"}
    row |= {"against": "within paradigms", "dissociation": 0.1, "difference": 0.02, "n_mixtures": 4}
    assert found(contrasts=[row]) == [
        "m, tuned: mean D of pairs across paradigms 10.0 %, difference from pairs within paradigms 2.0"
    ]


def test_results_that_were_copied_or_renamed_are_taken_as_they_are(tmp_path):
    """Their config is of another place, in which nobody has to be asked."""
    row = RUN | {"task": "mean", "metric": "mean", "difference": -0.1, "p_holm": 0.01}
    for place in ("results/renamed", "elsewhere/tiny"):
        path = tmp_path / place / "tables" / "sharing.parquet"
        tables.write(path, SCHEMAS["sharing"], frame("sharing", [row]), {})
        state.note_start(tmp_path / place, {"study": "tiny"}, ["snakemake"], ["all"])
        said, finished = summary.summarize(tmp_path / place)
        assert finished and said.startswith("found      tasks together")
