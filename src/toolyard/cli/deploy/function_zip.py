"""Builds `function.zip`: collects sources and packages, adds the entry files, compiles, tries and zips them.

The same files give the same bytes, on any machine and at any time.
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
from .selection import SelectedServer
from .sources import SourceFiles, gather

EPOCH = (1980, 1, 1, 0, 0, 0)
PLAIN, PROGRAM = 0o644, 0o755
UNIX = 3
LEVEL = 6
"""9 takes more than twice as long, and saves 0.5 %."""
OWN_FILES = "(function)"


class FunctionArchive(Struct, frozen=True):
    file: Path
    size: int
    unpacked: int
    sha256: str
    parts: dict[str, tuple[int, int]]
    """Bytes in the zip and unpacked, by package."""


def write_archive(folder: Path, file: Path, programs: frozenset[str]) -> FunctionArchive:
    """Zip a folder. The `programs` are executable, other files are not."""
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
    """The package that a file belongs to, licences and bytecode included."""
    top = name.removeprefix("__pycache__/").partition("/")[0]
    package = top.partition("-" if top.endswith(".dist-info") else ".")[0]
    return OWN_FILES if package in ("function", "bootstrap") else package


HANDLER = "function.handler"
BOOTSTRAP = "bootstrap"


CALLERS = "toolyard.app.function_callers"
AUTH = "auth.json"


def function_source(servers: Iterable[SelectedServer], has_auth: bool) -> str:
    """The source of `function.py`."""
    names = ", ".join(_target_expression(server) for server in servers)
    callers = f", callers=read_callers(HERE / {AUTH!r})" if has_auth else ""
    more = f"\nfrom {CALLERS} import read_callers" if has_auth else ""
    return f'''"""Made by `toolyard deploy lambda`. Do not edit; run it again."""

from pathlib import Path

from toolyard.app.aws_lambda import function{more}

HERE = Path(__file__).parent
handler = function([{names}]{callers})
'''


def bootstrap_source(python: str) -> str:
    """The source of `bootstrap`, for AWS_LAMBDA_EXEC_WRAPPER or a custom runtime."""
    return f"""#!/bin/sh
# Made by `toolyard deploy lambda`: speaks the Runtime API, because AWS's own loop cannot stream Python.
# As a wrapper it gets the command that it replaces, whose first word is the interpreter.
here=$(cd "$(dirname "$0")" && pwd)
for python in "$1" /var/lang/bin/python{python} python{python}; do
    command -v "$python" >/dev/null 2>&1 && break
done
export PYTHONPATH="$here${{PYTHONPATH:+:$PYTHONPATH}}" _HANDLER="${{_HANDLER:-{HANDLER}}}"
exec "$python" -m toolyard.edge.aws.runtime
"""


def _target_expression(server: SelectedServer) -> str:
    target = repr(server.function_target)
    return f"str(HERE / {target})" if server.table is not None else target


MAX_UNPACKED = 250 * 1024 * 1024
"""The limit of AWS, layers included."""
LEGAL = ("LICENSE", "NOTICE")

ReportStep = Callable[[str], None]
"""Called with each step as it begins."""


class BuildRequest(Struct, frozen=True):
    """The servers to build, and the machines to build for."""

    servers: list[SelectedServer]
    python: str
    arch: str
    variables: dict[str, str]
    """The settings of the servers."""
    auth: bytes | None = None
    """What the function knows of its callers, as JSON; None if it asks nobody."""


def build_function(request: BuildRequest, output: Path, report_step: ReportStep) -> FunctionArchive:
    """Write `function.zip` into `output`. The same servers, versions and Python give the same bytes."""
    python, arch, servers = request.python, request.arch, request.servers
    report_step("finding the files")
    sources = gather(servers, () if request.auth is None else (CALLERS,))
    if secrets := sources.possible_secrets:
        warn(f"the zip has files that may be secrets: {', '.join(secrets[:5])}", "if so, move them elsewhere")
    wanted, missing = wheels.requirements(sources.packages)
    if missing:
        report_step(f"omitting packages that are not installed here: {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="toolyard-deploy-") as place:
        folder = Path(place, "function")
        folder.mkdir()
        report_step(f"packages for Python {python} on {arch}: {', '.join(wanted)}")
        wheels.install(wanted, folder, python, arch)
        _copy(sources, folder)
        _write_tables(servers, folder)
        _write_entry(request, folder)
        _compile_and_start(request, folder, report_step)
        report_step("writing the zip")
        archive = write_archive(folder, output / "function.zip", frozenset({BOOTSTRAP}))
    if archive.unpacked > MAX_UNPACKED:
        raise CommandError(
            f"the function has {archive.unpacked:,} bytes unpacked; the limit of AWS is {MAX_UNPACKED:,}",
            "choose fewer servers, or serve them from a container",
        )
    return archive


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


def _write_tables(servers: list[SelectedServer], folder: Path) -> None:
    """Write REST tables as JSON: parsing their TOML takes longer than the rest of a cold start."""
    for server in servers:
        if server.table is not None:
            _compile_table(server.table, folder)
    for file in sorted(folder.glob("toolyard/servers/*/*.toml")):
        if file.with_name(f"{file.stem.partition('.')[0]}.toml") == file:
            _compile_table(file, file.parent)
    for file in folder.glob("toolyard/servers/*/*.toml"):
        file.unlink()


def _compile_table(file: Path, folder: Path) -> None:
    from ...languages import Locale
    from ...rest.definition.loader import compiled, load
    from ...rest.definition.model import DefinitionError

    for locale in get_args(Locale):
        try:
            table = load(file, locale)
        except DefinitionError as error:
            raise CommandError(str(error)) from None
        (folder / f"{file.stem}.{locale}.json").write_bytes(compiled(table))


def _write_entry(request: BuildRequest, folder: Path) -> None:
    source = function_source(request.servers, request.auth is not None)
    (folder / "function.py").write_text(source, "utf-8")
    (folder / BOOTSTRAP).write_text(bootstrap_source(request.python), "utf-8")
    if request.auth is not None:
        (folder / AUTH).write_bytes(request.auth)


def _compile_and_start(request: BuildRequest, folder: Path, report_step: ReportStep) -> None:
    """Compile the function and try to start it; both need the function's Python on this machine."""
    python = interpreter.find_interpreter(request.python)
    if python is None:
        report_step(f"no Python {request.python} here: not compiled, which slows a cold start, and not tried")
        return
    report_step("compiling")
    interpreter.compile_all(python, folder)
    if not interpreter.runs_here(request.arch):
        report_step(f"not tried: this machine is not {request.arch}")
        return
    report_step("starting it once")
    output = interpreter.start_failure(python, folder, request.variables)
    if output is not None:
        raise CommandError(
            f"the function does not start: {output.rstrip().rpartition(chr(10))[2]}",
            "modules that are imported by a computed name are not found",
            details=output,
        )
