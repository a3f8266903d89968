"""The command ``headspec``. Each command imports what it needs, so that help and completion are quick."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from headspec import __version__
from headspec.errors import HeadspecError
from headspec.redaction import redacted

Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run the Snakefile and plugins of a study that was begun elsewhere, too."),
]

app = typer.Typer(
    help="How attention heads specialise when one transformer learns several tasks. "
    "The studies themselves are run by snakemake.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; print the message of an expected error and exit with status 1."""
    try:
        app(prog_name="headspec")
    except HeadspecError as error:
        sys.exit(str(error))
    except (OSError, UnicodeDecodeError) as error:  # a file from the command line cannot be read or written
        sys.exit(redacted(str(error)))


def _say(text: object) -> None:
    """Print a text with secrets hidden."""
    typer.echo(redacted(str(text)))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headspec {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that precede a command."""


@app.command()
def plan(
    study: Annotated[Path, typer.Argument(help="Config of the study, such as config.yaml.")],
    cores: Annotated[int | None, typer.Option(min=1, help="CPU cores; all by default.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs; all by default.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="FLOP/s of a job, for another device; measured by default."),
    ] = None,
) -> None:
    """Print what a study will cost before it runs."""
    from headspec.cost.report import report

    report(study, cores, gpus, rate)


@app.command()
def new(
    files: Annotated[
        list[str],
        typer.Argument(help="Files or folders of labelled texts; <file>:<column> names the label."),
    ],
    model: Annotated[
        str, typer.Option(help="Short name such as bert, a folder, or <owner>/<name> on the hub.")
    ],
    study: Annotated[Path, typer.Option(help="Study to write; it must not exist.")] = Path("my-study.yaml"),
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Time on this machine that the study is fitted to.")
    ] = None,
) -> None:
    """Write a commented study from files: one task per file, and a mixture of all tasks."""
    from functools import partial

    from headspec.pipeline.commands.from_files.new_study import write_study

    fit = None
    if minutes is not None:
        from headspec.cost.budget import fitted

        fit = partial(fitted, minutes=minutes)
    _say(write_study(files, model, study, fit))


@app.command()
def heads(
    model: Annotated[str, typer.Argument(help="Model with its task head: a folder, or a name on the hub.")],
    data: Annotated[
        str, typer.Argument(help="Table of texts and labels, words and tags, or prompts and answers.")
    ],
    out: Annotated[Path, typer.Option(help="Page to write; it must not exist.")] = Path("heads.html"),
) -> None:
    """Print the heads that a model needs most for a table, and write a page with a curve and a map."""
    from headspec.pipeline.commands.from_files.heads import write_page

    _say(write_page(model, data, out))


@app.command()
def summary(
    results: Annotated[Path, typer.Argument(help="Results of a study, such as results/demo.")],
    usage: Annotated[bool, typer.Option("--usage", help="Print time and memory of its jobs.")] = False,
    trust: Trust = False,
) -> None:
    """Print the findings of a study."""
    from headspec.pipeline.commands.summary import summarize
    from headspec.provenance import usage as jobs

    # a pager or a file has room for long lines
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    said, finished = (jobs.summary(results), True) if usage else summarize(results, width, trust)
    _say(said)
    raise typer.Exit(0 if finished else 1)


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="Table of a study, such as combined.")],
    results: Annotated[
        Path | None, typer.Argument(help="Results of the study; by default the only ones in results/.")
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX, for the package booktabs.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    rows: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Rows to print; may be repeated: --rows task=mean."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write instead.")] = None,
    trust: Trust = False,
) -> None:
    """Print a table of a study as papers do: values with intervals, and marks of chance."""
    from headspec.pipeline.commands.table import write_table

    form = "latex" if latex else "csv" if csv else "text"
    _say(write_table(name, results, form, rows or (), output, trust).removesuffix("\n"))


@app.command()
def explorer(
    results: Annotated[
        Path, typer.Argument(help="Results of a study, such as results/demo or docs/studies/gates-minilm.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="File to write; by default explorer.html in the results.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Write a whole study as one page for the browser."""
    from headspec.explorer.finished import write_explorer

    _say(write_explorer(results, output, trust))


@app.command()
def power(
    results: Annotated[Path, typer.Argument(help="Results of a study with IAT and three seeds or more.")],
    effect: Annotated[float, typer.Option(min=0, help="Difference to show, in points.")] = 0.5,
    power: Annotated[float, typer.Option(min=0.05, max=0.999, help="Chance to show it.")] = 0.8,
    level: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Level of the two-sided test.")] = 0.05,
    variants: Annotated[int, typer.Option(min=1, help="Number of variants that Holm corrects for.")] = 1,
) -> None:
    """Print how many seeds, or examples, are needed to show an effect of IAT."""
    from headspec.pipeline.commands.power import seeds_and_examples

    _say(seeds_and_examples(results, effect, power, level, variants))


@app.command()
def group(
    results: Annotated[Path, typer.Argument(help="Results of a study, such as results/demo.")],
    encoders: Annotated[int, typer.Option(min=1, help="Maximum number of encoders to train.")],
    by: Annotated[
        str | None,
        typer.Option(help="Criterion: `measured`, a predictor of gains, or a measure of similarity."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Figure to write; by default groups.png in the results.")
    ] = None,
) -> None:
    """Print which tasks should share an encoder."""
    from headspec.pipeline.commands.group import group_tasks

    _say(group_tasks(results, encoders, by, figure))


@app.command()
def export(
    run: Annotated[
        Path,
        typer.Argument(
            help="Run: results/<study>/runs/<model>/<mixture>/<method>/seed<n>, or a pruned run inside it: "
            "gates/<pruning_method>/<scope>/<kept>."
        ),
    ],
    heads: Annotated[
        int | None, typer.Option(help="Number of heads to keep; a pruned run has its own.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Task to keep the heads for; not needed for a run of a single task."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write; by default results/<study>/export/<run>/<task>-<heads>."),
    ] = None,
) -> None:
    """Export the model of a run without its less important heads.

    The result is an ONNX file with its tokenizer, and runs without headspec.
    """
    from headspec.pipeline.commands.export import export_run

    _say(export_run(run, heads, task, out))


@app.command()
def debug(
    result: Annotated[Path, typer.Argument(help="File of a study: results/<study>/...; it is not changed.")],
    trust: Trust = False,
) -> None:
    """Run the job that makes a file, alone and in this terminal, so that breakpoints work.

    It reads existing results, and writes to a temporary folder.
    """
    from headspec.pipeline.commands.debug import run_job

    run_job(result, trust)


@app.command()
def schema(
    file: Annotated[Path | None, typer.Argument(help="File to write instead of printing.")] = None,
) -> None:
    """Print the JSON schema of a study config, for editors."""
    from headspec.config.reference import editor_schema

    if file:
        file.write_text(editor_schema(), encoding="utf-8")
    else:
        typer.echo(editor_schema(), nl=False)


@app.command()
def reference(
    files: Annotated[list[Path], typer.Argument(help="Pages with the markers of a generated reference.")],
) -> None:
    """Update the generated references in pages of the docs."""
    from headspec.config import reference
    from headspec.pipeline import outputs

    for file in files:
        text = file.read_text(encoding="utf-8")
        try:
            updated = outputs.updated(text) if outputs.BEGIN in text else reference.updated(text)
        except HeadspecError as error:
            raise HeadspecError(f"{file}: {error}") from None
        file.write_text(updated, encoding="utf-8")
