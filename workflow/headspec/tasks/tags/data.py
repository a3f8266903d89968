"""The tags of words."""

from headspec.tasks.tags.units import TASK
from headspec.tasks.words.data import Sentences

DATA = Sentences(TASK, "two tags")
