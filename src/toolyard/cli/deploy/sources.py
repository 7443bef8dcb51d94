"""Finds the files that a function needs: the modules that its servers import, and the data beside them.

Found by parsing; nothing is imported. Imports under `if TYPE_CHECKING`, or tried with
`except ImportError`, do not count. A string that names a module, or a Python file beside it, counts: it is
the program of a process that is started.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..ui.messages import CommandError
from .selection import PACKAGE, SelectedServer

_ABSENT = {"ImportError", "ModuleNotFoundError"}


class Import(NamedTuple):
    module: str
    """The dotted name; for `from a import b` it is `a`."""
    names: tuple[str, ...]
    """The imported names; any of them may be a module."""
    is_early: bool
    """Whether it runs when the module itself is imported."""


def imports_of(source: str, module: str, is_package: bool) -> list[Import]:
    """The imports in the source of `module`, relative ones made absolute."""
    package = module if is_package else module.rpartition(".")[0]
    return list(_imports_in(ast.parse(source).body, package, True))


def programs_named(source: str, module: str, is_package: bool) -> Iterator[str]:
    """The modules that its strings may name: `toolyard.pictures.worker`, or `launch.py` beside it."""
    package = module if is_package else module.rpartition(".")[0]
    top = module.partition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"[^\W\d]\w*\.py", node.value):
                yield f"{package}.{node.value[:-3]}".lstrip(".")
            elif re.fullmatch(r"\w+(\.\w+)+", node.value) and node.value.startswith(f"{top}."):
                yield node.value


def _imports_in(body: list[ast.stmt], package: str, is_early: bool) -> Iterator[Import]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (Import(alias.name, (), is_early) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            names = tuple(alias.name for alias in statement.names)
            yield Import(_absolute(statement, package), names, is_early)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports_in(statement.body, package, False)
        elif isinstance(statement, ast.If) and _is_type_checking(statement.test):
            yield from _imports_in(statement.orelse, package, is_early)
        elif isinstance(statement, ast.Try) and _is_optional(statement):
            yield from _imports_in([*statement.orelse, *statement.finalbody], package, is_early)
        else:
            yield from _imports_in(list(_inner(statement)), package, is_early)


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


def _is_optional(statement: ast.Try) -> bool:
    caught = [node for handler in statement.handlers if handler.type for node in ast.walk(handler.type)]
    return any(isinstance(node, ast.Name) and node.id in _ABSENT for node in caught)


# The entry points of a function, and modules that it never uses.
ENTRIES = ("toolyard.app.aws_lambda", "toolyard.edge.aws.runtime")
EXCLUDED_MODULES = (
    "toolyard.cli",
    "toolyard.client",
    "toolyard.app.gateway",
    "toolyard.app.http",
    "toolyard.app.config_watcher",
    "toolyard.edge.http.server",
    "toolyard.edge.stdio",
    "toolyard.kit.agent_sdk",
    "toolyard.results.query",
    "toolyard.telemetry.tracing",
)
AUTHORS_PACKAGES = frozenset({"pydantic", "pydantic_core"})
"""Toolyard uses these only where a server's own code has imported them, so only that counts."""
CODE_SUFFIXES = {".py", ".pyc", ".pyo"}
_SECRETS = re.compile(r".*\.(pem|key|p12|pfx|jks|kdbx)|id_(rsa|dsa|ecdsa|ed25519)|.*credentials.*", re.I)


class SourceFiles:
    """Files by their path in the zip, and the names of third-party packages."""

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self.packages: set[str] = set()
        self._modules: dict[str, Path] = {}

    def add(self, module: str, folder: Path) -> None:
        """Add a module of `folder` and everything it imports."""
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name in self._modules or _is_left_out(name):
                continue
            file = _file_of(name, folder)
            if file is None:
                continue
            self._modules[name] = file
            waiting.append(name.rpartition(".")[0])
            waiting.extend(self._dependencies(name, file, folder))

    def _dependencies(self, name: str, file: Path, folder: Path) -> Iterator[str]:
        is_package = file.name == "__init__.py"
        # Beside Toolyard itself lie, once it is installed, all packages: they come as wheels.
        is_ours = name.partition(".")[0] == PACKAGE.name
        try:
            source = file.read_text("utf-8")
            found = imports_of(source, name, is_package)
        except (SyntaxError, ValueError) as error:
            raise CommandError(f"{file} cannot be read as Python: {error}") from None
        for one in found:
            top = one.module.partition(".")[0]
            if top == PACKAGE.name and not is_ours:
                for wanted in _modules(one):
                    self.add(wanted, PACKAGE.parent)
            elif top == PACKAGE.name or (not is_ours and _file_of(top, folder) is not None):
                yield from _modules(one)
            elif top and top not in sys.stdlib_module_names and not (is_ours and top in AUTHORS_PACKAGES):
                self.packages.add(top)
        for program in programs_named(source, name, is_package):
            started = _file_of(program, folder)
            if started is not None and started.name != "__init__.py":  # a logger has a package's name
                yield program

    def finish(self) -> None:
        """Map the files of the modules, and the data beside them, to paths in the zip."""
        packages = {name: file.parent for name, file in self._modules.items() if file.name == "__init__.py"}
        for name, file in self._modules.items():
            where = name.replace(".", "/")
            self.files[f"{where}/__init__.py" if name in packages else f"{where}.py"] = file
        for name, folder in packages.items():
            for file in self._data(name, folder):
                self.files[f"{name.replace('.', '/')}/{file.relative_to(folder).as_posix()}"] = file

    @property
    def possible_secrets(self) -> list[str]:
        """Data files that look like secrets, by their name or that of what they link to.

        A public certificate looks the same.
        """
        return [
            name
            for name, file in self.files.items()
            if _is_no_code(name) and any(map(_SECRETS.fullmatch, (file.name, file.resolve().name)))
        ]

    def _data(self, package: str, folder: Path) -> Iterator[Path]:
        """The data of a package. A file named after a module, such as `demo.html`, belongs to that module."""
        for path in sorted(folder.iterdir()):
            stem = path.name.partition(".")[0]
            is_of_another = _file_of(stem, folder) is not None and f"{package}.{stem}" not in self._modules
            if path.is_dir() and _file_of(path.name, folder) is None:
                yield from (file for file in sorted(path.rglob("*")) if _is_data(file, folder))
            elif _is_data(path, folder) and not is_of_another:
                yield path


def gather(servers: Iterable[SelectedServer], more: Iterable[str] = ()) -> SourceFiles:
    """`more` are entry points of this function only."""
    sources = SourceFiles()
    for entry in (*ENTRIES, *more):
        sources.add(entry, PACKAGE.parent)
    for server in servers:
        sources.add(server.module, server.folder)
    sources.finish()
    return sources


def _modules(one: Import) -> list[str]:
    """The module and its imported names, which may be modules too; other names are not found."""
    return [one.module, *(f"{one.module}.{name}" for name in one.names)]


def _is_no_code(name: str) -> bool:
    return PurePosixPath(name).suffix not in CODE_SUFFIXES


def _is_left_out(name: str) -> bool:
    return not name or any(name == never or name.startswith(f"{never}.") for never in EXCLUDED_MODULES)


def _is_data(path: Path, folder: Path) -> bool:
    """Whether it is data: neither hidden (`.env`, `.git`), nor a link to what is hidden or elsewhere."""
    if not path.is_file():
        return False
    found, inside = path.resolve(), folder.resolve()
    return _is_shown(path.relative_to(folder)) and (
        found.is_relative_to(inside) and _is_shown(found.relative_to(inside))
    )


def _is_shown(path: Path) -> bool:
    is_hidden = any(part.startswith(".") or part == "node_modules" for part in path.parts)
    return not is_hidden and path.suffix not in CODE_SUFFIXES


def _file_of(module: str, folder: Path) -> Path | None:
    place = folder.joinpath(*module.split("."))
    for file in (place / "__init__.py", place.with_suffix(".py")):
        if file.is_file():
            return file
    return None
