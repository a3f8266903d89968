"""The spans of sentences."""

from headspec.tasks.spans.units import TASK
from headspec.tasks.words.data import Sentences

DATA = Sentences(TASK)
