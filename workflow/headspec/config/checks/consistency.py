"""Checks across sections of a config: names that refer to nothing, settings that contradict each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from headspec.config.as_text import named
from headspec.config.checks import (
    iat_consistency,
    model_consistency,
    prompt_consistency,
    task_consistency,
)
from headspec.config.measures.heads import MEASURES, own
from headspec.config.methods import METHODS, NAMED, prompts
from headspec.config.methods import alone as method_alone
from headspec.config.pruning_methods import PRUNING_METHODS, WHOLE, chosen_by
from headspec.config.runs import POOLED, RESERVED
from headspec.config.sections.atlas import Atlas
from headspec.config.sections.base import Section
from headspec.config.sections.gates import Gates
from headspec.config.sections.iat import IAT
from headspec.config.sections.model import Model
from headspec.config.sections.probes import Probes
from headspec.config.sections.pruning import Pruning
from headspec.config.sections.similarity import Similarity
from headspec.config.sections.task import Task
from headspec.config.sections.training import Training
from headspec.config.sections.transfer import Transfer
from headspec.errors import listing, nearest, shown
from headspec.tasks.kinds import KINDS, kind

S = TypeVar("S", bound=Section)


def problems(config: dict[str, Any]) -> Iterator[str]:
    """One line for each contradiction in the raw `config`; sections that cannot be read are skipped."""
    models, tasks = _mapping(config, "models"), _mapping(config, "tasks")
    mixtures, groups = _mapping(config, "mixtures"), _mapping(config, "mixtures", "groups")
    typed_tasks = {name: _typed(Task, task) for name, task in tasks.items()}
    further = {name: list(_mapping(tasks, name, "further")) for name in tasks}
    yield from _names(models, tasks, groups, further)
    if isinstance(config.get("mixtures"), dict) and tasks:
        yield from _mixtures(mixtures, groups, list(tasks))
    yield from _similarity(
        _typed(Similarity, config.get("similarity", {})), mixtures, config.get("brain") is not None
    )
    iat, transfer = _typed(IAT, config.get("iat", {})), _typed(Transfer, config.get("transfer", {}))
    members = _mixture_tasks(mixtures, groups, list(tasks))
    if iat:
        transferred = bool(transfer and transfer.tasks)
        yield from iat_consistency.iat_problems(iat, config.get("methods", ["tuned"]), members, transferred)
    if iat and transfer:
        yield from iat_consistency.transfer_problems(transfer, iat, members, typed_tasks)
    if atlas := _typed(Atlas, config.get("atlas", {})):
        yield from _atlas(atlas, [*members, *tasks], _typed(Pruning, config.get("pruning", {})))
        if gates := _typed(Gates, config.get("gates", {})):
            yield from _gates(gates, atlas, config.get("methods", ["tuned"]), [*members, *tasks])
    if probes := _typed(Probes, config.get("probes", {})):
        yield from _probes(probes, config.get("methods", ["tuned"]), [*members, *tasks], typed_tasks, iat)
    kinds = [kind(task) for task in typed_tasks.values() if task]
    for key, needed in {key: why for each in KINDS.values() for key, why in each.training.items()}.items():
        if _mapping(config, "training").get(key) and not any(key in each.training for each in kinds):
            yield f"training.{key}: not used; expected {needed}."
    yield from task_consistency.test_problems(typed_tasks, mixtures, groups)
    retrained = {f"iat.mixtures.{i}": name for i, name in enumerate(iat.mixtures if iat else [])}
    retrained |= {f"transfer.tasks.{i}": name for i, name in enumerate(transfer.tasks if transfer else [])}
    similarity = _typed(Similarity, config.get("similarity", {}))
    compared = similarity.measures if similarity else []
    yield from task_consistency.refused_problems(
        typed_tasks, config.get("methods", ["tuned"]), members, retrained, compared
    )
    for name, model in models.items():
        if typed_model := _typed(Model, model):
            yield from model_consistency.problems(f"models.{name}", typed_model, typed_tasks)
    for name, task in typed_tasks.items():
        if task is not None:
            yield from task_consistency.task_problems(name, task, typed_tasks)
    yield from _lora(config, models, iat)
    methods = config.get("methods", ["tuned"])
    named = [*map(str, methods)] if isinstance(methods, list) else []
    alone = _alone(mixtures, similarity)
    if prompts(named):
        prompted = members if method_alone(named) == "single" else members | {"": [*alone.values()]}
        yield from prompt_consistency.missing(prompted, typed_tasks)
    if method_alone(named) != "single":
        yield from prompt_consistency.compared(compared)
        alone = {}
    given = {f"methods.{i}": method for i, method in enumerate(named)}
    yield from prompt_consistency.dtypes({name: _typed(Model, m) for name, m in models.items()}, given)
    training = {key: m for key, m in given.items() if m in NAMED and METHODS[m].trains != "nothing"}
    yield from prompt_consistency.trained(training, members, alone, typed_tasks)


def _mapping(config: Any, *path: str) -> dict[str, Any]:
    """The mapping at `path` in a raw config, with its keys as text; empty where there is none."""
    for key in path:
        config = config.get(key) if isinstance(config, dict) else None
    return {str(key): value for key, value in config.items()} if isinstance(config, dict) else {}


def _typed(section: type[S], value: Any) -> S | None:
    try:
        return section.model_validate(value)
    except ValidationError:
        return None


def _names(
    models: Iterable[str], tasks: Iterable[str], groups: Iterable[str], further: dict[str, list[str]]
) -> Iterator[str]:
    """Names become folders, also on file systems that ignore case, and values in tables."""
    keys = {"models.": models, "tasks.": tasks, "mixtures.groups.": groups}
    keys |= {f"tasks.{task}.further.": names for task, names in further.items()}
    taken: dict[tuple[bool, str], str] = {}
    for section, names in keys.items():
        for name in names:
            # a task and a group can both be the mixture of a run; a model cannot
            folder = (section == "models.", name.lower())
            if folder in taken:
                yield f"{section}{name}: same name as {taken[folder]} (case is ignored); expected another."
            taken.setdefault(folder, section + name)
    for name in models:
        if name.lower() == POOLED:
            yield f"models.{name}: tables use this name for all models together; expected another."
    for section, name in [(section, name) for section, names in keys.items() for name in names]:
        if section != "models." and name.lower() in RESERVED:
            yield f"{section}{name}: reserved for tables; expected a name other than {listing(RESERVED)}."


def _mixtures(mixtures: dict[str, Any], groups: dict[str, Any], tasks: list[str]) -> Iterator[str]:
    if not any(mixtures.values()):
        yield "mixtures: nothing to train; expected tasks under pairs, groups or single."
    named = {"mixtures.pairs": mixtures.get("pairs"), "mixtures.single": mixtures.get("single")}
    named |= {f"mixtures.groups.{name}": group for name, group in groups.items()}
    lists = {
        key: [str(t) for t in value]
        for key, value in named.items()
        if isinstance(value, list) and not any(isinstance(t, (list, dict)) for t in value)
    }
    seen = {
        frozenset(pair): "+".join(pair) for pair in itertools.combinations(lists.get("mixtures.pairs", ()), 2)
    }
    for key, members in lists.items():
        for i, name in enumerate(members):
            if name not in tasks:
                meant = lists.get(f"mixtures.groups.{name}") or [t for t in name.split("+") if t in tasks]
                together = len(meant) > 1 and not key.endswith(f".{name}")
                hint = f" Did you mean {', '.join(meant)}?" if together else nearest(name, tasks)
                yield f"{key}.{i}: no task '{name}'; expected one of {listing(tasks)}.{hint}"
        is_group = key.startswith("mixtures.groups.")
        if len(members) < 2 and (is_group or (key == "mixtures.pairs" and members)):
            yield f"{key}: got {shown(members)}, expected at least two tasks."
        elif is_group and frozenset(members) in seen:
            yield f"{key}: same tasks as '{seen[frozenset(members)]}'; expected each mixture once."
        elif is_group:
            seen[frozenset(members)] = key.removeprefix("mixtures.groups.")


def _similarity(similarity: Similarity | None, mixtures: dict[str, Any], brain: bool) -> Iterator[str]:
    measures = similarity.measures if similarity else []
    pairs = mixtures.get("pairs", [])
    if measures and isinstance(pairs, list) and len(pairs) < 3:
        yield (
            f"similarity.measures: nothing to correlate; expected at least three tasks under "
            f"mixtures.pairs, got {listing(pairs)}."
        )
    if "cnm" in measures and not brain:
        key = f"similarity.measures.{measures.index('cnm')}"
        yield f"{key}: 'cnm' needs brain responses; expected a section brain."
    if brain and similarity and "cnm" not in measures:
        yield "brain: not used; expected 'cnm' in similarity.measures."


def _atlas(atlas: Atlas, mixtures: list[str], pruning: Pruning | None) -> Iterator[str]:
    if atlas.treebank:
        yield from task_consistency.subset_problems(
            "atlas.treebank", atlas.treebank.source, atlas.treebank.subset
        )
    for i, name in enumerate(atlas.mixtures):
        if name not in mixtures:
            hint = nearest(name, mixtures)
            yield f"atlas.mixtures.{i}: no mixture '{name}'; expected one of {listing(mixtures)}.{hint}"
    for i, name in enumerate(atlas.rankings):
        if (
            pruning
            and pruning.fraction == 1
            and MEASURES[name].learnt
            and not PRUNING_METHODS[name].open_ended
        ):
            yield (
                f"atlas.rankings.{i}: got '{name}', gates that keep the heads which pruning.fraction leaves; "
                "expected that to be below 1."
            )


def _probes(
    probes: Probes, methods: Any, mixtures: list[str], tasks: dict[str, Task | None], iat: IAT | None
) -> Iterator[str]:
    for i, name in enumerate(probes.mixtures):
        if name not in mixtures:
            hint = nearest(name, mixtures)
            yield f"probes.mixtures.{i}: no mixture '{name}'; expected one of {listing(mixtures)}.{hint}"
    trained = ["iat", *iat.controls] if iat and iat.mixtures else []
    for i, name in enumerate(probes.methods):
        if iat and name in ("iat", "even") and name not in trained:
            control = "it in iat.controls, and " if name == "even" else ""
            yield f"probes.methods.{i}: got '{name}', expected {control}a mixture under iat.mixtures."
    on_words = any(task is None or kind(task).on_words for task in tasks.values())
    if not on_words and (probes != Probes() or isinstance(methods, list) and "probes" in methods):
        types = " or ".join(name for name, each in KINDS.items() if each.on_words)
        yield f"probes: no task on words; expected one of type {types}."


def _lora(config: dict[str, Any], models: dict[str, Any], iat: IAT | None) -> Iterator[str]:
    """Adapters need pretrained weights, and a name of their own."""
    methods = config.get("methods", ["tuned"])
    if not isinstance(methods, list) or "lora" not in methods:
        training = _typed(Training, config.get("training", {}))
        if training and training.lora != Training().lora:
            yield "training.lora: not used; expected 'lora' in methods, whose settings they are."
        return
    for name in models:
        if _mapping(models, name).get("weights") == "random":
            yield (
                f"models.{name}.weights: got 'random', expected pretrained weights, because methods has "
                "'lora', whose adapters are added to them."
            )
    if iat and iat.mixtures and "lora" in iat.controls:
        yield (
            f"iat.controls.{iat.controls.index('lora')}: got 'lora', whose runs have the name of the method "
            "'lora'; expected a study with one of them."
        )


def _gates(gates: Gates, atlas: Atlas, methods: Any, mixtures: list[str]) -> Iterator[str]:
    for i, name in enumerate(gates.mixtures):
        if name not in mixtures:
            hint = nearest(name, mixtures)
            yield f"gates.mixtures.{i}: no mixture '{name}'; expected one of {listing(mixtures)}.{hint}"
    rankings = [method for method in gates.pruning_methods if method in MEASURES]
    measured = {*own(rankings), *(method for method in rankings if MEASURES[method].table == "ablation")}
    for i, method in enumerate(gates.pruning_methods):
        if method in measured - {*atlas.rankings, *atlas.ablations}:
            key = f"gates.pruning_methods.{i}"
            yield f"{key}: got '{method}', expected it in atlas.rankings, which measures it."
    if gates.penalties and not any(PRUNING_METHODS[method].open_ended for method in gates.pruning_methods):
        expected = listing(name for name, method in PRUNING_METHODS.items() if method.open_ended)
        yield f"gates.penalties: not used; expected one of {expected} in gates.pruning_methods."
    for i, penalty in enumerate(gates.penalties):
        if named(penalty) == named(gates.penalty):
            yield f"gates.penalties.{i}: got {named(penalty)}, the penalty; expected others."
    for i, name in enumerate(atlas.rankings if gates.attention else []):
        if MEASURES[name].learnt:
            yield (
                f"atlas.rankings.{i}: got '{name}', which ranks all heads; expected none of these with "
                "gates.attention."
            )
    for i, method in enumerate(gates.keep_models):
        if method not in (WHOLE, *gates.pruning_methods):
            yield f"gates.keep_models.{i}: got '{method}', expected it in gates.pruning_methods as well."
    copied = [method for method in gates.pruning_methods if PRUNING_METHODS[method].chosen == "copied"]
    if gates.source != Gates().source and not copied:
        expected = listing(chosen_by("copied"))
        yield f"gates.source: not used; expected {expected} in gates.pruning_methods, which keep its heads."
    if isinstance(methods, list) and "gates" in methods and not {"tuned", "frozen"} & {*map(str, methods)}:
        yield f"methods: got {listing(methods)}, expected tuned as well, whose runs are pruned."


def _alone(mixtures: dict[str, Any], similarity: Similarity | None) -> dict[str, str]:
    """Config key: a task that is trained alone."""
    keys = ["single", *(["pairs"] if similarity and similarity.compares_models else [])]
    lists = {key: mixtures.get(key) for key in keys}
    return {
        f"mixtures.{key}.{i}": str(name)
        for key, names in lists.items()
        if isinstance(names, list)
        for i, name in enumerate(names)
    }


def _mixture_tasks(
    mixtures: dict[str, Any], groups: dict[str, Any], tasks: list[str]
) -> dict[str, list[str]]:
    """Mixture name: its tasks, as far as they can be read."""
    pairs = mixtures.get("pairs")
    paired = [t for t in tasks if t in map(str, pairs)] if isinstance(pairs, list) else []
    members = {"+".join(pair): list(pair) for pair in itertools.combinations(paired, 2)}
    lists = {name: list(map(str, group)) for name, group in groups.items() if isinstance(group, list)}
    return members | dict.fromkeys(groups, []) | lists
