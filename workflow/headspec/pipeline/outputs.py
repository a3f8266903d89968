"""The reference of the tables: where each is, what a row is, and what its columns hold.

``python -m headspec.pipeline.outputs docs/outputs.md`` brings the reference in a file up to date. Columns and
types are those of the schemas, which stand with what fills the tables; meanings stand here alone, out of
the reach of any stage, so that no result depends on their wording.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headspec import code_hash
from headspec.config.reference import between
from headspec.pipeline.layout import RUN
from headspec.tables import Schema

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
TYPES = {"string": "text", "int32": "integer", "int8": "integer", "double": "number", "float": "number",
         "bool": "true or false"}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """What a row is, paths under the study's results, and columns with a meaning of their own here."""

    row: str
    paths: tuple[str, ...]
    columns: dict[str, str]

    def meaning(self, column: str) -> str:
        return self.columns.get(column) or COLUMNS[column]


def _table(row: str, *paths: str, **columns: str) -> Table:
    return Table(row, paths, columns)


#: column: what it holds, where a table says nothing else
COLUMNS = {
    "alpha": "fraction of heads that a task owns; null for plain training",
    "area": "mean dissociation over all fractions from 0 to the largest",
    "at_chance": "some pruned model is no better at this task than the best constant prediction, so D means "
    "little; for a mean, that of any of its tasks",
    "base": "the task's metric with no head pruned",
    "case": "`double`, `single`, `inverted` or `none`; of task `mean` only",
    "ceiling": "r when other subjects' responses take the place of the vectors; null with one subject",
    "chance": "metric of the best constant prediction",
    "ci_high": "upper end of the interval",
    "ci_low": "lower end of the interval",
    "ci_over": "what the interval is over: `examples` (one or two seeds), or `seeds and examples`",
    "delta": "fraction of training, at its end, in which a task trains only its own heads; null for plain "
    "training",
    "difference": "value less that of `against`, mean over seeds",
    "dissociation": "D (Eq. 6 and 7) as a fraction, mean over seeds where they are combined",
    "distinct": "a double dissociation whose mean reaches `dissociation.distinct`; of task `mean` only",
    "draw": "which random draw, from 0",
    "example": "which example, by its row in the table `data`, from 0",
    "fraction": "fraction of heads pruned",
    "head": "head within the layer, from 0",
    "heads": "whose heads a batch moves: `top` (IAT), a control, or null for plain training",
    "importance": "mean over the fold's samples of the absolute derivative of the loss (Eq. 4)",
    "index": "what the test set calls the row in prediction files",
    "label": "index of the true class, or the true score",
    "layer": "layer, from 0 next to the embeddings",
    "method": "way of training: `tuned`, `frozen`, `single`, `iat` or a variant of it",
    "metric": "name of the metric",
    "mixture": "the tasks that shared the encoder, joined by `+`, or the name of a group",
    "model": "name of the model in the config",
    "n_folds": "folds in which the voxel was selected",
    "n_seeds": "number of seeds",
    "order": "which heads of the ranking are pruned first: `top`, those with the largest values, or "
    "`bottom`, those with the smallest; random orders stand beside both",
    "p_holm": "p_value corrected by Holm's method; see [Statistics](statistics.md#p_holm) for the family",
    "p_value": "two-sided p of a permutation test; see [Statistics](statistics.md)",
    "passage": "passage that the stimulus belongs to; a passage stays in one fold",
    "prediction": "index of the predicted class, or the predicted score",
    "r": "correlation of predicted and measured response, mean over folds",
    "sampling": "how tasks are sampled: `proportional`, `sqrt` or `annealed`",
    "samples": "training examples that the encoder learns from",
    "seed": "seed of the run",
    "similarity": "similarity of the two tasks, at most 1",
    "stimulus_id": "name of the stimulus",
    "subject": "name of the subject",
    "task": "name of the task",
    "task_a": "first task of the pair",
    "task_b": "second task of the pair",
    "text": "the text",
    "text_a": "the text, or the first text of a pair",
    "text_b": "second text of a pair; null for single texts",
    "tuning": "what learns: `full` (everything) or `linear` (a classifier on fixed vectors)",
    "value": "value of the metric, mean over seeds where they are combined",
    "voxel": "index of the voxel, from 0",
}  # fmt: skip

#: `ci_over` of tables with random orders
OVER_ORDERS = (
    "what the interval is over: `examples` (one or two seeds), or `seeds and examples`; for random orders, "
    "and differences from them, `examples and orders`, or `seeds, examples and orders`"
)
#: columns of the table 'belief'
BELIEF = {
    f"{truth}_{statistic}{end}": meaning.format(of)
    for truth, of in (("ablation", "`ablation`"), ("ablation_size", "`ablation_size`"))
    for statistic, what in (
        ("spearman", "rank correlation over heads with {}"),
        ("top_overlap", "Jaccard index of the top heads with those of {}"),
    )
    for end, meaning in (
        ("", what), ("_low", "lower end of its interval"), ("_high", "upper end of its interval"),
    )
} | {
    "area": "area under the pruning curve", "area_low": "lower end of its interval",
    "area_high": "upper end of its interval", "difference": "area less that of random orders",
    "difference_low": "lower end of its interval", "difference_high": "upper end of its interval",
    "difference_p_holm": "its corrected p", "dissociation": "D when a task's heads to prune are those of the "
    "ranking; null if all tasks share it", "dissociation_low": "lower end of its interval",
    "dissociation_high": "upper end of its interval", "dissociation_p_holm": "its corrected p",
}  # fmt: skip

#: headings of the reference, and the tables under each by the name of their schema
GROUPS: dict[str, dict[str, Table]] = {
    "Data": {
        "data": _table(
            "example", "data/{task}/train.parquet", "data/{task}/validation.parquet",
            "data/{task}/further/{split}.parquet",
            label="name of the class, or the score as text",
        ),
        "unlabelled": _table("example of a test set", "data/{task}/test/{file}.parquet"),
        "tokens": _table(
            "example", "tokens/{model}/{task}/train.parquet", "tokens/{model}/{task}/validation.parquet",
            "tokens/{model}/{task}/further/{split}.parquet", "tokens/{model}/{task}/test/{file}.parquet",
            "tokens/{model}/sentences.parquet", "tokens/{model}/stimuli.parquet",
            label="index of the true class, or the true score; null without labels",
            input_ids="tokens, not padded", token_type_ids="which text of a pair each token is of; null "
            "where the model has no token types",
        ),
        "representations": _table(
            "text", "features/{model}/{task}.parquet", "similarity/{model}/text.parquet",
            "similarity/{model}/seed{seed}/sentences.parquet",
            "similarity/{model}/seed{seed}/stimuli.parquet",
            task="task whose text it is, or whose model made the vector",
            example="which example, sentence or stimulus; null for a mean over texts",
            vector="vector of the text, as long as the model is wide",
        ),
        "draws": _table(
            "example of a draw", "transfer/{task}.parquet",
            place="place in the draw, from 0: the first m are its m samples",
        ),
    },
    "Runs": {
        "training": _table(
            "step", f"{RUN}/training.parquet",
            step="step, from 0", epoch="pass over the training examples, from 0", task="task of the batch",
            loss="mean loss of the batch", learning_rate="learning rate of the step",
            examples_per_second="speed at that time",
            memory_mb="peak memory so far, of the GPU or the process",
        ),
        "importance": _table(
            "task, fold, layer and head", f"{RUN}/importance.parquet",
            f"{RUN}/branch/{{delta}}/importance.parquet",
            fold="tenth of the samples, from 0; importance of a head is the mean over folds, weighted by n",
            n="samples in the fold",
            fisher="mean of the squared derivative: diagonal empirical Fisher information of the gate",
        ),
        "pruning": _table(
            "mask, evaluated task and metric", f"{RUN}/pruning.parquet",
            pruned_for="whose heads are pruned: a task, `none`, `random` or `random_by_layer`",
            order="`top` or `bottom` heads of a task; null for others",
            draw="which random mask, from 0; null for others", n_pruned="number of heads pruned",
            task="evaluated task", value="value of the metric", n="validation examples it is of",
        ),
        "predictions": _table(
            "mask of top heads and validation example", f"{RUN}/predictions.parquet",
            pruned_for="task whose top heads are pruned, or `none`", task="evaluated task",
            fraction="fraction of heads pruned; 0 for `none`",
        ),
        "evaluation": _table("validation example", f"{RUN}/evaluation.parquet"),
        "transferred": _table(
            "fit and metric", f"{RUN}/transfer/{{task}}.parquet", value="value of the metric"
        ),
        "submission": _table(
            "example of a test set", f"{RUN}/submission.parquet",
            file="prediction file that the row is for",
        ),
    },
    "Dissociation": {
        "dissociation": _table(
            "run, fraction and task", "tables/dissociation.parquet", "tables/iat_dissociation.parquet",
            dissociation="D of this run (Eq. 6 and 7), as a fraction", metric="the task's main metric",
        ),
        "mixtures": _table(
            "run", "tables/mixtures.parquet", "tables/iat_mixtures.parquet",
            mean_dissociation="mean of D over the mixture's tasks at the main fraction",
            case="`double`, `single`, `inverted` or `none`",
            distinct="a double dissociation whose mean reaches `dissociation.distinct`",
        ),
        "combined": _table(
            "mixture and task, or `mean`; seeds combined, at the main fraction",
            "tables/combined.parquet", "tables/iat_combined.parquet",
        ),
        "fractions": _table(
            "mixture, task (or `mean`) and fraction; seeds combined",
            "tables/fractions.parquet", "tables/iat_fractions.parquet",
        ),
        "areas": _table(
            "mixture and task, or `mean`; seeds combined, all fractions",
            "tables/areas.parquet", "tables/iat_areas.parquet",
        ),
        "reliability": _table(
            "task of a run (split halves), or of a pair of seeds", "tables/reliability.parquet",
            kind="`split_half`: even against odd folds of one run; `seeds`: two seeds",
            seed_a="seed of the run, or the first of two", seed_b="the second of two; null for split halves",
            spearman="rank correlation of the two maps over all heads",
            top_overlap="Jaccard index of the two sets of top heads; null where they are empty",
        ),
    },
    "Similarity": {
        "sentences": _table(
            "sentence", "similarity/sentences.parquet", example="which sentence, from 0",
            task="task whose validation text it is; null for sentences of your own",
        ),
        "parameters": _table(
            "pair of tasks", "similarity/{model}/seed{seed}/fisher.parquet",
            "similarity/{model}/seed{seed}/gradient.parquet", measure="`fisher` or `gradient`",
        ),
        "similarity": _table(
            "model, measure, pair of tasks and subject", "tables/similarity.parquet",
            measure="measure of similarity",
            subject="subject of `cnm`; null for the mean over subjects, and for every other measure",
            similarity="similarity of the two tasks, at most 1; mean over seeds",
            between_seeds="standard deviation over seeds; null for one seed and for measures without any",
            ci_low="lower end of the interval over subjects; `cnm` only",
            ci_high="upper end of the interval over subjects; `cnm` only",
        ),
        "correlation": _table(
            "model and measure", "tables/correlation.parquet",
            model="name of the model; `pooled` for all of them, each standardised on its own",
            measure="measure of similarity", n_pairs="pairs of tasks with both values",
            pearson_r="Pearson correlation of a pair's mean D with its similarity",
            spearman_r="the same of ranks",
            slope="least squares of D on similarity", intercept="D at similarity 0, by the same line",
            p_pearson="ordinary p of pearson_r, as if pairs were independent, which they are not",
            p_mantel="Mantel test of pearson_r", p_spearman="ordinary p of spearman_r, with the same flaw",
            p_mantel_spearman="Mantel test of spearman_r",
            partial_r="Pearson correlation with the input paradigm held constant",
            p_partial="Mantel test of partial_r, by double semi-partialling",
            permutations="renamings of the tasks that were tried", exact="whether these are all there are",
        ),
        "stimuli": _table("stimulus", "brain/stimuli.parquet", example="place in the presentation, from 0"),
        "nuisance": _table(
            "stimulus", "brain/nuisance.parquet", example="place in the presentation, from 0",
            nuisance="a value for each regressor of `brain.nuisance`, in its order",
        ),
        "voxels": _table(
            "subject, voxel and fold", "brain/voxels.parquet", fold="fold of cross-validation, from 0",
            reliability="r of the prediction from other subjects' responses, within the training part; null "
            "with one subject",
            selected="whether the voxel is used in this fold",
            ceiling="the same r on the held-out part; null with one subject",
        ),
        "brain_encoding": _table(
            "task, subject and voxel", "similarity/{model}/seed{seed}/brain_encoding.parquet",
            task="task whose model is the source of the vectors",
        ),
        "brain_encoding_summary": _table(
            "task and subject", "similarity/{model}/seed{seed}/brain_encoding_summary.parquet",
            task="task whose model is the source of the vectors", n_voxels="voxels selected in some fold",
            r="mean over voxels of r", ceiling="mean over voxels of the ceiling",
            p_value="one-sided p that vectors predict the voxels at all, against circular shifts of stimuli",
        ),
    },
    "Head atlas": {
        "treebank": _table(
            "sentence", "atlas/treebank.parquet",
            sentence="which sentence, from 0", name="its name in the treebank, or the task whose text it is",
            words="syntactic words",
            head="number of each word's head, from 1; 0 for the root; null without trees",
            relation="relation of each word to its head; null without trees",
        ),
        "head_folds": _table(
            "task, measure, fold, layer and head", f"{RUN}/atlas/attention.parquet",
            f"{RUN}/atlas/relevance.parquet", f"{RUN}/atlas/ablation.parquet",
            measure="measure of heads; see [Head atlas](atlas.md)",
            fold="twentieth of the examples, from 0, the same for all measures and runs",
            value="mean over the fold's examples", n="examples in the fold",
        ),
        "attended": _table(
            "sentence, layer and head", f"{RUN}/atlas/attended.parquet",
            sentence="which sentence, from 0",
            tokens="for each token, how many tokens after it the one is that it attends to most",
            words="the same of words",
        ),
        "roles": _table(
            "layer, head and role", f"{RUN}/atlas/roles.parquet",
            role="`positional`, `syntactic` or `rare word`",
            relation="dependency relation of a syntactic role; else null",
            direction="of a syntactic role: `dependent to head` or `head to dependent`; else null",
            offset="relative position: of a positional role its own, of a syntactic one that of the baseline",
            hits="cases in which the head attends most to the place of the role", cases="all cases",
            sentences="sentences that have a case", rate="hits / cases",
            baseline="rate of the best fixed offset, or of chance; null for positional roles",
            threshold="rate that the role takes",
            p_value="one-sided p that the rate is no higher than the threshold, by Holm's method over all "
            "heads (and relations)",
            claimed="whether the head has the role",
        ),
        "ablated": _table(
            "task, measure, head and example", f"{RUN}/atlas/ablated.parquet",
            measure="`ablation` (by zero) or `mean_ablation`; null without ablation",
            layer="layer of the ablated head; null without ablation",
            head="ablated head; null without ablation",
        ),
        "cumulative": _table(
            "ranking, fraction and example", f"{RUN}/atlas/cumulative.parquet",
            ranking="what orders the heads to prune", pruned_for="task whose examples order the heads; "
            "null if all tasks share the order",
            order="which of its heads are pruned first: `top`, those with the largest values, or `bottom`, "
            "those with the smallest; null for random orders",
            draw="which random order, from 0; null for other rankings",
            task="evaluated task",
        ),
        "heads": _table(
            "run, task, layer, head and measure", "tables/heads.parquet",
            measure="measure of heads; see [Head atlas](atlas.md)",
            value="mean over examples", n="examples it is of",
        ),
        "head_roles": _table(
            "run, layer and head", "tables/head_roles.parquet",
            role="first of `positional`, `syntactic` and `rare word` that the head has, or `none`",
            relation="dependency relation of a syntactic role, the one that exceeds its baseline most",
            direction="of a syntactic role: `dependent to head` or `head to dependent`",
            offset="relative position: of a positional role its own, of a syntactic one that of the baseline",
            rate="share of cases in which the head attends most to the place of its role",
            baseline="rate of the best fixed offset, or of chance",
        ),
        "agreement": _table(
            "task and pair of measures; seeds combined", "tables/agreement.parquet",
            measure_a="first measure", measure_b="second measure",
            spearman="rank correlation over heads, mean over seeds",
            spearman_low="lower end of its interval", spearman_high="upper end of its interval",
            top_overlap="Jaccard index of the two sets of top heads, mean over seeds",
            top_overlap_low="lower end of its interval", top_overlap_high="upper end of its interval",
        ),
        "task_differences": _table(
            "task, measure and head; seeds combined", "tables/task_differences.parquet",
            against="the other task of the mixture; `others` for the mean of several",
            measure="`importance` and `ablation_size`, as shares of the sum over heads; `relevance` and "
            "`confidence`, as they are",
            value="the measure for the task, mean over seeds", other="the same for `against`",
            difference="value less other",
            p_value="two-sided p of the difference, by a t test over folds",
        ),
        "single_heads": _table(
            "task, measure and head; seeds combined", "tables/single_heads.parquet",
            measure="`ablation` (by zero) or `mean_ablation`",
            change="metric with the head ablated, less base",
        ),
        "pruning_curves": _table(
            "task, ranking and fraction; seeds combined", "tables/pruning_curves.parquet",
            ranking="what orders the heads to prune", ci_over=OVER_ORDERS,
            draws_low="lower end of the range of random orders; null for other rankings",
            draws_high="upper end of that range",
        ),
        "pruning_areas": _table(
            "task (or `mean`), ranking and what it is compared with; seeds combined",
            "tables/pruning_areas.parquet", ranking="what orders the heads to prune",
            against="ranking whose area is subtracted, `random` or `importance`; null for the area itself",
            metric="name of the metric, or `mean`",
            value="area under the curve of the metric against the fraction pruned, which is a mean of the "
            "metric: small where the ranking, from the top, finds heads that matter; or the difference of "
            "two areas",
            ci_over=OVER_ORDERS,
            p_value="two-sided p of the difference; null for the area itself",
        ),
        "ranking_dissociation": _table(
            "ranking, mixture and task, or `mean`; seeds combined", "tables/ranking_dissociation.parquet",
            ranking="what orders the heads to prune, those with the largest values first",
        ),
        "belief": _table(
            "mixture, task (or `mean`) and ranking; seeds combined", "tables/belief.parquet",
            ranking="what orders the heads to prune", **BELIEF,
            ci_over="what the interval of the area is over; that of the difference is over orders, too",
        ),
    },
    "IAT and transfer": {
        "iat": _table(
            "run, task and metric", "tables/iat.parquet", value="value of the metric",
            task="name of the task, or of a further split",
        ),
        "improvement": _table(
            "mixture, method, task and metric; seeds combined", "tables/improvement.parquet",
            task="name of the task or further split, or `mean`: the mean over tasks of the mean over metrics",
            metric="name of the metric, or `mean`",
            against="method that it is compared with; null for plain training",
        ),
        "specialization": _table(
            "mixture and task, or `mean`; seeds combined", "tables/specialization.parquet",
            before="D after plain training", after="D after IAT", difference="after less before",
        ),
        "transfer": _table(
            "fit and metric", "tables/transfer.parquet", value="value of the metric",
            mixture="what the encoder learnt: a mixture, a task (`single`), or `none` (`pretrained`)",
            method="whose encoder: `pretrained`, `single`, `tuned`, `iat` or a control",
            task="task that is learnt",
        ),
        "transfer_summary": _table(
            "mixture, encoder, task, tuning, samples and metric; seeds and draws combined",
            "tables/transfer_summary.parquet", task="task that is learnt",
            method="whose encoder: `pretrained`, `single`, `tuned`, `iat` or a control",
            source="what the encoder learnt: the mixture, one of its tasks, the `mean` of these, or `none`",
            n_draws="number of draws", value="mean of the metric over seeds and draws",
            difference="value less that of `tuned`, paired by seed and draw; null for `tuned`",
            difference_low="lower end of the interval of the difference",
            difference_high="upper end of the interval of the difference",
            ci_over="what both intervals are over: `draws` (one or two seeds), or `seeds and draws`",
        ),
    },
}  # fmt: skip


def schemas() -> dict[str, Schema]:
    """The schema of every table by its name, gathered from the modules that fill them."""
    found: dict[str, Schema] = {}
    for path in sorted(code_hash.LIBRARY.rglob("*.py")):
        if " Schema(" in path.read_text(encoding="utf-8") and path != Path(__file__):
            name = ".".join(path.relative_to(code_hash.LIBRARY.parent).with_suffix("").parts)
            module = vars(importlib.import_module(name))
            found |= {key.lower(): value for key, value in module.items() if isinstance(value, Schema)}
            found |= module.get("SCHEMAS", {})
    return found


def markdown() -> str:
    """The reference: every table with its paths, its row, and its columns."""
    known, lines = schemas(), []
    for title, tables in GROUPS.items():
        lines += [f"## {title}", ""]
        for name, table in tables.items():
            lines += _section(name, table, known[name])
    return "\n".join(lines)


def updated(text: str) -> str:
    """`text` with the reference between its two markers."""
    return between(text, BEGIN, END, "\n" + markdown())


def _section(name: str, table: Table, schema: Schema) -> list[str]:
    rows = [
        f"| {f'**`{column}`**' if place < schema.keys else f'`{column}`'} | {_type(kind)} | "
        f"{table.meaning(column)} |"
        for place, (column, kind) in enumerate(schema.columns.items())
    ]
    paths = ", ".join(f"`{path}`" for path in table.paths)
    heading = [f"### {name}", "", f"{paths}  ", f"A row for each {table.row}.", ""]
    return [*heading, "| column | type | meaning |", "|---|---|---|", *rows, ""]


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    return TYPES[str(kind)]
