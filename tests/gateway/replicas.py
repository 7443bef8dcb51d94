"""Several whole gateways on one store, behind nothing but their ports, and clients that race for a limit.

Every replica is `toolyard serve` with a folder of its own. They share the state store and the key, and want
an API key of every caller.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from tests.faults.talk import Talk
from tests.faults.yard import ROOT, Gateway, toml

KEY = "the key that all replicas have in common"
ECHO = "mcp__demo__echo"
LONGEST = 1_000_000_000
LIMIT_REACHED, GRANT_ENDED = -32029, -32030
SERVERS = {"demo": {"module": "toolyard.servers.demo:server", "start": "eager"}}


class Replicas:
    def __init__(self, gateways: Sequence[Gateway], config: Path) -> None:
        self.gateways = gateways
        self._config = config

    async def key(self, name: str, *options: str) -> dict[str, str]:
        """The header of a new caller."""
        return {"Authorization": f"Bearer {await self.toolyard('keys', 'create', name, *options)}"}

    async def grant(self, name: str, *options: str) -> dict[str, str]:
        """The header of a new sub-agent."""
        return {"Authorization": f"Bearer {await self.toolyard('grant', 'make', name, *options)}"}

    async def toolyard(self, *arguments: str) -> str:
        """What a command prints that has the configuration of the first replica."""
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "toolyard", *arguments, "--config", str(self._config)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"TOOLYARD_KEY": KEY},
            cwd=ROOT,
        )
        out, err = await command.communicate()
        assert command.returncode == 0, err.decode()
        return out.decode().strip()

    def talk(self, replica: int, headers: dict[str, str]) -> Talk:
        return Talk(self.gateways[replica].port, headers=headers)


@asynccontextmanager
async def replicas(folder: Path, state: str, tables: str, count: int = 3) -> AsyncIterator[Replicas]:
    """`tables` are more of the configuration."""
    async with AsyncExitStack() as stack:
        gateways: list[Gateway] = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir()
            config = toml(SERVERS, state_dir=str(own / "state"))
            config += f'[state]\nurl = "{state}"\n[auth]\nkeys = true\nrequired = true\n{tables}'
            started = await Gateway.start(own, config, TOOLYARD_KEY=KEY)
            stack.push_async_callback(started.kill)
            gateways.append(started)
        yield Replicas(gateways, folder / "replica-0" / "toolyard.toml")


def window(limit: int, unavailable: str = "open") -> str:
    return (
        f'[limits]\nunavailable = "{unavailable}"\n'
        f'[[limits.rules]]\nname = "window"\ncalls = {limit}\nwindow = {LONGEST}\n'
    )


class Race(Struct):
    passed: list[int]
    """By replica."""
    refused: int = 0
    others: Counter[str] = Counter()
    """Answers that are neither."""


async def race(group: Replicas, headers: dict[str, str], calls: int, *, at_once: int = 16) -> Race:
    """Make so many calls, `at_once` at every replica, and count what came of them."""
    found = Race([0] * len(group.gateways), others=Counter())
    numbers = iter(range(calls))

    async def client(replica: int) -> None:
        talk = group.talk(replica, headers)
        for number in numbers:
            answer = await talk.call(ECHO, text=f"call {number}")
            error = answer.get("error")
            if error is None:
                assert answer["result"]["content"][0]["text"] == f"call {number}"
                found.passed[replica] += 1
            elif error["code"] in (LIMIT_REACHED, GRANT_ENDED):
                found.refused += 1
            else:
                found.others[error["message"]] += 1
        talk.close()

    await asyncio.gather(*(client(replica) for replica in range(len(group.gateways)) for _ in range(at_once)))
    return found
