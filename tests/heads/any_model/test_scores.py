"""Scores of heads of any model, against plain loops over examples and heads with hooks at W_O."""

import itertools

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForMultipleChoice, AutoTokenizer

import headspec
from headspec.heads.importance import STEPS
from headspec.models.architectures import caches
from support.model_types import any_model, every_type
from support.model_types.any_model import KINDS
from support.models import qwen
from support.reference.contexts import at_outputs, replaced, seen
from support.tiers import cases


def examples(kind: str) -> list[dict[str, torch.Tensor]]:
    whole = KINDS[kind].batch()
    return [{name: value[i : i + 1] for name, value in whole.items()} for i in range(3)]


def corrupted(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same inputs with other tokens, pixels or audio."""
    name = next(iter(batch))
    value = batch[name].flip(-1) if batch[name].is_floating_point() else (batch[name] + 5) % 30 + 3
    return {**batch, name: value}


def real(batch: dict[str, torch.Tensor], gates, row: int, tokens: int) -> torch.Tensor:
    """Positions that are not padding; targets of these kinds are never padded."""
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
            mine, theirs = (
                real(batch, self.gates, row, found[row].shape[1])
                for batch, found in ((own, own_contexts), (donor, contexts))
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


@pytest.fixture(scope="module")
def loops(request) -> Loops:
    return Loops(request.param)


SCORED = ["gradient", "signed", "tokens", "integrated", "attribution", "ablation", "mean_ablation",
          "resample_ablation", "patched"]  # fmt: skip
#: one kind with every score, and kinds of other inputs with a score by gradients and one by ablation
QUICK = {("roberta", score) for score in SCORED} | {
    (kind, score) for kind in ("pythia", "t5", "vit") for score in ("attribution", "resample_ablation")
}


@pytest.mark.parametrize(
    ("loops", "score"), cases(itertools.product(KINDS, SCORED), QUICK.__contains__), indirect=["loops"]
)
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


def test_choices_of_an_example_are_replaced_together():
    model = AutoModelForMultipleChoice.from_config(every_type.config("roberta")).eval()
    batch = {"input_ids": any_model.ids(6).view(2, 3, 7), "labels": torch.tensor([2, 0])}
    one, other = ({name: value[[i]] for name, value in batch.items()} for i in (0, 1))

    def scored(score, *batches, **given):
        return headspec.head_importance(model, batches, score=score, per_example=True, **given)

    swapped = scored("resample_ablation", one, corrupted=[other])
    np.testing.assert_allclose(scored("resample_ablation", batch)[:1], swapped, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(scored("resample_ablation", one, other)[:1], swapped, rtol=1e-3, atol=1e-6)
    together, apart = scored("mean_ablation", batch), scored("mean_ablation", one, other)
    np.testing.assert_allclose(together, apart, rtol=1e-3, atol=1e-6)
    assert np.abs(apart).min() > 0


def test_padding_may_be_at_either_end():
    """Decoders are batched with padding before texts as well as after them."""
    model, batch = any_model.model("pythia").eval(), any_model.continued()
    batch["labels"][:, 0] = -100
    lengths = batch["attention_mask"].sum(1)
    left = {name: torch.stack([value[i].roll(7 - int(n)) for i, n in enumerate(lengths)])
            for name, value in batch.items()}  # fmt: skip
    left["position_ids"] = (left["attention_mask"].cumsum(1) - 1).clamp(min=0)
    for score in ("mean_ablation", "resample_ablation"):
        found, expected = (
            headspec.head_importance(model, [each], score=score, per_example=True) for each in (left, batch)
        )
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=1e-5)


def of_inputs(outputs, batch) -> torch.Tensor:
    """Negative log-likelihood of each target's own token: a mean over those that are real, without labels."""
    mask, ids = batch["decoder_attention_mask"], batch["decoder_input_ids"]
    found = outputs.logits.log_softmax(-1).gather(2, ids[..., None])[..., 0]
    return -(found * mask).sum(1) / mask.sum(1)


@pytest.mark.parametrize("said", ["by labels", "by a mask"])
@pytest.mark.parametrize("score", ["tokens", "mean_ablation", "resample_ablation"])
def test_padding_of_targets_counts_nowhere(score, said):
    """Targets of encoder-decoders are padded as labels are, or as a mask says."""
    model = any_model.model("t5").eval()
    ids = any_model.ids(6)
    batch = {"input_ids": ids[:2], "labels": ids[2:4].clone()}
    batch["labels"][0, 4:] = -100
    apart = [{"input_ids": ids[[i]], "labels": ids[[i + 2]][:, : (4, 7)[i]]} for i in (0, 1)]
    if said == "by a mask":
        for each in (batch, *apart):
            labels = each.pop("labels")
            each["decoder_attention_mask"] = (labels != -100).long()
            each["decoder_input_ids"] = labels.clamp(min=0)
    loss = of_inputs if said == "by a mask" else None
    found, expected = (
        headspec.head_importance(model, batches, score=score, per_example=True, loss=loss)
        for batches in ([batch], apart)
    )
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=1e-5)
    assert np.abs(expected).max() > 1e-3


def test_tokens_by_layer_is_the_code_released_with_michel_et_al():
    """`calculate_head_importance` in `classifier_eval.py` of github.com/pmichel31415/pytorch-pretrained-BERT.

    It sums |ctx . dL/dctx| of every head and token, divides by a number for each layer, which its norm by
    layer takes back, and by this norm.
    """
    model = any_model.model("roberta").eval()
    (batch,) = [{name: value[:2] for name, value in KINDS["roberta"].batch().items()}]
    others = {**batch, "input_ids": batch["input_ids"].flip(1), "labels": batch["labels"].flip(0)}
    importance = torch.zeros(2, 4)
    for each in (batch, others):
        contexts, hooks = [], []
        for layer in model.roberta.encoder.layer:

            def note(_, args, contexts=contexts):
                contexts.append(args[0])
                args[0].retain_grad()

            hooks.append(layer.attention.output.dense.register_forward_pre_hook(note))
        model(**each).loss.backward()
        for hook in hooks:
            hook.remove()
        for layer, context in enumerate(contexts):
            ctx, grad = (x.unflatten(-1, (4, 8)).transpose(1, 2) for x in (context, context.grad))
            importance[layer] += torch.einsum("bhli,bhli->bhl", grad, ctx).abs().sum(-1).sum(0).detach()
    importance /= importance.square().sum(-1, keepdim=True).sqrt()
    found = headspec.head_importance(model, [batch, others], score="tokens", normalize="layer")
    np.testing.assert_allclose(found, importance, rtol=1e-4)


def test_a_layer_without_a_score_is_not_divided_by_it():
    model, batches = any_model.model("ragged"), any_model.batches("ragged")
    scores, divided = (headspec.head_importance(model, batches, normalize=by) for by in (None, "layer"))
    np.testing.assert_array_equal(np.isnan(divided), np.isnan(scores))
    np.testing.assert_allclose(np.square(divided).sum(1)[~np.isnan(scores).any(1)], 1)
    signed = headspec.head_importance(model, batches, score="signed", normalize="layer")
    assert (signed[~np.isnan(signed)] < 0).any()
    nothing = headspec.head_importance(
        model, batches, lambda outputs, batch: 0 * outputs.logits.sum((1, 2)), normalize="layer"
    )
    assert (nothing[~np.isnan(scores)] == 0).all()


def test_prompts_have_corrupted_ones(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt_neox"}')
    qwen(tmp_path)
    words = AutoTokenizer.from_pretrained(tmp_path)
    model = any_model.model("pythia", vocab_size=len(words))
    prompts, others, answers = ["one two three", "two one"], ["one three two", "two one"], [" two", " three"]
    given = {"tokenizer": words, "answers": answers, "score": "resample_ablation", "per_example": True}
    found = headspec.head_importance(model, prompts=prompts, corrupted=others, **given)
    same = headspec.head_importance(model, prompts=prompts, corrupted=prompts, **given)
    assert np.abs(same).max() < 1e-5 < np.abs(found).max()
    with pytest.raises(ValueError, match="^corrupted: input_ids of batch 0 is .*, expected .* same padding"):
        headspec.head_importance(model, prompts=prompts, corrupted=["one two three two", "two one"], **given)
    with pytest.raises(ValueError, match="^answers: got 2, expected 1, one for each of prompts"):
        headspec.head_importance(model, prompts=prompts, corrupted=["one"], **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"score": "gradients"},
            "score: got 'gradients', expected one of gradient, .* Did you mean 'gradient'",
        ),
        ({"score": "attribution"}, "corrupted: missing; score 'attribution' compares batches with corrupted"),
        (
            {"corrupted": []},
            "corrupted: score 'gradient' does not use it; expected attribution, resample_abl",
        ),
        ({"score": "attribution", "corrupted": []}, "corrupted: got fewer batches than `batches`"),
        ({"normalize": "l2"}, "normalize: got 'l2', expected 'layer' or None"),
        ({"normalize": "layer", "per_example": True}, "normalize: got 'layer' for single examples"),
    ],
    ids=str,
)
def test_scores_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        headspec.head_importance(any_model.model("roberta"), any_model.batches("roberta"), **given)


def test_scores_that_replace_heads_show_how_many_are_done(monkeypatch):
    shown = []
    monkeypatch.setattr(
        transformers.utils.logging,
        "tqdm",
        lambda items, desc, total, **_: shown.append((desc, total)) or items,
    )
    headspec.head_importance(any_model.model("roberta"), any_model.batches("roberta"), score="ablation")
    assert shown == [("batches", None), ("heads", 8), ("heads", 8)]


def test_scores_that_compare_examples_need_two():
    one = any_model.batches("roberta")[1:]
    for score in ("mean_ablation", "resample_ablation"):
        with pytest.raises(ValueError, match="^batches: got one example; score '.*' compares examples$"):
            headspec.head_importance(any_model.model("roberta"), one, score=score)


def test_a_model_whose_passes_cannot_start_at_a_layer_is_run_as_a_whole(monkeypatch):
    model, batches = any_model.model("roberta"), any_model.batches("roberta")
    expected = headspec.head_importance(model, batches, score="ablation")
    usual, calls = model.roberta.forward, itertools.count()

    def forward(*args, **given):
        """Code that calls other modules in every pass."""
        for _ in range(next(calls)):
            model.roberta.embeddings.dropout(torch.ones(1))
        return usual(*args, **given)

    monkeypatch.setattr(model.roberta, "forward", forward)
    found = headspec.head_importance(model, batches, score="ablation")
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
