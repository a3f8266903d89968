"""Types of tasks on words: the one list of them.

Each is a folder of its name in `headspec/tasks/`. Rules add it, and its decoder, to the code of the jobs that
have such a task, so that a new entry, or an edit of one, reruns nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from headspec.registry import Registry


@dataclass(frozen=True)
class WordType:
    """A type of task on words.

    Attributes
    ----------
    columns : of the source, what the key `label` is by default
    metrics : that a task may have, the default first
    """

    columns: tuple[str, ...]
    metrics: tuple[str, ...]


TYPES = Registry[WordType]("type of task on words")
TYPES |= {
    "tags": WordType(("upos",), ("word_accuracy",)),
    "spans": WordType(("names",), ("span_f1",)),
    "dependencies": WordType(("head", "deprel"), ("las", "uas")),
    "constituents": WordType(("tree",), ("bracket_f1",)),
    "roles": WordType(("predicate", "roles"), ("role_f1",)),
}
#: the column of words, unless `text_a` names another
WORDS = "words"
