"""The zip that `toolyard deploy lambda tiflux` built, run by AWS's emulator, with the callers of the seed."""

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests.aws.events import Asked, event_of
from tests.aws.memory import found_in
from tests.aws.packed import Packed, packed
from tests.aws.proxy import at_a_url
from tests.aws.rie import Emulated, emulated
from tests.aws.tls import over_tls
from tests.cli.running import Toolyard
from tests.clients.mcp_peer import McpPeer, connect
from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.serving import Answer, Client, LegacyClient, initialize, modern

ROOT = Path(__file__).resolve().parents[2]
NODE = Path(sys.executable).with_name("node")
MCP_REMOTE = ROOT / "build/npm/node_modules/mcp-remote/dist/proxy.js"
CANARY = "a-canary-that-is-kept-on-purpose"
KEY_HEADER = "x-tiflux-api-key"
TOOLS = 114


# Building the zip asks the package index, and is part of the first test.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def tiflux(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return packed(tmp_path_factory.mktemp("deployed"), "tiflux")


@asynccontextmanager
async def functions(
    packed: Packed,
    upstream: TifluxEmulator,
    logs: Path,
    instances: int = 1,
    command: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    limit_s: int = 30,
) -> AsyncIterator[tuple[list[Emulated], Client]]:
    """Instances of the function behind one URL, with the variables of the template."""
    given = {
        **packed.variables(ToolyardKey="a key that all instances have"),
        "TIFLUX_API_BASE_URL": upstream.url,
        "PYTHONPATH": str(packed.python.loop),
        "CANARY": CANARY,
        **(variables or {}),
    }
    options: dict[str, Any] = {"command": command or packed.python.managed, "limit_s": limit_s}
    async with AsyncExitStack() as stack:
        begun = [
            await stack.enter_async_context(emulated(packed.folder, logs / f"{number}.log", given, **options))
            for number in range(instances)
        ]
        yield begun, await stack.enter_async_context(at_a_url(*begun))


async def curl(*arguments: str) -> Any:
    """What a real curl prints, read as JSON."""
    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--show-error", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(output)


def new_key() -> str:
    return secrets.token_hex(20)


async def seeds_three_calls(url: str, key: str, mark: str) -> None:
    """The health check, the list of tools, a ticket: as the seed asks for them."""
    assert (await curl(f"{url}/health"))["status"] == "ok"
    asked = ("-X", "POST", f"{url}/mcp", "-H", "Content-Type: application/json")
    with_key = (*asked, "-H", f"{KEY_HEADER}: {key}", "-d")
    listed = await curl(*with_key, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert len(listed["result"]["tools"]) == TOOLS
    params = '{"name":"get_ticket","arguments":{"ticket_number":"1"}}'
    call = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":' + params + "}"
    ticket = (await curl(*with_key, call))["result"]
    assert ticket["structuredContent"]["data"]["title"].endswith(mark)
    refused = await curl(*asked, "-w", "%{stderr}%{http_code}", "-d", call)
    assert KEY_HEADER in refused["error"]["message"]


async def test_the_three_calls_of_the_seed_work_with_the_emulated_function(tiflux: Packed, tmp_path: Path):
    key = new_key()
    async with TifluxEmulator() as upstream, functions(tiflux, upstream, tmp_path) as (_, client):
        tenant = upstream.add_tenant(key)
        await seeds_three_calls(f"http://127.0.0.1:{client.port}", key, tenant.mark)


async def test_the_three_calls_of_the_seed_work_with_toolyard_serve(tmp_path: Path):
    key = new_key()
    async with TifluxEmulator() as upstream:
        tenant = upstream.add_tenant(key)
        with Toolyard(tmp_path).serving("tiflux", TIFLUX_API_BASE_URL=upstream.url) as served:
            await seeds_three_calls(f"http://127.0.0.1:{served.port}", key, tenant.mark)


def in_the_config(client: Client, key: str, home: Path) -> StdioServerParameters:
    """The seed's snippet: mcp-remote with the header, whose value is in a variable of its own."""
    for program in (NODE, MCP_REMOTE):
        if not program.exists():
            pytest.fail(f"{program} is missing; hint: `make test` installs what the tests need")
    header = f"{KEY_HEADER}:${{TIFLUX_API_KEY}}"
    return StdioServerParameters(
        command=str(NODE),
        args=[str(MCP_REMOTE), client.url, "--allow-http", "--header", header],
        env={"HOME": str(home), "TIFLUX_API_KEY": key},
    )


@asynccontextmanager
async def claude_desktop(client: Client, key: str, home: Path) -> AsyncIterator[McpPeer]:
    async with connect(in_the_config(client, key, home), "legacy", "2025-11-25") as peer:
        yield peer


async def test_claude_desktop_without_its_key_hears_what_is_missing_and_with_it_gets_its_ticket(
    tiflux: Packed, tmp_path: Path
):
    key = new_key()
    async with TifluxEmulator() as upstream, functions(tiflux, upstream, tmp_path) as ((function,), client):
        mark = upstream.add_tenant(key).mark
        for unusable in ("", new_key()):
            output, errors = await turned_away(in_the_config(client, unusable, tmp_path / "home"))
            assert output == b"", "a client of mcp-remote gets no answer that it could take for one"
            assert f"There is no login: send a key that is accepted in the header '{KEY_HEADER}'" in errors
            assert unusable not in errors + function.log or not unusable
        asked = [line for line in function.lines if line.get("server") == "tiflux"]
        assert {line["status"] for line in asked} == {401}
        assert [request for request in upstream.requests if "/tickets" in request.path] == []

        async with claude_desktop(client, key, tmp_path / "home") as desktop:
            assert "get_ticket" in await desktop.tools()
            called = await desktop.call("get_ticket", ticket_number="1")
            assert called.structured["data"]["title"].endswith(mark)
        assert key not in function.log


async def turned_away(program: StdioServerParameters) -> tuple[bytes, str]:
    """What mcp-remote writes when a client begins and it cannot connect: to the client, and to its log."""
    process = await asyncio.create_subprocess_exec(
        program.command,
        *program.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=program.env,
    )
    output, errors = await process.communicate(json.dumps(initialize()[1]).encode() + b"\n")
    assert process.returncode == 1
    return output, errors.decode()


@pytest.mark.parametrize("loop", ["aws", "ours"])
async def test_two_keys_at_once_see_their_own_tickets_and_neither_stays_in_memory(
    tiflux: Packed, tmp_path: Path, loop: str
):
    keys = [new_key(), new_key()]
    command = tiflux.python.managed if loop == "aws" else tiflux.python.bootstrap
    async with (
        TifluxEmulator() as upstream,
        functions(tiflux, upstream, tmp_path, command=command) as ((function,), client),
    ):
        marks = [upstream.add_tenant(key).mark for key in keys]
        async with (
            claude_desktop(client, keys[0], tmp_path / "one") as one,
            claude_desktop(client, keys[1], tmp_path / "two") as two,
        ):
            for tools in await asyncio.gather(one.tools(), two.tools()):
                assert len(tools) == TOOLS
            calls = [peer.call("list_tickets", desk_ids="51") for peer in (one, two) * 3]
            for result, mark in zip(await asyncio.gather(*calls), marks * 3, strict=True):
                assert not result.is_error, result.text
                titles = [ticket["title"] for ticket in result.structured["items"]]
                assert titles
                assert all(title.endswith(mark) for title in titles)
        if loop == "aws":  # it holds the last event until the next one has come; one without a key will do
            assert (await curl(f"http://127.0.0.1:{client.port}/health"))["status"] == "ok"
        assert found_in(function.pid, traces(*keys, CANARY)) == set(traces(CANARY))
        assert not any(key in function.log for key in keys)


async def test_our_own_runtime_keeps_no_key_even_of_the_last_request_whatever_became_of_it(
    tiflux: Packed, tmp_path: Path
):
    key, wrong, unlucky = new_key(), new_key(), new_key()
    async with TifluxEmulator() as upstream, over_tls(upstream.url, tmp_path) as (url, certificate):
        upstream.add_tenant(key)
        upstream.add_tenant(unlucky)
        variables = {"TIFLUX_API_BASE_URL": url, "SSL_CERT_FILE": str(certificate)}
        options: dict[str, Any] = {"command": tiflux.python.bootstrap, "limit_s": 6, "variables": variables}
        async with functions(tiflux, upstream, tmp_path, **options) as ((function,), client):
            for fault in ("drop", "html", "half", "echo_key", 500, 422, "never"):
                upstream.misbehave(fault, "/tickets.*", times=-1)
                assert (await get_ticket(client, unlucky)).result["isError"], fault
                upstream.behave()
            assert not found_in(function.pid, traces(unlucky))
            headers, _ = modern("tools/list")
            assert (await client.post(headers | {KEY_HEADER: unlucky}, b'{"jsonrpc": "2.0"')).status == 400
            assert (await get_ticket(client, wrong)).status == 401
            for _ in range(3):
                assert not (await get_ticket(client, key)).result.get("isError")
            keys = (key, wrong, unlucky)
            assert found_in(function.pid, traces(*keys, CANARY)) == set(traces(CANARY))
            assert not any(one in function.log for one in keys)


async def test_our_own_runtime_keeps_no_key_when_its_replies_are_whole(tiflux: Packed, tmp_path: Path):
    key = new_key()
    options: dict[str, Any] = {"command": tiflux.python.bootstrap, "variables": {"TOOLYARD_STREAM": "0"}}
    async with (
        TifluxEmulator() as upstream,
        functions(tiflux, upstream, tmp_path, **options) as (
            (function,),
            client,
        ),
    ):
        upstream.add_tenant(key)
        assert not (await get_ticket(client, key)).result.get("isError")
        assert found_in(function.pid, traces(key, CANARY)) == set(traces(CANARY))


async def get_ticket(client: Client, key: str) -> Answer:
    headers, message = modern("tools/call", {"name": "get_ticket", "arguments": {"ticket_number": "1"}})
    return await client.post(headers | {KEY_HEADER: key}, message)


def traces(*texts: str) -> list[bytes]:
    """What would betray a text: all of it, or the middle of it."""
    return [piece for text in texts for piece in (text.encode(), text[8:24].encode())]


async def test_a_session_begun_at_one_instance_goes_on_at_another(tiflux: Packed, tmp_path: Path):
    key, other = new_key(), new_key()
    async with TifluxEmulator() as upstream, functions(tiflux, upstream, tmp_path, 3) as (instances, client):
        mark, others_mark = upstream.add_tenant(key).mark, upstream.add_tenant(other).mark
        headers, message = initialize()
        begun = await client.post(headers | {KEY_HEADER: key}, message)
        assert begun.status == 200
        held = LegacyClient(client, "2025-11-25", begun.headers["mcp-session-id"])
        call = held.message("tools/call", {"name": "get_ticket", "arguments": {"ticket_number": "1"}})
        for _ in instances:
            answer = await client.post(held.headers | {KEY_HEADER: key}, call)
            assert answer.result["structuredContent"]["data"]["title"].endswith(mark)
        # Every instance is asked once in turn, and to all somebody else stays somebody else.
        for _ in instances:
            answer = await client.post(held.headers | {KEY_HEADER: other}, call)
            assert answer.result["structuredContent"]["data"]["title"].endswith(others_mark)
            assert "mcp-session-id" not in answer.headers
        assert all(len(instance.lines) >= 2 for instance in instances)


async def test_a_key_that_is_missing_or_unusable_or_not_entitled_is_told_so(tiflux: Packed, tmp_path: Path):
    plain = {"Content-Type": "application/json"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with TifluxEmulator() as upstream, functions(tiflux, upstream, tmp_path) as ((function,), client):
        missing = await client.post(plain, message)
        assert missing.status == 401
        assert "www-authenticate" in missing.headers
        assert missing.error["code"] == -32600
        unusable = await client.post({**plain, KEY_HEADER: "caf\xe9 key"}, message)
        assert unusable.status == 401
        upstream.add_tenant("without-mcp-0123456789", enable_mcp=False)
        denied = await client.post({**plain, KEY_HEADER: "without-mcp-0123456789"}, message)
        assert denied.status == 403
        unknown = await client.post({**plain, KEY_HEADER: "unknown-key-0123456789"}, message)
        assert unknown.status == 401
        entitled = new_key()
        upstream.add_tenant(entitled)
        bearer = await client.post({**plain, "Authorization": f"Bearer {entitled}"}, message)
        assert bearer.status == 200
        assert not (await get_ticket(client, entitled)).result.get("isError")
        told = [line for line in function.lines if "request_id" in line]
        assert [line["status"] for line in told] == [401, 401, 403, 401, 200, 200]
        assert [line.get("cold_start", 0) for line in told] == [1, 0, 0, 0, 0, 0]
        last = told[-1]
        assert (last["tool"], last["server"], last["outcome"]) == ("get_ticket", "tiflux", "ok")
        assert last["duration_ms"] > 0
        assert told[-2]["key"] == last["key"] != entitled[:12]


LISTING = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


def with_key(key: str) -> dict[str, Any]:
    headers = [("Content-Type", "application/json"), (KEY_HEADER, key)]
    return event_of(Asked("POST", "/mcp", "", headers, LISTING))


BAD_EVENTS: Sequence[Any] = (
    {},
    [],
    "text",
    5,
    None,
    {"version": "2.0"},
    {"version": "2.0", "requestContext": {"http": 5}, "headers": [], "rawPath": 7, "body": {}},
    {"version": "2.0", "requestContext": {"http": {"method": "POST"}}, "rawPath": "/mcp", "headers": None},
    with_key(API_KEY) | {"isBase64Encoded": True, "body": "no base64 at all!"},
    with_key(f"{API_KEY}\r\nx-other: 1"),
    with_key(f"{API_KEY},{API_KEY}"),
    with_key("chave-válida"),
)


async def test_events_that_are_no_requests_are_answered_and_the_next_one_is_served(
    tiflux: Packed, tmp_path: Path
):
    async with TifluxEmulator() as upstream, functions(tiflux, upstream, tmp_path) as ((function,), _):
        for event in BAD_EVENTS:
            returned = json.loads(await function.returned(event))
            assert 400 <= returned["statusCode"] < 500, (str(event)[:500], returned)
        assert json.loads(await function.returned(with_key(API_KEY)))["statusCode"] == 200


async def test_an_upstream_that_never_answers_is_given_up_before_the_functions_deadline(
    tiflux: Packed, tmp_path: Path
):
    key = new_key()
    async with TifluxEmulator() as upstream, functions(tiflux, upstream, tmp_path, limit_s=6) as (_, client):
        upstream.add_tenant(key)
        upstream.misbehave("never", "/tickets.*", times=-1)
        late = await get_ticket(client, key)
        assert late.status == 200
        assert late.result["isError"]
        upstream.behave()
        assert not (await get_ticket(client, key)).result.get("isError")
