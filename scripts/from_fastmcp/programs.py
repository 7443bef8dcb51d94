"""The programs: each example of FastMCP's sdist that makes a server, and each test that makes one.

A test is a program with what it uses of its file: other tests, and imports that nothing of it names, are left
out. Those that import more of FastMCP than `SURFACE` (providers, transforms, authorization, apps, tasks) are
not drawn. Nothing of theirs is kept in this repository.
"""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

SURFACE = {
    "fastmcp": {"Client", "Context", "FastMCP"},
    "fastmcp.client": {"Client"},
    "fastmcp.dependencies": {"CurrentContext", "Depends"},
    "fastmcp.exceptions": None,
    "fastmcp.prompts": {"Message"},
    "fastmcp.resources": {"ResourceContent", "ResourceResult"},
    "fastmcp.server": {"Context", "FastMCP"},
    "fastmcp.server.context": {"Context"},
    "fastmcp.server.dependencies": {"CurrentContext", "get_context"},
    "fastmcp.server.middleware": {"CallNext", "Middleware", "MiddlewareContext"},
    "fastmcp.server.server": {"FastMCP"},
    "fastmcp.tools": {"ToolResult"},
    "fastmcp.tools.base": {"ToolResult"},
    "fastmcp.utilities.types": {"Audio", "File", "Image"},
}
"""What a drawn program may import of FastMCP; None: everything there."""
NOT_OPTIONS = ("auth", "on_duplicate", "providers", "task", "tasks", "transforms", "app")
"""Options of `FastMCP` and its decorators that ask for parts that the kit does not copy."""
_IMPORTS = re.compile(r"^(\s*)(from|import) fastmcp\b([\w.]*)", re.M)


@dataclass(frozen=True)
class Draft:
    """A program before it is known to run."""

    name: str
    text: str

    def ours(self) -> str:
        """The same text, with its imports changed."""
        return _IMPORTS.sub(_changed, self.text)


def _changed(found: re.Match[str]) -> str:
    indent, word, _ = found.groups()
    return (
        f"{indent}from toolyard.fastmcp" if word == "from" else f"{indent}import toolyard.fastmcp as fastmcp"
    )


def drawn(folder: Path, seed: int, examples: bool) -> Iterator[Draft]:
    """The examples of an unpacked sdist, or its tests, in the order in which this seed draws them."""
    found = list(_examples(folder) if examples else _tests(folder))
    random.Random(seed).shuffle(found)
    for draft in found:
        text = draft.text if examples else _cut(draft)
        if "FastMCP(" in text and _within_surface(ast.parse(text)):
            yield Draft(draft.name, text)


def _examples(folder: Path) -> Iterator[Draft]:
    for file in sorted((folder / "examples").rglob("*.py")):
        yield Draft(file.relative_to(folder).as_posix(), file.read_text("utf-8"))


def _tests(folder: Path) -> Iterator[Draft]:
    for file in sorted((folder / "tests").rglob("test_*.py")):
        text = file.read_text("utf-8")
        if "FastMCP(" in text:
            for name in _names_of_tests(ast.parse(text)):
                yield Draft("::".join((file.relative_to(folder).as_posix(), *name)), text)


def _cut(draft: Draft) -> str:
    """A test and what it uses of its file."""
    module = ast.parse(draft.text)
    _leave_only(module, tuple(draft.name.split("::")[1:]))
    return ast.unparse(module)


Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _names_of_tests(module: ast.Module) -> Iterator[tuple[str, ...]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from ((node.name, one.name) for one in node.body if _is_test(one))
        elif _is_test(node):
            yield (node.name,)


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def _leave_only(module: ast.Module, name: tuple[str, ...]) -> None:
    """Take out the other tests, and then again and again what nothing names."""
    module.body = [node for node in module.body if not _holds_tests(node) or node.name == name[0]]
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name == name[0]:
            node.body = [one for one in node.body if not _is_test(one) or one.name == name[-1]] or [
                ast.Pass()
            ]
    while True:
        before = _size(module)
        for holder in [module, *(n for n in module.body if isinstance(n, ast.ClassDef))]:
            holder.body = [node for node in holder.body if _is_used(node, module, name)] or [ast.Pass()]
        module.body = [node for node in module.body if _trimmed(node, module)]
        if _size(module) == before:
            return


def _holds_tests(node: ast.stmt) -> TypeGuard[Named]:
    return _is_test(node) or (isinstance(node, ast.ClassDef) and node.name.startswith("Test"))


def _size(module: ast.Module) -> int:
    return sum(1 for _ in ast.walk(module))


def _is_used(node: ast.stmt, module: ast.Module, name: tuple[str, ...]) -> bool:
    if not isinstance(node, Named) or node.name in name or "autouse" in ast.unparse(node):
        return True
    return node.name in _mentioned(module, without=node)


def _trimmed(node: ast.stmt, module: ast.Module) -> bool:
    """Whether an import still imports anything; without the names that nothing uses."""
    if not isinstance(node, ast.Import | ast.ImportFrom) or getattr(node, "module", "") == "__future__":
        return True
    used = _mentioned(module)
    node.names = [one for one in node.names if (one.asname or one.name).partition(".")[0] in used]
    return bool(node.names)


def _mentioned(module: ast.Module, without: ast.stmt | None = None) -> set[str]:
    """Every name in a module: of variables, of parameters (fixtures), of attributes, and in annotations."""
    found: set[str] = set()
    rest: list[ast.AST] = [module]
    while rest:
        node = rest.pop()
        if node is without or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.arg():
                found.add(node.arg)
            case ast.Attribute():
                found.add(node.attr)
            case ast.Constant() if isinstance(node.value, str):
                found |= set(re.findall(r"\w+", node.value))
        rest += ast.iter_child_nodes(node)
    return found


def _within_surface(module: ast.Module) -> bool:
    for node in ast.walk(module):
        match node:
            case ast.ImportFrom(module=str(source)) if source.partition(".")[0] == "fastmcp":
                known = SURFACE.get(source, set())
                if known is not None and not {one.name for one in node.names} <= known:
                    return False
            case ast.Import():
                if any(one.name.startswith("fastmcp") for one in node.names):
                    return False
            case ast.Call() if any(one.arg in NOT_OPTIONS for one in node.keywords):
                return False
    return True
