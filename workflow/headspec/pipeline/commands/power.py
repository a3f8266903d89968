"""How many seeds a study of IAT needs to show an effect, from the variance in a finished study."""

from pathlib import Path

from headspec import tables
from headspec.config.values import MEAN
from headspec.errors import HeadspecError
from headspec.statistics.comparison import examples_needed, power, seeds_needed
from headspec.statistics.intervals import Components

NAME, COLUMN = 44, 10
NUMBERS = ("seeds", "examples", "both", "so far", "needed", "needed")


def seeds_and_examples(folder: Path, effect: float, wanted: float, level: float, variants: int) -> str:
    """Return a table with a line for each variant of IAT in `improvement`.

    `effect` is a difference of the mean over tasks, in points, and `wanted` the power. The two-sided test
    over seeds and examples has this `level`; Holm's first step tests at level / variants.
    Raises HeadspecError without the table `improvement`, or with fewer than three seeds.
    """
    path = folder / "tables" / "improvement.parquet"
    if not path.exists():
        raise HeadspecError(f"{path}: missing; expected the results of a study with iat.mixtures")
    table = tables.read(path.absolute())
    rows = table[(table["task"] == MEAN) & table["heads"].notna()]
    rows = rows[rows["sd_seeds"].notna()] if "sd_seeds" in rows else rows[:0]
    if rows.empty:
        raise HeadspecError(f"{path}: no variance between seeds; expected a study of three seeds or more")
    holm = f", Holm over {variants} variants" if variants > 1 else ""
    lines = [
        f"To show {effect:g} points with power {wanted:g} (two-sided p over seeds and examples, level "
        f"{level:g}{holm})",
        "",
        f"{'':<{NAME}}{'standard deviation (points)':>{3 * COLUMN}}{'power':>{COLUMN}}{'seeds':>{COLUMN}}"
        f"{'examples':>{COLUMN}}",
        f"{'model, mixture, method':<{NAME}}" + "".join(f"{each:>{COLUMN}}" for each in NUMBERS),
    ]
    for row in rows.to_dict("records"):
        parts = Components(*(100 * row[f"sd_{name}"] for name in Components._fields))
        n = int(row["n_seeds"])
        corrected = level / variants
        seeds = seeds_needed(effect, parts, wanted, level=corrected)
        examples = examples_needed(effect, parts, wanted, n, corrected)
        name = f"{row['model']}, {row['mixture']}, {row['method']}"
        numbers = [f"{each:.2f}" for each in (*parts, power(effect, parts, n, level=corrected))]
        numbers += [str(seeds or "never"), f"x {examples:.2g}" if examples else "never"]
        lines.append(f"{name:<{NAME}}" + "".join(f"{each:>{COLUMN}}" for each in numbers))
    return "\n".join(
        [
            *lines,
            "",
            "seeds needed: with as many examples; examples needed: times those here, with as many seeds;",
            "never: the variance of the other is too large by itself",
        ]
    )
