"""Paths of the user in other words: what is there counts, not where it is or how its path is spelled."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from support.running.studies import Folder, changed

pytestmark = pytest.mark.slow

SOURCES = ("models.bert.source", "tasks.tone.source", "tasks.topic.source", "tasks.match.source")
WAYS = ("dotted", "winding", "absolute", "linked", "renamed", "moved out")
RENAMED = "renamed {n} "


def respelled(way: str, folder: Path, source: str) -> str:
    """Another path to what is at `source` in a folder, which may be moved."""
    path, other = folder / source, RENAMED + Path(source).name
    if way == "linked":
        (folder / other).symlink_to(path)
        return other
    if way == "renamed":
        path.rename(path.with_name(other))
        return str(Path(source).with_name(other))
    if way == "moved out":
        (folder.parent / "data").mkdir(exist_ok=True)
        shutil.move(path, folder.parent / "data" / other)
        return f"../data/{other}"
    return {"dotted": f"./{source}", "winding": f"texts/../{source}", "absolute": str(path)}[way]


@pytest.mark.parametrize("seed", [4, 5])
def test_paths_that_are_spelled_otherwise_rerun_nothing(finished, tmp_path, seed):
    """Also after everything was copied to another place."""
    draw, (before, after) = random.Random(seed), (tmp_path / name for name in ("before", "after"))
    before.mkdir()
    study = finished.copy(before / "study")
    config = study.config
    for key, way in zip(SOURCES, draw.sample(WAYS, len(SOURCES)), strict=True):
        section, name, _ = key.split(".")
        config = changed(config, {key: respelled(way, study.path, config[section][name]["source"])})
    study.write(config)
    assert study.plan().rules == {}, config
    subprocess.run(["cp", "-a", before, after], check=True)
    shutil.rmtree(before)
    moved = Folder(after / "study")
    text = (moved.path / "config.yaml").read_text().replace(str(before), str(after))
    (moved.path / "config.yaml").write_text(text)
    for link in [path for path in moved.path.iterdir() if path.is_symlink()]:
        target = str(link.readlink()).replace(str(before), str(after))
        link.unlink()
        link.symlink_to(target)
    assert moved.plan().rules == {}, text
    if seed == 5:  # frozen runs read the pretrained model where it is now
        moved.set("pruning.fraction", 0.5)
        moved.snakemake("results/tiny/runs/bert/tone+topic/frozen/seed0/predictions.parquet")
    topic = moved.path / moved.config["tasks"]["topic"]["source"]
    topic.write_text(topic.read_text().replace("tree", "wave", 1))
    assert {"validation", "data", "tokenize", "train"} <= {*moved.plan().rules}
