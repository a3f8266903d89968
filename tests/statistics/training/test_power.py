"""Power of a paired comparison: against the t-test in closed form, and against simulated studies."""

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from headspec import tables
from headspec.cli import app
from headspec.statistics.comparison import examples_needed, power, seeds_needed
from headspec.statistics.intervals import Components, components, p_over_seeds_and_examples
from support.figures import frame
from support.schemas import SCHEMAS

#: of one test, and of the first step of Holm's correction for 9 and 23
LEVELS = (0.05, 0.05 / 9, 0.05 / 23)


def test_without_variance_over_examples_it_is_the_paired_t_test():
    """Cohen (1988): to show d = 0.5 with power 0.8 takes 34 pairs."""
    parts = Components(1.0, 0.0, 0.0)
    assert seeds_needed(0.5, parts, 0.8) == 34
    for n in (3, 10, 33):
        reach, shift = stats.t.ppf(0.975, n - 1), 0.5 * n**0.5
        expected = stats.nct.sf(reach, n - 1, shift) + stats.nct.cdf(-reach, n - 1, shift)
        assert power(0.5, parts, n) == pytest.approx(expected, abs=0.005)
    assert power(0.0, parts, 10) == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("level", [0.05, 0.05 / 23])
@pytest.mark.parametrize(
    "parts", [Components(0.4, 0.1, 0.3), Components(0.0, 0.02, 0.17), Components(0.1, 0.2, 0.1)]
)
def test_more_of_anything_gives_more_power(parts, level):
    by_seeds = [power(0.5, parts, seeds, level=level) for seeds in range(3, 40)]
    by_effect = [power(effect, parts, 5, level=level) for effect in np.linspace(0, 2, 20)]
    by_examples = [power(0.5, parts, 5, multiple, level) for multiple in (0.2, 0.5, 1, 2)]
    for found in (by_seeds, by_effect, by_examples):
        assert (np.diff(found) >= 0).all() and found[-1] > found[0]


def test_needed_seeds_and_examples_are_the_fewest_or_none():
    parts = Components(0.4, 0.1, 0.3)
    seeds = seeds_needed(0.5, parts, 0.8)
    assert power(0.5, parts, seeds) >= 0.8 > power(0.5, parts, seeds - 1)
    multiple = examples_needed(0.5, parts, 0.8, seeds - 1)
    assert power(0.5, parts, seeds - 1, multiple) >= 0.8 > power(0.5, parts, seeds - 1, multiple / 1.05)
    assert seeds_needed(0.5, Components(0.1, 1.0, 0.1), 0.8) is None
    assert examples_needed(0.5, Components(1.0, 0.1, 0.1), 0.8, seeds=5) is None


def simulated(rng, studies: int, seeds: int, n: int, parts: Components, effect: float):
    """Estimates (S, studies) and bootstraps (resamples, S, studies) of differences on n examples."""
    between_seeds = rng.normal(0, parts.seeds, (seeds, studies))
    over_examples = rng.normal(0, parts.examples * n**0.5, (n, 1, studies))
    both = rng.normal(0, parts.both * n**0.5, (n, seeds, studies))
    differences = effect + between_seeds + over_examples + both
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=300) / n
    return differences.mean(axis=0), np.einsum("rn,nsk->rsk", drawn, differences)


@pytest.mark.parametrize(
    ("parts", "effect"),
    [(Components(0.25, 0.05, 0.3), 1.0), (Components(0.0, 0.18, 0.3), 1.0), (Components(0.3, 0.0, 0.0), 1.2)],
)
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.thorough
def test_simulated_studies_show_effects_as_often_as_promised(parts, effect, seeds):
    """By the function that makes p_seeds; the components come back from the same studies."""
    rng, studies, hits = np.random.default_rng(seeds), 500, []
    for _ in range(4):
        values, bootstrap = simulated(rng, studies, seeds, 300, parts, effect)
        p, found = p_over_seeds_and_examples(values, bootstrap), components(values, bootstrap)
        hits.append([np.mean(p <= level) for level in LEVELS])
        for name, sd in parts._asdict().items():
            if sd > 0:  # estimates are cut off at 0
                assert np.mean(getattr(found, name) ** 2) ** 0.5 == pytest.approx(sd, rel=0.3), name
    promised = [power(effect, parts, seeds, level=level) for level in LEVELS]
    np.testing.assert_allclose(promised, np.mean(hits, axis=0), atol=0.04)
    assert max(promised) > min(promised) + 0.02


def printed(folder, rows: list[dict], *options: str):
    path = folder / "tables" / "improvement.parquet"
    tables.write(path, SCHEMAS["improvement"], frame("improvement", rows), {})
    return CliRunner().invoke(app, ["power", str(folder), *options])


def test_the_command_prints_a_line_for_each_variant(tmp_path):
    row = {"model": "m", "mixture": "all", "task": "mean", "metric": "mean", "n_seeds": 10}
    row |= {"sd_seeds": 0.005, "sd_examples": 0.0, "sd_both": 0.0}
    rows = [{**row, "method": name, "heads": "top"} for name in ("iat", "iat-alpha0.5-delta0.1")]
    rows += [{**row, "method": "iat", "task": "a", "heads": "top"}, {**row, "method": "single"}]
    first, *others = printed(tmp_path, rows, "--variants", "5").output.splitlines()
    assert "0.5 points with power 0.8 " in first and "Holm over 5 variants" in first
    lines = [line.split()[2:8] for line in others if line.startswith("m, all, ")]
    needed = seeds_needed(0.5, Components(0.5, 0.0, 0.0), 0.8, level=0.01)
    assert [line[0] for line in lines] == ["iat", "iat-alpha0.5-delta0.1"]
    assert all(line[1:4] == ["0.50", "0.00", "0.00"] and line[5] == str(needed) for line in lines)


def test_too_few_seeds_and_missing_tables_are_named(tmp_path):
    missing = CliRunner().invoke(app, ["power", str(tmp_path)])
    assert missing.exit_code and "missing" in str(missing.exception)
    few = printed(tmp_path, [{"model": "m", "task": "mean", "heads": "top", "n_seeds": 2}])
    assert few.exit_code and "three seeds" in str(few.exception)
