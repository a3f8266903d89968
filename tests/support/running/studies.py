"""A tiny study in a temporary folder: artificial texts, a tiny random BERT, a copy of the workflow."""

from __future__ import annotations

import compileall
import copy
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from headspec.config.loading import load
from headspec.config.study import Study
from headspec.pipeline import trust
from headspec.provenance import files, hashes
from support import shared
from support.paths import ROOT
from support.running import warm

LAYERS, HEADS = 2, 4
TOKEN = "hf_TheTokenOfThisRun123"
TONE = {"good": ["lovely", "bright", "merry"], "bad": ["awful", "gloomy", "bitter"]}
TOPIC = {
    "sea": ["boat", "wave", "shell"],
    "wood": ["tree", "moss", "deer"],
    "town": ["street", "shop", "tram"],
}
FILLER = ["the", "one", "saw", "near", "our", "old", "house", "was", "very", "day"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = SPECIAL + sum([*TONE.values(), *TOPIC.values()], []) + FILLER

CONFIG: dict[str, Any] = {
    "study": "tiny",
    "seeds": [0, 1],
    "models": {"bert": {"source": "models/tiny-bert", "max_length": 16}},
    "tasks": {
        "tone": {"source": "texts/tone", "text_a": "sentence"},
        "topic": {"source": "texts/topic.tsv", "labels": ["sea", "wood", "town"], "validation_examples": 50},
        "match": {"source": "texts/match.jsonl", "text_a": "left", "text_b": "right"},
    },
    "mixtures": {"pairs": ["tone", "topic"], "single": ["match"]},
    "methods": ["tuned", "frozen"],
    "training": {"epochs": 4, "batch_size": 16, "learning_rate": "3e-3", "frozen": {"epochs": 3}},
    "importance": {"samples": 60},
    "pruning": {"fraction": 0.3, "fractions": [0.25, 0.5], "draws": 4},
    "dissociation": {"resamples": 200},
    "figures": {"dpi": 60},
}
#: the same with one seed and one file of each figure
SMALL: dict[str, Any] = CONFIG | {"seeds": [0], "figures": {"dpi": 60, "formats": ["png"]}}


def study(**sections: Any) -> Study:
    """The tiny study with some other sections."""
    return load(CONFIG | sections)


def prompted(model: dict[str, Any], **task: Any) -> Study:
    """A study of two equal tasks with which a model is prompted."""
    asked = CONFIG["tasks"]["tone"] | {"prompt": "{text_a}:", "answers": {"good": " a", "bad": " b"}} | task
    asked = {key: value for key, value in asked.items() if value is not ...}
    tasks, models = {"tone": asked, "other": asked}, {"llama": {"source": "llama"} | model}
    return study(models=models, tasks=tasks, mixtures={"pairs": [*tasks]}, methods=["prompted"])


def changed(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A config with other values of some dotted keys, or without them (`...`)."""
    config = copy.deepcopy(config)
    for key, value in changes.items():
        *path, last = key.split(".")
        section = config
        for part in path:
            section = section.setdefault(part, {})
        if value is ...:
            del section[last]
        else:
            section[last] = value
    return config


def sentence(rng: np.random.Generator, *words: str) -> str:
    """Filler around `words`, in random order."""
    return " ".join(rng.permutation([*words, *rng.choice(FILLER, rng.integers(3, 7), replace=False)]))


def texts(folder: Path, n: int = 200) -> None:
    """Write three tasks whose labels depend on words: a Parquet table per split, TSV and JSON lines."""
    rng = np.random.default_rng(0)
    (folder / "tone").mkdir(parents=True)
    for split, size in {"train": n, "validation": 60}.items():
        labels = rng.choice(list(TONE), size)
        rows = [(sentence(rng, rng.choice(TONE[label])), label) for label in labels]
        frame = pd.DataFrame(rows, columns=["sentence", "label"])
        frame.to_parquet(folder / "tone" / f"{split}.parquet")
    labels = rng.choice(list(TOPIC), n + 50)
    rows = [(sentence(rng, rng.choice(TOPIC[label])), label) for label in labels]
    pd.DataFrame(rows, columns=["text", "label"]).to_csv(folder / "topic.tsv", sep="\t", index=False)
    with open(folder / "match.jsonl", "w") as file:
        for _ in range(n):
            left, right = rng.choice(list(TOPIC), 2, p=[0.5, 0.5, 0])
            pair = {
                side: sentence(rng, rng.choice(TOPIC[t])) for side, t in (("left", left), ("right", right))
            }
            file.write(json.dumps(pair | {"label": "same" if left == right else "other"}) + "\n")


def tokenizer() -> PreTrainedTokenizerFast:
    """BERT's tokenizer for the words of `texts`."""
    word_pieces = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    word_pieces.normalizer = normalizers.BertNormalizer()
    word_pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    word_pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=word_pieces,
        pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def bert(**settings: Any) -> BertModel:
    """A random BERT of 2 layers x 4 heads, with larger weights than usual, so that heads matter."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    sizes |= {"vocab_size": len(WORDS), "intermediate_size": 48, "max_position_embeddings": 32}
    model = BertModel(BertConfig(**(sizes | settings)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4)
    return model


def local_model(folder: Path, **settings: Any) -> Path:
    """Write a folder with `bert` and `tokenizer`, as a user would have it."""
    bert(**settings).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Plan:
    """The output of a dry run: the number of jobs of each rule, and the message of each job."""

    rules: dict[str, int]
    messages: list[str]

    @classmethod
    def read(cls, output: str) -> Plan:
        if "Nothing to be done" in output:
            return cls({}, [])
        rows = re.findall(r"^(\w+) +(\d+)$", output.split("Job stats:")[1].split("\n\n")[0], re.MULTILINE)
        rules = {rule: int(count) for rule, count in rows if rule not in ("all", "total")}
        return cls(rules, re.findall(r"^Job \d+: (.+)$", output, re.MULTILINE))


def keep_hashes_of_code(original: Path, made: Path) -> None:
    """Let a copy know the hashes of its code, which take a second, from its original."""
    cache = made / hashes.FOLDER / "code.json"
    if not cache.exists():
        return
    stored = json.loads(cache.read_text())
    known = {name: entry for name, entry in stored["entries"].items() if hashes.stat_key(name) == entry[0]}
    known = json.loads(json.dumps(known).replace(f'"{original}/', f'"{made}/'))
    entries = {name: [hashes.stat_key(name), *rest] for name, (_, *rest) in known.items()}
    cache.write_text(json.dumps(stored | {"entries": entries, "sha256": files.PLACEHOLDER}))
    files.embed_sha256(cache)


@dataclass(frozen=True)
class Folder:
    """A folder to run `snakemake` in: a copy of the workflow, a config, texts and a model."""

    path: Path

    @classmethod
    def new(cls, path: Path) -> Folder:
        return template().copy(path)

    def copy(self, path: Path, *without: str) -> Folder:
        """A copy at `path` that keeps times and leaves out the top-level names `without`."""
        shutil.copytree(self.path, path, ignore=lambda at, _: without if Path(at) == self.path else ())
        keep_hashes_of_code(self.path, path)
        for config in path.glob("results/*/config.yaml"):
            trust.adopt(config)
        return Folder(path)

    def write(self, config: dict[str, Any], name: str = "config.yaml") -> None:
        (self.path / name).write_text(yaml.safe_dump(config, sort_keys=False))

    @property
    def config(self) -> dict[str, Any]:
        return yaml.safe_load((self.path / "config.yaml").read_text())

    def set(self, key: str, value: Any) -> None:
        """Set the dotted `key` of the config."""
        self.write(changed(self.config, {key: value}))

    def replace(self, name: str, old: str, new: str) -> None:
        """Edit a file; `old` must be there."""
        text = (self.path / name).read_text()
        assert old in text, f"{name} has no {old!r}"
        (self.path / name).write_text(text.replace(old, new, 1))

    @property
    def results(self) -> Path:
        return self.path / "results" / "tiny"

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `snakemake` in a new session, with all output in one pipe.

        With variables that a package reads as it is imported, all its processes start anew. With a folder
        CALLED, which is not passed on, they note the functions that they call.
        """
        passed_on = {
            "CUDA_VISIBLE_DEVICES",
            "FAULT",
            "HEADSPEC_STORE",
            "HF_TOKEN",
            "PATH",
            "PYTHONPATH",
        }
        python = warm.python() if set(environment) <= passed_on else sys.executable
        command = [python, "-m", "snakemake", "--cores", "1", *arguments]
        inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CUDA_VISIBLE_DEVICES")}
        return subprocess.Popen(
            command, cwd=self.path, env=inherited | {"CUDA_VISIBLE_DEVICES": ""} | environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def snakemake(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        """The output of `snakemake`, which must succeed, or fail if `fails`."""
        process = self.start(*arguments, **environment)
        output, _ = process.communicate()
        assert bool(process.returncode) == fails, output
        return output

    def plan(self, *arguments: str, **environment: str) -> Plan:
        """The jobs that would run, from a dry run."""
        return Plan.read(self.snakemake(*arguments, "--dry-run", "--quiet", "host", **environment))


@functools.cache
def template() -> Folder:
    """What new studies are copies of, with the hashes of its code."""
    return Folder(shared.folder("template", fill_template))


def fill_template(path: Path) -> None:
    for name in ("workflow", "profiles", "envs"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", path)
    compileall.compile_dir(path / "workflow", quiet=1)
    texts(path / "texts")
    local_model(path / "models" / "tiny-bert")
    folder = Folder(path)
    folder.write(CONFIG)
    folder.plan()
    cache = path / hashes.FOLDER / "code.json"
    known = cache.read_bytes()
    shutil.rmtree(path / ".snakemake")
    cache.parent.mkdir(parents=True)
    cache.write_bytes(known)
