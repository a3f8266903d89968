"""Snakemake's messages besides those on jobs: refusals without tracebacks, dry runs without repetition."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from snakemake.settings.enums import Quietness

from headspec.pipeline.refused import Refused

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

#: reason of a job that runs only because others do
FOLLOWS = "input files updated by another job"
REASONS = "Reasons:\n"  # start of Snakemake's list of reasons


class Messages(logging.Filter):
    """Rewrites records of Snakemake's log that have too much or too little detail for a person.

    Of a refusal, only the reason remains. A dry run counts jobs twice, and refers to jobs that the profile's
    `quiet` leaves out; one table of rules, their numbers of jobs, and why these run, replaces this.
    """

    def __init__(self, workflow: Workflow) -> None:
        super().__init__()
        self.workflow = workflow
        self.counted = False

    def filter(self, record: logging.LogRecord) -> bool:
        event, text = getattr(record, "event", None), str(record.msg)
        output = self.workflow.output_settings
        if event == "error" and Refused.__name__ in text and Refused.latest:
            record.msg = Refused.latest
        elif output.dryrun and Quietness.RULES in (output.quiet or ()):
            if event == "run_info":
                record.msg = table(self.workflow)
                counted, self.counted = self.counted, True
                return not counted
            return not text.startswith(REASONS)
        return True


def table(workflow: Workflow) -> str:
    """Return a row for every rule with jobs to run: how many, and why; and a last row for all rules."""
    jobs: dict[str, int] = defaultdict(int)
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    dag = workflow.dag
    ordered = (job for level in dag.toposorted(set(dag.needrun_jobs())) for job in sorted(level, key=str))
    for job in ordered:
        jobs[str(job)] += 1
        reasons[str(job)] |= dict.fromkeys(dag.reason(job).get_names())
    wide = max(map(len, ("total", *jobs)))
    rows = [("job", "count", "why"), ("-" * wide, "-----", "---")]
    rows += [(rule, str(n), "; ".join(_own(reasons[rule]))) for rule, n in jobs.items()]
    rows.append(("total", str(sum(jobs.values())), ""))
    lines = (f"{rule:<{wide}}  {n:>5}  {why}".rstrip() for rule, n, why in rows)
    return "Job stats:\n" + "\n".join(lines) + "\n"


def _own(reasons: dict[str, None]) -> list[str]:
    """Return the reasons of a rule's jobs; `FOLLOWS` only if there is no other."""
    return [reason for reason in reasons if reason != FOLLOWS] or [*reasons]
