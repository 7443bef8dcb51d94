"""From the chosen servers to `function.zip`: gather the files, get the packages, compile, pack."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import get_args

from ..failure import Failure
from . import archive, bytecode, entry, wheels
from .chosen import Chosen
from .sources import Sources, gather

MOST_UNPACKED = 250 * 1024 * 1024
"""What AWS takes, layers included."""
LEGAL = ("LICENSE", "NOTICE")

Tell = Callable[[str], None]
"""Says what is being done now."""


def build(chosen: list[Chosen], output: Path, python: str, arch: str, tell: Tell) -> archive.Archive:
    """Write `function.zip` into `output`. The same servers, versions and Python give the same bytes."""
    tell("which files are needed")
    sources = gather(chosen)
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
        _compile(folder, python, tell)
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

    for locale in get_args(Locale):
        (folder / f"{file.stem}.{locale}.json").write_bytes(compiled(load(file, locale)))


def _write_entry(chosen: list[Chosen], folder: Path, python: str) -> None:
    (folder / "function.py").write_text(entry.function(chosen), "utf-8")
    (folder / entry.BOOTSTRAP).write_text(entry.bootstrap(python), "utf-8")


def _compile(folder: Path, python: str, tell: Tell) -> None:
    program = bytecode.interpreter(python)
    if program is None:
        tell(f"no Python {python} here: modules stay uncompiled, and a cold start takes longer")
        return
    tell("bytecode")
    bytecode.compile_all(program, folder)
