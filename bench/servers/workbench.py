"""What the workbench costs on top of the code that it runs: a cell, a new session, a tool called from inside.

CPU time of the gateway's process and of the box together, so that a busy machine changes little; medians.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Raw

from bench.report import Row
from toolyard.app.gateway import Gateway
from toolyard.config import Config, InProcess, ServerConfig
from toolyard.config.servers import module_of
from toolyard.wire.call import NO_CHANNEL, Call, Caller, Identity, Principal
from toolyard.wire.messages import encode
from toolyard.workbench.box import BoxKit, BoxLimits, Interpreter, find_box
from toolyard.workbench.local import LocalLimits, LocalWorkbenches
from toolyard.workspace import Workspaces

CELLS, CALLS, SESSIONS = 300, 500, 12
GROUP = "workbench"
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def rows(progress: Callable[[str], None]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="toolyard-bench-workbench-") as folder:
        os.chmod(folder, 0o755)
        os.environ["XDG_STATE_HOME"] = folder
        return asyncio.run(_rows(Path(folder), progress))


async def _rows(folder: Path, progress: Callable[[str], None]) -> list[Row]:
    progress("workbench: new sessions")
    found = [
        _row("a new session", await _new_sessions(folder, warm=0), 150),
        _row("a new session in a box kept warm", await _new_sessions(folder, warm=1), 20),
    ]
    progress("workbench: cells")
    found.append(_row("a cell", await _cells(folder), 5))
    progress("workbench: tools called from inside")
    found.append(_row("a tool called from inside, on top of a direct call", await _tool_calls(folder), 1))
    return found


def _row(name: str, value: float, most: float) -> Row:
    return Row(GROUP, f"workbench: {name}", "ms CPU", value, target=f"< {most:g} ms", met=value < most)


def _benches(folder: Path, warm: int) -> LocalWorkbenches:
    kit = BoxKit(is_ours=True)
    box = find_box("auto", kit, BoxLimits(), Interpreter.found())
    limits = LocalLimits(warm=warm, sessions=64, sessions_of_one=64)
    return LocalWorkbenches(box, kit, Workspaces(str(folder / "files")), limits)


def _user(number: int) -> Caller:
    return Caller("2026-07-28", {}, identity=Identity(Principal(subject=f"u{number}", kind="key")))


async def _new_sessions(folder: Path, warm: int) -> float:
    """With a warm box, what its start cost before is not counted: nobody waited for it."""
    benches = _benches(folder, warm)
    taken: list[float] = []
    try:
        await benches.of(_user(0)).run("1")
        for number in range(1, SESSIONS):
            await benches.ready()
            begun = time.process_time()
            await benches.of(_user(number)).run("1")
            host = time.process_time() - begun
            pids = benches.processes()[-2:]
            inside = sum(_cpu_of(pid) for pid in pids) if warm == 0 else 0.0
            taken.append(host + inside)
    finally:
        await benches.close()
    return median(taken) * 1e3


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _cells(folder: Path) -> float:
    benches = _benches(folder, warm=0)
    try:
        bench = benches.of(_user(0))
        code = "import time; time.process_time()"
        before = after = float((await bench.run(code)).value)
        begun = time.process_time()
        for _ in range(CELLS):
            after = float((await bench.run(code)).value)
        host = time.process_time() - begun
    finally:
        await benches.close()
    return (host + after - before) / CELLS * 1e3


async def _tool_calls(folder: Path) -> float:
    names = ("workbench", "demo")
    config = Config(
        servers=tuple(
            ServerConfig(name=name, timeout=600, where=InProcess(module=module_of(name))) for name in names
        )
    )
    gateway = Gateway(config, b"thirty-two bytes for a benchmark")
    await gateway.start()
    try:
        await _call(gateway, "mcp__demo__add", a=1, b=2)
        begun = time.process_time()
        for _ in range(CALLS):
            await _call(gateway, "mcp__demo__add", a=1, b=2)
        direct = time.process_time() - begun
        code = (
            "import time\nbegun = time.process_time()\n"
            f"for _ in range({CALLS}): run_tool('mcp__demo__add', a=1, b=2)\n"
            "print(time.process_time() - begun)"
        )
        await _call(gateway, "mcp__workbench__REMOTE_WORKBENCH", code_to_execute="1")
        begun = time.process_time()
        result = await _call(gateway, "mcp__workbench__REMOTE_WORKBENCH", code_to_execute=code)
        nested = time.process_time() - begun
        inside = float(result["structuredContent"]["data"]["stdout"])
    finally:
        await gateway.close()
    return (nested + inside - direct) / CALLS * 1e3


async def _call(gateway: Gateway, tool: str, **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments, "_meta": _META}
    caller = Caller("2026-07-28", {})
    body = await gateway.view().handle(Call("tools/call", Raw(encode(params)), caller, NO_CHANNEL, 1))
    return msgspec.json.decode(body)
