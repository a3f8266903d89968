"""The table of leaks: what once was stale, or ran again for nothing, on a study with whatever let it."""

import os
from collections.abc import Callable

import pytest

from support.running.leaky import MODEL, POOLING, RUN, SHARD, pooling
from support.running.studies import Folder

pytestmark = pytest.mark.slow


@pytest.fixture
def study(all_large, tmp_path) -> Folder:
    return all_large.copy(tmp_path / "study")


def edit(name: str, old: str, new: str) -> Callable[[Folder], None]:
    return lambda study: study.replace(name, old, new)


def flipped(name: str) -> Callable[[Folder], None]:
    """A bit of a file has changed, and neither its size nor its dates."""

    def change(study: Folder) -> None:
        path = study.path / name
        data, times = bytearray(path.read_bytes()), path.stat()
        data[-2] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return change


def replaced_shard(study: Folder) -> None:
    """A link to weights of the same size elsewhere takes the place of a shard."""
    flipped(SHARD)(study)
    (study.path / SHARD).rename(study.path / "elsewhere")
    (study.path / SHARD).symlink_to(study.path / "elsewhere")


COMPARED = {"similarity": 1, "correlation": 1}
SCORED = {"reliability": 1, "contrasts": 1, "dissociation": 1, "correlation": 1}
TRAINED = {"train": 6, "importance": 6, "prune": 3, "similarity": 1} | SCORED
#: what is done, and the jobs that run again but for figures
STALE: dict[str, tuple[Callable[[Folder], None], dict[str, int]]] = {
    "a bit of a shard": (flipped(SHARD), TRAINED),
    "a shard replaced by a link": (replaced_shard, TRAINED),
    "the pooling, two folders deep": (
        edit(POOLING, *(pooling(mean) for mean in (True, False))), TRAINED),
    "the words of the tokenizer": (edit(f"{MODEL}/tokenizer.json", '"tram"', '"trams"'),
                                   TRAINED | {"tokenize": 3}),
    "a module of a kind of task, imported by another": (
        edit("kinds/lengths/links.py", "2 * losses", "3 * losses"),
        {"train": 3, "importance": 3, "prune": 2, "similarity": 1} | SCORED),
    "a metric of a kind of task": (edit("kinds/lengths/metrics.py", "np.rint", "np.round"),
                                   {"prune": 2, "similarity": 1} | SCORED),
    "a metric that its tasks take from another kind": (
        edit("workflow/headspec/tasks/kinds/texts/metrics.py", '"spearman": SPEARMAN', '"spearman": PEARSON'),
        {"prune": 3, "similarity": 1} | SCORED),
    "a module of the working folder that a plugin imports": (
        edit("beside.py", "np.minimum(", "np.minimum(1 * "), COMPARED),
    "a file that a plugin reads": (edit("weight.json", "0.5", "0.25"), COMPARED),
    "a bit of trained weights": (flipped(f"{RUN}/model/model.safetensors"),
                                 {"train": 1, "importance": 1, "prune": 1} | SCORED),
    "a bit of the record of trained weights": (flipped(f"{RUN}/model/classifiers.json"),
                                               {"train": 1, "importance": 1, "prune": 1} | SCORED),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), STALE.values(), ids=STALE)
def test_what_is_stale_runs_again_and_nothing_else(study, change, expected):
    change(study)
    for _ in range(2):  # the first plan keeps what it has read
        rules = study.plan().rules
        assert {rule: n for rule, n in rules.items() if not rule.startswith("figure_")} == expected


def beside_the_model(study: Folder) -> None:
    for name in ("README.txt", "trainer_state.json", "onnx/config.json", "modules/eval/results.json"):
        path = study.path / MODEL / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n")


#: what was stale to the letter only
CURRENT: dict[str, Callable[[Folder], None]] = {
    "files beside the model": beside_the_model,
    "a module beside the plugin that it does not import": lambda study: (
        study.path / "another.py"
    ).write_text("X = 1\n"),
}  # fmt: skip


def test_what_is_current_does_not_run_again(study):
    for change in CURRENT.values():
        change(study)
    assert study.plan().rules == {}


#: what happens to the config that a start leaves beside its results
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte": lambda text: text[:40] + b"\xff" + text[41:],
    "a quote in the first line": lambda text: text.replace(b"\n", b" '\n", 1),
    "no YAML": lambda text: text + b"}{\n",
    "a list": lambda text: b"- 1\n",
    "empty": lambda text: b"",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_config_of_results_stops_nothing(study, damage):
    path = study.results / "config.yaml"
    before = path.read_bytes()
    path.write_bytes(damage(before))
    study.set("figures.dpi", 61)
    output = study.snakemake("results/tiny/figures/similarity.bert.png")
    assert f"{path.relative_to(study.path)}: damaged or edited since an earlier start" in output
    assert path.read_bytes() != before and b"dpi: 61" in path.read_bytes()
