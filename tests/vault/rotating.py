"""A process that rotates the master key: at the word of a test, or killed at every point on its way."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from toolyard.state import State, open_state
from toolyard.vault import SecretAddress, VaultError
from toolyard.vault.master_keys import FileSource, MasterKeys
from toolyard.vault.rotation import rotate
from toolyard.vault.vault import Vault

KEY = "vault.key"
_TOUCHED = ("open", "os.rename", "os.link", "os.remove", "os.chown", "fcntl.flock")
"""What a rotation does to files, as Python's audit events name it."""


def address(tenant: str) -> SecretAddress:
    return SecretAddress(tenant, "key", "shop")


@asynccontextmanager
async def vault_in(folder: Path, wrap: Callable[[State], State] = lambda state: state):
    vault = Vault(wrap(open_state("sqlite:", folder)), MasterKeys(FileSource(folder / KEY, True)))
    try:
        yield vault
    finally:
        await vault.store.close()


async def fill(folder: Path, tenants: Sequence[str]) -> None:
    async with vault_in(folder) as vault:
        for tenant in tenants:
            await vault.put(address(tenant), tenant.encode())


async def lost(folder: Path, tenants: Sequence[str]) -> list[str]:
    """The tenants whose secret a new process cannot read."""
    found: list[str] = []
    async with vault_in(folder) as vault:
        for tenant in tenants:
            try:
                secret = await vault.read(address(tenant))
            except VaultError:
                secret = None
            if secret is None or secret.value != tenant.encode():
                found.append(tenant)
    return found


async def rotate_once(folder: Path) -> dict[str, Any]:
    async with vault_in(folder) as vault:
        try:
            return {"master": (await rotate(vault)).master}
        except VaultError as error:
            return {"refused": error.message}


def at_each_line(folder: Path) -> None:
    """Rotates once for each line on standard input."""
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(asyncio.run(rotate_once(folder))), flush=True)


class Failpoints:
    """Counts the steps of this process, and kills it at one of them."""

    def __init__(self, deadly: int) -> None:
        self._left = deadly

    def step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def watch(self, folder: Path) -> None:
        def on_event(event: str, about: tuple[Any, ...]) -> None:
            if event == "fcntl.flock" or (event in _TOUCHED and str(about[0]).startswith(str(folder))):
                self.step()

        sys.addaudithook(on_event)


class KillingState:
    """A store whose process may be killed before and after each write."""

    def __init__(self, state: State, points: Failpoints) -> None:
        self._state = state
        self._points = points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    async def swap(self, *about: Any) -> bool:
        self._points.step()
        done = await self._state.swap(*about)
        self._points.step()
        return done


async def _rotate_until_killed(folder: Path, deadly: int, forget: bool) -> None:
    points = Failpoints(deadly)
    points.watch(folder)
    async with vault_in(folder, lambda state: KillingState(state, points)) as vault:  # type: ignore[arg-type]
        await rotate(vault, forget=forget)


async def _finish(folder: Path, tenants: Sequence[str], forget: bool) -> dict[str, Any]:
    """What the next one finds, and what it leaves."""
    before = await lost(folder, tenants)
    async with vault_in(folder) as vault:
        await rotate(vault, forget=forget)
        status = await vault.status()
    return {
        "lost": before + await lost(folder, tenants),
        "left": [*status.earlier, *status.unknown],
        "files": sorted(name for name in os.listdir(folder) if not name.startswith("state.db")),
    }


def killed_everywhere(folder: Path, forget: bool) -> None:
    """Kills a rotation at its first step, then at its second, until one comes to its end."""
    tenants = ["a", "b", "c"]
    asyncio.run(fill(folder, tenants))
    for deadly in count():
        here = folder / str(deadly)
        here.mkdir(mode=0o700)
        for name in (KEY, "state.db", "state.db-wal"):
            if (folder / name).exists():
                shutil.copy2(folder / name, here)
        child = os.fork()  # no thread runs here between two runs of asyncio
        if child == 0:
            status = 1
            try:
                asyncio.run(_rotate_until_killed(here, deadly, forget))
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        found = asyncio.run(_finish(here, tenants, forget))
        print(json.dumps({"killed": killed, "status": status, **found}), flush=True)
        if not killed:
            return


if __name__ == "__main__":
    if sys.argv[1] == "killed":
        killed_everywhere(Path(sys.argv[2]), forget=len(sys.argv) > 3)
    else:
        at_each_line(Path(sys.argv[2]))
