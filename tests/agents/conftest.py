"""A gateway in this process with grants, and runs in a temporary folder."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.agents.scripted import ScriptedModel, backend_of
from toolyard.agents import AgentLibrary, AgentRunner, LocalGateway, RunFolder
from toolyard.agents.definition import AgentDefinition
from toolyard.app import Gateway
from toolyard.config import load

CONFIG = """
[gateway]
state_dir = "state"
view = "search"

[auth]
keys = true

[servers.local_toolkit]
module = "local_toolkit"

[servers.demo]
module = "demo"

[access]
default = "allow"

[[access.rules]]
who = ["agent:writer"]
deny = ["demo/echo"]
"""
MAIN = AgentDefinition(name="main", description="does it", prompt="You are MAIN.")
WRITER = AgentDefinition(name="writer", description="writes", prompt="You are WRITER.", agents=())
NARROW = AgentDefinition(
    name="narrow", description="only adds", prompt="You are NARROW.", tools=("demo/add",), agents=()
)


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    file = tmp_path / "toolyard.toml"
    file.write_text(CONFIG.replace('"state"', f'"{tmp_path / "state"}"'))
    found = Gateway(load(file), b"k" * 32)
    await found.start()
    yield found
    await found.close()


MakeRunner = Callable[..., AgentRunner]


@pytest.fixture
async def make_runner(gateway: Gateway, tmp_path: Path) -> AsyncIterator[MakeRunner]:
    """Makes a runner over the gateway; `folder` goes on with a run."""
    async with AsyncExitStack() as stack:

        def make(
            model: ScriptedModel,
            *,
            folder: RunFolder | None = None,
            agents: tuple[AgentDefinition, ...] = (MAIN, WRITER, NARROW),
            **options: Any,
        ) -> AgentRunner:
            run = folder or RunFolder.create(tmp_path / "runs" / f"run{len(list(tmp_path.glob('runs/*')))}")
            stack.callback(run.close)
            runner = AgentRunner(
                LocalGateway(gateway.view(), gateway.callers),
                backend_of(model),
                run,
                library=AgentLibrary(agents),
                model="scripted:scripted-1",
                today=date(2026, 11, 18),
                **options,
            )
            stack.push_async_callback(runner.close)
            return runner

        yield make
