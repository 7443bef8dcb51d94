"""From the chosen servers to `function.zip`: gather the files, get the packages, compile, pack."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import get_args

from msgspec import Struct

from ..failure import Failure, warn
from . import archive, bytecode, entry, interpreter, wheels
from .chosen import Chosen
from .sources import Sources, gather

MOST_UNPACKED = 250 * 1024 * 1024
"""What AWS takes, layers included."""
LEGAL = ("LICENSE", "NOTICE")

Tell = Callable[[str], None]
"""Says what is being done now."""


class Work(Struct, frozen=True):
    """What to build, and for which machines."""

    chosen: list[Chosen]
    python: str
    arch: str
    variables: dict[str, str]
    """The settings that its servers are given."""


def build(work: Work, output: Path, tell: Tell) -> archive.Archive:
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
        _try_out(work, folder, tell)
        tell("the zip")
        made = archive.write(folder, output / "function.zip", frozenset({entry.BOOTSTRAP}))
    if made.unpacked > MOST_UNPACKED:
        raise Failure(
            f"the function has {made.unpacked:,} bytes unpacked, and AWS takes {MOST_UNPACKED:,}",
            "choose fewer servers, or serve them from a container",
        )
    return made


def _copy(sources: Sources, folder: Path) -> None:
    for name, file in sources.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for file in _legal():
        shutil.copyfile(file, folder / "toolyard" / file.name)


def _legal() -> Iterator[Path]:
    try:
        files = metadata.distribution("toolyard").files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in LEGAL:
            yield Path(str(file.locate()))


def _write_tables(chosen: list[Chosen], folder: Path) -> None:
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
    from ...kit.languages import Locale
    from ...rest.compiling import compiled
    from ...rest.loading import load
    from ...rest.mistakes import TableError

    for locale in get_args(Locale):
        try:
            table = load(file, locale)
        except TableError as error:
            raise Failure(str(error)) from None
        (folder / f"{file.stem}.{locale}.json").write_bytes(compiled(table))


def _write_entry(chosen: list[Chosen], folder: Path, python: str) -> None:
    (folder / "function.py").write_text(entry.function(chosen), "utf-8")
    (folder / entry.BOOTSTRAP).write_text(entry.bootstrap(python), "utf-8")


def _try_out(work: Work, folder: Path, tell: Tell) -> None:
    """Compile it, and see whether it starts; both need the function's Python on this machine."""
    program = interpreter.find(work.python)
    if program is None:
        tell(
            f"no Python {work.python} here: not compiled, so that a cold start takes longer, and not started"
        )
        return
    tell("bytecode")
    bytecode.compile_all(program, folder)
    if not interpreter.can_run(work.arch):
        tell(f"not started, since this machine is no {work.arch}")
        return
    tell("does it start?")
    said = interpreter.why_it_does_not_start(program, folder, work.variables)
    if said is not None:
        raise Failure(
            f"the function does not start: {said.rstrip().rpartition(chr(10))[2]}",
            "what is imported by a name that is only known at run time is not found by reading the source",
            details=said,
        )
