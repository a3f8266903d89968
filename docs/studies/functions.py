"""The page of the public functions of headspec, from their signatures and docstrings."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import headspec

WIDTH = 100
INTRODUCTION = """# Functions

What `import headspec` offers. [In a notebook](notebook.md) shows how to use it.
"""
#: sections of docstrings whose entries are a name and a description
LISTS = {"Parameters", "Attributes", "Returns", "Yields", "Raises"}
SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)


def page() -> str:
    """Every public name with its signature and docstring, as Markdown."""
    return "\n".join([INTRODUCTION, *(part for name in headspec.__all__ for part in described(name))])


def described(name: str) -> Iterator[str]:
    """A function, or a class and what it has in public."""
    thing = getattr(headspec, name)
    yield f"## {name}\n\n{signature(name, thing)}\n{markdown(inspect.getdoc(thing) or '')}"
    for inner, member in members(thing):
        yield f"### {name}.{inner}\n"
        if callable(member):
            yield signature(inner, member)
        yield markdown(inspect.getdoc(member) or "")


def members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Methods and properties of a class that are public and described, as it defines them."""
    if inspect.isclass(thing):
        for name, member in vars(thing).items():
            if not name.startswith("_") and inspect.getdoc(member):
                yield name, member


def signature(name: str, function: Callable[..., Any]) -> str:
    """How a function is called: its arguments with their defaults; types are in the docstring."""
    found = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
    called = f"{name}{found.replace(parameters=bare, return_annotation=found.empty)}"
    lines = textwrap.wrap(called, WIDTH, subsequent_indent="    ", break_long_words=False)
    return "```python\n" + "\n".join(lines) + "\n```\n"


def markdown(docstring: str) -> str:
    """A numpy docstring as Markdown."""
    text, *sections = SECTION.split(docstring)
    parts = [text]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        parts += [f"**{title}**\n", entries(body) if title in LISTS else code(body)]
    return re.sub("(?<!`)``(?!`)", "`", "\n".join(parts)).rstrip() + "\n"


def entries(body: str) -> str:
    """The entries of a section as a list; what is indented below a name belongs to it."""
    lines = []
    for line in body.rstrip().splitlines():
        if line and not line.startswith(" "):
            names, _, about = line.partition(" : ")
            named = ", ".join(f"`{name}`" for name in names.split(", "))
            line = f"- {named}: {about}".rstrip()
        lines.append(line)
    return "\n".join(lines) + "\n"


def code(body: str) -> str:
    """Examples as code, other sections as they are."""
    if not body.startswith(">>>"):
        return body
    return "```python\n" + re.sub(r"^(>>>|\.\.\.) ?", "", body.rstrip(), flags=re.MULTILINE) + "\n```\n"
