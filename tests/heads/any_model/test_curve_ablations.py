"""Closed heads of a curve have no vectors, their means, or those of another example."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import headspec
from headspec.heads.any_model.curves.halves import halves
from headspec.seeds import derive
from support.model_types import any_model

SCORES = np.arange(8.0).reshape(2, 4)


def drawn(n: int, seed: int, sizes: int = 5) -> list[dict[str, torch.Tensor]]:
    """Texts of the same length."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 60, (n, 7), generator=generator)
    labels = torch.randint(0, 3, (n,), generator=generator)
    return [{"input_ids": ids[i : i + sizes], "labels": labels[i : i + sizes]} for i in range(0, n, sizes)]


def contexts(gates, batch):
    with torch.no_grad(), gates.recorded() as found:
        gates.model(**batch)
    return found


def replaced(gates, batch, vectors, heads) -> np.ndarray:
    """Losses of examples with `vectors` of a row, (batch or 1, tokens or 1, heads, size), in `heads`."""

    def edit(row, context):
        changed = context.clone()
        for head in np.flatnonzero(heads[row]):
            changed[:, :, head] = vectors[row][:, :, head]
        return changed

    with torch.no_grad(), gates.edited(edit):
        return cross_entropy(gates.model(**batch).logits, batch["labels"], reduction="none").numpy()


def value(curve, order: str) -> float:
    (found,) = curve.loc[curve["order"] == order, "value"]
    return found


@pytest.mark.parametrize("kind", ["roberta", "pythia", "whisper"])
@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
def test_a_set_of_one_head_is_that_score_of_the_head(kind, ablation):
    model, given = any_model.model(kind), any_model.batches(kind)
    exists = headspec.HeadGates(model).exists
    scores = np.where(exists, np.arange(exists.size).reshape(exists.shape), np.nan)
    score = "ablation" if ablation == "zero" else f"{ablation}_ablation"
    expected = headspec.head_importance(model, given, score=score)
    curve = headspec.head_curve(
        model, given, scores=scores, fractions=[1 / exists.sum()], draws=5, ablation=ablation
    )
    for order, sign in (("top", 1), ("bottom", -1)):
        rise = value(curve, order) - value(curve, "none")
        assert rise == pytest.approx(
            expected[headspec.top_heads(sign * scores, 1)].item(), rel=1e-3, abs=1e-5
        )


@pytest.mark.parametrize("ablation", ["mean", "resample"])
@pytest.mark.parametrize("seed", [0, 1])
def test_vectors_are_of_the_half_that_ranks(ablation, seed):
    model, data = any_model.model("roberta").eval(), drawn(21, seed)
    curve = headspec.head_curve(model, data, fractions=[0.5], draws=5, ablation=ablation, seed=seed)
    rank, evaluate = halves(data, "input_ids", np.random.default_rng(derive(seed, "halves")))
    top = headspec.top_heads(headspec.head_importance(model, rank), 0.5)
    gates, losses = headspec.HeadGates(model), {"top": [], "all": []}
    ranked = [contexts(gates, batch) for batch in rank]
    for number, batch in enumerate(evaluate):
        if ablation == "mean":
            together = {row: torch.cat([each[row] for each in ranked]) for row in range(2)}
            vectors = {row: each.mean((0, 1))[None, None] for row, each in together.items()}
        else:
            donors = ranked[number % len(ranked)]
            vectors = {
                row: donors[row][torch.arange(len(batch["labels"])) % len(donors[row])] for row in range(2)
            }
        for order, heads in (("top", top), ("all", gates.exists)):
            losses[order].append(replaced(gates, batch, vectors, heads))
    for order, each in losses.items():
        assert value(curve, order) == pytest.approx(np.concatenate(each).mean(), rel=1e-6)
    zero = headspec.head_curve(model, data, fractions=[0.5], draws=5, seed=seed)
    assert value(zero, "none") == pytest.approx(value(curve, "none"), rel=1e-6)
    assert value(zero, "all") != pytest.approx(value(curve, "all"), rel=1e-4)


def test_another_example_with_the_same_text_has_the_same_vectors():
    model = any_model.model("roberta").eval()
    ids = torch.arange(3, 10).expand(6, 7)
    given = [{"input_ids": ids, "labels": torch.tensor([0, 1, 2, 0, 1, 2])}]
    curve = headspec.head_curve(model, given, scores=SCORES, fractions=[0.5], draws=5, ablation="resample")
    assert curve["value"].to_numpy() == pytest.approx(np.full(5, value(curve, "none")), rel=1e-6)
    assert curve["faithfulness"].isna().all()


def test_an_ablation_that_does_not_exist_is_refused():
    model, given = any_model.model("roberta"), any_model.batches("roberta")
    with pytest.raises(ValueError, match=r"^ablation: got 'means', expected one of zero, mean, resample\."):
        headspec.head_curve(model, given, scores=SCORES, ablation="means")
