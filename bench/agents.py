"""What the agent runner costs beside the model and the tools: CPU of a turn, and CPU until the first request.

The model is a scripted one in this process that answers at once. A turn of the runner is measured beside the
same tool call made directly by a client, and the difference is the runner's own, its spans in the local trace
store and its transcript included. `make bench-agents`.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from toolyard import Client
from toolyard.agents import AgentLibrary, AgentRunner, LocalGateway, RunFolder, RunLimits
from toolyard.agents.backends.base import ModelReply, ModelRequest
from toolyard.agents.loop import ModelLoop
from toolyard.agents.messages import ChatMessage, TextPart, TokenUsage, ToolUsePart
from toolyard.app import Gateway
from toolyard.config import load
from toolyard.telemetry.tracing import agent_telemetry, open_run_spans

CONFIG = """
[gateway]
state_dir = "{state}"

[auth]
keys = true

[servers.demo]
module = "demo"
"""
START = """
import os, sys, time
OUT = os.dup(1)  # the command sends what anybody prints to standard error
from toolyard.agents.backends import base
from toolyard.agents import loop

class First:
    name = provider = "first"
    context_tokens = 100_000
    async def respond(self, request, on_text=None):
        os.write(OUT, str(time.process_time()).encode())
        os._exit(0)
    async def close(self): pass

loop.open_model = lambda spec: First()
from toolyard.cli import main
sys.argv = ["toolyard", "agent", "hello", "--model", "openai:x", "--json"]
main()
"""


def addition(number: int) -> dict[str, Any]:
    return {"tool": "mcp__demo__add", "arguments": {"a": number, "b": 1}}


class Counting:
    """Calls `add` for so many turns, with other numbers each time."""

    name = provider = "counting"
    context_tokens = 200_000

    def __init__(self, turns: int) -> None:
        self._left = turns

    async def respond(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        self._left -= 1
        usage = TokenUsage(1000, 50)
        if self._left < 0:
            return ModelReply(ChatMessage("assistant", (TextPart("done"),)), "end", usage)
        use = ToolUsePart(f"use_{self._left}", "call_tool", addition(self._left))
        return ModelReply(ChatMessage("assistant", (use,)), "tool_use", usage)

    async def close(self) -> None:
        pass


async def turn_cost(turns: int) -> tuple[float, float]:
    """Milliseconds of CPU of a turn with one call, and of the same call alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "toolyard.toml"
        file.write_text(CONFIG.format(state=folder / "state"))
        config = load(file)
        telemetry = agent_telemetry(config.telemetry)
        spans = open_run_spans(telemetry, folder)
        gateway = Gateway(replace(config, telemetry=telemetry), b"k" * 32)
        await gateway.start()
        try:
            async with Client(gateway.view()) as client:
                for at in range(50):
                    await client.call_tool(
                        "call_tool", {"tool": "mcp__demo__add", "arguments": {"a": at, "b": 1}}
                    )
                start = time.process_time()
                for at in range(turns):
                    await client.call_tool(
                        "call_tool", {"tool": "mcp__demo__add", "arguments": {"a": at, "b": 1}}
                    )
                alone = (time.process_time() - start) / turns
            run = RunFolder.create(folder / "run")
            runner = AgentRunner(
                LocalGateway(gateway.view(), gateway.callers),
                lambda spec: ModelLoop(Counting(turns)),
                run,
                library=AgentLibrary.load(project=folder),
                model="bench:x",
                limits=RunLimits(turns=None, tool_calls=None),
                spans=spans,
            )
            start = time.process_time()
            async with runner:
                outcome = await runner.ask("count")
            whole = (time.process_time() - start) / turns
            assert outcome.is_done, outcome.reason
            run.close()
        finally:
            await gateway.close()
            await spans.close()
    return whole * 1000, alone * 1000


def start_cost(bytecode: Path) -> float:
    """Seconds of CPU from the start of the process to the first request to the model."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "toolyard.toml").write_text('[servers.demo]\nmodule = "demo"\n')
        environment = os.environ | {"XDG_STATE_HOME": name, "PYTHONPYCACHEPREFIX": str(bytecode)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(
            [sys.executable, "-c", START],
            cwd=name,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    costs = [asyncio.run(turn_cost(options.turns)) for _ in range(options.rounds)]
    whole, alone = median(cost[0] for cost in costs), median(cost[1] for cost in costs)
    with tempfile.TemporaryDirectory() as bytecode:
        # The first start compiles the source, which an installed package is spared.
        starts = [start_cost(Path(bytecode)) for _ in range(options.rounds + 1)][1:]
    print("| | CPU |\n|---|---|")
    print(f"| a turn with one tool call, in a run of {options.turns} turns | {whole:.2f} ms |")
    print(f"| the tool call alone | {alone:.2f} ms |")
    print(f"| the runner's own cost of a turn | {whole - alone:.2f} ms |")
    print(f"| from the start of `toolyard agent` to its first request | {median(starts):.2f} s |")


if __name__ == "__main__":
    main()
