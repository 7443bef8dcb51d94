"""Kills a process that writes the audit, under load, and counts what was acknowledged and what is there.

`python -m tests.audit.killing URL FOLDER RUN` is the process: it appends records as fast as it can, and
writes the id of each to standard output after `append` has returned. `kill_under_load` starts it again and
again in one store, kills each with SIGKILL after a random number of records, and compares. A whole gateway
and its clients can take the place of that process (`GatewayLoad`).
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from tests.audit.records import KEY, record
from tests.faults.talk import Talk
from tests.faults.yard import Gateway, toml
from toolyard.audit import open_audit
from toolyard.audit.chain import ChainKey
from toolyard.audit.log import open_audit_store
from toolyard.audit.verify import verify
from toolyard.config.callers import AuditConfig

ROOT = Path(__file__).resolve().parents[2]
AT_A_TIME = 16
MAX_BYTES = 256 * 1024
"""Small, so that some kills fall into a rotation."""


class Load(Protocol):
    """One process that makes records, until it is killed."""

    async def start(self) -> None: ...

    async def acknowledged(self) -> str | None:
        """Wait for the next record that was acknowledged; None when the process is dead."""
        ...

    async def kill(self) -> None: ...


class WriterLoad:
    """The process below."""

    def __init__(self, url: str, folder: Path, run: int) -> None:
        self._arguments = [url, str(folder), str(run)]

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.audit.killing",
            *self._arguments,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )

    async def acknowledged(self) -> str | None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):  # killed while it wrote the id
            await self._process.wait()
            return None
        return line.decode().strip()

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)


class GatewayLoad:
    """A whole gateway, and clients that call a tool over HTTP. An answer is the acknowledgement."""

    def __init__(self, url: str, folder: Path, run: int) -> None:
        self._url = url
        self._folder = folder
        self._run = run
        self._answered: asyncio.Queue[str] = asyncio.Queue()
        self._clients: list[asyncio.Task[None]] = []
        self._ended = 0

    async def start(self) -> None:
        servers = {"demo": {"module": "toolyard.servers.demo:server", "start": "eager"}}
        audit = f'[audit]\nurl = "{self._url}"\narguments = "redacted"\nmax_bytes = {MAX_BYTES}\n'
        config = toml(servers, state_dir=str(self._folder)) + audit
        self._gateway = await Gateway.start(self._folder, config, TOOLYARD_KEY=KEY.decode())
        self._clients = [asyncio.create_task(self._call(first)) for first in range(AT_A_TIME)]

    async def acknowledged(self) -> str | None:
        while True:
            name = await self._answered.get()
            if name:
                return name
            self._ended += 1
            if self._ended == AT_A_TIME:
                await asyncio.gather(*self._clients)
                return None

    async def kill(self) -> None:
        await self._gateway.kill()

    async def _call(self, first: int) -> None:
        talk, number = Talk(self._gateway.port), first
        try:
            while True:
                name = f"{self._run}-{number}"
                answer = await talk.call("mcp__demo__echo", text=name)
                if "error" in answer:
                    raise RuntimeError(f"the gateway refused a call: {answer['error']}")
                self._answered.put_nowait(name)
                number += AT_A_TIME
        except (OSError, EOFError):  # it was killed
            talk.close()
        finally:
            self._answered.put_nowait("")

    @staticmethod
    def id_of(line: dict[str, Any]) -> str:
        return (line.get("arguments") or {}).get("text", "")


class KillReport(Struct, kw_only=True):
    kills: int = 0
    acknowledged: int = 0
    recorded: int = 0
    missing: list[str] = []
    chains: int = 0
    torn: int = 0
    damages: list[str] = []
    said: str = ""
    """What `toolyard audit verify` prints about the same store, where it was asked."""

    @property
    def is_good(self) -> bool:
        return not self.missing and not self.damages


def default_id(line: dict[str, Any]) -> str:
    return line.get("request_id", "")


async def kill_under_load(
    make_load: Callable[[int], Load],
    url: str,
    folder: Path,
    *,
    kills: int,
    most: int,
    seed: int,
    key: bytes = KEY,
    id_of: Callable[[dict[str, Any]], str] = default_id,
) -> KillReport:
    """Kill each load after 1 to `most` acknowledgements, then check the store of `url`.

    `id_of` says which acknowledgement a record belongs to.
    """
    chance = random.Random(seed)
    acknowledged: set[str] = set()
    for run in range(kills):
        load = make_load(run)
        await load.start()
        until = chance.randint(1, most)
        count = 0
        while (name := await load.acknowledged()) is not None:
            acknowledged.add(name)
            count += 1
            if count == until:
                await load.kill()
        if count < until:
            raise RuntimeError(f"the process ended by itself after {count} records")
    store = open_audit_store(AuditConfig(url=url), folder, ChainKey(key))
    recorded: set[str] = set()
    for chain in await store.chains():
        async for stored in store.scan(chain):
            if not stored.is_torn:
                line = msgspec.json.decode(stored.data)
                if line["event"] == "call":
                    recorded.add(id_of(line))
    report = await verify(store, [ChainKey(key)])
    await store.close()
    return KillReport(
        kills=kills,
        acknowledged=len(acknowledged),
        recorded=len(recorded),
        missing=sorted(acknowledged - recorded),
        chains=len(report.chains),
        torn=sum(chain.state == "torn" for chain in report.chains),
        damages=[f"{damage.place}: {damage.kind}: {damage.detail}" for damage in report.damages],
    )


async def kill_writers(url: str, *, kills: int, most: int, seed: int) -> KillReport:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return await kill_under_load(
            lambda run: WriterLoad(url, place, run), url, place, kills=kills, most=most, seed=seed
        )


async def kill_gateways(url: str, *, kills: int, most: int, seed: int) -> KillReport:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        report = await kill_under_load(
            lambda run: GatewayLoad(url, place, run),
            url,
            place,
            kills=kills,
            most=most,
            seed=seed,
            id_of=GatewayLoad.id_of,
        )
        report.said = await _verify_by_command(place / "toolyard.toml")
        return report


async def _verify_by_command(config: Path) -> str:
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolyard", "audit", "verify", "--config", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TOOLYARD_KEY": KEY.decode()},
        cwd=ROOT,
    )
    out, err = await command.communicate()
    if command.returncode:
        raise RuntimeError(f"`toolyard audit verify` ended with {command.returncode}: {(out + err).decode()}")
    return out.decode().strip()


async def _write_until_killed(url: str, folder: Path, run: str) -> None:
    log = open_audit(AuditConfig(url=url, max_bytes=MAX_BYTES), folder, KEY)

    async def call(first: int) -> None:
        number = first
        while True:
            name = f"{run}-{number}"
            await log.append(record(number, request_id=name))
            os.write(1, f"{name}\n".encode())
            number += AT_A_TIME
            await asyncio.sleep(0)  # an append to a file never waits

    await asyncio.gather(*(call(first) for first in range(AT_A_TIME)))


if __name__ == "__main__":
    asyncio.run(_write_until_killed(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
