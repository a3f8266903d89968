"""A small treebank of artificial sentences, whose tags and trees follow from their words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.studies import FILLER, TONE, TOPIC, sentence

TAGS = {word: "ADJ" for words in TONE.values() for word in words}
TAGS |= {word: "NOUN" for words in TOPIC.values() for word in words}
TAGS |= {"the": "DET", "one": "DET", "our": "DET", "saw": "VERB", "was": "VERB", "near": "ADP"}
TAGS |= {word: "X" for word in FILLER if word not in TAGS}


def tree(words: list[str]) -> tuple[list[int], list[str]]:
    """Heads from 1, 0 for the root, and relations: the first noun is the root, adjectives belong to it, and
    other words to the word before them."""
    root = next(i for i, word in enumerate(words) if TAGS[word] == "NOUN")
    heads, relations = [], []
    for i, word in enumerate(words):
        if i == root:
            heads.append(0)
        else:
            heads.append(root + 1 if TAGS[word] == "ADJ" or i == 0 else i)
        relations.append("root" if i == root else {"ADJ": "amod", "DET": "det"}.get(TAGS[word], "dep"))
    return heads, relations


def conllu(path: Path, n: int, seed: int = 0) -> None:
    """Write `n` sentences."""
    rng = np.random.default_rng(seed)
    blocks = []
    for number in range(n):
        tone, topic = (rng.choice(sum(kinds.values(), [])) for kinds in (TONE, TOPIC))
        words = sentence(rng, tone, topic).split()
        heads, relations = tree(words)
        lines = [f"# sent_id = s{seed}-{number}"]
        for i, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True), 1):
            fields = [i, word, word, TAGS[word], TAGS[word], "_", head, relation, "_", "_"]
            lines.append("\t".join(map(str, fields)))
        blocks.append("\n".join(lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(blocks) + "\n\n")


def write(folder: Path, train: int = 150, validation: int = 60) -> Path:
    """Write train.conllu and validation.conllu."""
    conllu(folder / "train.conllu", train)
    conllu(folder / "validation.conllu", validation, seed=1)
    return folder
