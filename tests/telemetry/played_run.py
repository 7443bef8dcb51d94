"""A run of an agent without a model: its spans, and real calls through a gateway in another process.

The gateway has a server over HTTP, which keeps its own spans, and one over stdio.
"""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.running import Served, Toolyard
from toolyard import Client
from toolyard.config import TelemetryConfig
from toolyard.telemetry.run_spans import RunSpans
from toolyard.telemetry.tracing import agent_telemetry, open_run_spans

SHOP = '''
from toolyard.kit import Server, ToolError

server = Server("shop")


@server.tool(read_only=True)
def find_orders(customer: str) -> list[dict[str, int | float | str]]:
    """Find the orders of a customer."""
    return [{"id": number, "customer": customer, "total": number * 1.5} for number in range(1, 6)]


@server.tool(read_only=True)
def list_orders() -> list[dict[str, int | float | str]]:
    """List every order."""
    return [{"id": number, "note": "as agreed " * 5} for number in range(900)]


@server.tool
def refund(order: int) -> str:
    """Refund an order."""
    raise ToolError(f"order {order} is not paid")
'''
TASK = "Refund what Ann ordered"


@contextmanager
def yard(folder: Path, telemetry: str = 'traces = "local"', **environment: str) -> Iterator[Served]:
    """A gateway with both servers, its traces in `folder`/state."""
    toolyard = Toolyard(folder)
    toolyard.write("shop.py", SHOP)
    traced = {"TOOLYARD_TRACES": "local"}
    with toolyard.serving("shop.py", **traced, **environment) as shop:
        toolyard.write(
            "toolyard.toml",
            f"""
[gateway]
state_dir = "{toolyard.state / "toolyard"}"
[telemetry]
{telemetry}
[servers.shop]
url = "{shop.url}?key=in-the-query"
headers = {{ Authorization = "Bearer in-the-header" }}
[servers.desk]
command = "{sys.executable}"
args = ["-m", "toolyard", "stdio", "{folder / "shop.py"}"]
env = {{ TOOLYARD_TRACES = "local", XDG_STATE_HOME = "{toolyard.state}" }}
""",
        )
        with toolyard.serving("--config", "toolyard.toml", **environment) as gateway:
            yield gateway
        shop.stop(signal.SIGINT)  # it writes its last spans; killed, it might not


async def play(
    url: str, folder: Path, config: TelemetryConfig | None = None, thinks: tuple[float, ...] = (0, 0, 0, 0)
) -> str:
    """Plays the run, and returns the id of its trace. `thinks`: how long the model takes for each turn."""
    spans = open_run_spans(agent_telemetry(config or TelemetryConfig(), {}), folder)
    async with Client(url) as client:
        with spans.open(
            "invoke_agent",
            "main",
            {"gen_ai.agent.name": "main", "gen_ai.request.model": "small-1", "toolyard.task": TASK},
        ):
            trace = spans.trace_id
            with spans.open("turn", "", {"toolyard.turn": 1}):
                await _chat(spans, 1200, 80, 0.0021, thinks[0])
                await _tool(client, spans, "search_tools", {"queries": [{"use_case": "find orders"}]})
            with spans.open("turn", "", {"toolyard.turn": 2}):
                await _chat(spans, 2400, 60, 0.0034, thinks[1])
                await _tool(
                    client,
                    spans,
                    "call_tool",
                    {"tool": "mcp__shop__find_orders", "arguments": {"customer": "Ann"}},
                )
                await _tool(client, spans, "call_tool", {"tool": "mcp__shop__list_orders", "arguments": {}})
            with spans.open("turn", "", {"toolyard.turn": 3}):
                await _chat(spans, 3100, 45, 0.0039, thinks[2])
                await _tool(
                    client, spans, "call_tool", {"tool": "mcp__desk__refund", "arguments": {"order": 3}}
                )
            with spans.open("turn", "", {"toolyard.turn": 4}):
                await _chat(spans, 3300, 120, 0.0051, thinks[3])
    await spans.close()
    return trace


async def _chat(spans: RunSpans, sent: int, received: int, cost: float, seconds: float) -> None:
    with spans.open("chat", "small-1", {"gen_ai.provider.name": "openai"}) as span:
        await asyncio.sleep(seconds)
        span.set("gen_ai.response.model", "small-1")
        span.set("gen_ai.usage.input_tokens", sent)
        span.set("gen_ai.usage.output_tokens", received)
        span.set("toolyard.cost", cost)


async def _tool(client: Client, spans: RunSpans, name: str, arguments: dict[str, object]) -> None:
    with spans.open("execute_tool", name, {"gen_ai.tool.name": name, "gen_ai.tool.call.id": "c-1"}) as span:
        answer = await client.call_tool(name, arguments, meta=spans.meta())
        if answer.is_error:
            span.fail("tool_error")


def main() -> None:
    """Leaves the traces of a run in the current folder, for pictures."""
    folder = Path.cwd()
    with yard(folder) as gateway:
        asyncio.run(play(gateway.url, folder / "state" / "toolyard", thinks=(0.21, 0.34, 0.16, 0.42)))
        gateway.stop(signal.SIGINT)


if __name__ == "__main__":
    main()
