"""Steps of a start of Snakemake besides jobs: checks, locks, notes, and the study's pages."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake.common import dict_to_key_value_args
from snakemake.logging import logger
from snakemake.settings.enums import Quietness

from headspec.config import loading, plugin_entries
from headspec.cost import memory
from headspec.errors import HeadspecError, listing
from headspec.explorer import finished
from headspec.pipeline import preflight, state
from headspec.pipeline.commands.report import opening
from headspec.pipeline.current import DAMAGED, other_versions, restore
from headspec.pipeline.jobs import files as input_files
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout
from headspec.pipeline.refused import Refused
from headspec.provenance import files

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


def checked(workflow: Workflow, config: dict[str, Any]) -> Layout:
    """Return the layout of the study; raise Refused, with all its problems, before any job starts.

    Only the main process checks data and models; jobs on a cluster rely on that.
    """
    if isinstance(layout := config.get("layout"), Layout):  # of `state.opened`
        return layout
    if not workflow.is_main_process:
        return Layout(_told(preflight.load, config))
    if notice := plugin_entries.notice(config):
        logger.warning(notice)
    study = _told(preflight.load, config)
    for path in (*workflow.configfiles, *workflow.overwrite_configfiles):
        _told(loading.strict_yaml, path)
    plan = _told(preflight.check, study)
    for line in plan.report_lines(study):
        logger.info(line)
    for line in (*plan.warnings(study), *memory.warnings(study), *map(str, preflight.unavailable(study))):
        logger.warning(line)
    return Layout(study, plan)


def check_config(path: str) -> None:
    """Raise Refused for a config that Snakemake could not read, or that would run Python when read."""
    if os.path.exists(path):
        _told(loading.strict_yaml, path)


def _told(function: Any, argument: Any) -> Any:
    try:
        return function(argument)
    except HeadspecError as error:
        raise Refused(f"the study cannot be run:\n{error}") from None


def treebank_texts(job: Job) -> list[str]:
    """Return the tables with sentences for the roles of heads; raise DataError for too few."""
    if plan := job.layout.tasks_read:
        preflight.sentences_for_roles(job.study, plan)
    return input_files.treebank_texts(job)


def wants_view(workflow: Workflow) -> bool:
    """Return whether a person runs jobs without asking for Snakemake's own output, or for less of it."""
    output = workflow.output_settings
    as_is = output.dryrun or output.verbose or output.debug_dag
    return (
        workflow.is_main_process
        and not as_is
        and not {Quietness.PROGRESS, Quietness.ALL} & set(output.quiet or ())
    )


def lock_folder() -> None:
    """Lock this folder until this process ends, even if it is killed; raise Refused if another has locked it.

    The lock on the folder holds even if its files are deleted; other machines see only the lock on the file.
    """
    flags = {".": os.O_RDONLY, ".snakemake/headspec.lock": os.O_RDWR | os.O_CREAT}
    try:
        for path, how in flags.items():
            fcntl.flock(os.open(path, how, 0o666), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refused("another snakemake is running in this folder; wait for it or stop it") from None


def _named_config(workflow: Workflow) -> list[str]:
    """Return the command-line options for the study's config, and settings that override it."""
    paths = [os.path.relpath(path) for path in workflow.overwrite_configfiles]
    settings = dict_to_key_value_args(workflow.config_settings.config, repr_obj=True)
    options = {"--configfile": paths, "--config": settings}
    return [word for name, values in options.items() if values for word in (name, *values)]


def note_study(workflow: Workflow, results: Path, config: dict[str, Any]) -> None:
    """Write the config next to the results, as a record of what is the study's; warn if it was edited."""
    targets = sorted(map(str, workflow.dag_settings.targets))
    if damaged := state.note_start(results, config, _named_config(workflow), targets):
        logger.warning(damaged)


# --- pages


def begin_report(results: Path, config: dict[str, Any], figures: Iterable[Any]) -> None:
    """Set the opening of the report: the findings and, if the study is unfinished, that it is."""
    made = None
    try:
        if start := state.last_start(results, running=True):
            made = state.ask_snakemake(start)
            config["unfinished"] = state.unfinished(start, made)
    except HeadspecError as error:
        logger.warning(str(error))
    config["opening"] = opening(results, figures, made)


def remake_pages(workflow: Workflow, results: Path) -> None:
    """Rebuild explorer and report if they were built from an unfinished study."""
    if state.says_unfinished(results / "explorer.html"):
        with contextlib.suppress(HeadspecError):
            finished.write_explorer(results)
    report = results / "report.html"
    options = ["--cores", "1", "--quiet", "all", "--report", str(report)]
    if state.says_unfinished(report):
        subprocess.run([sys.executable, "-m", "snakemake", *_named_config(workflow), *options])


# --- results of earlier starts


def compare_results(workflow: Workflow, layout: Layout) -> None:
    """Restore missing records of results, and warn about damage and other package versions.

    Raises Refused for results that are links to themselves.
    """
    results = Path(layout.result())
    if loops := files.loops(results):
        raise Refused(f"{listing(loops)}: links that lead to themselves; remove them")
    if not results.is_dir():
        return
    try:
        _, current = restore(results)
    except HeadspecError as error:
        logger.warning(str(error))
        return
    if damaged := current.damaged():
        logger.warning(f"results {DAMAGED}; they are rebuilt: {listing(damaged, 5)}")
    if outdated := other_versions(current, _remake_command(workflow, layout)):
        logger.warning(outdated)


def _remake_command(workflow: Workflow, layout: Layout) -> str:
    """Return the command that remakes all results of the study."""
    study = layout.study
    targets = " all iat" if study.iat != type(study.iat)() and "iat" not in study.methods else ""
    command = ["snakemake", *_named_config(workflow), "--cores", "all", "--forceall"]
    return f"`{shlex.join(command)}{targets}`"
