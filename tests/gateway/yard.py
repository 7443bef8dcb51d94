"""A gateway over the small servers of `tests/faults`, for tests that look at the process from outside."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.inside import FOLDER_VARIABLE
from tests.faults.moods import Journal, Mood
from tests.faults.yard import ROOT, Gateway, http_upstreams, stdio_entry, toml

NAMES = {"web_modern": "modern", "web_legacy": "legacy", "pipe_modern": "modern", "pipe_legacy": "legacy"}
LIMITS = {"timeout": 5.0, "connect_timeout": 2.0}


@dataclass
class Yard:
    """Four upstreams, two over HTTP and two on stdio, and as many gateways over them as a test starts."""

    folder: Path
    servers: dict[str, dict[str, Any]]
    stack: AsyncExitStack

    async def start(self, **gateway: Any) -> Gateway:
        """A gateway that has seen its upstreams."""
        started = await self.start_unseen(**gateway)
        await started.tools()
        return started

    async def start_unseen(self, **gateway: Any) -> Gateway:
        config = toml(self.servers, **({"state_dir": str(self.folder / "state")} | gateway))
        environment = {FOLDER_VARIABLE: str(self.folder), "PYTHONPATH": str(ROOT)}
        started = await Gateway.start(self.folder, config, **environment)
        self.stack.push_async_callback(started.kill)
        return started

    def all_become(self, mood: str) -> None:
        for name in NAMES:
            self.mood(name).become(mood)

    def mood(self, name: str) -> Mood:
        return Mood(self.folder / name)

    def journal(self, name: str) -> Journal:
        return Journal(self.folder / f"{name}.journal")


@asynccontextmanager
async def yard_in(folder: Path) -> AsyncIterator[Yard]:
    web = {name: era for name, era in NAMES.items() if name.startswith("web")}
    async with AsyncExitStack() as stack:
        ports = await stack.enter_async_context(http_upstreams(folder, web))
        servers = {name: {"url": f"http://127.0.0.1:{ports[name]}/mcp"} for name in web}
        servers |= {name: stdio_entry(name, era, folder) for name, era in NAMES.items() if name not in web}
        yield Yard(folder, {name: entry | LIMITS for name, entry in servers.items()}, stack)


def echo(name: str) -> str:
    return f"mcp__{name}__echo"


def text_of(answer: dict[str, Any]) -> str | None:
    """What a call said; None when it failed."""
    if "error" in answer or answer["result"].get("isError"):
        return None
    return answer["result"]["content"][0]["text"]
