"""One workshop, reached on every transport and in both eras."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.workshop import workshop
from tests.serving import serving
from toolyard import Client

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "tests.client.workshop"]
TRANSPORTS = ("memory", "stdio", "http")
ERAS = ("modern", "legacy")

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def connected(transport: str, **options: Any) -> AsyncGenerator[Client]:
    """A client of a workshop of its own."""
    if transport == "stdio":
        async with Client(COMMAND, cwd=ROOT, **options) as client:
            yield client
        return
    server = workshop()
    try:
        if transport == "memory":
            async with Client(server, **options) as client:
                yield client
        else:
            async with serving(server.asgi()) as served, Client(served.url, **options) as client:
                yield client
    finally:
        await server.close()


def _connector(transport: str, era: str) -> Connect:
    def connect(**options: Any) -> AbstractAsyncContextManager[Client]:
        return connected(transport, era=era, **options)

    return connect


@pytest.fixture(params=[(transport, era) for era in ERAS for transport in TRANSPORTS], ids="-".join)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Opens a client on each transport, in each era."""
    return _connector(*request.param)


@pytest.fixture(params=TRANSPORTS)
def connect_modern(request: pytest.FixtureRequest) -> Connect:
    return _connector(request.param, "modern")


@pytest.fixture(params=TRANSPORTS)
def connect_legacy(request: pytest.FixtureRequest) -> Connect:
    return _connector(request.param, "legacy")
