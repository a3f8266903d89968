"""What the functions of an installed headspec do without the packages of studies.

`python -m support.running.release_functions`, which `.ci/release-check` runs outside of the clone.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, BertConfig

import headspec


def main() -> None:
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=16
    )
    model = AutoModelForSequenceClassification.from_config(config)
    ids, labels = torch.randint(5, 50, (20, 6)), torch.arange(20) % 2
    batches = [{"input_ids": ids[i : i + 5], "labels": labels[i : i + 5]} for i in range(0, 20, 5)]
    scores = headspec.head_importance(model, batches)
    headspec.plot_curve(headspec.head_curve(model, batches, draws=5, fractions=(0.3,)))
    headspec.heat_map(scores)
    smaller = headspec.remove_heads(model.eval(), headspec.top_heads(-scores, 0.5))
    headspec.save(smaller, "smaller")
    assert torch.equal(headspec.load("smaller")(ids).logits, smaller(ids).logits)
    columns = ["pruned_for", "task", "right"]
    rights = [90, 80, 60, 78, 88, 55]
    rows = [(source, task) for source in ("none", "a", "b") for task in ("a", "b")]
    matrix = pd.DataFrame([(*row, right) for row, right in zip(rows, rights, strict=True)], columns=columns)
    assert len(headspec.dissociate(matrix.assign(n=100))) == 3
    if not find_spec("snakemake"):
        command = [str(Path(sys.executable).with_name("headspec")), "plan", "study.yaml"]
        told = subprocess.run(command, capture_output=True, text=True)
        assert told.returncode == 1 and "pip install 'headspec[study]'" in told.stderr, told.stderr
        assert len(told.stderr.splitlines()) == 1, told.stderr
    print(f"functions work with torch {torch.__version__}, pandas {pd.__version__}")


if __name__ == "__main__":
    main()
