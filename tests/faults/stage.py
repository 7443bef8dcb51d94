"""A row on stage: a gateway with three good upstreams, one of each kind, and the faulty ones, well at first.

What the tests and the benchmark of the matrix have in common: how a row is set up, how its upstreams fall ill
and get well, and what there is to see of it from outside.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.inside import FOLDER_VARIABLE
from tests.faults.moods import WELL, Mood
from tests.faults.rows import CONNECT_TIMEOUT, Faulty, Row
from tests.faults.talk import Talk
from tests.faults.yard import PATIENCE, ROOT, Gateway, http_upstreams, stdio_entry, toml

GOOD = ("mcp__good_http__echo", "mcp__good_stdio__echo", "mcp__good_inside__echo")


def full_name(faulty: Faulty) -> str:
    return f"mcp__{faulty.name}__echo"


@dataclass
class Stage:
    row: Row
    folder: Path
    gateway: Gateway
    good_port: int
    """Of the good upstream over HTTP, for calls that do not go through the gateway."""

    def fall_ill(self) -> None:
        for faulty in self.row.upstreams:
            Mood(self.folder / faulty.name).become(faulty.mood)

    def get_well(self) -> None:
        for faulty in self.row.upstreams:
            Mood(self.folder / faulty.name).become(WELL)

    async def everybody_answers(self) -> None:
        """Once they have started, which takes as long as it takes: some of them have short time limits."""
        names = [*(full_name(faulty) for faulty in self.row.upstreams if not faulty.from_the_start), *GOOD]
        # As many at a time as later on, so that as many connections are open.
        await asyncio.gather(*(self._is_there(name) for name in names for _ in range(self.row.callers)))
        listed = set(await self.gateway.tools())
        assert set(names) <= listed, f"missing: {set(names) - listed}"

    async def everybody_is_back(self) -> None:
        """By themselves: a caller who tries again is answered."""
        await asyncio.gather(*(self._is_there(full_name(faulty)) for faulty in self.row.upstreams))

    async def _is_there(self, name: str) -> None:
        talk = Talk(self.gateway.port)
        answer: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while answer.get("result", {}).get("content", [{}])[0].get("text") != "there":
                    answer = await talk.call(name, text="there")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{name} is not there after {PATIENCE} s: {answer}") from None
        finally:
            talk.close()


async def provoked(talk: Talk, faulty: Faulty) -> dict[str, Any]:
    """A call to a faulty upstream, and what became of it."""
    async with asyncio.timeout(faulty.timeout + PATIENCE):
        raw = await talk.raw("tools/call", {"name": full_name(faulty), "arguments": {"text": "again"}})
    # A result of a hundred megabytes is not decoded: that would take our time, not the gateway's.
    return {"result": {"size": len(raw)}} if len(raw) > 2**20 else json.loads(raw)


@asynccontextmanager
async def on_stage(row: Row, folder: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        for faulty in row.upstreams:
            if faulty.from_the_start:
                Mood(folder / faulty.name).become(faulty.mood)
        # Two processes: what the faulty ones do to themselves must not reach the good one but through us.
        ports = await stack.enter_async_context(http_upstreams(folder, {"good_http": "modern"}))
        if eras := {faulty.name: faulty.era for faulty in row.upstreams if faulty.kind == "http"}:
            ports |= await stack.enter_async_context(http_upstreams(folder, eras))
        places = good_places(folder, ports["good_http"])
        places |= {faulty.name: _place(faulty, folder, ports) for faulty in row.upstreams}
        gateway = await started(folder, places)
        stack.push_async_callback(gateway.kill)
        yield Stage(row, folder, gateway, ports["good_http"])


def good_places(folder: Path, port: int) -> dict[str, dict[str, Any]]:
    return {
        "good_http": {"url": f"http://127.0.0.1:{port}/mcp"},
        "good_stdio": stdio_entry("good_stdio", "legacy", folder),
        "good_inside": {"module": "tests.faults.inside:good_inside"},
    }


def _place(faulty: Faulty, folder: Path, ports: dict[str, int]) -> dict[str, Any]:
    match faulty.kind:
        case "http":
            place: dict[str, Any] = {"url": f"http://127.0.0.1:{ports[faulty.name]}/mcp"}
        case "stdio":
            place = stdio_entry(faulty.name, faulty.era, folder)
        case "inside":
            place = {"module": f"{_file(faulty, folder)}:server"}
    return place | faulty.settings | {"timeout": faulty.timeout, "connect_timeout": CONNECT_TIMEOUT}


def _file(faulty: Faulty, folder: Path) -> Path:
    """A module of its own, which can fail to be imported."""
    file = folder / f"{faulty.name}_server.py"
    file.write_text(f"from tests.faults.inside import importable\n\nserver = importable({faulty.name!r})\n")
    return file


async def started(folder: Path, places: dict[str, dict[str, Any]]) -> Gateway:
    config = toml(places, state_dir=str(folder / "state"), list_wait=5.0, page_size=1000)
    return await Gateway.start(folder, config, **{FOLDER_VARIABLE: str(folder), "PYTHONPATH": str(ROOT)})
