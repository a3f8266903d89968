# Loads and checks the study, and defines helpers for the rules. Paths, settings and inputs are in
# headspec.pipeline.

import contextlib
import fcntl
import functools
import itertools
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from snakemake.common import dict_to_key_value_args
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.settings.enums import Quietness
from snakemake.settings.types import DeploymentMethod


def on_this_disk(folder: Any) -> Path:
    """The folder of a Snakefile, or its copy if it is in a repository (`github(...)`, ``git+file://``).

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

from headspec import plugins
from headspec.provenance import code_hash, files, hashes
from headspec.config import loading, methods, pruning_methods, variants
from headspec.config.measures import heads as head_measures, similarity as similarity_measures
from headspec.config.runs import ALL
from headspec.config.study import Study, plain
from headspec.cost import graph, memory as memory_of_jobs
from headspec.cost.requests import COMPARED, Requests, processes
from headspec.data.planned import Planned
from headspec.errors import HeadspecError, listing
from headspec.explorer import finished
from headspec.live import view
from headspec.models import devices
from headspec.pipeline import preflight, records, state, warm
from headspec.pipeline.commands.report import opening
from headspec.pipeline.current import DAMAGED, other_versions
from headspec.pipeline.inputs import Inputs
from headspec.pipeline.layout import PROMPTS, RUN, SUBMISSION, Layout
from headspec.pipeline.pruned_runs import PRUNED_RUN, PrunedRuns
from headspec.pipeline.probing import Probing
from headspec.pipeline.settings import Settings
from headspec.pipeline.wildcards import any_of, constraints


def checked(config: dict) -> tuple[Study, Planned | None]:
    """The study and its tasks; a WorkflowError with all its problems before any job starts.

    Only the main process checks data and models; jobs on a cluster rely on it.
    """
    plan = None
    for notice in loading.notices(config) if workflow.is_main_process else ():
        logger.warning(notice)
    try:
        study = preflight.load(config)
        if workflow.is_main_process:
            for path in workflow.configfiles + list(workflow.overwrite_configfiles):
                loading.strict_yaml(path)
            plan = preflight.check(study)
            warnings = [*plan.warnings(study), *memory_of_jobs.warnings(study)]
            for line in [*warnings, *map(str, preflight.unavailable(study))]:
                logger.warning(line)
    except HeadspecError as error:
        raise WorkflowError(f"the study cannot be run:\n{error}") from None
    return study, plan


def on_cluster() -> bool:
    """Whether jobs are submitted; a dry run knows it by the scope that a profile gives to GPUs."""
    scopes = workflow.resource_scopes
    return workflow.non_local_exec or scopes.is_local("gpu") or scopes.is_excluded("gpu")


def model_resources() -> tuple[int, int]:
    """GPUs and threads that jobs which run a model request.

    Submitted jobs request a GPU, unless the profile excludes `gpu` from the resources because there are
    none. Local jobs without a GPU share the cores: the fewer the study trains, the more threads for each.
    """
    if workflow.resource_scopes.is_excluded("gpu"):
        return 0, 4
    if on_cluster() or devices.gpu_count():
        return 1, 2
    return 0, devices.threads_per_job(LAYOUT.trainings, workflow.cores or 1)


def wants_view() -> bool:
    """Whether a person runs jobs and has not asked for Snakemake's own output, or for less of it."""
    output = workflow.output_settings
    as_is = output.dryrun or output.verbose or output.debug_dag
    return (
        workflow.is_main_process
        and not as_is
        and not {Quietness.PROGRESS, Quietness.ALL} & set(output.quiet or ())
    )


def share_gpus(study: Study) -> None:
    """Let jobs share a GPU, and turn the limit of GPUs (`--resources gpu=2`) into one of jobs.

    The limit applies to all local jobs together. Submitted jobs request what their models ask for.
    """
    os.environ[devices.JOBS_PER_GPU] = str(study.jobs_per_gpu)
    limit = workflow.global_resources.get("gpu").value  # None without a limit, as in submitted jobs
    if workflow.resource_scopes.is_local("gpu"):
        workflow.global_resources["gpu"] = max(model.gpus for model in study.models.values())
        return
    here = devices.gpu_count()
    if GPU and workflow.is_main_process and not workflow.non_local_exec:
        usable = here if limit is None else min(here, limit)
        try:
            preflight.check_gpus(study, usable)
        except HeadspecError as error:
            raise WorkflowError(f"the study cannot be run:\n{error}") from None
    if limit is not None:
        workflow.global_resources["gpu"] = study.jobs_per_gpu * limit


code_hash.make_importable()
os.environ.setdefault("TQDM_DISABLE", "1")  # otherwise bars of libraries overwrite the view
os.environ.update(warm.tuned(os.environ))  # for jobs, also on a cluster
VIEW = view.attach(logger) if wants_view() else None
STUDY, PLAN = graph.listed or checked(config)
LAYOUT = Layout(STUDY)
SETTINGS = Settings(LAYOUT, PLAN)
INPUTS = Inputs(SETTINGS)
PRUNED_RUNS = PrunedRuns(INPUTS)
GPU, THREADS = model_resources()
REQUESTS = Requests(SETTINGS, GPU, THREADS, timed=workflow.is_main_process and on_cluster())
requests, by_tasks = REQUESTS.resources, REQUESTS.by_tasks
training_threads = REQUESTS.training_threads
share_gpus(STUDY)
CHECKPOINT_SECONDS = round(60 * STUDY.training.checkpoint_minutes)
result, log, figure = LAYOUT.result, LAYOUT.log, LAYOUT.figure


def code(script: str, *found_by_name):
    """Parameter: hashes of the definitions that a rule's script reaches, looked up only if the rule has jobs.

    What the script finds by name counts, too: modules or definitions in the library (``<path>:<name>``, with
    wildcards, or functions of wildcards that return several), and parts of the kinds of a job's tasks.
    """

    def function(wildcards) -> dict[str, str]:
        names = [n(wildcards) if callable(n) else [n.format(**wildcards)] for n in found_by_name]
        roots = [LIBRARY / "headspec" / name for name in itertools.chain.from_iterable(names)]
        roots = map(str, [LIBRARY / "scripts" / script, *roots])
        return hashes_by_root(SETTINGS.with_kinds(wildcards, tuple(roots)))

    return function


hashes_by_root = functools.cache(code_hash.by_root)


def run_tables(runs: list, name: str):
    """Input: a table of each of `runs`, listed only if the rule has jobs.

    Every submitted job reads the rules again. With tens of thousands of runs, lists that it does not need would
    take longer than many a job.
    """
    return lambda wildcards: LAYOUT.run_files(runs, name)


def expand_if_asked(rule: str, path, **wildcards) -> list:
    """Input: files of a rule, if a measure of similarity of the study uses them."""
    return expand(path, **wildcards) if STUDY.similarity.asked(rule) else []


def run_settings(runs: list):
    """Parameter: `runs` as plain values, listed only if the rule has jobs."""
    return lambda wildcards: plain(runs)


def without_traceback(function):
    """`function` of wildcards, with its HeadspecErrors as WorkflowErrors, which show no traceback."""

    def wrapped(wildcards):
        try:
            return function(wildcards)
        except HeadspecError as error:
            raise WorkflowError(str(error)) from None

    return wrapped


weights_version = without_traceback(SETTINGS.weights_version)
tokenizer_version = without_traceback(SETTINGS.tokenizer_version)


def require_configured(configured: bool, expected: str):
    """Input function without input, for a target: an error if the config lacks its sections."""

    def check(wildcards) -> list:
        if not configured:
            raise WorkflowError(f"nothing to do for this target; expected {expected} in the config")
        return []

    return check


@without_traceback
def treebank_files(wildcards) -> list:
    """Files with sentences for the roles of heads; an error if they have too few."""
    if workflow.is_main_process:
        preflight.sentences_for_roles(STUDY, PLAN)
    return INPUTS.treebank_files(wildcards)


def pin_environments() -> None:
    """Make the content of a rule's environment a parameter of jobs that run in it.

    Snakemake compares environments by records that are lost with `.snakemake`.
    """
    if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
        return
    for each in workflow.rules:
        if each.conda_env:
            path = LIBRARY.parent / "envs" / os.path.basename(str(each.conda_env))
            each.set_params(environment=hashes.sha256(path))


def lock_folder() -> None:
    """Refuse a second workflow in this folder; the locks end with this process, even if it is killed.

    The lock of the folder holds even if its files are deleted; other machines see only the lock of the file.
    """
    flags = {".": os.O_RDONLY, ".snakemake/headspec.lock": os.O_RDWR | os.O_CREAT}
    try:
        for path, how in flags.items():
            fcntl.flock(os.open(path, how, 0o666), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise WorkflowError(
            "another snakemake is running in this folder; wait for it or stop it"
        ) from None


def warm_up() -> None:
    """Let the jobs of this machine start as forks of a process that has imported what they need."""
    jobs = [job for job in workflow.dag.needrun_jobs() if job.output]
    # Snakemake writes this path into a shell unquoted
    quoted = sys.executable == shlex.quote(sys.executable)
    if workflow.non_local_exec or (len(jobs) < 2 and quoted):
        return
    models = any("microbatches" in job.rule.resources for job in jobs)
    sys.executable = warm.start([*warm.TABLES, *(warm.MODELS if models else ()), *warm.ANALYSIS])


def named_config() -> list[str]:
    """The options that name the config of the study, and settings beside it."""
    paths = [os.path.relpath(path) for path in workflow.overwrite_configfiles]
    settings = dict_to_key_value_args(workflow.config_settings.config, repr_obj=True)
    options = {"--configfile": paths, "--config": settings}
    return [word for name, values in options.items() if values for word in (name, *values)]


def remake_command() -> str:
    """The command that remakes all results of the study."""
    targets = " all iat" if STUDY.iat != type(STUDY.iat)() and "iat" not in STUDY.methods else ""
    return (
        f"`{shlex.join(['snakemake', *named_config(), '--cores', 'all', '--forceall'])}{targets}`"
    )


def note_study() -> None:
    """Write the config beside the results, which says which files belong to the study."""
    targets = sorted(map(str, workflow.dag_settings.targets))
    if damaged := state.note_start(Path(result()), config, named_config(), targets):
        logger.warning(damaged)


def begin_report(figures: list) -> None:
    """Let the report begin with what was found and, if the study is unfinished, say so."""
    finished = None
    try:
        if start := state.last_start(Path(result())):
            finished = state.ask_snakemake(start)
            config["unfinished"] = state.unfinished(start, finished)
    except HeadspecError as error:
        logger.warning(str(error))
    config["opening"] = opening(Path(result()), figures, finished)


def remake_pages() -> None:
    """Make explorer and report again if they were made of an unfinished study."""
    if state.says_unfinished(Path(result("explorer.html"))):
        with contextlib.suppress(HeadspecError):
            finished.write_explorer(Path(result()))
    if state.says_unfinished(Path(result("report.html"))):
        options = ["--cores", "1", "--quiet", "all", "--report", result("report.html")]
        subprocess.run([sys.executable, "-m", "snakemake", *named_config(), *options])


def compare_results() -> None:
    """Restore missing records of results, and warn of damage and of other package versions."""
    try:
        _, results = records.restore(Path(result()))
    except HeadspecError as error:
        logger.warning(str(error))
        return
    if damaged := results.damaged():
        logger.warning(f"results {DAMAGED}, which are made again: {listing(damaged, 5)}")
    if outdated := other_versions(results, remake_command()):
        logger.warning(outdated)


if workflow.is_main_process and (loops := files.loops(result())):
    raise WorkflowError(f"{listing(loops)}: links that lead to themselves; remove them")
if workflow.is_main_process and os.path.isdir(result()):
    compare_results()


wildcard_constraints:
    **constraints(LAYOUT),
