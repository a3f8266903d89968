"""Annotations of words, by kind."""

from headspec.tasks.kinds.words.spans import ROLES_TASK, SPANS_TASK, TAGS_TASK
from headspec.tasks.kinds.words.trees import CONSTITUENTS_TASK, DEPENDENCIES_TASK

__all__ = ["CONSTITUENTS_TASK", "DEPENDENCIES_TASK", "ROLES_TASK", "SPANS_TASK", "TAGS_TASK"]
