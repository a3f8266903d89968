"""The reference of the tables: their paths, rows and columns; ``headspec reference FILE`` updates it.

A string below each schema describes columns; like docstrings, it is not a part of a stage's code. Columns of
many tables are described here.
"""

import ast
import functools
import importlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headspec.config.methods import NAMED
from headspec.config.reference import between
from headspec.pipeline.layout import RUN
from headspec.provenance import code_hash
from headspec.tables import Schema
from headspec.tasks import parts
from headspec.tasks.registry import KINDS

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


@dataclass(frozen=True)
class Table:
    """A table: the module that fills it, its rows, its paths, and the columns that it describes itself."""

    module: str
    row: str
    paths: tuple[str, ...]
    columns: dict[str, str]


#: column: what it holds, unless a table says something else; the explorer shows some, without their links
COLUMNS = {
    "alpha": "as `iat.alpha` and `iat.delta`; null for plain training",
    "area": "[mean D](statistics.md#dissociation) over all fractions",
    "attention": "`self`; of encoder-decoders `encoder`, `decoder` or `cross`",
    "at_chance": "a pruned model is no better at the task, or one of several, than the best constant "
    "prediction: D means little (†)",
    "base": "unpruned metric",
    "baseline": "rate of the best fixed offset, or of chance; null for positional roles",
    "below_chance": "the unpruned models of all seeds are worse than every constant prediction, as with "
    "swapped labels (↓); never by [some metrics](statistics.md#at-chance)",
    "between_seeds": "standard deviation over seeds; null without several",
    "case": "of task `mean`: `double`, `single`, `inverted`, `none`, or `chance` (an unpruned model "
    "is at chance)",
    "ceiling": "r of other subjects' responses in place of vectors; null with one subject",
    "chance": "metric of the best constant prediction",
    "ci_high": "ends of the interval, in tables of differences of the difference",
    "ci_low": "ends of the interval, in tables of differences of the difference",
    "ci_over": "what the [interval](statistics.md#intervals) is over: `examples` (one or two seeds) or "
    "`seeds and examples`; with random orders also `orders`",
    "delta": "as `iat.alpha` and `iat.delta`; null for plain training",
    "difference": "value minus the value of `against`, mean over seeds",
    "direction": "of syntactic roles: `dependent to head` or `head to dependent`; else null",
    "dissociation": "[D](statistics.md#dissociation) (Eq. 6 and 7) as a fraction, mean over seeds",
    "distinct": "of task `mean`: double dissociation whose mean reaches `dissociation.distinct`",
    "draw": "random draw, mask or order; null for others",
    "draws_high": "highest and lowest metric of random heads or orders; null for other rankings",
    "draws_low": "highest and lowest metric of random heads or orders; null for other rankings",
    "example": "row of the table `data`, or place of the sentence or stimulus",
    "fraction": "fraction of heads pruned; with gates, to keep, null for what an L0 penalty leaves open",
    "gate": "the gate without noise, from 0 to 1",
    "head": "head within the layer",
    "heads": "which heads a batch updates: `top` (IAT), a control, or null for plain training",
    "importance": "mean of |dL/dgate| over the fold's samples (Eq. 4)",
    "held_out": "number of tasks held out together, with all their pairs",
    "index": "name of the row in prediction files",
    "kept": "whether the head is kept, or would be at this step",
    "kept_least": "fewest and most in a seed",
    "kept_most": "fewest and most in a seed",
    "label": "index of the true class, or true score; 0 for minimal and answer pairs; null without labels "
    "or beside `label_values`",
    "label_values": "[several numbers](#several-numbers) of some types of tasks; else null",
    "layer": "layer of that attention",
    "measure": "measure of [heads](atlas.md#measures) or of [similarity](similarity.md)",
    "method": f"training method: `{'`, `'.join(NAMED)}`, `single`, `iat` or a variant of it",
    "metric": "name of the metric, or `mean`",
    "mixture": "tasks that share the encoder, joined by `+`, or the name of a group",
    "model": "as named",
    "n": "number of examples, samples or units",
    "n_folds": "folds that selected the voxel",
    "n_pruned": "as named",
    "n_seeds": "number of seeds",
    "net": "D [net of the strength](statistics.md#cases) of the task's list of heads; null with two tasks",
    "net_high": "end of the interval of `net`",
    "net_low": "end of the interval of `net`",
    "offset": "relative position: of a positional role, or the baseline of a syntactic role",
    "open_probability": "P(gate > 0) of Hard Concrete gates; null for others",
    "order": "heads pruned first: `top` (largest values) or `bottom`; null or both for random heads",
    "p_holm": "`p_value` corrected by Holm's method over its [family](statistics.md#p_holm)",
    "p_seeds": "p for [other seeds](statistics.md#p_seeds) and examples; null with one or two seeds",
    "p_seeds_holm": "`p_seeds` corrected by Holm's method over its [family](statistics.md#p_holm)",
    "p_value": "p of a [test](statistics.md#p_value) of these runs alone; null without one",
    "passage": "as named",
    "penalty": "L0 penalty, for heads that it leaves open, if not `gates.penalty`; else null",
    "prediction": "index of the predicted class, or predicted score; for pairs right minus wrong "
    "log-likelihood; null beside `prediction_values`",
    "prediction_text": "predicted text, if the task has one; null in `ablated`",
    "prediction_values": "[several numbers](#several-numbers) of some types of tasks; else null",
    "predictor": "[predictor](grouping.md) of gains; `size`: training examples of the source per example of "
    "the target",
    "r": "correlation of predicted and measured response, mean over folds",
    "ranking": "ranking by which heads are pruned",
    "rate_share": "share of the summed learning rates after the branch, if steps are many; null without one",
    "rate": "hits / cases",
    "relation": "dependency relation of a syntactic role; else null",
    "role": "`positional`, `syntactic` or `rare word`",
    "sampling": "as `training.sampling`",
    "samples": "training examples that the encoder learns from",
    "seed": "as named",
    "scope": "as `gates.scope`",
    "sentence": "as named",
    "similarity": "similarity of the two tasks, at most 1, mean over seeds",
    "source": "task whose data would be added",
    "step": "steps done; with gates, the last has the heads that were kept",
    "stimulus_id": "as named",
    "subject": "as named",
    "target": "task that is evaluated",
    "task": "task that is evaluated or learnt, a further split, or `mean` (over metrics, then tasks); of "
    "gates the task that they serve, null if shared",
    "task_a": "tasks of the pair",
    "task_b": "tasks of the pair",
    "text": "as named",
    "text_a": "the text, or those of a pair; `text_b` is null for single texts",
    "text_b": "the text, or those of a pair; `text_b` is null for single texts",
    "tuning": "as `transfer.tuning`",
    "unpruned_at_chance": "an unpruned model is no better than the best constant prediction: D counts in no "
    "finding (×); of differences, [both methods' models](statistics.md#at-chance)",
    "value": "value of the metric or measure, mean over what is combined",
    "voxel": "as named",
    "way": "pruning method; `whole` keeps all heads",
}  # fmt: skip

#: suffixes of columns with the ends of a column's interval, and how the reference writes them
ENDS = ("_low", "_high")
INTERVAL = "[_low,_high]"
#: headings of the reference: modules, or packages, that fill the tables below them
GROUPS = {
    "Data": ("data", "models"),
    "Runs": ("training", "heads", "data.submission"),
    "Dissociation": ("statistics.dissociation", "heads.reliability"),
    "Similarity": ("data.sources.sentences", "similarity", "statistics.correlation"),
    "Head atlas": ("data.sources.treebank", "atlas", "statistics.atlas"),
    "Gates": ("training.gated", "statistics.budgets", "statistics.kept_heads", "statistics.kept_roles"),
    "Probes": ("probes", "statistics.probes", "statistics.grouping.gains"),
    "IAT and transfer": ("statistics.improvement", "statistics.transfer"),
    "Grouping": ("statistics.grouping",),
}

#: a table in the strings below schemas, up to the next
TABLE = r"^Table `(\w+)`: (.+?)(?=^Table `|\Z)"
#: further columns of a kind of task, in the string below them
TASK_COLUMNS = r"\AColumns of the table `(\w+)`:\n\n(.+)\Z"


@functools.cache
def schemas() -> dict[str, Schema]:
    """Return the schemas of all tables by name."""
    by_name: dict[str, Schema] = {}
    for name, table in described().items():
        names = vars(importlib.import_module(f"headspec.{table.module}"))
        by_name[name] = names[name.upper()] if name.upper() in names else names["SCHEMAS"][name]
    for name, columns, _ in _task_columns():
        by_name[name] = Schema(by_name[name].columns | columns, by_name[name].keys)
    return by_name


@functools.cache
def described() -> dict[str, Table]:
    """Return the descriptions of all tables, from the strings below their schemas."""
    by_name: dict[str, Table] = {}
    for path in sorted(code_hash.LIBRARY.rglob("*.py")):
        if '"""Table `' not in path.read_text(encoding="utf-8"):  # parsing takes longer
            continue
        module = ".".join(path.relative_to(code_hash.LIBRARY).with_suffix("").parts)
        for text in _texts(path):
            by_name |= {name: parsed(rest, module) for name, rest in re.findall(TABLE, text, re.M | re.S)}
    for name, _, meanings in _task_columns():
        for column, meaning in meanings.items():
            columns = by_name[name].columns
            columns[column] = f"{columns[column]}; {meaning}" if column in columns else meaning
    return by_name


def _task_columns() -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """Yield table, further columns and their meanings, from each `COLUMNS` in modules of kinds of tasks."""
    for path in sorted(code_hash.LIBRARY.glob("tasks/**/*.py")):
        for text in _texts(path):
            for table, columns in re.findall(TASK_COLUMNS, text, re.S):
                parts = path.relative_to(code_hash.LIBRARY.parent).with_suffix("").parts
                module = importlib.import_module(".".join(parts))
                yield table, module.COLUMNS, parsed(f".\n\n{columns}").columns


def _texts(path: Path) -> list[str]:
    """Return the strings that are statements of a module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return [text for statement in body if (text := _text(statement))]


def _text(statement: ast.stmt) -> str:
    """Return the string that is a statement; empty if it is another one."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _below(path: str, name: str) -> str:
    """Return the next string below the definition of a name, up to other code."""
    body = ast.parse(Path(path).read_text(encoding="utf-8")).body
    assigned = [name in code_hash.names(statement) for statement in body]
    after = itertools.dropwhile(lambda each: not each[1], zip(body, assigned, strict=True))
    below = itertools.takewhile(lambda each: isinstance(each, (ast.Assign, ast.Expr)), (a for a, _ in after))
    return next((text for each in below if (text := _text(each))), "")


def parsed(text: str, module: str = "") -> Table:
    """Parse ``a row for each <row>.``, paths and, below an empty line, a line for each column or several."""
    head, _, columns = text.strip().partition("\n\n")
    row, _, paths = " ".join(head.split()).partition(". ")
    lines = re.sub(r"\n +", " ", columns).splitlines()
    entries = (line.split(": ", 1) for line in lines if line)
    meanings = {column: meaning for columns, meaning in entries for column in columns.split(", ")}
    return Table(module, row.removeprefix("a row for each "), tuple(paths.split(", ")), meanings)


def own_columns(table: Table) -> set[str]:
    """Return the columns that a table describes itself, with the ends of their intervals."""
    return {column + end for column in table.columns for end in ("", *ENDS)}


def markdown() -> str:
    """Return the reference: columns of many tables, and all tables."""
    descriptions, defined = described(), schemas()
    lines = [
        "## Columns of many tables",
        "",
        *_columns((f"`{name}`", COLUMNS[name]) for name in sorted(COLUMNS)),
        "",
    ]
    lines += ["## Several numbers", "", *_several(), ""]
    entries = [entry for modules in GROUPS.values() for entry in modules]
    places = {
        name: max((entry for entry in entries if f"{table.module}.".startswith(f"{entry}.")), key=len)
        for name, table in descriptions.items()
    }
    for title, modules in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in (name for entry in modules for name in places if places[name] == entry):
            lines += _section(name, descriptions[name], defined[name].stored)
    return "\n".join(lines)


def _columns(entries: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of columns and their meaning, one for columns of the same meaning."""
    by_text: dict[str, list[str]] = {}
    for column, meaning in entries:
        by_text.setdefault(meaning, []).append(column)
    return [f"- {', '.join(columns)}: {meaning}" for meaning, columns in by_text.items()]


def _several() -> Iterator[str]:
    """Yield lines on what lists of numbers hold, by type of task, from below its kind's metrics."""
    yield (
        "Lists of a task have the same length; *units* are [what is counted](words.md#what-is-counted), the "
        "*guess* is the best one without reading. The first number is `prediction_values[1]` in DuckDB, "
        '`frame["prediction_values"].str[0]` in pandas.'
    )
    yield ""
    yield "| type of task | `label_values` | `prediction_values` |"
    yield "|---|---|---|"
    by_text: dict[str, list[str]] = {}
    for name in sorted(KINDS):
        text = re.sub(r"\n +", " ", _below(*str(parts.root(name, "METRICS")).split(":")))
        if several := dict(re.findall(r"^(\w+_values): (.+)", text, re.M)):
            meaning = f"{several['label_values']} | {several['prediction_values']}"
            by_text.setdefault(meaning, []).append(f"`{name}`")
    for meaning, names in by_text.items():
        yield f"| {', '.join(names)} | {meaning} |"


def updated(text: str) -> str:
    """Return `text` with the reference between its two markers."""
    return between(text, BEGIN, END, "\n" + markdown())


def _section(name: str, table: Table, schema: Schema) -> list[str]:
    """Return heading, row, shared columns, and own columns with their meaning, of a table.

    The row is left out where the names of the key columns say it, the path where the table's name does.
    """
    names = {
        column: f"**`{column}`**" if place < schema.keys else f"`{column}`"
        for place, column in enumerate(schema.columns)
    }
    shared = [text for column, text in names.items() if column not in own_columns(table)]
    own = _columns(
        (names[column].replace(f"{column}`", f"{column}{INTERVAL}`"), meaning)
        if column + ENDS[0] in names
        else (names[column], meaning)
        for column in names
        if (meaning := table.columns.get(column))
    )
    paths = (path.replace(RUN, "{run}") for path in table.paths)
    lines = [f"### {name}", ""]
    if table.paths != (f"tables/{name}.parquet",):
        lines += [f"{', '.join(f'`{path}`' for path in paths)}  "]
    keys = {*list(schema.columns)[: schema.keys]}
    row = [] if {*re.findall(r"\w+", table.row)} <= keys | {"run", "and"} else [f"Per {table.row}"]
    lines += [": ".join([*row, *([", ".join(shared)] if shared else [])])]
    return [*lines, "", *own, ""] if own else [*lines, ""]
