"""Continuations of a text, in one row after the text, which is therefore read once.

Each attends to the text and to itself, at the positions that it would have alone. An example with several
continuations is still one row of a batch, with the gates, states and attention of one row.
"""

from collections.abc import Sequence

import torch

#: target where a continuation has no more tokens, and branch of padding
NONE = -1


def in_a_row(text: Sequence[int], continuations: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the tokens that a model reads to score continuations, and their branches.

    Tokens are those of the text, then of every continuation, whose last token predicts nothing. Branches are
    0 for tokens of the text and i for tokens of the i-th continuation, from 1.
    """
    ids, branches = list(text), [0] * len(text)
    for branch, tokens in enumerate(continuations, 1):
        ids += tokens[:-1]
        branches += [branch] * (len(tokens) - 1)
    return ids, branches


def attention(branches: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return arguments of an encoder by which continuations in a row do not see each other.

    `branches` are (batch, tokens), as from `in_a_row`, and `NONE` for padding. The attention_mask, (batch, 1,
    tokens, tokens), is added to the logits of attention; position_ids are (batch, tokens).
    """
    n = branches.shape[1]
    before = torch.ones(n, n, dtype=torch.bool, device=branches.device).tril()
    text = branches[:, None] == 0
    attended = before & (text | (branches[:, None] == branches[..., None]))  # (batch, tokens, tokens)
    mask = torch.zeros(attended.shape, dtype=dtype, device=branches.device)
    mask = mask.masked_fill(~attended, torch.finfo(dtype).min)
    return {"attention_mask": mask[:, None], "position_ids": attended.sum(-1) - 1}
