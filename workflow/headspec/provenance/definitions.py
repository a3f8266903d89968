"""The definitions of a module, what each needs, and those that a piece of code reaches.

Definitions are top-level functions, classes and assignments, and two more of each module: `EFFECTS`, the
statements that do something when it is imported, which whatever imports the module needs, and `WHOLE`, the
module as a value, of which anything may be used. A definition needs those whose names occur in it. Comments,
docstrings, layout, annotations of functions, imports for type checkers and the order of imports do not count.
"""

import ast
import contextlib
import hashlib
import py_compile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, NamedTuple, TypeGuard

WHOLE, EFFECTS = "*", ""
#: decorators that register nothing; of others, the definition is among the effects of its module
PURE = {
    *(
        "property",
        "staticmethod",
        "classmethod",
        "cache",
        "cached_property",
        "lru_cache",
        "wraps",
        "overload",
    ),
    *("dataclass", "contextmanager", "no_grad", "runtime_checkable", "styled", "stage", "media"),
    *("head_measure", "similarity_measure", "pruning_method"),
}
#: functions whose calls load the part of kinds of tasks that their last argument names
DISPATCH = {"load_part", "part_roots"}


class Use(NamedTuple):
    """A name and attributes that a definition uses, and what it imports the name from, if it does."""

    names: list[str]
    module: str | None = None
    attribute: str | None = None


@dataclass
class Definition:
    """The hash of a definition's text, names in it, files that it reads, and parts that it loads."""

    text: str
    uses: list[Use] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


@dataclass
class Module:
    """The definitions of a file by name, those of `EFFECTS` among them, and what it imports."""

    definitions: dict[str, Definition]
    imports: dict[str, tuple[str, str | None]]


def is_text(statement: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a statement is only a string: a docstring, or a string below what it describes."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def restored(stored: dict[str, Any]) -> Module:
    """Return a module that was saved as JSON, by `dataclasses.asdict`."""
    definitions = {
        name: Definition(**values | {"uses": [Use(*use) for use in values["uses"]]})
        for name, values in stored["definitions"].items()
    }
    imports = {name: (module, attribute) for name, (module, attribute) in stored["imports"].items()}
    return Module(definitions, imports)


def import_root(path: Path) -> Path:
    """Return the folder from which a file is imported: the first above it that is not a package."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").exists())


def acts(path: str | Path) -> bool:
    """Return whether a module has more than texts and constants, which do nothing by themselves."""
    body = ast.parse(Path(path).read_text(encoding="utf-8")).body
    constant = (isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) for each in body)
    return not all(is_text(each) or plain for each, plain in zip(body, constant, strict=True))


# --- one file


def read(path: Path) -> Module:
    """Return the definitions of a file; SyntaxError if it is not Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    # by default, Python would take compiled code of another file with the same size and second
    with contextlib.suppress(OSError):  # such as a read-only folder
        py_compile.compile(str(path), invalidation_mode=PycInvalidationMode.CHECKED_HASH, quiet=2)
    package = path.relative_to(import_root(path)).parts[:-1]
    statements: dict[str, list[ast.stmt]] = {EFFECTS: []}
    imports: dict[str, tuple[str, str | None]] = {}
    for statement in tree.body:
        if is_text(statement) or _is_for_type_checkers(statement):
            continue
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports |= dict(_bound(statement, package))
            continue
        if not (defined := names(statement)):
            for node in ast.walk(statement):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    imports |= dict(_bound(node, package))
        for name in defined or [EFFECTS]:
            statements.setdefault(name, []).append(statement)
        if defined and _may_register(statement):
            statements[EFFECTS].append(statement)
    definitions = {name: _definition(parts, package, path) for name, parts in statements.items()}
    for module in sorted({module for name, (module, _) in imports.items() if name.startswith("*")}):
        definitions[EFFECTS].uses.append(Use([WHOLE], module))  # from module import *
    return Module(definitions, imports)


def _is_for_type_checkers(statement: ast.stmt) -> bool:
    test = statement.test if isinstance(statement, ast.If) else None
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement defines; none if it does something else."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets) if all(isinstance(each, (ast.Name, ast.Tuple)) for each in targets):
            return [node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _may_register(statement: ast.stmt) -> bool:
    for decorator in getattr(statement, "decorator_list", ()):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name not in PURE:
            return True
    return False


def _bound(node: ast.Import | ast.ImportFrom, package: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the names that an import binds, with the module and the name in it that they stand for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.split(".")[0]
            yield alias.asname or name, (name, None)
            if not alias.asname and "." in alias.name:  # binds the first, but imports all
                yield f"*{alias.name}", (alias.name, None)
        return
    above = package[: len(package) + 1 - node.level] if node.level else ()
    module = ".".join([*above, *([node.module] if node.module else [])])
    for alias in node.names:
        if alias.name == "*":
            yield f"*{module}", (module, None)
        else:
            yield alias.asname or alias.name, (module, alias.name)


def _definition(statements: list[ast.stmt], package: tuple[str, ...], path: Path) -> Definition:
    """Return what counts of statements."""
    finder = _Finder(package)
    texts = [ast.unparse(finder.visit(statement)) for statement in statements]
    uses = {
        (name, *finder.imports.get(name.split(".")[0], (None, None))): None for name in sorted(finder.names)
    }
    used = [Use(name.split("."), module, attribute) for name, module, attribute in uses]
    # imports in functions may be there for what they do
    used += [
        Use([], module, attribute) for module, attribute in sorted(set(finder.imports.values()), key=str)
    ]
    files = [name for name in sorted(finder.files) if path.with_name(name).exists()]
    text = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else ""
    return Definition(text, used, files, sorted(finder.parts))


class _Finder(ast.NodeTransformer):
    """Removes what does not count from statements, and notes the names that they use."""

    def __init__(self, package: tuple[str, ...]) -> None:
        self.package = package
        self.names: set[str] = set()
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.files: set[str] = set()
        self.parts: set[str] = set()
        self.in_class = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.names.add(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self.names.add(".".join([inner.id, *reversed(parts)]))
            return node
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        match called, node.args:
            case "with_name", [ast.Constant(value=str(name))]:
                self.files.add(name)
            case name, [*_, ast.Constant(value=str(part))] if name in DISPATCH:
                self.parts.add(part)
            case "Field", _:
                node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        arguments = node.args
        for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            each.annotation = None
        for rest in filter(None, (arguments.vararg, arguments.kwarg)):
            rest.annotation = None
        return self._block(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.visit_FunctionDef(node)  # type: ignore[arg-type]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._block(node)

    def _block(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        node.body = [statement for statement in node.body if not is_text(statement)] or [ast.Pass()]
        outside, self.in_class = self.in_class, isinstance(node, ast.ClassDef)
        self.generic_visit(node)
        self.in_class = outside
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        if not self.in_class:
            return self.generic_visit(node)
        node.value = self.visit(node.value)  # fields of a class use no definitions of their names
        node.targets = [each if isinstance(each, ast.Name) else self.visit(each) for each in node.targets]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if self.in_class:  # types of fields, which dataclasses and sections of the config read
            node.annotation = self.visit(node.annotation)
            node.value = node.value and self.visit(node.value)
            return node
        return (
            self.visit(ast.Assign([node.target], node.value, lineno=node.lineno))
            if node.value
            else ast.Pass()
        )

    def visit_If(self, node: ast.If) -> ast.AST:
        if _is_for_type_checkers(node):
            node.body = [ast.Pass()]
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.AST:
        self.imports |= dict(_bound(node, self.package))
        return ast.Pass()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return self.visit_Import(node)
