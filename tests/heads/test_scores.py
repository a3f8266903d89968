"""Scores of heads of any model, against plain loops over examples and heads with hooks at W_O."""

import numpy as np
import pytest
import torch

import headspec
from headspec.heads.gradients import STEPS
from headspec.models.architectures import caches
from support.contexts import at_outputs, replaced, seen
from support.model_types import any_model
from support.model_types.any_model import KINDS
from support.tiers import cases


def examples(kind: str) -> list[dict[str, torch.Tensor]]:
    whole = KINDS[kind].batch()
    return [{name: value[i : i + 1] for name, value in whole.items()} for i in range(3)]


def corrupted(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same with other tokens, pixels or sounds."""
    name = next(iter(batch))
    value = batch[name].flip(-1) if batch[name].is_floating_point() else (batch[name] + 5) % 30 + 3
    return {**batch, name: value}


def real(batch: dict[str, torch.Tensor], gates, row: int, tokens: int) -> torch.Tensor:
    """Places that are no padding; no targets of these kinds are padded."""
    if gates.kind(row) in ("decoder", "cross") or "attention_mask" not in batch:
        return torch.arange(tokens)
    return batch["attention_mask"][0].nonzero()[:, 0]


class Loops:
    """Every score of an example as a loop, (layers, heads)."""

    def __init__(self, kind: str) -> None:
        self.kind, self.model = kind, any_model.model(kind).eval().requires_grad_(False)
        self.gates = headspec.HeadGates(self.model)
        self.examples = examples(kind)

    def heads(self, by_row):
        """Call `by_row` with every row and head."""
        found = np.full(self.gates.exists.shape, np.nan)
        for row, head in np.argwhere(self.gates.exists).tolist():
            found[row, head] = float(by_row(row, head))
        return found

    def contexts(self, batch):
        with torch.no_grad(), seen(self.gates) as contexts:
            self.model(**batch)
        return dict(contexts)

    def derivatives(self, batch):
        """Context vectors and the derivatives of the loss, (tokens, heads, size) of each row."""
        contexts, zeros = {}, {}

        def shifted(row, context):
            if row not in zeros:
                zeros[row] = torch.zeros_like(context, requires_grad=True)
                contexts[row] = context.detach()
            return context + zeros[row]

        with torch.enable_grad(), at_outputs(self.gates, shifted):
            loss = self.model(**batch).loss
        rows = sorted(zeros)
        gradients = torch.autograd.grad(loss, [zeros[row] for row in rows])
        return {row: (contexts[row][0], gradient[0]) for row, gradient in zip(rows, gradients, strict=True)}

    def rises(self, i, vectors):
        """Rise of the loss with `vectors`, of a row and head, (tokens or 1, size), at W_O."""
        batch = self.examples[i]
        with torch.no_grad():
            whole = self.model(**batch).loss

            def rise(row, head):
                with replaced(self.gates, row, head, vectors(row, head)):
                    return self.model(**batch).loss - whole

            return self.heads(rise)

    def gradient(self, i):
        found = self.derivatives(self.examples[i])
        return self.heads(lambda row, head: abs((found[row][0] * found[row][1])[:, head].sum()))

    def signed(self, i):
        found = self.derivatives(self.examples[i])
        return self.heads(lambda row, head: -(found[row][0] * found[row][1])[:, head].sum())

    def tokens(self, i):
        found = self.derivatives(self.examples[i])
        return self.heads(lambda row, head: (found[row][0] * found[row][1])[:, head].sum(-1).abs().sum())

    def integrated(self, i):
        total = 0.0
        for step in range(STEPS):
            xi = torch.full(self.gates.exists.shape, (step + 0.5) / STEPS, requires_grad=True)

            def scaled(row, context, xi=xi):
                return context * xi[row, : context.shape[2], None]

            with torch.enable_grad(), at_outputs(self.gates, scaled):
                loss = self.model(**self.examples[i]).loss
            total = total - torch.autograd.grad(loss, xi)[0] / STEPS
        return self.heads(lambda row, head: total[row, head])

    def attribution(self, i):
        batch = self.examples[i]
        found, others = self.derivatives(batch), self.contexts(corrupted(batch))
        return self.heads(lambda row, head: ((others[row][0] - found[row][0]) * found[row][1])[:, head].sum())

    def ablation(self, i):
        return self.rises(i, lambda row, head: torch.zeros(1, self.gates.site(row).size))

    def mean_ablation(self, i):
        others = [self.examples[j] for j in range(3) if j % 2 != i % 2]
        contexts = [self.contexts(batch) for batch in others]

        def mean(row, head):
            parts = [
                found[row][0, real(batch, self.gates, row, found[row].shape[1]), head]
                for batch, found in zip(others, contexts, strict=True)
            ]
            return torch.cat(parts).mean(0, keepdim=True)

        return self.rises(i, mean)

    def resample_ablation(self, i):
        """The first batch gets the last example, which gets the first one; decoders align ends."""
        donor, own = self.examples[0 if i == 2 else 2], self.examples[i]
        contexts, own_contexts = self.contexts(donor), self.contexts(own)

        def of_other(row, head):
            n = own_contexts[row].shape[1]
            mine, theirs = (
                real(batch, self.gates, row, found.shape[1])
                for batch, found in ((own, contexts[row][:, :n]), (donor, contexts[row]))
            )
            at_end = caches(self.model.config.to_dict())
            vectors = own_contexts[row][0, :, head].clone()  # padding keeps its own
            for rank, place in enumerate(mine.tolist()):
                from_end = len(theirs) - 1 - (len(mine) - 1 - rank) % len(theirs)
                vectors[place] = contexts[row][0, theirs[from_end if at_end else rank % len(theirs)], head]
            return vectors

        return self.rises(i, of_other)

    def patched(self, i):
        contexts = self.contexts(corrupted(self.examples[i]))
        return self.rises(i, lambda row, head: contexts[row][0, :, head])


@pytest.fixture(scope="module", params=cases(KINDS, {"roberta", "pythia", "t5", "vit"}.__contains__))
def loops(request) -> Loops:
    return Loops(request.param)


@pytest.mark.parametrize(
    "score",
    ["gradient", "signed", "tokens", "integrated", "attribution", "ablation", "mean_ablation",
     "resample_ablation", "patched"],
)  # fmt: skip
def test_every_score_is_a_loop_over_examples(loops, score):
    batches = any_model.batches(loops.kind)
    given = {"corrupted": map(corrupted, batches)} if score in ("attribution", "patched") else {}
    given["score"] = "resample_ablation" if score == "patched" else score
    expected = np.stack([getattr(loops, score)(i) for i in range(3)])
    found = headspec.head_importance(any_model.model(loops.kind), batches, **given)
    size = np.nanmax(np.abs(expected))
    rounded = 3e-6 if score.endswith("ion") or score == "patched" else 0  # differences of losses
    close = {"rtol": 3e-3, "atol": max(1e-4 * size, rounded)}
    np.testing.assert_allclose(found, expected.mean(0), **close)
    if given.get("corrupted"):
        given["corrupted"] = map(corrupted, batches)
    single = headspec.head_importance(any_model.model(loops.kind), batches, per_example=True, **given)
    np.testing.assert_allclose(np.abs(single) if score == "gradient" else single, expected, **close)
    assert size > 10 * close["atol"]
