"""The constituents of sentences."""

from headspec.tasks.constituents.units import TASK
from headspec.tasks.words.data import Sentences

DATA = Sentences(TASK)
