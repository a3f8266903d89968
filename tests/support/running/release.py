"""What an installed headspec does outside of its clone: `python -m support.running.release <folder>`.

It plans a study and runs the functions for notebooks; `.ci/release-check` runs it on several Pythons.
"""

import subprocess
import sys
from pathlib import Path

import torch
import yaml

import headspec
from headspec import __version__
from support.paths import ROOT
from support.running import release_functions
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
    release_functions.main()
    print(f"headspec {__version__} works on Python {sys.version.split()[0]}, torch {torch.__version__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
