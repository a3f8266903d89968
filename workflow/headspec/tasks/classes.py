"""What is told apart in a task: `Classes`, which tables and models keep."""

from __future__ import annotations

from typing import Any

#: class names of a task; None for regression; of a task on words its `type` and `labels`, as of one whose
#: continuations are scored; none in the data of pairs, which have no classes; of translation its `type` and
#: how texts are written (`headspec.tasks.translation.classes`)
Classes = list[str] | dict[str, Any] | None
