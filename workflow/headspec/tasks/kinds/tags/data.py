"""The tags of words."""

from headspec.tasks.kinds.words.data import Sentences


class Tags(Sentences):
    least = "two tags"


DATA = Tags()
