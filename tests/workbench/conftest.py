"""Workbenches in real boxes. Each test that takes `bench` runs in every kind of box that protects files."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.programs import need
from tests.waiting import PATIENCE
from toolyard.wire.call import Caller, Identity, Principal
from toolyard.workbench import CellResult
from toolyard.workbench.box import NOBODY, BoxKit, BoxLimits, BoxName, Interpreter, find_box
from toolyard.workbench.inside import confinement
from toolyard.workbench.local import LocalLimits, LocalWorkbench, LocalWorkbenches
from toolyard.workspace import Workspaces

MEMORY = 192 * 1024**2
LIMITS = LocalLimits(seconds=30.0, memory=MEMORY, disk_bytes=8 * 1024**2, disk_files=200, warm=0)
BOX_LIMITS = BoxLimits(memory=MEMORY, processes=24, open_files=64, file_bytes=4 * 1024**2)


def caller(user: str = "", thread: str = "", agent: str = "") -> Caller:
    principal = Principal(subject=user, agent=agent, kind="key" if user else "local")
    return Caller("2026-07-28", {}, identity=Identity(principal, thread))


@cache
def python_for(box: BoxName) -> str:
    """Without a file system of its own, a box of root's needs a Python that others can reach."""
    if box == "bubblewrap" or os.geteuid() != 0:
        return ""
    for program in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        ask = [program, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if shutil.which(program) and _works_for_nobody(ask):
            return program
    pytest.skip("no Python that other users can reach")


def _works_for_nobody(command: list[str]) -> bool:
    try:
        return subprocess.run(command, user=NOBODY, group=NOBODY, cwd="/", check=False).returncode == 0
    except OSError:
        return False


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="what only a gateway of root's does")


def need_box(box: BoxName) -> None:
    if box == "bubblewrap":
        need("bubblewrap")
    elif not confinement.landlock_abi():
        pytest.skip("this kernel has no Landlock")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Made by whoever needs it first, in one that other users can reach, since root's boxes run as nobody."""
    above = Path(tempfile.mkdtemp(prefix="workbench-test-"))
    above.chmod(0o755)
    yield above / "work"
    shutil.rmtree(above, ignore_errors=True)


@asynccontextmanager
async def workbenches(
    box: BoxName,
    folder: Path,
    limits: LocalLimits = LIMITS,
    box_limits: BoxLimits = BOX_LIMITS,
    preload: tuple[str, ...] = (),
    **options: Any,
) -> AsyncIterator[LocalWorkbenches]:
    python = python_for(box)
    kit = BoxKit(is_ours=not python)
    found = find_box(box, kit, box_limits, Interpreter.found(python), preload=preload)
    benches = LocalWorkbenches(found, kit, Workspaces(str(folder), **options), limits)
    try:
        yield benches
    finally:
        await benches.close()


@pytest.fixture(params=["bubblewrap", "landlock"])
def box(request: pytest.FixtureRequest) -> BoxName:
    need_box(request.param)
    return request.param


@pytest.fixture
async def benches(box: BoxName, folder: Path) -> AsyncIterator[LocalWorkbenches]:
    async with workbenches(box, folder) as found:
        yield found


@pytest.fixture
def bench(benches: LocalWorkbenches) -> LocalWorkbench:
    return benches.of(caller())


async def ended(pid: int) -> None:
    """Waits until a process is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, over.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await over.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def says(bench: LocalWorkbench, code: str, **options: Any) -> str:
    """What code printed; it must not fail."""
    result = await bench.run(code, **options)
    assert result.fault is None, result.error
    return result.stdout


async def fails(bench: LocalWorkbench, code: str, **options: Any) -> CellResult:
    result = await bench.run(code, **options)
    assert result.fault is not None, result
    return result
