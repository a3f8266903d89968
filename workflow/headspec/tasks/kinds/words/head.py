"""Heads of tasks on words, by kind."""

from headspec.tasks.kinds.words.span_heads import ROLES_HEAD, SPANS_HEAD, TAGS_HEAD
from headspec.tasks.kinds.words.tree_heads import CONSTITUENTS_HEAD, DEPENDENCIES_HEAD

__all__ = ["CONSTITUENTS_HEAD", "DEPENDENCIES_HEAD", "ROLES_HEAD", "SPANS_HEAD", "TAGS_HEAD"]
