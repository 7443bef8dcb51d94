"""A server that repeats the credential it was sent: nobody reads it, and nothing keeps it."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.speaker import speaking
from tests.app.yard import Yard, at, yard
from tests.connections.token_endpoint import (
    ADDRESS,
    LIFETIME,
    Clock,
    granted,
    session_of,
    token,
    written_endpoint,
)
from tests.upstream.parrot import TOOLS, Parrot, leaks
from tests.upstream.test_http_sessions import OldServer
from toolyard.config import InProcess, ServerConfig, Stdio, TelemetryConfig
from toolyard.config.callers import AuditConfig
from toolyard.connections.oauth.tokens import ProcessSecrets, TokenStore
from toolyard.recordings.format import HeaderLine, RecordingWriter
from toolyard.recordings.recorder import TrafficRecorder
from toolyard.state import MemoryState
from toolyard.telemetry.logs import TextLines
from toolyard.upstream.http.client import PooledHttpClient, UpstreamEndpoint

TOKEN = "tok-0123456789abcdef"
KEY = 'k/e+y "of" ana=='
KEY_LINES = ("MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF", "AAa1bcdef0123456==")
PEM = "\n".join(("-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----", ""))
HEADERS = {"Authorization": f"Bearer {TOKEN}", "X-Api-Key": KEY}
ASKED = {"elicitation": {"form": {}, "url": {}}}


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in folder.rglob("*"):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()


async def said(front: Yard) -> dict[str, bytes]:
    """Whatever a client can be told."""
    told: dict[str, bytes] = {}
    for name in TOOLS:
        params = {"name": f"mcp__up__{name}", "arguments": {}}
        answer = await front.modern("tools/call", params, capabilities=ASKED, progress="p", log_level="debug")
        told[name] = answer.body
    for method, params in {
        "tools/list": {},
        "prompts/list": {},
        "resources/list": {},
        "resources/read": {"uri": "parrot://r"},
        "prompts/get": {"name": "mcp__up__p"},
        "server/discover": {},
    }.items():
        told[method] = (await front.modern(method, params)).body
    told["/health"] = json.dumps(await front.health()).encode()
    return told


@pytest.mark.parametrize(("era", "is_recorded"), [("modern", False), ("legacy", False), ("modern", True)])
async def test_nothing_that_a_server_says_has_what_it_was_sent(
    era: str, is_recorded: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    kept = tmp_path / "kept"
    kept.mkdir()
    writer = RecordingWriter(kept / "run.jsonl", HeaderLine(command=("test",)))
    tables = {
        "telemetry": TelemetryConfig(traces=("local",), access_log=True),
        "audit": AuditConfig(url=f"file://{kept / 'audit'}", arguments="redacted"),
    }
    tap = TrafficRecorder(writer) if is_recorded else None
    async with (
        speaking(parrot := Parrot(era)) as url,
        yard(at(url, headers=HEADERS), state=str(kept), tables=tables, tap=tap) as front,
    ):
        told = await said(front)
    writer.end(0)
    assert parrot.heard("tools/call")[0].headers["x-api-key"] == KEY
    assert {what for what, words in told.items() if b"PARROT" not in words} == {"breaks", "shows", "/health"}
    everything = {**told, "the log": caplog.text.encode(), **dict(written(kept))}
    assert any("traces.db" in file for file in everything)
    assert any("catalogue" in file for file in everything) or is_recorded
    assert [what for what, words in everything.items() if leaks(words, TOKEN)] == []
    assert [what for what, words in everything.items() if leaks(words, KEY)] == []


async def test_a_token_is_hidden_that_was_refreshed_since():
    clock, secrets = Clock(), ProcessSecrets()
    tokens = TokenStore(secrets, MemoryState(), clock=clock)
    old, new = "old-token-0123456789", "new-token-9876543210"
    async with written_endpoint() as issuer, speaking(Parrot()) as url:
        issuer.answer = granted(access_token=new)
        await tokens.save(ADDRESS, token(issuer, obtained=clock.now, access_token=old))
        session, client = session_of(tokens), PooledHttpClient()
        address = UpstreamEndpoint("up", client, url, {}, 5.0, 2**30, session)

        async def told() -> bytes:
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fails"}}
            reply = await address.send("POST", address.headers, json.dumps(message).encode())
            body = await reply.body()
            assert isinstance(body, bytes)
            return body

        first = await told()
        clock.now += LIFETIME + 1
        session.forget()
        second = await told()
        await session.close()
        await client.close()
    assert issuer.asked == ["r1"]
    assert [leaks(body, secret) for body in (first, second) for secret in (old, new)] == [False] * 4
    assert b"PARROT ***" not in second, "the parrot says the scheme first"
    assert second.count(b"***") > first.count(b"***")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_callers_own_key_is_hidden_from_the_caller_too(era: str):
    key = 'k/e+y-"of"-ana=='
    async with speaking(parrot := Parrot(era)) as url, yard(at(url, caller_keys=("x-shop-key",))) as front:
        for name in ("says", "reports", "refuses"):
            answer = await front.call(f"mcp__up__{name}", headers={"x-shop-key": key}, progress="p")
            assert b"PARROT" in answer.body
            assert not leaks(answer.body, key), name
    assert key in parrot.sent


async def test_the_key_in_an_address_is_hidden_and_still_used():
    """Servers of the old transport name an address to post to, which may have the key of theirs."""
    key = "0123456789abcdef-key"
    server = OldServer(endpoint=f"/messages?session=1&api_key={key}")
    async with speaking(server) as url, yard(at(f"{url}?api_key={key}", transport="sse")) as front:
        answer = await front.call("mcp__up__echo", {"text": f"my address is /messages?api_key={key}"})
        assert answer.result["content"][0]["text"] == "my address is /messages?api_key=***"


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """The log as `toolyard serve` writes it."""
    written, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(written), root.level
    handler.setFormatter(TextLines())
    root.addHandler(handler)
    root.setLevel("DEBUG")
    try:
        yield written
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


PROGRAM = """
import os, sys
from toolyard.kit import Context, Server

token, name = os.environ["SHOP_TOKEN"], sys.argv[2]
print("hello to", token, flush=True)
sys.stderr.write(os.environ["SHOP_TLS_KEY"])
for part in ("a line with ", token[:7], token[7:], " and ", name, "\\n"):
    sys.stderr.write(part)
    sys.stderr.flush()
sys.stderr.write("." * (2000 - 10) + token + "\\n")
server = Server("shop", key=b"0123456789abcdef", instructions=f"ask with {token}")

@server.tool
async def says(ctx: Context) -> str:
    await ctx.report_progress(1, message=f"sent {token}")
    return f"{token} {name} " + "x" * 1_100_000 + token

@server.tool
async def dies() -> str:
    sys.stderr.write(f"Error: no such user: {token}\\n")
    sys.stderr.flush()
    os._exit(3)

server.run_stdio()
"""


async def test_a_program_shows_nothing_of_its_environment_and_arguments(tmp_path: Path):
    script = tmp_path / "shop.py"
    script.write_text(PROGRAM)
    args = (str(script), "--password", KEY)
    where = Stdio(command=sys.executable, args=args, env={"SHOP_TOKEN": TOKEN, "SHOP_TLS_KEY": PEM})
    with logged() as log:
        async with yard(
            ServerConfig(name="up", where=where, start="eager"), state=str(tmp_path / "state")
        ) as front:
            told = {"list": json.dumps(await front.tools()).encode()}
            for name in ("says", "dies"):
                params = {"name": f"mcp__up__{name}", "arguments": {}}
                told[name] = (await front.modern("tools/call", params, progress="p")).body
            told["health"] = json.dumps(await front.health()).encode()
            told["discover"] = (await front.modern("server/discover")).body
    everything = {**told, "the log": log.getvalue().encode(), **dict(written(tmp_path / "state"))}
    assert [what for what, words in everything.items() if leaks(words, TOKEN) or leaks(words, KEY)] == []
    assert not any(line in log.getvalue() for line in KEY_LINES)
    assert "a line with *** and ***" in log.getvalue()
    assert all(b"***" in told[what] for what in ("says", "dies", "discover"))
    assert "wrote a line that is not JSON to standard output: b'hello to ***'" in log.getvalue()
    assert TOKEN[:6] not in log.getvalue(), "nor half of it, where a line is cut"


MODULE = """
import logging
import msgspec
from toolyard.kit import CallerKeys, Context, Server, ToolError
from toolyard.wire.errors import McpError

class Settings(msgspec.Struct):
    api_key: str = ""

def build(settings: Settings):
    api_key = settings.api_key
    if api_key.startswith("bad"):
        raise ValueError(f"not with {api_key}")
    server = Server(
        "shop", key=b"0123456789abcdef", instructions=f"ask with {api_key}",
        caller_keys=CallerKeys(("x-shop-key",), required=False),
    )

    def both(ctx):
        return f"{api_key} {ctx.secret('x-shop-key').reveal()}"

    @server.tool
    async def says(ctx: Context) -> str:
        await ctx.report_progress(1, message=both(ctx))
        await ctx.log("error", both(ctx))
        return both(ctx)

    @server.tool
    async def fails(ctx: Context) -> str:
        raise ToolError(both(ctx))

    @server.tool
    async def shouts(ctx: Context) -> str:
        return "x" * 1_100_000 + both(ctx)

    @server.tool
    def breaks(ctx: Context) -> str:
        logging.getLogger("shop").error("not with %s", both(ctx))
        raise RuntimeError(both(ctx))

    @server.tool
    async def refuses(ctx: Context) -> str:
        raise McpError(-32000, both(ctx), {"said": [both(ctx)]})

    return server
"""


async def test_a_module_shows_nothing_of_its_options_and_of_callers_keys(tmp_path: Path):
    module = tmp_path / "shop_that_repeats.py"
    module.write_text(MODULE)
    where = InProcess(module=str(module), options={"api_key": TOKEN})
    server = ServerConfig(name="up", where=where, caller_keys=("x-shop-key",))
    key = "key-of-ana-77"
    with logged() as log:
        async with yard(server, state=str(tmp_path / "state")) as front:
            told = {"discover": (await front.modern("server/discover")).body}
            for name in ("says", "fails", "shouts", "breaks", "refuses"):
                params = {"name": f"mcp__up__{name}", "arguments": {}}
                answer = await front.modern("tools/call", params, headers={"x-shop-key": key}, progress="p")
                told[name] = answer.body
    everything = {**told, "the log": log.getvalue().encode(), **dict(written(tmp_path / "state"))}
    assert [what for what, words in everything.items() if leaks(words, TOKEN) or leaks(words, key)] == []
    assert [name for name, words in told.items() if b"***" not in words] == ["breaks"]
    assert "not with *** ***" in log.getvalue()
    assert "RuntimeError: *** ***" in log.getvalue()


async def test_a_module_that_cannot_be_made_does_not_say_with_which_key(tmp_path: Path):
    module = tmp_path / "shop_that_repeats.py"
    module.write_text(MODULE)
    where = InProcess(module=str(module), options={"api_key": f"bad-{TOKEN}"})
    with logged() as log:
        async with yard(ServerConfig(name="up", where=where), list_wait=1.0) as front:
            health = json.dumps(
                await front.until_health(lambda health: health["servers"]["up"].get("reason"))
            )
    assert "not with ***" in health
    assert not leaks(health.encode() + log.getvalue().encode(), TOKEN)
