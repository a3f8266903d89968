"""Common settings of kinds of tasks on words."""

from headspec.tasks.kind import Kind


class Words(Kind):
    """A kind of task on words; `columns` are the default columns of the annotation."""

    called = "on words"
    unused = ("text_b", "labels", "test")
    refuses = frozenset({"transfer"})
    training = {"decoder_learning_rate": "a task on words, whose decoder it is of"}
    pooled = False
    on_words = True

    def __init__(self, about: str, columns: list[str], metrics: tuple[str, ...]) -> None:
        self.about, self.metrics, self.label_columns = about, metrics, len(columns)
        self.defaults = {"text_a": "words", "label": columns if len(columns) > 1 else columns[0]}
