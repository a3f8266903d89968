"""Prediction files that the GLUE server accepts (Wang et al. 2019; card of nyu-mll/glue on the hub)."""

from dataclasses import dataclass

from headspec.errors import listing


@dataclass(frozen=True)
class Format:
    """A prediction file: its number of rows, class names, and whether it has their numbers instead.

    A file of scores has no class names.
    """

    rows: int
    classes: tuple[str, ...] = ()
    numbered: bool = False

    def problem(self, task_type: str, classes: list[str] | None) -> str:
        """Explain why a task with this type and these classes cannot fill the file; empty if it can."""
        expected = "classification" if self.classes else "regression"
        if task_type != expected:
            return f"type: got {task_type}, expected {expected}"
        same = classes == list(self.classes) if self.numbered else set(classes or ()) == set(self.classes)
        if self.classes and not same:
            expected = listing(self.classes) + " in this order" * self.numbered
            return f"labels: got {listing(classes or ())}, expected the classes {expected}"
        return ""


NLI = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
FILES = {
    "CoLA": Format(1063, ("unacceptable", "acceptable"), numbered=True),
    "SST-2": Format(1821, ("negative", "positive"), numbered=True),
    "MRPC": Format(1725, ("not_equivalent", "equivalent"), numbered=True),
    "STS-B": Format(1379),
    "QQP": Format(390965, ("not_duplicate", "duplicate"), numbered=True),
    "MNLI-m": Format(9796, NLI),
    "MNLI-mm": Format(9847, NLI),
    "QNLI": Format(5463, ENTAILMENT),
    "RTE": Format(3000, ENTAILMENT),
    "WNLI": Format(146, ("not_entailment", "entailment"), numbered=True),
    "AX": Format(1104, NLI),
}
