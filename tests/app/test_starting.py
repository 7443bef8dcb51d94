"""A gateway that cannot start says why, ends its process, and leaves nothing running."""

import asyncio
import json
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from toolyard.app import Gateway, asgi
from toolyard.app.background import BackgroundGateway
from toolyard.config import Config, GatewayConfig, ResultsConfig, ServerConfig, StateConfig, Stdio
from toolyard.config.server_auth import KeyAuth
from toolyard.edge.http.server import uvicorn_server
from toolyard.edge.stdio import serve
from toolyard.vault.base import VaultKeyError
from toolyard.wire.call import Call

ROOT = Path(__file__).parents[2]


def without_a_key(folder: Path) -> Config:
    """A vault that is needed, with a store that others share: no key can be made for it."""
    program = Stdio(command=sys.executable, args=("-c", ""))
    server = ServerConfig(name="up", where=program, auth=KeyAuth(variable="KEY"))
    return Config(
        servers=(server,),
        gateway=GatewayConfig(state_dir=str(folder)),
        state=StateConfig(url="redis://127.0.0.1:1/0"),
    )


async def test_the_app_ends_any_server_that_it_cannot_start_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """As it comes, a server takes an exception in the lifespan for an app that has none, and serves it."""
    server = uvicorn.Server(uvicorn.Config(asgi(Gateway(without_a_key(tmp_path))), port=0, log_config=None))
    with caplog.at_level(logging.ERROR), pytest.raises(SystemExit) as ended:
        await server.serve()
    assert ended.value.code
    assert "toolyard: the vault is in a store that others share, and has no key" in caplog.text
    assert not server.started


async def test_why_it_does_not_start_reaches_whoever_serves_it(tmp_path: Path):
    app = asgi(Gateway(without_a_key(tmp_path)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn_server(app, *listener.getsockname(), start=app.start)
        with pytest.raises(VaultKeyError):
            await server.serve([listener])
    with pytest.raises(VaultKeyError):  # nor does it the next time, with half of it closed
        await app.start()


def test_a_gateway_in_a_thread_raises_why_it_does_not_start(tmp_path: Path):
    with pytest.raises(VaultKeyError):
        BackgroundGateway(without_a_key(tmp_path))


async def test_what_had_started_is_closed(tmp_path: Path):
    program = Stdio(
        command=sys.executable,
        args=("-m", "tests.app.program", str(tmp_path / "journal"), "legacy"),
        cwd=str(ROOT),
    )
    config = Config(
        servers=(ServerConfig(name="up", where=program),),
        gateway=GatewayConfig(state_dir=str(tmp_path / "state")),
        state=StateConfig(url="sqlite:"),
        results=ResultsConfig(),
    )
    gateway = Gateway(config)

    async def fail() -> None:
        await gateway.catalogue.servers["up"].settled.wait()
        raise RuntimeError("the last step fails")

    with pytest.raises(RuntimeError, match="the last step"):
        await asgi(gateway, on_start=fail).start()
    started = json.loads((tmp_path / "journal").read_text().splitlines()[0])["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


class _Unasked:
    """A service that nobody may ask."""

    async def handle(self, call: Call) -> Any:
        raise AssertionError(f"asked for {call.method}")

    listen = end_session = handle

    async def close(self) -> None:
        return

    def health(self) -> dict[str, Any]:
        return {}


async def test_nothing_is_read_from_standard_input_before_the_start_has_ended():
    source, client = os.pipe()
    os.write(client, b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    closed: list[bool] = []

    async def fail() -> None:
        raise RuntimeError("it cannot start")

    async def close() -> None:
        closed.append(True)

    nowhere = os.open(os.devnull, os.O_WRONLY)
    with pytest.raises(RuntimeError, match="cannot start"):
        await serve(_Unasked(), source, nowhere, on_close=close, on_start=fail)
    assert closed
    for handle in (source, client, nowhere):
        os.close(handle)
