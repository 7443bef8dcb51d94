"""Which files a function needs: the modules that its servers import, and theirs, and so on.

Found by reading the sources. A module's package comes along, and the data files beside the modules of one.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from ..failure import Failure
from .chosen import PACKAGE, Chosen
from .imports import Import, imports_of

# What a function starts with, and what only matters where there is no function around the server.
ENTRIES = ("toolyard.app.aws_lambda", "toolyard.edge.lambda_runtime")
NEVER = (
    "toolyard.cli",
    "toolyard.app.gateway",
    "toolyard.app.serving",
    "toolyard.app.watching",
    "toolyard.edge.serving",
    "toolyard.edge.stdio",
    "toolyard.kit.agent_sdk",
    "toolyard.results.reading",
)
UNWANTED = {".py", ".pyc", ".pyo"}
_SECRETS = re.compile(r".*\.(pem|key|p12|pfx|jks|kdbx)|id_(rsa|dsa|ecdsa|ed25519)|.*credentials.*", re.I)


class Sources:
    """The files that were found, by their path in the zip, and the names of others' packages."""

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self.packages: set[str] = set()
        self._modules: dict[str, Path] = {}

    def add(self, module: str, folder: Path) -> None:
        """Take up a module of `folder`, and everything that it needs."""
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
            waiting.extend(self._needs(name, file, folder))

    def _needs(self, name: str, file: Path, folder: Path) -> Iterator[str]:
        try:
            found = imports_of(file.read_text("utf-8"), name, file.name == "__init__.py")
        except (SyntaxError, ValueError) as error:
            raise Failure(f"{file} cannot be read as Python: {error}") from None
        for one in found:
            top = one.module.partition(".")[0]
            if top == PACKAGE.name and folder != PACKAGE.parent:
                for wanted in _modules(one):
                    self.add(wanted, PACKAGE.parent)
            elif _file_of(top, folder) is not None:
                yield from _modules(one)
            elif top and top not in sys.stdlib_module_names:
                self.packages.add(top)

    def finish(self) -> None:
        """Put the files of the modules, and the data beside them, where the zip will have them."""
        packages = {name: file.parent for name, file in self._modules.items() if file.name == "__init__.py"}
        for name, file in self._modules.items():
            where = name.replace(".", "/")
            self.files[f"{where}/__init__.py" if name in packages else f"{where}.py"] = file
        for name, folder in packages.items():
            for file in self._data(name, folder):
                self.files[f"{name.replace('.', '/')}/{file.relative_to(folder).as_posix()}"] = file

    @property
    def suspects(self) -> list[str]:
        """Data files that look like secrets; a certificate of somebody else's is none, and looks the same."""
        return [
            name for name in self.files if _SECRETS.fullmatch(PurePosixPath(name).name) and _is_no_code(name)
        ]

    def _data(self, package: str, folder: Path) -> Iterator[Path]:
        """A file that is called as a module is, such as `demo.html`, belongs to that module."""
        for path in sorted(folder.iterdir()):
            stem = path.name.partition(".")[0]
            is_of_another = _file_of(stem, folder) is not None and f"{package}.{stem}" not in self._modules
            if path.is_dir() and _file_of(path.name, folder) is None:
                yield from (file for file in sorted(path.rglob("*")) if _is_data(file, folder))
            elif _is_data(path, folder) and not is_of_another:
                yield path


def gather(chosen: Iterable[Chosen]) -> Sources:
    sources = Sources()
    for entry in ENTRIES:
        sources.add(entry, PACKAGE.parent)
    for server in chosen:
        sources.add(server.module, server.folder)
    sources.finish()
    return sources


def _modules(one: Import) -> list[str]:
    """What is taken from a package may be a module of it; what is none is not found, and that is all."""
    return [one.module, *(f"{one.module}.{name}" for name in one.names)]


def _is_no_code(name: str) -> bool:
    return PurePosixPath(name).suffix not in UNWANTED


def _is_left_out(name: str) -> bool:
    return not name or any(name == never or name.startswith(f"{never}.") for never in NEVER)


def _is_data(path: Path, folder: Path) -> bool:
    """What is hidden (`.env`, `.git`), or a link to somewhere else, was not put there for the server."""
    inside = path.relative_to(folder).parts
    is_hidden = any(part.startswith(".") or part == "node_modules" for part in inside)
    if is_hidden or not path.is_file() or path.suffix in UNWANTED:
        return False
    return path.resolve().is_relative_to(folder.resolve())


def _file_of(module: str, folder: Path) -> Path | None:
    place = folder.joinpath(*module.split("."))
    for file in (place / "__init__.py", place.with_suffix(".py")):
        if file.is_file():
            return file
    return None
