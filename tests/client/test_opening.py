"""Where a client connects to, in which era, and what it says when that does not work."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import COMMAND, ROOT, TRANSPORTS, connected
from tests.client.workshop import workshop
from tests.serving import serving
from tests.through import LegacyOnly
from toolyard import Client
from toolyard.client import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    ProtocolError,
    RefusedError,
    ServerLostError,
    TargetError,
    UnsupportedError,
)
from toolyard.kit import Server

DYING = """
import os
from toolyard.kit import Server

server = Server("x")

@server.tool
def die() -> str:
    os._exit(3)

server.run_stdio()
"""
ENVIRONMENT = """
import os
from toolyard.kit import Server

server = Server("x")

@server.tool
def seen() -> list[str]:
    return [name for name in ("GIVEN", "SOMEBODYS_TOKEN") if name in os.environ]

server.run_stdio()
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_modern_era_is_spoken_where_the_server_knows_it(transport: str) -> None:
    async with connected(transport) as client:
        assert (client.era, client.version) == ("modern", "2026-07-28")


async def test_a_server_that_knows_no_better_is_spoken_to_in_the_legacy_era() -> None:
    old: Any = LegacyOnly(workshop().asgi())
    async with serving(old) as served, Client(served.url) as client:
        assert client.era == "legacy"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == {"total": 3}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2026-07-28"])
async def test_a_revision_can_be_insisted_on(transport: str, version: str) -> None:
    async with connected(transport, version=version) as client:
        assert client.version == version
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured == {"total": 3}


async def test_an_era_that_the_server_does_not_speak_is_refused() -> None:
    old: Any = LegacyOnly(workshop().asgi())
    async with serving(old) as served:
        with pytest.raises(UnsupportedError, match="speaks 2025-11-25, which is not modern; leave out `era`"):
            async with Client(served.url, era="modern"):
                pass


def test_a_revision_that_is_none_is_refused_when_the_client_is_made() -> None:
    with pytest.raises(TargetError, match="'1999-01-01' is not a revision of MCP that we know"):
        Client("http://127.0.0.1:1/mcp", version="1999-01-01")
    with pytest.raises(TargetError, match="revision 2025-06-18 is not of the modern era"):
        Client("http://127.0.0.1:1/mcp", version="2025-06-18", era="modern")


# Configurations


async def test_a_configuration_is_mounted_with_all_of_its_servers(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text(
        f"""
        [gateway]
        view = "all"
        state_dir = "{tmp_path}"
        [servers.shop]
        command = "{sys.executable}"
        args = ["-m", "tests.client.workshop"]
        cwd = "{ROOT}"
        [servers.demo]
        module = "demo"
        """
    )
    async with Client(tmp_path / "toolyard.toml") as client:
        names = {tool.name for tool in await client.list_tools()}
        assert {"mcp__shop__add", "mcp__demo__echo"} <= names
        assert (await client.call_tool("mcp__shop__add", {"a": 1, "b": 2})).structured == {"total": 3}


async def test_the_file_of_another_client_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = {"command": COMMAND[0], "args": COMMAND[1:], "cwd": str(ROOT)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": shop}}))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with Client(str(tmp_path / "mcp.json")) as client:
        assert "call_tool" in {tool.name for tool in await client.list_tools()}
        called = await client.call_tool(
            "call_tool", {"tool": "mcp__shop__add", "arguments": {"a": 2, "b": 2}}
        )
        assert not called.is_error, called.text


async def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(TargetError, match=r"nowhere\.toml"):
        async with Client("nowhere.toml"):
            pass


# What does not work


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("ftp://host/", {}, "is not an http:// or https:// address; as in http://127.0.0.1:8321/mcp"),
        ("http://user:secret@host/", {}, "a URL with a password in it is not supported"),
        ([], {}, "the command is empty"),
        (["python"], {"headers": {"A": "b"}}, "headers are for servers at an address"),
        (Server("x"), {"env": {"A": "b"}}, "env and cwd are for commands"),
        (42, {}, "a client cannot connect to 'int'; give a Server, a URL, a command as a list"),
    ],
)
async def test_a_target_that_cannot_be_used_is_told_with_what_to_do(
    target: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TargetError) as raised:
        async with Client(target, **options):
            pass
    assert said in str(raised.value)


async def test_an_address_where_nothing_listens_is_told_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    with pytest.raises(ConnectError) as raised:
        async with Client(url):
            pass
    assert (
        str(raised.value) == f"nothing listens at {url}; is the server running? `toolyard serve` starts one"
    )


async def test_a_silent_address_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        with pytest.raises(ClientTimeoutError, match=r"gave no answer within 0\.2 seconds"):
            async with Client(url, open_timeout=0.2):
                pass


async def test_an_http_error_has_its_status_and_the_servers_words() -> None:
    async with serving(workshop().asgi()) as served:
        with pytest.raises(RefusedError, match="answered 403 Forbidden: Host 'evil") as raised:
            async with Client(served.url, headers={"Host": "evil.example"}):
                pass
        assert raised.value.status == 403
        with pytest.raises(RefusedError, match=r"answered 404 Not Found: .*; is the path right"):
            async with Client(served.url.replace("/mcp", "/other")):
                pass


async def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(ConnectError, match=r"no-such-program did not start: .*no-such-program"):
        async with Client(["no-such-program"]):
            pass


async def test_a_program_that_ends_is_told_with_its_last_words() -> None:
    with pytest.raises(ConnectError, match="the last words"):
        async with Client([sys.executable, "-c", "import sys; sys.exit('the last words')"]):
            pass


async def test_a_program_that_ends_during_a_call_is_lost() -> None:
    async with Client([sys.executable, "-c", DYING], cwd=ROOT) as client:
        with pytest.raises(ServerLostError):
            await client.call_tool("die")


async def test_a_child_has_ended_when_its_client_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    source = f"import os; open({str(file)!r}, 'w').write(str(os.getpid()))\n"
    source += "from tests.client.workshop import workshop\nworkshop().run_stdio()"
    async with Client([sys.executable, "-c", source], cwd=ROOT) as client:
        await client.ping()
        os.kill(int(file.read_text()), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


async def test_a_child_gets_the_environment_that_was_given_and_no_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOMEBODYS_TOKEN", "secret")
    async with Client([sys.executable, "-c", ENVIRONMENT], cwd=ROOT, env={"GIVEN": "1"}) as client:
        assert (await client.call_tool("seen")).structured == {"result": ["GIVEN"]}


async def test_a_client_that_is_not_open_says_so() -> None:
    client = Client(Server("closed"))
    with pytest.raises(ClientError, match="the client of server 'closed' is not open; use `async with`"):
        await client.list_tools()
    async with client:
        with pytest.raises(ClientError, match="open already"):
            await client.__aenter__()
    async with client:  # once closed it can be opened again
        assert await client.list_tools() == []


class WebPage:
    """An ASGI app that has never heard of MCP."""

    path = "/mcp"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"content-type", b"text/html")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"<html>"})

    async def close(self) -> None:
        return None


async def test_what_is_no_mcp_server_is_told() -> None:
    page: Any = WebPage()
    async with serving(page) as served:
        with pytest.raises(ProtocolError, match="does not speak MCP: its answer is text/html"):
            async with Client(served.url):
                pass


# What it costs


def loaded(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys; {statement}; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())


def test_the_package_itself_loads_neither_the_client_nor_the_kit() -> None:
    assert not loaded("import toolyard") & {"toolyard.client", "toolyard.kit", "asyncio", "msgspec"}


def test_the_kit_is_offered_without_the_client_and_the_client_without_http_and_the_gateway() -> None:
    assert not loaded("from toolyard import Server") & {"toolyard.client", "toolyard.upstream", "aiohttp"}
    unwanted = {"toolyard.kit", "toolyard.app", "toolyard.edge", "aiohttp", "toolyard.upstream.stdio.process"}
    assert not loaded("from toolyard import Client") & unwanted
