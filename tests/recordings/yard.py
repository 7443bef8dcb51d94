"""Gateways that are recorded, and gateways over a recording, each with a client in front."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolyard import Client
from toolyard.app import Gateway
from toolyard.client.types import CallResult
from toolyard.config import Config, GatewayConfig, InProcess, ServerConfig
from toolyard.recordings.format import HeaderLine, RecordingWriter
from toolyard.recordings.recorder import TrafficRecorder
from toolyard.recordings.recording import Recording
from toolyard.recordings.replayer import Replay
from toolyard.wire.types import Text

WORKSHOP = str(Path(__file__).parent / "workshop.py")


def config(folder: Path, *servers: ServerConfig, **gateway: Any) -> Config:
    settings = {"view": "all", "state_dir": str(folder / "state"), **gateway}
    return Config(servers=servers or (demo(),), gateway=GatewayConfig(**settings))


def demo(**options: Any) -> ServerConfig:
    return ServerConfig(name="demo", where=InProcess(module="toolyard.servers.demo"), **options)


def workshop(**options: Any) -> ServerConfig:
    return ServerConfig(name="shop", where=InProcess(module=WORKSHOP), **options)


@asynccontextmanager
async def recorded(settings: Config, file: Path, **client: Any) -> AsyncIterator[Client]:
    writer = RecordingWriter(file, HeaderLine(command=("test",)))
    async with connected(Gateway(settings, None, tap=TrafficRecorder(writer)), **client) as ours:
        yield ours
    writer.end(0)


@asynccontextmanager
async def replayed(file: Path, lenient: bool = False, **client: Any) -> AsyncIterator[tuple[Client, Replay]]:
    recording = Recording(file)
    replay = Replay(recording, lenient=lenient)
    found = recording.config()
    settings = replace(found, gateway=replace(found.gateway, state_dir=str(file.parent / "replay-state")))
    try:
        async with connected(Gateway(settings, None, tap=replay), **client) as ours:
            yield ours, replay
    finally:
        recording.close()


@asynccontextmanager
async def connected(gateway: Gateway, **client: Any) -> AsyncIterator[Client]:
    await gateway.start()
    try:
        for server in gateway.catalogue.servers.values():
            await server.settled.wait()
        async with Client(gateway.view(), **client) as ours:
            yield ours
    finally:
        await gateway.close()


async def text(client: Client, tool: str, **arguments: Any) -> str:
    return text_of(await client.call_tool(f"mcp__{tool}", arguments))


def text_of(result: CallResult) -> str:
    block = result.content[0]
    assert isinstance(block, Text)
    return block.text
