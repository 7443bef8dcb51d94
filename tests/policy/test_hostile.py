"""A caller with few rights tries to learn of, or to use, what it may not have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.serving import Answer, http
from toolyard.config import Config, InProcess, ServerConfig
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.wire.call import Principal

ACCESS = AccessConfig(
    default="deny",
    rules=(
        AccessRule(name="main", who=("main",), allow=("*",)),
        AccessRule(
            name="readers",
            who=("reader",),
            allow=("notes/*:read", "resource:notes/notes://public", "resource:notes/notes://items/*"),
        ),
    ),
)
SERVERS = tuple(
    ServerConfig(name=name, where=InProcess(module=f"tests.policy.yard_servers:{name}"))
    for name in ("notes", "files")
)


def identify(headers: Any) -> Principal:
    return Principal("acme", dict(headers).get(b"x-agent", b"").decode())


def of(agent: str) -> dict[str, str]:
    return {"x-agent": agent}


@asynccontextmanager
async def place(
    *servers: ServerConfig, access: AccessConfig = ACCESS, tables: Any = None, **settings: Any
) -> AsyncIterator[Yard]:
    both = {"access": access, **(tables or {})}
    async with yard(*servers or SERVERS, identify=identify, tables=both, list_wait=60, **settings) as found:
        await found.tools(headers=of("main"))
        yield found


async def get(yard: Yard, path: str, headers: dict[str, str], method: str = "GET") -> Answer:
    return await yard.client.raw(http(method, path, headers, host=f"127.0.0.1:{yard.client.port}"))


async def test_whom_an_application_names_is_not_the_local_user() -> None:
    async with place() as yard:
        answer = await get(yard, "/approvals", of("reader"))
        assert answer.status == 403, answer.body
        assert (await get(yard, "/health", of("reader"))).json == {"status": "ok"}
        assert b"files" not in (await get(yard, "/metrics", of("reader"))).body


def changed(yard: Yard, access: AccessConfig) -> Config:
    from msgspec.structs import replace

    return replace(yard.gateway.config, access=access)


@pytest.mark.parametrize("path", ["/mcp/NAME", "/mcp/NAME/"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE", "PUT"])
@pytest.mark.parametrize("origin", [False, True])
async def test_a_hidden_servers_path_is_answered_as_one_that_does_not_exist(
    path: str, method: str, origin: bool
) -> None:
    async with place() as yard:
        headers = of("reader") | ({"origin": f"http://127.0.0.1:{yard.client.port}"} if origin else {})
        hidden = await get(yard, path.replace("NAME", "files"), headers, method)
        unknown = await get(yard, path.replace("NAME", "filez"), headers, method)
        assert hidden.status == unknown.status
        assert hidden.body.replace(b"files", b"filez") == unknown.body
        assert {**hidden.headers, "date": ""} == {**unknown.headers, "date": ""}
