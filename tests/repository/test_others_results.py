"""The page of others' results: from its counts, and where the published numbers are, from these."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from scipy.stats import spearmanr

import headspec
from support import pages
from support.paths import ROOT, SHARED

PAGE = ROOT / "docs/methods/others-results.md"
OUTSIDE = SHARED / "outside"
MATRIX, MODELS = (block.text for block in pages.blocks(PAGE) if block.language == "python")
published = pytest.mark.needs("shared data")


def table(name: str) -> pd.DataFrame:
    """A table of the page, between comments, as text."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name}:")[2].partition("<!-- end of")[0]
    header, _, *rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert rows, name
    return pd.DataFrame(rows, columns=range(len(rows[0]))).rename(columns=dict(enumerate(header)))


@pytest.fixture(scope="module")
def counts() -> pd.DataFrame:
    """The matrix at 16 heads, in the form of `headspec.dissociate`."""
    right = table("counts").set_index("pruned_for").astype(int)
    rows = right.drop(index="n").rename_axis(columns="task").stack().rename("right").reset_index()
    return rows.assign(n=rows["task"].map(right.loc["n"]))


def test_counts_on_the_page_give_its_values(counts):
    (row,) = table("matrix").query("heads == '16'").to_numpy().tolist()
    found, parts = headspec.dissociate(counts), headspec.decompose(counts).set_index("part")
    mean, tasks = found.iloc[-1], found.iloc[:-1]
    assert [f"{mean[name]:.2f}" for name in ("own", "others")] == row[1:3]
    assert row[4].startswith(f"{100 * mean['dissociation']:.1f} [")
    bounds = re.findall(r"-?\d+\.\d", row[4])[1:] + re.findall(r"-?\d+\.\d", row[5])
    drawn = 100 * mean[["ci_low", "ci_high", "same_low", "same_high"]].to_numpy(dtype=float)
    np.testing.assert_allclose(drawn, np.array(bounds, dtype=float), atol=0.5)
    assert [f"{100 * parts['share'][name]:.0f}" for name in ("source", "target")] == row[7:9]
    assert f"{100 * parts['share']['own']:.1f}" == row[9]
    assert f"{tasks['dissociation'].corr(tasks['to_others']):.2f}" == row[11]
    assert mean["verdict"] == "none" and "do not show which examples" in mean["why"]


@published
def test_the_published_matrix_gives_the_values_of_the_page(counts, monkeypatch):
    monkeypatch.chdir(OUTSIDE)
    names = {"pd": pd, "headspec": headspec}
    exec(MATRIX, names)
    pyplot.close("all")
    matrix, found, parts = names["matrix"], names["found"], names["parts"]
    keys = ["pruned_for", "task"]
    at_16 = matrix[matrix["heads"].isin([0, 16])].set_index(keys)[["right", "n"]]
    pd.testing.assert_frame_equal(
        at_16.loc[counts.set_index(keys).index], counts.set_index(keys)[["right", "n"]]
    )
    means = found[found["task"] == "mean"].set_index("heads")
    by_part = parts.pivot(index="heads", columns="part")
    share, p = 100 * by_part["share"], by_part["p_value"]
    lists = found[found["task"] != "mean"].groupby("heads")[["dissociation", "to_others"]].corr()
    r = lists["dissociation"].unstack()["to_others"]
    for row in table("matrix").to_numpy().tolist():
        heads, (mean, low, high), same = float(row[0]), *(re.findall(r"-?\d+\.\d", row[i]) for i in (4, 5))
        one = means.loc[heads]
        percent = 100 * one[["dissociation", "ci_low", "ci_high", "same_low", "same_high"]].astype(float)
        assert [f"{value:.1f}" for value in percent] == [mean, low, high, *same]
        assert [f"{one[name]:.2f}" for name in ("own", "others", "random")] == row[1:4]
        assert f"{one['p_value']:.3f}" == row[6]
        assert [f"{share[name][heads]:.0f}" for name in ("source", "target")] == row[7:9]
        assert [f"{share['own'][heads]:.1f}", f"{p['own'][heads]:.3f}", f"{r[heads]:.2f}"] == row[9:]
    assert means.index[means["specific"].eq(True)].tolist() == [48, 128]
    over = 100 * means[means.index.isna()][["dissociation", "ci_low", "ci_high"]].iloc[0]
    assert "{:.1f} [{:.1f}, {:.1f}]".format(*over) in PAGE.read_text(encoding="utf-8")
    assert found["why"].str.startswith("1 random set: no p below 0.5; 19 are needed").sum() == 8 * 9


@published
def test_published_scores_give_the_agreement_of_models(monkeypatch):
    monkeypatch.chdir(OUTSIDE)
    for one, other, spearman, overlap in table("models").to_numpy().tolist():
        names = {"pd": pd, "headspec": headspec, "names": (one, other)}
        exec(MODELS, names)
        assert (f"{names['spearman']:.2f}", f"{names['overlap']:.2f}") == (spearman, overlap)


@published
def test_families_do_not_agree_and_a_model_does_with_itself():
    scores = {
        path.stem: pd.read_csv(path, index_col=["layer", "head"])
        for path in OUTSIDE.glob("*retrieval_head*.csv")
        if "reasoning" not in path.stem
    }
    family = {
        name: re.search(r"(Llama-3|Mi[sx]tral|Qwen|Yi|llama-2)", name)[1].replace("x", "s") for name in scores
    }

    def overlap(one: pd.Series, other: pd.Series) -> float:
        top, others = (headspec.top_heads(each.unstack(), 0.05) for each in (one, other))
        return (top & others).sum() / (top | others).sum()

    between = [
        (spearmanr(one, other)[0], overlap(one, other))
        for a, b in itertools.combinations(scores, 2)
        if family[a] != family[b] and len(scores[a]) == len(scores[b])
        for one, other in [(scores[a].mean(axis=1), scores[b].mean(axis=1))]
    ]
    r, shared = np.transpose(between)
    assert (round(r.min(), 2), r.max() < 0.145, round(shared.max(), 2)) == (-0.17, True, 0.06)
    interleaved = {
        name: overlap(folds.iloc[:, ::2].mean(axis=1), folds.iloc[:, 1::2].mean(axis=1))
        for name, folds in scores.items()
    }
    said = {"Mistral-7B-v0.2-hf": 0.96, "Qwen1.5-14B-Chat": 0.98, "llama-2-13b-64k": 0.98}
    assert {name: round(interleaved[f"retrieval_head.{name}"], 2) for name in said} == said
