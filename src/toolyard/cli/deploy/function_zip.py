"""Builds `function.zip`: gathers sources and packages, adds the entry files, compiles, tries it, packs it.

The same files give the same bytes, whoever builds and when.
"""

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import get_args

from msgspec import Struct

from ..ui.messages import CommandError, warn
from . import interpreter, wheels
from . import interpreter as bytecode
from .selection import SelectedServer
from .sources import SourceFiles, gather

EPOCH = (1980, 1, 1, 0, 0, 0)
PLAIN, PROGRAM = 0o644, 0o755
UNIX = 3
LEVEL = 6
"""9 takes more than twice as long for half a hundredth less."""
OWN_FILES = "(function)"


class FunctionArchive(Struct, frozen=True):
    file: Path
    size: int
    unpacked: int
    sha256: str
    parts: dict[str, tuple[int, int]]
    """By what stands at the top of it: bytes in the zip, bytes unpacked."""


def write_archive(folder: Path, file: Path, programs: frozenset[str]) -> FunctionArchive:
    """Zip a folder. The `programs` among its files can be executed, all others only be read."""
    parts: dict[str, tuple[int, int]] = {}
    draft = file.with_name(f"{file.name}.part")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for name in _file_names(folder):
            data = (folder / name).read_bytes()
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = UNIX
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | (PROGRAM if name in programs else PLAIN)) << 16
            archive.writestr(entry, data, compresslevel=LEVEL)
            top = _package_of(name)
            packed, unpacked = parts.get(top, (0, 0))
            parts[top] = packed + entry.compress_size, unpacked + entry.file_size
    draft.replace(file)
    return FunctionArchive(
        file,
        file.stat().st_size,
        sum(unpacked for _, unpacked in parts.values()),
        hashlib.sha256(file.read_bytes()).hexdigest(),
        parts,
    )


def _file_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _package_of(name: str) -> str:
    """The package that a file belongs to; its licences and its bytecode count with it."""
    top = name.removeprefix("__pycache__/").partition("/")[0]
    package = top.partition("-" if top.endswith(".dist-info") else ".")[0]
    return OWN_FILES if package in ("function", "bootstrap") else package


HANDLER = "function.handler"
BOOTSTRAP = "bootstrap"


def function_source(chosen: Iterable[SelectedServer]) -> str:
    """The source of `function.py`."""
    names = ", ".join(_target_expression(server) for server in chosen)
    return f'''"""Made by `toolyard deploy lambda`; make it anew rather than change it."""

from pathlib import Path

from toolyard.app.aws_lambda import function

HERE = Path(__file__).parent
handler = function([{names}])
'''


def bootstrap_source(python: str) -> str:
    """The source of `bootstrap`, for AWS_LAMBDA_EXEC_WRAPPER or a custom runtime."""
    return f"""#!/bin/sh
# Made by `toolyard deploy lambda`: speaks the Runtime API itself, for AWS's own loop cannot stream Python.
# As a wrapper it is given the command that it stands for, whose first word is the interpreter.
here=$(cd "$(dirname "$0")" && pwd)
for python in "$1" /var/lang/bin/python{python} python{python}; do
    command -v "$python" >/dev/null 2>&1 && break
done
export PYTHONPATH="$here${{PYTHONPATH:+:$PYTHONPATH}}" _HANDLER="${{_HANDLER:-{HANDLER}}}"
exec "$python" -m toolyard.edge.aws.runtime
"""


def _target_expression(server: SelectedServer) -> str:
    return f"str(HERE / {server.called!r})" if server.table is not None else repr(server.called)


MOST_UNPACKED = 250 * 1024 * 1024
"""What AWS takes, layers included."""
LEGAL = ("LICENSE", "NOTICE")

ReportStep = Callable[[str], None]
"""Says what is being done now."""


class BuildRequest(Struct, frozen=True):
    """What to build, and for which machines."""

    chosen: list[SelectedServer]
    python: str
    arch: str
    variables: dict[str, str]
    """The settings that its servers are given."""


def build_function(work: BuildRequest, output: Path, tell: ReportStep) -> FunctionArchive:
    """Write `function.zip` into `output`. The same servers, versions and Python give the same bytes."""
    python, arch, chosen = work.python, work.arch, work.chosen
    tell("which files are needed")
    sources = gather(chosen)
    if sources.suspects:
        warn(
            f"the zip has what may be secrets: {', '.join(sources.suspects[:5])}", "keep them elsewhere if so"
        )
    wanted, missing = wheels.requirements(sources.packages)
    if missing:
        tell(f"not installed here, and so left out: {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="toolyard-deploy-") as place:
        folder = Path(place, "function")
        folder.mkdir()
        tell(f"packages for Python {python} on {arch}: {', '.join(wanted)}")
        wheels.install(wanted, folder, python, arch)
        _copy(sources, folder)
        _write_tables(chosen, folder)
        _write_entry(chosen, folder, python)
        _compile_and_start(work, folder, tell)
        tell("the zip")
        made = write_archive(folder, output / "function.zip", frozenset({BOOTSTRAP}))
    if made.unpacked > MOST_UNPACKED:
        raise CommandError(
            f"the function has {made.unpacked:,} bytes unpacked, and AWS takes {MOST_UNPACKED:,}",
            "choose fewer servers, or serve them from a container",
        )
    return made


def _copy(sources: SourceFiles, folder: Path) -> None:
    for name, file in sources.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for file in _licence_files():
        shutil.copyfile(file, folder / "toolyard" / file.name)


def _licence_files() -> Iterator[Path]:
    try:
        files = metadata.distribution("toolyard").files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in LEGAL:
            yield Path(str(file.locate()))


def _write_tables(chosen: list[SelectedServer], folder: Path) -> None:
    """REST tables as JSON: reading so much TOML takes longer than all the rest of a cold start."""
    for server in chosen:
        if server.table is not None:
            _compile_table(server.table, folder)
    for file in sorted(folder.glob("toolyard/servers/*/*.toml")):
        if file.with_name(f"{file.stem.partition('.')[0]}.toml") == file:
            _compile_table(file, file.parent)
    for file in folder.glob("toolyard/servers/*/*.toml"):
        file.unlink()


def _compile_table(file: Path, folder: Path) -> None:
    from ...kit.localization import Locale
    from ...rest.definition.loader import compiled, load
    from ...rest.definition.model import DefinitionError

    for locale in get_args(Locale):
        try:
            table = load(file, locale)
        except DefinitionError as error:
            raise CommandError(str(error)) from None
        (folder / f"{file.stem}.{locale}.json").write_bytes(compiled(table))


def _write_entry(chosen: list[SelectedServer], folder: Path, python: str) -> None:
    (folder / "function.py").write_text(function_source(chosen), "utf-8")
    (folder / BOOTSTRAP).write_text(bootstrap_source(python), "utf-8")


def _compile_and_start(work: BuildRequest, folder: Path, tell: ReportStep) -> None:
    """Compile it, and see whether it starts; both need the function's Python on this machine."""
    program = interpreter.find_interpreter(work.python)
    if program is None:
        tell(
            f"no Python {work.python} here: not compiled, so that a cold start takes longer, and not started"
        )
        return
    tell("bytecode")
    bytecode.compile_all(program, folder)
    if not interpreter.runs_here(work.arch):
        tell(f"not started, since this machine is no {work.arch}")
        return
    tell("does it start?")
    said = interpreter.start_failure(program, folder, work.variables)
    if said is not None:
        raise CommandError(
            f"the function does not start: {said.rstrip().rpartition(chr(10))[2]}",
            "what is imported by a name that is only known at run time is not found by reading the source",
            details=said,
        )
