"""The heads and relations of words."""

from headspec.tasks.dependencies.units import TASK
from headspec.tasks.words.data import Sentences

DATA = Sentences(TASK)
