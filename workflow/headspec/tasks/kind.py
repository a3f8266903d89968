"""Properties of a kind of task, for the config, planning and the pipeline: `KIND` in ``kind.py``.

Such a module imports neither numpy, pandas or torch nor other packages of headspec, and jobs do not load it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headspec.tasks import prompt_checks

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys


class Kind:
    """A kind of task.

    Attributes
    ----------
    about : what is predicted, in the config reference
    called : a task of this kind in messages, after "a task"
    metrics : names of possible metrics, the main one first
    usual : default metrics, if not all
    beside : metrics that do not compare models: they have no scale, or lower is better
    defaults : defaults of keys other than `text_a: text` and `label: label`
    label_columns : number of columns of the label; None for any number
    classes : whether `labels` may name classes
    paired : whether `pairs_of` may pair its texts by their classes
    keys : further keys of such tasks: type and pydantic field
    evaluated : further keys that affect neither tables nor training
    unused : keys of all tasks that have no meaning for it
    trained : whether models are trained on it; if not, it is only for the method `prompted`
    prompts : whether the method `prompted` makes prompts of its examples (``prompts.py``), or reads their
        tokens
    needs_prompt : whether the method `prompted` needs its key `prompt`
    refuses : what it excludes: methods, `iat` (with `transfer`), `transfer` alone, `similarity`, and
        `resample` as `pruning.ablation`, which `refused` adds where a model writes
    training : keys of the section `training` that only such kinds have: what the key needs, in a message
    pooled : whether its head reads one vector per text, which runs of the method `frozen` store
    on_words : whether units of words are annotated, so that heads can be probed for them
    writes : whether the model writes texts, which requires an encoder-decoder
    generates : whether a decoder writes texts, after prompts
    several : what `label_values` and `prediction_values` hold, if an example has several numbers
    """

    about: str
    called = "on texts"
    metrics: tuple[str, ...]
    usual: tuple[str, ...] = ()
    beside: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = {}
    label_columns: int | None = 1
    classes = False
    paired = False
    keys: Mapping[str, tuple[Any, Any]] = {}
    evaluated: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    trained = True
    prompts = True
    needs_prompt = True
    refuses: frozenset[str] = frozenset()
    training: Mapping[str, str] = {}
    pooled = True
    on_words = False
    writes = generates = False
    several: tuple[str, str] | None = None

    def problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        """Yield problems with keys that not all kinds share."""
        return iter(())

    def prompt_problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        """Yield problems with the keys for the method `prompted`."""
        if task.prompt is not None:
            yield f"{key}.prompt: got a prompt for a {task.type} task, which has none; remove it."
        yield from prompt_checks.without_prompt(key, task)

    def described_problems(self, key: str, task: TaskKeys, model: str) -> Iterator[str]:
        """Yield problems with a task for a described `model` (config key) with its own vocabulary."""
        return iter(())

    def notes(self, key: str, task: TaskKeys, classes: Any) -> Iterator[str]:
        """Yield a line for each fact about the metrics of a task that the config does not state."""
        return iter(())

    @property
    def refused(self) -> frozenset[str]:
        """What a task of this kind excludes: another text has no vectors for tokens not yet written."""
        return self.refuses | ({"resample"} if self.writes or self.generates else frozenset())

    def asked(self, task: TaskKeys) -> dict[str, Any]:
        """Return what prompts and answers depend on, besides the keys of all prompts."""
        return {}

    def functions(self, task: TaskKeys) -> list[str]:
        """Return the users' functions that evaluate it (`headspec.plugins.function`)."""
        return []

    def new_tokens(self, task: TaskKeys) -> int:
        """Return the most tokens that a decoder writes after a prompt; 0 if it writes nothing."""
        return 0

    def texts(self, task: TaskKeys) -> int:
        """Return the number of texts that a decoder writes after each prompt."""
        return 1

    def languages(self, task: TaskKeys) -> list[str]:
        """Return the languages that the model must write, for the tokens of its own vocabulary."""
        return []

    def beams(self, task: TaskKeys) -> int:
        """Return the beam width in evaluations; 0 if nothing is written."""
        return 0
