"""Edits of a study, made before it is planned again."""

from collections.abc import Callable

from support.running.studies import Folder


def setting(key: str, value: object) -> Callable[[Folder], None]:
    return lambda study: study.set(key, value)


def constant(name: str) -> Callable[[Folder], None]:
    """New code in a file of the workflow."""

    def change(study: Folder) -> None:
        assert (study.path / "workflow" / name).exists()
        with open(study.path / "workflow" / name, "a") as file:
            file.write("\nADDED = 1\n")

    return change
