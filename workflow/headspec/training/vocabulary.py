"""Training on the part of the vocabulary that occurs in the examples."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from headspec.models.adapters import adapters
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask


def can_be_compact(model: MultiTask) -> bool:
    """Return whether training leaves the embeddings of words that occur in no example unchanged.

    It does not in models that predict words; and adapters belong to embeddings as they are.
    """
    predicts = any(head.whole_vocabulary for head in model.task_heads)
    return not (predicts or model.encoder.config.is_encoder_decoder or adapters(model.encoder))


@contextmanager
def compact_vocabulary(model: MultiTask, examples: dict[str, Examples]) -> Iterator[dict[str, Examples]]:
    """Reduce the word embedding to the rows that `examples` use; yield the examples, renumbered.

    This is exact without weight decay: AdamW does not change rows without gradients. The first rows, of
    special tokens, keep their numbers. On exit the trained rows are copied back into the full embedding.
    """
    full = model.encoder.get_input_embeddings()
    used = np.unique(np.concatenate([np.arange(8), *(e.vocabulary() for e in examples.values())]))
    rows = torch.from_numpy(used).to(full.weight.device)
    padding = full.padding_idx if full.padding_idx is not None and full.padding_idx < 8 else None
    small = torch.nn.Embedding.from_pretrained(full.weight.data[rows], freeze=False, padding_idx=padding)
    model.encoder.set_input_embeddings(small)
    try:
        yield {task: e.renumbered(used) for task, e in examples.items()}
    finally:
        full.weight.data[rows] = small.weight.data
        model.encoder.set_input_embeddings(full)
