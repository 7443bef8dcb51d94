"""One function in AWS's own emulator, with AWS's own runtime client: as near to the real place as one machine
gets without Docker.

Owns the processes: `aws-lambda-rie`, which takes events over HTTP, and the Python that it starts with the
first of them. Owns nothing of what is in the function's folder.
"""

import asyncio
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.aws.events import Answered, answer_of
from tests.processes import direct_children
from tests.serving import http
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/rie/aws-lambda-rie"
MANAGED = (sys.executable, "-m", "awslambdaric", "function.handler")
"""How a managed runtime starts a function, with the packages of this checkout beside it."""
_PATH = "/2015-03-31/functions/function/invocations"


class Emulated:
    """A function in the emulator."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self._process = process
        self._port = port
        self._log = log

    @property
    def log(self) -> str:
        """What the emulator and the function have written so far."""
        return self._log.read_text("utf-8", "replace")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The function's own log: lines that are JSON objects."""
        found: list[dict[str, Any]] = []
        for line in self.log.splitlines():
            if line.startswith("{"):
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found

    @property
    def pid(self) -> int:
        """The process that the function runs in; it is there after the first event."""
        (child,) = direct_children(self._process.pid)
        return child

    async def listens(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self._process.returncode is None:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    writer.close()
                    return
                await asyncio.sleep(0.01)
        pytest.fail(f"the emulator ended by itself:\n{self.log}")

    async def invoke(self, event: dict[str, Any]) -> Answered:
        return answer_of(await self.returned(event))

    async def returned(self, event: Any) -> bytes:
        """What the function returned, or the error that it ended with, as JSON."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(http("POST", _PATH, {"Connection": "close"}, body))
            await writer.drain()
            answer = await reader.read()
            writer.close()
        assert answer, f"the emulator hung up; its log ends with\n{self.log[-2000:]}"
        head_end = answer.index(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in answer[:head_end].lower():
            return _unchunked(answer[head_end + 4 :])
        return answer[head_end + 4 :]


@asynccontextmanager
async def emulated(
    folder: Path,
    log: Path,
    variables: Mapping[str, str],
    *,
    command: Sequence[str] = MANAGED,
    limit_s: int = 30,
) -> AsyncIterator[Emulated]:
    """Runs what is in a folder as a function; `limit_s` is how long it may take."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing; hint: `make test` installs what the tests need")
    port, runtime_port = free_port(), free_port()
    environment = {
        **bare_environment(folder),
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(limit_s),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        **variables,
    }
    addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
    addresses += ["--runtime-api-address", f"127.0.0.1:{runtime_port}"]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(PROGRAM),
            *addresses,
            *command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        instance = Emulated(process, port, log)
        await instance.listens()
        yield instance
    finally:
        # The emulator would leave its child behind, which is in a group of its own.
        for pid in (process.pid, *direct_children(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.wait()


def bare_environment(folder: Path) -> dict[str, str]:
    """Nothing of this process's environment: what the function needs is in its folder and its variables."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "LAMBDA_TASK_ROOT": str(folder),
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_SESSION_TOKEN": "none",
        "LANG": "C.UTF-8",
    }


def free_port() -> int:
    """A port below those that outgoing connections get by themselves; the emulator takes no 0."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _unchunked(body: bytes) -> bytes:
    pieces: list[bytes] = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        body = rest[int(size, 16) + 2 :]
    return b"".join(pieces)
