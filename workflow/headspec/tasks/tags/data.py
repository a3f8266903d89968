"""The tags of words."""

from headspec.tasks.words.data import Sentences


class Tags(Sentences):
    least = "two tags"


DATA = Tags()
