"""Resources that the jobs of rules request, from a dry run."""

import re

from support.running.studies import Folder


def show_resources(study: Folder) -> None:
    """Take the messages out of a study's rules: in a dry run, a message replaces the list of resources."""
    for path in (study.path / "workflow" / "rules").glob("*.smk"):
        path.write_text(re.sub(r"^ +message:\n.*\n", "", path.read_text(), flags=re.M))


def requests(study: Folder, *arguments: str, **environment: str) -> dict[str, dict[str, str]]:
    """Rule: the threads and resources that its jobs request; jobs in groups are indented."""
    output = study.snakemake(*arguments, "--dry-run", "--quiet", "host", **environment)
    requested = {}
    for block in re.split(r"\n(?= *(?:local)?rule \w+:)", output)[1:]:
        rule, threads = re.match(r" *(?:local)?rule (\w+):", block), re.search(r"threads: (\d+)", block)
        resources = dict(re.findall(r"(\w+)=([^,\s]+)", re.search(r"resources: (.+)", block)[1]))
        requested[rule[1]] = {"threads": threads[1] if threads else "1"} | resources
    return requested
