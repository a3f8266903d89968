"""A small treebank of artificial sentences, whose tags and trees follow from their words."""

import json
from pathlib import Path

import numpy as np

from support.running.studies import FILLER, TONE, TOPIC, sentence

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


def sentences(n: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    tone, topic = (sum(kinds.values(), []) for kinds in (TONE, TOPIC))
    return [sentence(rng, rng.choice(tone), rng.choice(topic)).split() for _ in range(n)]


def conllu(path: Path, found: list[list[str]]) -> None:
    """Write sentences with their tags and trees."""
    blocks = []
    for number, words in enumerate(found):
        heads, relations = tree(words)
        lines = [f"# sent_id = {path.stem}-{number}"]
        for i, (word, head, relation) in enumerate(zip(words, heads, relations, strict=True), 1):
            fields = [i, word, word, TAGS[word], TAGS[word], "_", head, relation, "_", "_"]
            lines.append("\t".join(map(str, fields)))
        blocks.append("\n".join(lines))
    path.write_text("\n\n".join(blocks) + "\n\n")


def annotated(path: Path, found: list[list[str]]) -> None:
    """Write sentences with names, constituents and roles: nouns, what follows a noun, and its neighbours."""
    rows = []
    for words in found:
        noun = next(i for i, word in enumerate(words) if TAGS[word] == "NOUN")
        leaves = [f"({TAGS[word]} {word})" for word in words]
        roles = ["O"] * len(words)
        roles[noun] = "B-V"
        for i, role in ((noun - 1, "B-ARG0"), (noun + 1, "B-ARG1")):
            if 0 <= i < len(words):
                roles[i] = role
        before, after = " ".join(leaves[:noun]), " ".join(leaves[noun:])
        rows.append(
            {
                "words": words,
                "names": [{"start": noun, "end": noun + 1, "type": "place"}],
                "tree": f"(ROOT (S {f'(NP {before})' if before else ''} (VP {after})))",
                "predicate": [noun],
                "roles": [roles],
            }
        )
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")


def write(folder: Path, train: int = 150, validation: int = 60) -> None:
    """Write `trees/` in CoNLL-U and `annotated/` in JSON lines, with the same sentences."""
    for name in ("trees", "annotated"):
        (folder / name).mkdir(parents=True)
    for split, n, seed in (("train", train, 0), ("validation", validation, 1)):
        found = sentences(n, seed)
        conllu(folder / "trees" / f"{split}.conllu", found)
        annotated(folder / "annotated" / f"{split}.jsonl", found)
