"""The reference of the tables, from their schemas; ``headspec reference FILE`` updates it.

Columns of many tables are described here.
"""

import functools
import importlib
import itertools
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import replace

from headspec.config.methods import NAMED
from headspec.config.reference import between
from headspec.config.runs import RUN
from headspec.tables import Schema
from headspec.tasks.parts import load_part
from headspec.tasks.registry import KINDS

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


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
    "or with `label_values`",
    "label_values": "[several numbers](#several-numbers) of some types of tasks; else null",
    "layer": "layer of that attention",
    "measure": "measure of [heads](methods/atlas.md#measures) or of [similarity](methods/similarity.md)",
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
    "p_specific": "of task `mean`, one-sided: lists of heads cost their own tasks no more than other lists "
    "do, [beyond strong lists and fragile tasks](statistics.md#specific)",
    "p_value": "p of a [test](statistics.md#p_value) of these runs alone; null without one",
    "passage": "as named",
    "penalty": "L0 penalty, for heads that it leaves open, if not `gates.penalty`; else null",
    "prediction": "index of the predicted class, or predicted score; for pairs right minus wrong "
    "log-likelihood; null with `prediction_values`",
    "prediction_text": "predicted text, if the task has one; null in `ablated`",
    "prediction_values": "[several numbers](#several-numbers) of some types of tasks; else null",
    "predictor": "[predictor](methods/grouping.md) of gains; `size`: training examples of the source per "
    "example of the target",
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
    "specific": "of task `mean`: `p_specific` is small, and the interval of mean D above 0; null with fewer "
    "than four tasks, or an unpruned model at chance",
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


@functools.cache
def schemas() -> dict[str, Schema]:
    """Return the schemas of all tables by name."""
    return {name: schema for group in grouped().values() for name, schema in group.items()}


@functools.cache
def grouped() -> dict[str, dict[str, Schema]]:
    """Return the schemas of tables by heading and name: constants of modules, and `SCHEMAS` in some."""
    entries = [f"headspec.{entry}" for entry in itertools.chain(*GROUPS.values())]
    of_module = {module: entry for entry in sorted(entries, key=len) for module in _modules(entry)}
    groups: dict[str, dict[str, Schema]] = {title: {} for title in GROUPS}
    for title, entry in ((title, entry) for title, group in GROUPS.items() for entry in group):
        for module in (each for each, of in of_module.items() if of == f"headspec.{entry}"):
            names = vars(importlib.import_module(module))
            found = {name.lower(): each for name, each in names.items() if isinstance(each, Schema)}
            groups[title] |= found | names.get("SCHEMAS", {})
    groups["Data"]["tokens"] = _of_all_kinds(groups["Data"]["tokens"])
    return groups


def _modules(name: str) -> Iterator[str]:
    """Yield the names of a module, and of those in it if it is a package."""
    yield name
    path = getattr(importlib.import_module(name), "__path__", ())
    yield from (each.name for each in pkgutil.walk_packages(path, f"{name}."))


def _of_all_kinds(tokens: Schema) -> Schema:
    """Return the schema of tokens with the columns of all kinds of tasks, and of prompts."""
    columns, meanings = dict(tokens.columns), {name: [text] for name, text in tokens.about.items()}
    for part, kind in itertools.product(("ENCODING", "PROMPTS"), KINDS):
        more = load_part(kind, part).columns
        columns |= more.columns
        for name, text in more.about.items():
            meanings.setdefault(name, []).append(text)
    about = {name: "; ".join(dict.fromkeys(texts)) for name, texts in meanings.items()}
    return replace(tokens, columns=columns, about=about)


def paths(name: str) -> tuple[str, ...]:
    """Return the paths of a table, with wildcards, in the folder of results."""
    stated = schemas()[name].paths or (f"tables/{name}.parquet",)
    return tuple(path.replace("{run}", RUN) for path in stated)


def own_columns(schema: Schema) -> set[str]:
    """Return the columns that a table describes itself, with the ends of their intervals."""
    return {column + end for column in schema.about for end in ("", *ENDS)}


def markdown() -> str:
    """Return the reference: columns of many tables, and all tables."""
    lines = [
        "## Columns of many tables",
        "",
        *_columns((f"`{name}`", COLUMNS[name]) for name in sorted(COLUMNS)),
        "",
    ]
    lines += ["## Several numbers", "", *_several(), ""]
    for title, group in grouped().items():
        lines += [f"## {title}", ""]
        for name, schema in group.items():
            lines += _section(name, schema)
    return "\n".join(lines)


def _columns(entries: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of columns and their meaning, one for columns of the same meaning."""
    by_text: dict[str, list[str]] = {}
    for column, meaning in entries:
        by_text.setdefault(meaning, []).append(column)
    return [f"- {', '.join(columns)}: {meaning}" for meaning, columns in by_text.items()]


def _several() -> Iterator[str]:
    """Yield lines on what lists of numbers hold, by type of task."""
    yield (
        "Lists of a task have the same length; *units* are [what is counted](words.md#what-is-counted), the "
        "*guess* is the best one without reading. The first number is `prediction_values[1]` in DuckDB, "
        '`frame["prediction_values"].str[0]` in pandas.'
    )
    yield ""
    yield "| type of task | `label_values` | `prediction_values` |"
    yield "|---|---|---|"
    by_text: dict[str, list[str]] = {}
    for name, kind in sorted(KINDS.items()):
        if kind.several:
            by_text.setdefault(" | ".join(kind.several), []).append(f"`{name}`")
    for meaning, names in by_text.items():
        yield f"| {', '.join(names)} | {meaning} |"


def updated(text: str) -> str:
    """Return `text` with the reference between its two markers."""
    return between(text, BEGIN, END, "\n" + markdown())


def _section(name: str, schema: Schema) -> list[str]:
    """Return heading, paths, row, shared columns, and own columns with their meaning, of a table.

    The path is left out where the table's name says it.
    """
    names = {
        column: f"**`{column}`**" if place < schema.stored.keys else f"`{column}`"
        for place, column in enumerate(schema.stored.columns)
    }
    shared = [text for column, text in names.items() if column not in own_columns(schema)]
    own = _columns(
        (names[column].replace(f"{column}`", f"{column}{INTERVAL}`"), meaning)
        if column + ENDS[0] in names
        else (names[column], meaning)
        for column in names
        if (meaning := schema.about.get(column))
    )
    lines = [f"### {name}", ""]
    if schema.paths:
        lines += [f"{', '.join(f'`{path}`' for path in schema.paths)}  "]
    row = [f"Per {schema.row}"] if schema.row else []
    lines += [": ".join([*row, *([", ".join(shared)] if shared else [])])]
    return [*lines, "", *own, ""] if own else [*lines, ""]
