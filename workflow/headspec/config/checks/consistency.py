"""Checks of keys of the study, `iat` and `transfer` against each other: unknown names, contradictions."""

from collections.abc import Iterator

from headspec.config.checks import names, task_consistency
from headspec.config.measures.heads import MEASURES, HeadMeasure, own
from headspec.config.methods import METHODS, NAMED
from headspec.config.pruning_methods import PRUNING_METHODS, chosen_by
from headspec.config.runs import REWARMED
from headspec.config.sections.atlas import Probes
from headspec.config.sections.gates import Gates
from headspec.config.sections.iat import IAT, Transfer
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task
from headspec.config.sections.training import Training
from headspec.config.sources import identity
from headspec.config.study import Study
from headspec.config.values import WHOLE
from headspec.config.variants import CONTROLS
from headspec.config.variants import method as method_of_control
from headspec.errors import listing
from headspec.tasks.registry import KINDS, kind
from headspec.text_values import kept_by, named

#: keys of pretrained models, which described models do not have
PRETRAINED_KEYS = ("sha256", "weights", "pooling", "heads")


def problems(study: Study) -> Iterator[str]:
    """Yield a line for each contradiction: key, value, what was expected, and the nearest name."""
    yield from names.distinct(study)
    yield from names.mixtures(study)
    yield from _similarity(study)
    yield from iat_problems(study)
    yield from transfer_problems(study)
    chosen = {"atlas": study.atlas.mixtures, "gates": study.gates.mixtures, "probes": study.probes.mixtures}
    for key, mixtures in chosen.items():
        yield from names.unknown(f"{key}.mixtures", mixtures, study.tasks_by_mixture, "mixture")
    yield from _atlas(study)
    yield from _gates(study)
    yield from _probes(study)
    yield from _training(study)
    yield from task_consistency.test_problems(study)
    yield from task_consistency.refused_problems(study)
    for name, model in study.models.items():
        yield from _model(f"models.{name}", model, study)
    for name, task in study.tasks.items():
        yield from task_consistency.task_problems(name, task, study.tasks)
    yield from _lora(study)
    yield from task_consistency.prompt_problems(study)


def _similarity(study: Study) -> Iterator[str]:
    measures, pairs = study.similarity.measures, study.mixtures.pairs
    if measures and len(pairs) < 3:
        yield (
            f"similarity.measures: nothing to correlate; expected at least three tasks under "
            f"mixtures.pairs, got {listing(pairs)}."
        )
    of_brains = study.similarity.comparing("encoding")
    if of_brains and not study.brain:
        key = f"similarity.measures.{measures.index(of_brains[0])}"
        yield f"{key}: '{of_brains[0]}' needs brain responses; expected a section brain."
    if study.brain and not of_brains:
        yield "brain: not used; expected 'cnm' in similarity.measures."


def _atlas(study: Study) -> Iterator[str]:
    atlas = study.atlas
    if atlas.treebank:
        yield from task_consistency.subset_problems("atlas.treebank", atlas.treebank)
    for i, name in enumerate(atlas.rankings):
        if study.pruning.fraction == 1 and MEASURES[name].learnt and not PRUNING_METHODS[name].open_ended:
            yield (
                f"atlas.rankings.{i}: got '{name}', gates that keep the heads which pruning.fraction leaves; "
                "expected pruning.fraction below 1."
            )
        yield from _behaviour(f"atlas.rankings.{i}: got '{name}'", MEASURES[name], study)
    for i, name in enumerate(atlas.same_layers):
        if name not in atlas.rankings:
            yield f"atlas.same_layers.{i}: got '{name}', expected one of atlas.rankings."


def _behaviour(key: str, measure: HeadMeasure, study: Study) -> Iterator[str]:
    """Yield problems with a ranking that the methods or tasks of the atlas do not support."""
    others = [name for name in study.atlas.methods if METHODS[name].trains != "nothing"]
    if measure.predicts and "atlas" in study.methods and others:
        yield (
            f"{key}, which reads what a language model predicts; expected atlas.methods [prompted], not "
            f"{listing(others)}."
        )
    if measure.reads == "answers":
        for task in dict.fromkeys(task for run in study.atlas_runs for task in run.tasks):
            if study.tasks[task].prompt is None:
                yield f"{key}, which reads answers to prompts; tasks.{task} has no prompt."


def _gates(study: Study) -> Iterator[str]:
    gates, atlas = study.gates, study.atlas
    methods = {name: PRUNING_METHODS[name] for name in gates.pruning_methods}
    rankings = [name for name in methods if name in MEASURES]
    measured = {*own(rankings), *(name for name in rankings if MEASURES[name].table == "ablation")}
    for i, name in enumerate(methods):
        if name in measured - {*atlas.rankings, *atlas.ablations}:
            key = f"gates.pruning_methods.{i}"
            yield f"{key}: got '{name}', which must also be in atlas.rankings, because these measure it."
    if gates.penalties and not any(method.open_ended for method in methods.values()):
        expected = listing(name for name, method in PRUNING_METHODS.items() if method.open_ended)
        yield f"gates.penalties: not used; expected one of {expected} in gates.pruning_methods."
    for i, penalty in enumerate(gates.penalties):
        if penalty == gates.penalty:
            yield f"gates.penalties.{i}: got {named(penalty)}, the same as gates.penalty; use another value."
    for i, name in enumerate(atlas.rankings if gates.attention else []):
        if MEASURES[name].learnt:
            yield (
                f"atlas.rankings.{i}: got '{name}', which ranks all heads, so it cannot be combined "
                "with gates.attention."
            )
    for i, name in enumerate(gates.keep_models):
        if name not in (WHOLE, *methods):
            yield f"gates.keep_models.{i}: got '{name}', which must also be in gates.pruning_methods."
    if gates.source != Gates().source and "copied" not in {method.chosen for method in methods.values()}:
        expected = listing(chosen_by("copied"))
        yield f"gates.source: not used; expected {expected} in gates.pruning_methods, which keep its heads."
    trained = {"tuned", "frozen"} & {*study.methods} and study.plain_method == "tuned"
    if "gates" in study.methods and not trained:
        yield (
            f"methods: got {listing(study.methods)}, expected tuned as well, because gates trains all "
            "weights of pruned runs."
        )


def _probes(study: Study) -> Iterator[str]:
    probes, iat = study.probes, study.iat
    trained = ["iat", *iat.controls] if iat.mixtures else []
    for i, name in enumerate(probes.methods):
        if name in ("iat", "even") and name not in trained:
            control = "it in iat.controls, and " if name == "even" else ""
            yield f"probes.methods.{i}: got '{name}', expected {control}a mixture under iat.mixtures."
    on_words = any(kind(task).on_words for task in study.tasks.values())
    if not on_words and (probes != Probes() or "probes" in study.methods):
        types = " or ".join(name for name, each in KINDS.items() if each.on_words)
        yield f"probes: no task on words; expected one of type {types}."


def _training(study: Study) -> Iterator[str]:
    """Yield a problem for each key that is set, but that no task of the study uses."""
    used = {key for task in study.tasks.values() for key in kind(task).training}
    for key, needed in {key: why for each in KINDS.values() for key, why in each.training.items()}.items():
        if getattr(study.training, key) and key not in used:
            yield f"training.{key}: not used; expected {needed}."


def _model(key: str, model: Model, study: Study) -> Iterator[str]:
    has_source = "source" in model.model_fields_set
    if has_source == (model.transformer is not None):
        yield f"{key}: got {'both' if has_source else 'neither'}, expected one of source and transformer."
    if has_source:
        yield from task_consistency.source_problems(key, model.source)
    elif model.transformer:
        sizes = model.transformer
        if sizes.hidden % sizes.heads:
            yield (
                f"{key}.transformer.hidden: got {sizes.hidden}, expected a multiple of heads, {sizes.heads}."
            )
        for setting in PRETRAINED_KEYS:
            if setting in model.model_fields_set:
                yield f"{key}.{setting}: has no effect with transformer; remove it."
        for name, task in study.tasks.items():
            yield from kind(task).described_problems(f"tasks.{name}", task, key)


def _lora(study: Study) -> Iterator[str]:
    """Yield problems with adapters: unused settings, random weights, or a control of the same name."""
    if "lora" not in study.methods:
        if study.training.lora != Training().lora:
            yield "training.lora: not used; expected 'lora' in methods."
        return
    for name, model in study.models.items():
        if model.weights == "random":
            yield (
                f"models.{name}.weights: got 'random', expected pretrained weights, because methods has "
                "'lora', whose adapters are added to them."
            )
    if study.iat.mixtures and "lora" in study.iat.controls:
        yield (
            f"iat.controls.{study.iat.controls.index('lora')}: got 'lora', whose runs would share the name "
            "of the method 'lora'; use only one of them in a study."
        )


def iat_problems(study: Study) -> Iterator[str]:
    """Yield the problems with the section `iat`."""
    section, methods = study.iat, study.methods
    yield from names.unknown("iat.mixtures", section.mixtures, study.mixture_tasks, "mixture")
    if section.mixtures and study.plain_method not in methods:
        yield f"methods: got {listing(methods)}, expected tuned or lora as well, whose runs IAT continues."
    if methods and not {*NAMED} & {*methods}:
        expected = f"{listing(NAMED[:-1])} or {NAMED[-1]}"
        yield f"methods: got {listing(methods)}, expected {expected} as well, whose heads are compared."
    if section != IAT() and not section.mixtures:
        yield "iat.mixtures: nothing to train; expected a mixture or more, because other keys of iat are set."
    elif "iat" in methods and not section.mixtures and not study.transfer.tasks:
        yield "iat.mixtures: nothing to train; expected a mixture or more, because methods has 'iat'."
    yield from _unused(section)
    keys = {"iat.delta": section.delta} | {f"iat.deltas.{i}": delta for i, delta in enumerate(section.deltas)}
    for key, delta in keys.items():
        if section.mixtures and delta > section.reserve:
            yield f"{key}: got {delta:g}, expected at most iat.reserve ({section.reserve:g})."


def _unused(section: IAT) -> Iterator[str]:
    """Yield problems with keys that have no effect because another one is not set."""
    if section.peak is not None and section.rate != REWARMED:
        yield f"iat.peak: not used; expected iat.rate: {REWARMED}, the only rate with a peak."
    if section.rescorings != IAT().rescorings and "rescored" not in section.controls:
        yield "iat.rescorings: not used; expected 'rescored' in iat.controls."
    if section.sweep_controls and not [*section.alphas, *section.deltas]:
        yield "iat.sweep_controls: not used; expected iat.alphas or iat.deltas, to sweep over."


def transfer_problems(study: Study) -> Iterator[str]:
    """Yield the problems with the section `transfer`."""
    section, iat = study.transfer, study.iat
    yield from names.unknown("transfer.tasks", section.tasks, study.tasks, "task")
    for i, name in enumerate(section.tasks):
        if name not in study.tasks:
            continue
        if leak := _leak(name, study):
            yield f"transfer.tasks.{i}: got '{name}', {leak}; expected a task that no encoder has seen."
        elif "transfer" in kind(study.tasks[name]).refuses:
            called = kind(study.tasks[name]).called
            yield f"transfer.tasks.{i}: got '{name}', a task {called}; expected a task on whole texts."
    if section.tasks and iat.mixtures and study.plain_method != "tuned":
        yield (
            f"methods: got {listing(study.methods)}, expected tuned as well, because transfer.tasks is "
            "set and transfer trains all weights."
        )
        return
    if not section.tasks:
        if section != Transfer():
            yield "transfer.tasks: expected at least one task, because other keys of transfer are set."
        return
    trained = [method for method in section.methods if method != "pretrained"]
    if trained and not iat.mixtures:
        yield f"transfer.methods: got {listing(trained)}, expected a mixture under iat.mixtures to train on."
        return
    needed = {
        method_of_control(name): f"'{name}' in iat.controls" for name in CONTROLS if name not in iat.controls
    }
    if iat.rate != REWARMED:
        needed[REWARMED] = f"iat.rate: {REWARMED}"
    for i, method in enumerate(section.methods):
        if method in needed:
            yield f"transfer.methods.{i}: got '{method}', expected {needed[method]}, to train it."


def _leak(name: str, study: Study) -> str:
    """Return how a trained mixture includes a task's texts, by the config alone; empty if it does not."""
    for mixture in study.iat.mixtures:
        for member in study.mixture_tasks.get(mixture, ()):
            if member == name:
                return f"a task of '{mixture}' in iat.mixtures"
            if _same_texts(*(_base(study.tasks[task], study.tasks) for task in (name, member))):
                return f"which has the texts of '{member}', a task of '{mixture}' in iat.mixtures"
    return ""


def _base(task: Task, tasks: dict[str, Task]) -> Task:
    """Return the task that has the texts: the one whose texts are paired, or `task` itself."""
    return tasks.get(task.pairs_of or "") or task


def _same_texts(one: Task, other: Task) -> bool:
    """Return whether two tasks train on the same split of a source, and no filter separates their texts."""
    splits = [(task.subset, task.train_split) for task in (one, other)]
    if one.source is None or other.source is None or splits[0] != splits[1]:
        return False
    separate = any(
        not set(kept_by(one.filter[column])) & set(kept_by(other.filter[column]))
        for column in one.filter.keys() & other.filter.keys()
    )
    return not separate and identity(one.source) == identity(other.source)
