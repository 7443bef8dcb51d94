"""The cost of one forwarded call in our gateway, compared with a bare forwarder on the same upstream.

Owns the shared upstream, the start of our gateway, and the transports and eras that are measured.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.load import ERAS, Target
from bench.process import HOST, ROOT, Process, cpu_seconds, free_port, resident_bytes, running
from bench.rounds import Measured, Progress, Subject, interleaved, wait_for_tool

KEY = "only for the benchmark, so that nothing is kept"


@contextmanager
def upstream() -> Generator[str, None, None]:
    """Starts the shared upstream; yields its URL."""
    port = free_port()
    with running("upstream", [sys.executable, "-m", "bench.upstream", "--port", str(port)], port):
        yield f"http://{HOST}:{port}/mcp"


@contextmanager
def forwarder(address: str, *options: str) -> Generator[Process, None, None]:
    port = free_port()
    command = [sys.executable, "-m", "bench.forwarder", "--port", str(port), "--upstream", address]
    with running("forwarder", [*command, *options], port) as process:
        yield process


@contextmanager
def toolyard(config: str, folder: Path, source: Path | None = None) -> Generator[Process, None, None]:
    """Our gateway as a user starts it, with its state in `folder`. `source`: another checkout's `src`."""
    file = folder / "toolyard.toml"
    file.write_text(config, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "toolyard", "serve", "--config", str(file), "--port", str(port)]
    env = {"XDG_STATE_HOME": str(folder), "TOOLYARD_KEY": KEY}
    if source is not None:
        env["PYTHONPATH"] = str(source)
    with running("toolyard", command, port, env=env, log=folder / "toolyard.log") as process:
        yield process


def three_kinds(address: str) -> str:
    """The same upstream over HTTP, as a child process and in process.

    All stages are on, except that the huge result passes through without shaping. Every subject keeps its
    connections while others are measured, so more of them are idle than a gateway keeps by default.
    """
    return f"""
[gateway]
view = "all"
max_idle = 10000
[results]
exempt = ["mcp__*__big"]
[servers.up]
url = "{address}"
[servers.child]
command = "{sys.executable}"
args = ["-m", "bench.upstream", "--stdio"]
cwd = "{ROOT}"
[servers.own]
module = "bench.upstream:server"
"""


def ours(
    address: str, *, connections: Sequence[int], calls: int, rounds: int, progress: Progress
) -> Measured:
    found = Measured()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bare = stack.enter_context(forwarder(address))
        tuned = stack.enter_context(forwarder(address, "--tuned"))
        gateway = stack.enter_context(toolyard(three_kinds(address), folder))
        ways = {
            "forwarder": (bare, Target(bare.port)),
            "forwarder tuned": (tuned, Target(tuned.port)),
            "toolyard": (gateway, Target(gateway.port, tool="mcp__up__echo")),
            "toolyard bare view": (gateway, Target(gateway.port, "/mcp/up")),
            "toolyard stdio": (gateway, Target(gateway.port, tool="mcp__child__echo")),
            "toolyard in process": (gateway, Target(gateway.port, tool="mcp__own__echo")),
        }
        subjects = [
            Subject(name, era, target, partial(cpu_seconds, process.pid))
            for era in ERAS
            for name, (process, target) in ways.items()
        ]
        for process, target in ways.values():
            wait_for_tool(process, target, "modern")
        for load in connections:
            found.figures |= interleaved(
                subjects, connections=load, calls=calls, rounds=rounds, progress=progress
            )
        found.resident = {
            "forwarder": resident_bytes(bare.pid),
            "toolyard": resident_bytes(gateway.pid),
        }
    return found
