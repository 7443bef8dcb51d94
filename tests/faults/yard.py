"""A gateway process with upstreams behind it, and what there is of it in the operating system."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.faults.talk import Talk
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

_ADDRESS = re.compile(rb"http://[\d.]+:(\d+)/mcp")


@asynccontextmanager
async def http_upstreams(folder: Path, eras: Mapping[str, str]) -> AsyncIterator[dict[str, int]]:
    """Servers over HTTP with moods in `folder`, and the port of each."""
    names = [f"{name}:{era}" for name, era in eras.items()]
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.over_http", str(folder), *names),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert program.stdout is not None
        async with asyncio.timeout(PATIENCE):
            ports: dict[str, int] = json.loads(await program.stdout.readline())
        yield ports
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()


def stdio_entry(name: str, era: str, folder: Path) -> dict[str, Any]:
    args = ["-m", "tests.faults.over_stdio", era, str(folder / name)]
    return {"command": sys.executable, "args": args, "cwd": str(ROOT)}


def toml(servers: Mapping[str, Mapping[str, Any]], **gateway: Any) -> str:
    """A config file. JSON's strings, numbers, lists and booleans are TOML's too."""
    named = {f"servers.{json.dumps(name)}": entry for name, entry in servers.items()}
    tables = {"gateway": {"view": "all"} | gateway, "results": {"shape": False}} | named
    lines: list[str] = []
    for table, entries in tables.items():
        lines += [f"[{table}]", *(f"{key} = {_value(value)}" for key, value in entries.items()), ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


class Gateway:
    """`toolyard serve --config`, as a user starts it."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self.port = port
        self.pid = process.pid
        self.talk = Talk(port)

    @classmethod
    async def start(cls, folder: Path, config: str, **environment: str) -> "Gateway":
        """From when it says that it is ready; its standard error goes to `gateway.log` in the folder."""
        file = folder / "toolyard.toml"
        file.write_text(config)
        with (folder / "gateway.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "toolyard", "serve", "--config", str(file), "--port", "0"),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"XDG_STATE_HOME": str(folder / "state")} | environment,
            )
        assert process.stdout is not None
        said = b""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := _ADDRESS.search(said)):
                    line = await process.stdout.readline()
                    assert line, f"it ended: {(folder / 'gateway.log').read_text()}"
                    said += line
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        return cls(process, int(found[1]), folder)

    @property
    def log(self) -> str:
        return (self._folder / "gateway.log").read_text(errors="replace")

    async def health(self) -> Any:
        return json.loads(await self.talk.get("/health"))

    async def tools(self, path: str = "/mcp") -> list[str]:
        talk, names, cursor = Talk(self.port, path), list[str](), None
        while True:
            page = await talk.request("tools/list", {"cursor": cursor} if cursor else {})
            names += [tool["name"] for tool in page["result"]["tools"]]
            cursor = page["result"].get("nextCursor")
            if not cursor:
                talk.close()
                return names

    async def stop(self) -> tuple[int, float]:
        """SIGTERM: the exit status and how many seconds it took."""
        self.talk.close()
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            status = await self._process.wait()
        return status, time.monotonic() - started

    async def kill(self) -> None:
        """As the kernel does when it is out of memory."""
        self.talk.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    # In the operating system

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self) -> int:
        """Resident now, in bytes."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """Resident at most since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status(self, key: str) -> int:
        found = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found
        return int(found[1]) * 1024

    def zombies(self) -> list[int]:
        """Children that ended and that nobody has waited for."""
        found: list[int] = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
                if int(parent) == self.pid and state == "Z":
                    found.append(int(stat.parent.name))
        return found


def running(folder: Path, module: str = "") -> list[int]:
    """Processes that have a file of this folder among their arguments, and `module` too if it is given."""
    found: list[int] = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            arguments = cmdline.read_bytes().decode(errors="replace")
            if str(folder) in arguments and module in arguments:
                found.append(int(cmdline.parent.name))
    return found


async def becomes_true(what: Any, seconds: float = PATIENCE) -> bool:
    """Whether a condition on another process comes true in time; it is looked at, for nothing tells of it."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True
