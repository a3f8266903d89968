"""Resources that the jobs of every rule request, locally and on a cluster, and the profiles."""

import contextlib
import re
from pathlib import Path

import psutil
import pytest
import yaml
from snakemake.cli import parse_args

from headspec.cost.requests import LEAST
from headspec.cost.stages import STAGES
from headspec.pipeline.figures.registry import FIGURES
from headspec.provenance import code_hash
from support.paths import ROOT
from support.running import every_stage
from support.running.every_stage import TARGETS
from support.running.faults import at_work
from support.running.requests import requests, show_resources
from support.running.studies import Folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Folder:
    """A study with every stage, before any job."""
    folder = every_stage.new(tmp_path_factory.mktemp("resources") / "study")
    show_resources(folder)
    return folder


#: rules of measures of heads that are yet to be added, of prompts, which take another kind of model, and of
#: lists of heads; test_worked_examples.py and test_prompts.py run them
ADDED = {"explorer", "measured", "behaviour", "derived", "prompts", "prompted", "listed", "head_lists"}


def scripts() -> dict[str, Path]:
    """Rule: its script; a rule that inherits from another has the other's."""
    workflow = ROOT / "workflow"
    included = re.findall(r'include: "(.+)"', (workflow / "Snakefile").read_text())
    text = "\n".join((workflow / path).read_text() for path in included)
    paths: dict[str, str] = {}
    for block in re.split(r"^ *(?=rule |use rule )", text, flags=re.MULTILINE)[1:]:
        rule = re.match(r"(?:rule|use rule (\w+) as) (\w+)", block)
        script = re.search(r'"\.\./(scripts/.+)"', block)
        paths[rule[2]] = paths[rule[1]] if rule[1] else script[1]
    paths |= {each.rule: "scripts/plots/figure.py" for each in FIGURES}  # made in a loop
    return {rule: ROOT / "workflow" / path for rule, path in paths.items() if rule not in ADDED}


def runs_a_model(script: Path) -> bool:
    """Whether a script reaches code in the module of head gates, which every encoder needs."""
    return str(code_hash.LIBRARY / "models" / "gates.py") in code_hash.files([script])


#: arguments, GPUs here, and the GPUs and threads that jobs which run a model request
REQUESTS = {
    # few runs share the cores, those of IAT among them
    "no GPU": (["--cores", "16"], "", ("0", "4")),
    "two GPUs": (["--resources", "gpu=2"], "0,1", ("1", "2")),
    "no limit, as in submitted jobs": (["--workflow-profile", "none"], "0", ("1", "2")),
    "slurm": (["--profile", "profiles/slurm"], "", ("1", "2")),
    "slurm without GPUs": (
        ["--profile", "profiles/slurm", "--set-resource-scopes", "gpu=excluded"], "0", ("0", "4")
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "gpus", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_every_job_that_runs_a_model_requests_the_same_and_uses_it(whole, arguments, gpus, expected):
    requested = requests(whole, *TARGETS, "--cores", "8", *arguments, CUDA_VISIBLE_DEVICES=gpus)
    requested = {rule: resources for rule, resources in requested.items() if rule not in TARGETS}
    # a model with a vocabulary of its own learns translations, and fragility is compared between models
    lacking = {"vocabulary", "figure_shared_fragility"}
    assert set(requested) == set(scripts()) - lacking, "the study lacks a stage"
    models = {rule: script for rule, script in scripts().items() if runs_a_model(script)}
    assert len(models) >= 12
    for rule, resources in requested.items():
        assert {"mem_mb", "runtime"} <= set(resources), rule
        wanted = expected if rule in models else ("-", "1")
        assert (resources.get("gpu", "-"), resources["threads"]) == wanted, rule
    for script in {*models.values()}:
        assert "ModelStage(snakemake)" in script.read_text(), script


def test_jobs_of_a_cluster_request_the_time_that_the_plan_counts(whole):
    requested = requests(whole, *TARGETS, "--profile", "profiles/slurm", CUDA_VISIBLE_DEVICES="")
    models = [rule for rule, script in scripts().items() if runs_a_model(script)]
    minutes = {rule: int(requested[rule]["runtime"]) for rule in models}
    unknown = {rule: n for rule, n in minutes.items() if n != LEAST}
    assert unknown.pop("predict") == 240  # test sets are not read
    other_texts = {"representations", "probe", "probe_pretrained", "probe_random"}  # stimuli, treebanks
    assert set(unknown) <= other_texts and set(unknown.values()) <= {240}


@pytest.fixture
def wide(whole, tmp_path) -> Folder:
    """A copy whose model trains on two GPUs."""
    study = whole.copy(tmp_path / "study")
    study.set("models.bert.gpus", 2)
    return study


@pytest.mark.parametrize("place", ["--resources gpu=2", "--profile profiles/slurm"])
def test_training_requests_the_gpus_of_its_model(whole, wide, place):
    """With threads and memory for each; what else runs the model, and a branch without steps, takes one."""
    arguments = [*TARGETS, "--cores", "8", *place.split()]
    one, two = (requests(study, *arguments, CUDA_VISIBLE_DEVICES="0,1") for study in (whole, wide))
    wider = {rule for rule in two if two[rule].get("gpu") != one[rule].get("gpu")}
    on_all = {stage for stage, cost in STAGES.items() if cost.gpus == "all"}
    assert {"train_and_keep", "retrain"} <= wider <= {"train_and_keep", "pruned_run_and_keep", *on_all}
    for rule in wider:
        assert (two[rule]["gpu"], two[rule]["threads"]) == ("2", "4")
        assert int(two[rule]["mem_mb"]) == 2 * int(one[rule]["mem_mb"])


def test_more_gpus_than_there_are_are_refused(wide):
    """No job would ever have them; without any GPU, the number has no effect."""
    for limit, gpus in (("gpu=1", "0,1"), ("gpu=2", "0")):
        told = wide.snakemake("--dry-run", "--resources", limit, fails=True, CUDA_VISIBLE_DEVICES=gpus)
        assert "models.bert.gpus: got 2, but jobs may use 1 here; expected at most 1, or" in told
    unlimited = requests(wide, *TARGETS, CUDA_VISIBLE_DEVICES="")
    assert {resources.get("gpu", "0") for resources in unlimited.values()} == {"0"}


def test_jobs_per_gpu_share_a_gpu(whole, tmp_path):
    """The limit counts GPUs: with one GPU, two jobs start together only if two may share it."""
    study = whole.copy(tmp_path / "study")
    study.snakemake(*(f"results/tiny/tokens/bert/{task}/train.parquet" for task in ("tone", "topic")))
    trained = [f"results/tiny/runs/bert/tone+topic/frozen/seed{seed}/training.parquet" for seed in (0, 1)]
    limited = [*trained, "--forcerun", "train", "--resources", "gpu=1", "--cores", "4"]
    for jobs, at_once in {1: {1}, 2: {2}}.items():
        study.snakemake(*limited, "--config", f"jobs_per_gpu={jobs}", CUDA_VISIBLE_DEVICES="0")
        log = max((study.path / ".snakemake" / "log").iterdir()).read_text()
        assert set(map(int, re.findall(r"Execute (\d+) jobs", log))) == at_once, log


def test_jobs_are_forks_of_a_server_that_ends_with_snakemake(whole, tmp_path):
    study = whole.copy(tmp_path / "study")
    process = study.start("results/tiny/tokens/bert/tone/train.parquet", PYTHONUNBUFFERED="1")
    jobs = set()
    while process.poll() is None:
        for job in at_work(study.path):
            with contextlib.suppress(psutil.Error):
                jobs |= {" ".join(job.parent().cmdline())} if "serve" in job.cmdline() else set()
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert any("warm.py serve" in parent for parent in jobs), jobs  # a fork has the server's command line
    assert at_work(study.path) == []


# --- profiles


def test_limits_on_gpus(whole, monkeypatch):
    monkeypatch.chdir(whole.path)
    for arguments, expected in {
        "--cores 2": (None, None, 1, {}),
        "--cores 8 --resources gpu=2": (None, None, 2, {}),
        # the limit of the default profile stays, but applies only within each submitted job
        "--profile profiles/slurm": ("slurm", 50, 1, {"gpu": "local"}),
    }.items():
        _, read = parse_args(arguments.split())
        scopes = dict(read.set_resource_scopes)
        assert (read.executor, read.jobs, read.resources["gpu"].value, scopes) == expected


@pytest.mark.parametrize("profile", ["profiles/default", "profiles/slurm"])
def test_every_entry_of_a_profile_has_a_comment(profile):
    lines = (ROOT / profile / "profile.yaml").read_text().splitlines()
    entries = [i for i, line in enumerate(lines) if re.match(r"[a-z]", line)]
    assert len(entries) == len(yaml.safe_load("\n".join(lines))) > 0
    for i in entries:
        assert lines[i - 1].startswith("#"), lines[i]
