"""The wording of errors: an unknown name is an error with the nearest one, not one of the others."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from headspec.atlas.cumulative import rescored
from headspec.atlas.relevance import relevances
from headspec.config.measures import heads, similarity
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.variants import RETRAININGS
from headspec.errors import LISTED, QUOTE, ConfigError, listing, nearest
from headspec.tasks.metrics import metric, score
from headspec.tasks.registry import KINDS as TYPES
from headspec.training import pruned_run, trainable
from headspec.training.gated import Sets
from headspec.training.iat import CHOICES, owned_heads
from headspec.training.learnt_gates import learnt_gates
from headspec.training.schedule import learning_rate, schedule


def test_long_lists_are_cut_and_counted():
    names = [f"n{i}" for i in range(LISTED + 1)]
    assert listing(names[:-1]) == ", ".join(names[:-1])
    assert listing(iter(names)) == ", ".join(names[:-1]) + f", ... ({len(names)} in all)"
    assert listing([]) == "nothing" and listing(["a", " "]) == "a, ' '"


@pytest.mark.parametrize(
    ("name", "valid", "quoted"),
    [
        ("true", ["no", "yes"], True), ("False", ["OFF", "ON"], True), ("yes", ["true", "false"], True),
        ("true", ["true", "yes"], False), ("true", ["good", "bad"], False), ("no", ["yes"], False),
    ],
)  # fmt: skip
def test_words_that_yaml_reads_as_booleans_are_to_be_quoted(name, valid, quoted):
    assert (nearest(name, valid) == QUOTE) == quoted


MAPS = {"a": np.arange(8.0).reshape(2, 4), "b": -np.arange(8.0).reshape(2, 4)}
RNG = np.random.default_rng(0)
METHOD = SimpleNamespace(chosen="rankd", start="traind")
NOTHING = cast(Any, SimpleNamespace())
PLAN = pruned_run.Plan(cast(Any, METHOD), NOTHING, 0, Sets(["a"], False), (2, 4), np.zeros(2, bool), 4, 0, 0)

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "shfited": (lambda: owned_heads(MAPS, "shfited", 0.25, 0), ""),
    "randm": (lambda: owned_heads(MAPS, "randm", 0.25, 0), "random"),
    "evn": (lambda: owned_heads(MAPS, "evn", None, 0), "even"),
    "squrt": (lambda: schedule({}, 4, 1, "squrt", RNG), "sqrt"),
    "cosin": (lambda: learning_rate(0, 10, 1.0, 0.5, "cosin"), "cosine"),
    "rankd": (lambda: PLAN.gating(MAPS, None), "ranked"),
    "traind": (lambda: pruned_run.starting_model(NOTHING, cast(Any, METHOD), {}, True), "trained"),
    "atention": (lambda: trainable.targets(NOTHING, "atention"), "attention"),
    "subset-hrd": (lambda: learnt_gates("subset-hrd", (2, 4), 4, 0.1), "subset-hard"),
    "botom": (lambda: rescored(NOTHING, {}, {}, [], NOTHING, "botom"), "bottom"),
    "attnlpr": (
        lambda: relevances(NOTHING, "a", NOTHING, RNG.permutation(2), NOTHING, rules=cast(Any, "attnlpr")),
        "attnlrp",
    ),
    "blue": (lambda: metric("blue"), "bleu"),
    "acuracy": (lambda: score("acuracy", [0], [0]), "accuracy"),
    "importence": (lambda: heads.MEASURES["importence"], "importance"),
    "fischer": (lambda: similarity.MEASURES["fischer"], "fisher"),
    "random_by_layer": (lambda: PRUNING_METHODS["random_by_layer"], "random-by-layer"),
    "unshard": (lambda: RETRAININGS["unshard"], "unshared"),
    "constituent": (lambda: TYPES["constituent"], "constituents"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_name_is_an_error_with_the_nearest(name):
    call, nearest = CALLS[name]
    hint = f" Did you mean '{nearest}'?" if nearest else ""
    with pytest.raises(ConfigError, match=rf"^no .* '{name}'; expected one of .*\.{re.escape(hint)}$"):
        call()


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_of_heads_is_one(choice):
    assert all(mask.shape == (2, 4) for mask in owned_heads(MAPS, choice, 0.25, 0).values())
