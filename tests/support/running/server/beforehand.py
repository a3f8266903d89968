"""For the process of `support.running.warm`: what every start of Snakemake does alike.

Plugins are found, and rules are translated to Python. Rules that a study edits are translated when it starts.
"""

from pathlib import Path
from types import SimpleNamespace

from snakemake import cli, workflow

ROOT = Path(__file__).parents[4]
HERE = "/a Snakefile of support.running.server"  # in translations, for the path of the file
translate = workflow.parse


def translated(file: Path) -> tuple[str, dict[int, int], int]:
    """The code of a file of rules, its lines by lines of the code, and the number of rules."""
    lines: dict[int, int] = {}
    source = SimpleNamespace(get_path_or_uri=lambda secret_free: HERE)
    opens = SimpleNamespace(sourcecache=SimpleNamespace(open=lambda path: file.open()))
    code, rules = translate(source, opens, lines)
    return code, lines, rules


def parse(path, study, linemap, overwrite_shellcmd=None, rulecount=0):
    """As `snakemake.parser.parse`."""
    with study.sourcecache.open(path) as file:
        found = KNOWN.get(file.read())
    if found is None or overwrite_shellcmd:
        return translate(path, study, linemap, overwrite_shellcmd, rulecount)
    code, lines, rules = found
    linemap |= lines
    return code.replace(repr(HERE), repr(path.get_path_or_uri(secret_free=True))), rulecount + rules


FILES = [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))]
KNOWN = {file.read_text(): translated(file) for file in FILES}
workflow.parse = parse
cli.get_argument_parser()
