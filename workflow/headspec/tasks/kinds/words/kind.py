"""Tags, spans, dependencies, constituents and semantic roles of the words of sentences."""

from headspec.tasks.kind import Kind


class Words(Kind):
    """A kind of task on words; `columns` are the default columns of the annotation."""

    called = "on words"
    unused = ("text_b", "labels", "test")
    refuses = frozenset({"transfer"})
    training = {"decoder_learning_rate": "a task on words, whose decoder it is of"}
    pooled = False
    on_words = True
    several = ("gold units; right and all units of the guess", "right and all predicted units")

    def __init__(self, about: str, columns: list[str], metrics: tuple[str, ...]) -> None:
        self.about, self.metrics, self.label_columns = about, metrics, len(columns)
        self.defaults = {"text_a": "words", "label": columns if len(columns) > 1 else columns[0]}


class Dependencies(Words):
    several = (
        "words; `prediction_values` of the guess",
        "words with the right head and relation, and with the right head",
    )


TAGS_KIND = Words("a tag of each [word](words.md#types)", ["upos"], ("word_accuracy",))
SPANS_KIND = Words("typed spans of words", ["names"], ("span_f1",))
DEPENDENCIES_KIND = Dependencies("the head and the relation of each word", ["head", "deprel"], ("las", "uas"))
CONSTITUENTS_KIND = Words("the constituents of sentences", ["tree"], ("bracket_f1",))
ROLES_KIND = Words("the arguments of given predicates", ["predicate", "roles"], ("role_f1",))
