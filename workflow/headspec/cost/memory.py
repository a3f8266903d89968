"""Memory that jobs request, from the sizes of their models.

A job holds copies of the weights (gradients, moments, a state to continue from), the activations kept for the
backward pass, and tokens; docs/performance.md has measurements. Planning uses this module, so it avoids
torch.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headspec.config.methods import METHODS, alone
from headspec.config.quantizations import QUANTIZATIONS
from headspec.config.sections.model import Model, Transformer
from headspec.config.study import Study
from headspec.cost.passes import Stage
from headspec.cost.stages import stage_cost
from headspec.errors import HeadspecError
from headspec.head_arrays import CROSS, DECODER, SELF
from headspec.models.architectures import continues
from headspec.models.devices import SIZES
from headspec.models.pretrained.config_json import config_of, heads_by_layer
from headspec.tasks.registry import kind

NUMBER_BYTES = 4  # in float32; bfloat16 needs less
PROCESS = 2e9  # bytes: 0.5 GB of libraries, and the tokens of a million examples
MARGIN = 1.2
ON_GPU = 12_000  # minimum MB requested with a GPU: host memory was not measured
EXAMPLES = 100_000  # training examples of a task for which the config gives no number

#: copies of the weights of a prompted model in bfloat16: the file while it is read, and the model
HALF = 2

#: names for the width in configs
HIDDEN = ("hidden_size", "n_embd", "dim", "d_model")
INNER = ("intermediate_size", "n_inner", "hidden_dim", "encoder_ffn_dim", "d_ff")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")  # of a mixture of experts
#: names in configs of models without position embeddings, most of which have an untied head
ROTARY = ("rope_theta", "rope_parameters", "rope_scaling", "rotary_dim", "rotary_pct")
ACTIVATION = ("hidden_act", "hidden_activation", "activation_function", "feed_forward_proj")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model."""

    layers: int
    heads: int  #: of the layer with the most
    hidden: int
    inner: int
    parameters: int
    embedded: int = 0  #: parameters of word and position embeddings
    head: int = 0  #: further parameters of a language model whose head is not tied to its embedding

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Sizes:
        """Return the sizes in a config.json, counting parameters as if no layers shared weights.

        A config without numbers of heads or a width counts as `BERT_LARGE`.
        """
        hidden, kinds = _first(config, HIDDEN), heads_by_layer(config)
        if not (kinds and hidden):
            return BERT_LARGE
        by_layer = list(itertools.chain.from_iterable(kinds.values()))
        layers, heads = len(by_layer), max(by_layer)
        inner = _first(config, INNER) or 4 * hidden
        shared = config.get("num_key_value_heads") or heads  # heads of keys and values
        width = (config.get("head_dim") or hidden // heads) * (2 * heads + 2 * shared)
        # two projections of positions besides the four of attention
        attention = 6 * hidden if config.get("relative_attention") else width
        words, rotary = config.get("vocab_size", 0), any(config.get(name) for name in ROTARY)
        embedded = hidden * (words + (0 if rotary else config.get("max_position_embeddings", 0)))
        parameters = hidden * layers * (attention + _feed_forward(config, inner)) + embedded
        tied = config.get("tie_word_embeddings", not rotary)
        return cls(layers, heads, hidden, inner, parameters, embedded, 0 if tied else hidden * words)

    def prompted(self, dtype: str, quantization: str | None = None) -> float:
        """Return the bytes of a language model whose linear layers are quantised, or in `dtype`.

        The rest is in float32.
        """
        linear, others = self.parameters - self.embedded, self.embedded + self.head
        size: float = NUMBER_BYTES // 2 if dtype == "bf16" else NUMBER_BYTES
        if quantization:
            size = QUANTIZATIONS[quantization].bits / 8
        return size * linear + NUMBER_BYTES * others

    def activations(self, examples: int, tokens: int, layers: int) -> float:
        """Return the bytes of a padded batch while `layers` layers keep what their backward pass needs.

        Each keeps 13 vectors per token, two more of the inner width, and for each attention map the
        probabilities, those after dropout, and the dropout mask. Three more layers cover the one being
        computed.
        """
        vectors = tokens * (13 * self.hidden + 2 * self.inner)
        return NUMBER_BYTES * examples * (layers + 3) * (vectors + 2.25 * self.heads * tokens**2)


def _first(config: dict[str, Any], names: Iterable[str]) -> Any:
    """Return the first of these entries that is set."""
    return next((config[name] for name in names if config.get(name)), None)


def _feed_forward(config: dict[str, Any], inner: int) -> int:
    """Return the total width of a layer's matrices after attention, including all experts."""
    activation, kind = str(_first(config, ACTIVATION)), config.get("model_type", "")
    # gated layers have three matrices, not two; some are gated whatever the activation
    gated = (
        activation in ("silu", "swish") or "gated" in activation or kind.startswith(("gemma", "modernbert"))
    )
    experts: int | None = _first(config, EXPERTS)
    if experts:
        one: int = config.get("moe_intermediate_size") or inner
        shared: int = config.get("n_shared_experts") or 0
        return 3 * one * (experts + shared)
    return (3 if gated else 2) * inner


#: assumed for models whose config is not here (on the hub and not yet in the cache)
BERT_LARGE = Sizes(24, 16, 1024, 4096, 335_000_000)


@functools.cache
def sizes(source: str, transformer: Transformer | None = None) -> Sizes:
    """Return the sizes of a model from its config.json or the study's config; uses no network."""
    return Sizes.from_config(_content(Model(source=source, transformer=transformer)))


def _content(model: Model) -> dict[str, Any]:
    """Return the config.json of a model; empty if missing or invalid, as checks before a run will report."""
    try:
        return config_of(model, "model") or {}
    except HeadspecError:
        return {}


def megabytes(study: Study, model: str, stage: str, gpu: bool, trains: str = "all") -> int:
    """Return the MB of host memory that a process of a job requests, without activations if on a `gpu`."""
    cost, settings = stage_cost(stage), study.models[model]
    size, length = sizes(settings.source, settings.transformer), settings.max_length
    examples = evaluated = max(1, SIZES["cpu"][0] // length)
    if cost.batch:
        examples = getattr(study, cost.batch).batch_size
    copies = cost.adapted if cost.adapted and trains == "adapters" else cost.copies
    if trains == "nothing":
        weights, file = size.prompted(settings.dtype, settings.quantization), size.prompted("bf16")
        if gpu and continues(_content(settings)):  # what is read, or has no room on the GPUs
            weights = max(weights, file)
        elif settings.quantization:
            weights += file
        else:
            weights *= HALF if settings.dtype == "bf16" else copies
    else:
        weights = NUMBER_BYTES * copies * size.parameters
    activations = 0.0
    if not gpu:
        activations = size.activations(examples, length, size.layers if cost.backward else 0)
        if cost.writes:
            written = size.activations(evaluated, length, 0) + writing(study, model, evaluated)
            activations = max(activations, written)
    needed = PROCESS + weights + cost.held(study) + activations + _vectors(study, cost, size.hidden)
    return max(math.ceil(MARGIN * needed / 1e6), ON_GPU if gpu else 0)


def writing(study: Study, model: str, examples: int) -> float:
    """Return the bytes of a batch of unfinished texts that a model writes.

    They are three copies of log-probabilities, and cached keys and values; 0 if no task has texts written.
    With more beams, a batch has fewer of the `examples`, but at least one.
    """
    most = max((kind(task).beams(task) or kind(task).generates for task in study.tasks.values()), default=0)
    config = _content(study.models[model]) if most else {}
    if not (kinds := heads_by_layer(config)):
        return 0
    layers = sum(len(kinds.get(name, ())) for name in (SELF, DECODER, CROSS))
    cache = 2 * study.models[model].max_length * Sizes.from_config(config).hidden * layers
    return NUMBER_BYTES * max(examples, most) * (3 * int(config.get("vocab_size", 0)) + cache)


def _vectors(study: Study, cost: Stage, hidden: int) -> float:
    """Return the bytes of frozen runs' training vectors, counted four times: in tables and as arrays."""
    if "frozen" not in study.methods or not cost.vectors:
        return 0
    numbers = {name: task.train_examples for name, task in study.tasks.items()}
    examples = {
        name: n or numbers.get(study.tasks[name].pairs_of or "") or EXAMPLES for name, n in numbers.items()
    }
    mixtures = [[name] for name in examples] if cost.vectors == "task" else study.mixture_tasks.values()
    most = max((sum(examples[name] for name in tasks) for tasks in mixtures), default=0)
    return 4 * NUMBER_BYTES * hidden * most


def gpus(study: Study, model: str, stage: str) -> int:
    """Return how many GPUs a job uses where there are any: for training, or a prompted model's layers."""
    shares = stage_cost(stage).gpus
    holding = shares == "layers" and METHODS[alone(study.methods)].trains == "nothing"
    return study.models[model].gpus if shares == "all" or holding else 1


def warnings(study: Study) -> list[str]:
    """Return a line for each task whose beams need more memory than this machine has."""
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6
    lines = []
    for name, model in itertools.product(study.tasks, study.models):
        needed = megabytes(study, model, "prune", gpu=False)
        if (beams := kind(study.tasks[name]).beams(study.tasks[name])) > 1 and needed > here:
            lines.append(
                f"tasks.{name}.beams: got {beams}, with which a job of models.{model} needs about "
                f"{needed / 1e3:,.0f} GB; this machine has {here / 1e3:,.0f} GB"
            )
    return lines
