"""What a module's source says it imports, and what of it must be there for the module to work.

Reads the syntax only: nothing is imported. What stands under `if TYPE_CHECKING` or is tried and done without
(`except ImportError`) is not needed.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

_ABSENT = {"ImportError", "ModuleNotFoundError"}


class Import(NamedTuple):
    module: str
    """The whole dotted name. Of `from a import b` it is `a`."""
    names: tuple[str, ...]
    """What is taken from it; any of them may be a module."""
    is_early: bool
    """Whether it happens as soon as the module itself is imported."""


def imports_of(source: str, module: str, is_package: bool) -> list[Import]:
    """The imports in the source of `module`, relative ones made absolute."""
    package = module if is_package else module.rpartition(".")[0]
    return list(_in(ast.parse(source).body, package, True))


def _in(body: list[ast.stmt], package: str, is_early: bool) -> Iterator[Import]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (Import(alias.name, (), is_early) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            names = tuple(alias.name for alias in statement.names)
            yield Import(_absolute(statement, package), names, is_early)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in(statement.body, package, False)
        elif isinstance(statement, ast.If) and _is_type_checking(statement.test):
            yield from _in(statement.orelse, package, is_early)
        elif isinstance(statement, ast.Try) and _does_without(statement):
            yield from _in([*statement.orelse, *statement.finalbody], package, is_early)
        else:
            yield from _in(list(_inner(statement)), package, is_early)


def _inner(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements directly inside one that has blocks: a class, a loop, a `with`, a `match`."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    if not statement.level:
        return statement.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - statement.level + 1])
    return f"{base}.{statement.module}" if statement.module else base


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _does_without(statement: ast.Try) -> bool:
    caught = [node for handler in statement.handlers if handler.type for node in ast.walk(handler.type)]
    return any(isinstance(node, ast.Name) and node.id in _ABSENT for node in caught)
