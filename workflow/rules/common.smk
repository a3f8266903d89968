# Loads and checks the study, and defines what its rules name: paths, and functions of their jobs. What these
# functions return is in headspec.pipeline.

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger


def on_this_disk(folder: Any) -> Path:
    """Return the folder of a Snakefile, or its copy if in a repository (`github(...)`, ``git+file://``).

    Jobs import the library from it.
    """
    if not hasattr(folder, "ref"):
        return Path(folder)
    hosted = getattr(folder, "hosted_repo", None)
    git = ["git", "-C", str(hosted.repo_clone if hosted else folder.repo_path)]
    commit = subprocess.check_output(
        [*git, "rev-parse", f"{folder.ref}^{{commit}}"], text=True
    ).strip()
    copy = Path(".snakemake/headspec", commit).resolve()
    if not copy.exists():
        archive = subprocess.check_output([*git, "archive", commit, "workflow", "envs"])
        copy.parent.mkdir(parents=True, exist_ok=True)
        filling = Path(tempfile.mkdtemp(dir=copy.parent))
        subprocess.run(["tar", "-x", "-C", filling], input=archive, check=True)
        filling.rename(copy)
    return copy / folder.path


LIBRARY = on_this_disk(workflow.current_basedir).parent
if {"{", "}"} & {*str(LIBRARY)}:
    raise WorkflowError(
        f"the project is in {LIBRARY.parent}, where Snakemake takes braces for wildcards; move it"
    )
sys.path.insert(0, str(LIBRARY))

from headspec import __version__, plugins
from headspec.config import methods, pruning_methods, variants
from headspec.config.measures import heads as head_measures, similarity as similarity_measures
from headspec.config.runs import ALL, PRUNED_RUN, RUN, kept_fraction
from headspec.config.study import plain
from headspec.cost.requests import COMPARED, Requests, processes
from headspec.errors import HeadspecError
from headspec.live import messages, starts, view
from headspec.pipeline import machine, preflight, warm
from headspec.pipeline.figures.registry import FIGURES, names as figure_names
from headspec.pipeline.jobs import files, job_code, probing, pruned, shared_texts, versions
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import PROMPTS, SUBMISSION, any_of, constraints
from headspec.pipeline.refused import Refused
from headspec.provenance import code_hash

logger.addFilter(messages.Messages(workflow))

# --configfile replaces config.yaml; by default, Snakemake would merge the two studies
if not workflow.overwrite_configfiles:
    starts.check_config("config.yaml")

    configfile: "config.yaml"


code_hash.make_importable()
os.environ.setdefault("TQDM_DISABLE", "1")  # otherwise bars of libraries overwrite the view
os.environ.update(warm.tuned(os.environ))  # for jobs, also on a cluster
VIEW = view.attach(logger) if starts.wants_view(workflow) else None
LAYOUT = starts.checked(workflow, config)
STUDY, RESULTS = LAYOUT.study, Path(LAYOUT.result())
result, log, figure = LAYOUT.result, LAYOUT.log, LAYOUT.figure
GPU, THREADS = machine.model_resources(workflow, LAYOUT)
TIMED = workflow.is_main_process and machine.on_cluster(workflow)
REQUESTS = Requests(LAYOUT, GPU, THREADS, timed=TIMED)
requests, larger_mixtures_first = REQUESTS.resources, REQUESTS.larger_mixtures_first
training_threads = REQUESTS.training_threads
machine.share_gpus(workflow, STUDY, GPU)
CHECKPOINT_SECONDS = round(60 * STUDY.training.checkpoint_minutes)


def job(function, *arguments):
    """Return an input or parameter: what `function` of a `Job` returns, called only if the rule has jobs."""

    def called(wildcards):
        try:
            return function(Job(LAYOUT, wildcards), *arguments)
        except HeadspecError as error:
            raise Refused(str(error)) from None

    return called


def code(script: str, *found_by_name):
    """Return a parameter: hashes of the definitions that a rule's script reaches (`job_code.hashes`)."""
    return job(job_code.hashes, script, *found_by_name)


def section(name: str, *keys: str) -> dict:
    """Return a parameter: the values of `keys` in a section of the config."""
    return {key: plain(getattr(getattr(STUDY, name), key)) for key in keys}


def run_tables(runs: list, name: str):
    """Return an input: a table of each of `runs`, listed only if the rule has jobs.

    Every submitted job reads the rules again. With tens of thousands of runs, listing what it does not need
    would take longer than many jobs do.
    """
    return lambda wildcards: LAYOUT.run_files(runs, name)


def run_settings(runs: list):
    """Return a parameter: `runs` as plain values, listed only if the rule has jobs."""
    return lambda wildcards: plain(runs)


def require_configured(configured: bool, expected: str):
    """Return an input of a target that has no files: it is refused if the config lacks what it needs."""

    def check(wildcards) -> list:
        if not configured:
            raise Refused(f"nothing to do for this target; expected {expected} in the config")
        return []

    return check


def figures_of(*categories: str):
    """Return an input: the figures that the study has in some categories of the report."""
    return lambda wildcards: LAYOUT.figures(figure_names(LAYOUT, *categories))


def of_jobs(values: dict) -> dict:
    """Return inputs or parameters, with functions of a job as `job` returns them."""
    return {name: job(value) if callable(value) else value for name, value in values.items()}


def drawing(each) -> dict:
    """Return the parameters of a figure."""
    path = each.drawn_by.partition(":")[0]
    return of_jobs(each.arguments) | {
        "figure": each.name,
        "drawn_by": each.drawn_by,
        "dpi": STUDY.figures.dpi,
        "code": code("plots/figure.py", f"plots/{path}"),
    }


if workflow.is_main_process:
    starts.compare_results(workflow, LAYOUT)


wildcard_constraints:
    **constraints(LAYOUT),
