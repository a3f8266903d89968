"""The roles of words for given predicates."""

from headspec.tasks.roles.units import TASK
from headspec.tasks.words.data import Sentences

DATA = Sentences(TASK)
