"""What an installed headspec does outside of its clone: `python -m support.running.release <folder>`.

It plans a study, and scores and removes heads of a model; `.ci/release-check` runs it on several Pythons.
"""

import subprocess
import sys
from pathlib import Path

import torch
import yaml
from transformers import AutoModelForSequenceClassification, BertConfig

import headspec
from headspec import __version__
from support.paths import ROOT
from support.running.studies import CONFIG, local_model, texts


def main(folder: Path) -> None:
    assert not Path(headspec.__file__).is_relative_to(ROOT), f"of the clone: {headspec.__file__}"
    command = str(Path(sys.executable).with_name("headspec"))
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert told == f"headspec {__version__}\n", told
    local_model(folder / "models" / "tiny-bert")
    texts(folder / "texts")
    (folder / "study.yaml").write_text(yaml.safe_dump(CONFIG))
    plan = [command, "plan", "study.yaml", "--rate", "1e9"]
    assert "\ntrain " in subprocess.run(plan, cwd=folder, capture_output=True, text=True, check=True).stdout
    model = AutoModelForSequenceClassification.from_config(
        BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16
        )
    )
    ids = torch.randint(5, 50, (4, 6))
    scores = headspec.head_importance(model, [{"input_ids": ids, "labels": torch.tensor([0, 1, 0, 1])}])
    smaller = headspec.remove_heads(model, headspec.top_heads(-scores, 0.5))
    assert smaller(ids).logits.shape == (4, 2)
    print(f"headspec {__version__} works on Python {sys.version.split()[0]}, torch {torch.__version__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
