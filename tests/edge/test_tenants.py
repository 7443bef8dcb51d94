"""Callers who bring their own key: it reaches the tool of that request, and nothing of it stays or shows."""

import base64
import json
import pickle
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.serving import BOTH, Client, http, initialize, modern, serving
from toolyard.kit import CallerKeys, Context, Long, Refused, Secret, Server
from toolyard.wire.call import Call

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANNA, BEN = "anna-4b1f0c", "ben-99e7d2"
FATAL = "fatal-77c0ab"
HEADER = "x-shop-key"
PLAIN = {"Content-Type": "application/json"}


class Shop:
    """A server whose tool tells how the key looks to it, and that lets some in and shows some a tool more."""

    def __init__(self, required: bool = True) -> None:
        keys = CallerKeys((HEADER, "authorization"), required=required, admit=self._admit)
        self.server = Server("shop", key=b"0123456789abcdef", caller_keys=keys)
        self.admitted: list[str] = []
        self.tenants: list[str] = []
        self.kept: list[Secret] = []
        self.server.tool(self.mine)
        self.server.tool(self.special)
        self.server.tool(long=Long())(self.later)
        self.server.show_tools(self._visible)

    async def _admit(self, key: Secret) -> None:
        self.admitted.append(key.fingerprint)
        if key.reveal() == "barred":
            raise Refused(403, "Not for you")
        if key.reveal() == FATAL:
            raise RuntimeError(f"not foreseen, with {key.reveal()}, in shop.py")

    async def _visible(self, call: Call) -> Any:
        key = (call.secrets or {}).get(HEADER)
        return (lambda tool: tool.name != "special") if key is None or key.reveal() != ANNA else None

    async def mine(self, ctx: Context) -> str:
        """Whose goods?"""
        key = ctx.secret(HEADER, "authorization")
        self.tenants.append(ctx.caller.tenant)
        if key is not None:
            self.kept.append(key)
        return "nobody's" if key is None else f"{key.reveal()[::-1]} {key!r}"

    async def special(self) -> str:
        """Anna only."""
        return "for you"

    async def later(self, ctx: Context) -> str:
        """A task, which outlives its request."""
        return repr(ctx.secret(HEADER, "authorization"))


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(shop: Shop) -> AsyncIterator[Client]:
    async with serving(shop.server.asgi()) as client:
        yield client


async def mine(client: Client, headers: dict[str, str]) -> str:
    sent, message = modern("tools/call", {"name": "mine", "arguments": {}})
    answer = await client.post({**sent, **headers}, message)
    return answer.result["content"][0]["text"]


@pytest.mark.parametrize(
    "headers",
    [
        {HEADER: ANNA},
        {HEADER.upper(): f" {ANNA} "},
        {"Authorization": f"Bearer {ANNA}"},
        {"authorization": f"bearer  {ANNA}"},
    ],
    ids=["own header", "upper case and blanks", "bearer", "lower-case bearer"],
)
async def test_a_key_reaches_the_tool_from_either_header(client: Client, headers: dict[str, str]):
    said = await mine(client, headers)
    assert said.startswith(ANNA[::-1])
    assert ANNA not in said  # its repr is the keyed hash


async def test_of_two_headers_the_first_named_counts(client: Client):
    assert (await mine(client, {HEADER: ANNA, "Authorization": f"Bearer {BEN}"})).startswith(ANNA[::-1])


@pytest.mark.parametrize(
    "headers", [{}, {HEADER: ""}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}]
)
@pytest.mark.parametrize("era", ["modern", "legacy", "sessionless"])
async def test_without_a_key_every_request_is_told_where_to_put_it(
    client: Client, headers: dict[str, str], era: str
):
    sent, message = modern("tools/list") if era == "modern" else initialize("2025-11-25", None)
    if era == "sessionless":
        sent, message = PLAIN, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = await client.post({**sent, **headers}, message)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert (answer.json["jsonrpc"], answer.error["code"]) == ("2.0", -32600)
    assert HEADER in answer.error["message"]


@pytest.mark.parametrize("key", ["a b", "a,b", "café", "x" * 5000, "tab\there"])
async def test_a_key_that_no_header_can_carry_on_is_refused_and_not_repeated(client: Client, key: str):
    sent, message = modern("tools/list")
    answer = await client.post({**sent, HEADER: key}, message)
    assert answer.status == 401
    assert key not in answer.body.decode()


async def test_who_looks_for_a_login_hears_of_the_key(client: Client):
    headers, message = modern("tools/list")
    login = await client.post(headers, message, path="/register")
    assert login.status == 404
    assert f"send a key that is accepted in the header '{HEADER}'" in login.error["message"]


async def test_a_key_that_came_twice_is_refused(client: Client):
    sent, message = modern("tools/list")
    answer = await client.post([*sent.items(), (HEADER, ANNA), (HEADER, BEN)], message)
    assert (answer.status, "more than once" in answer.error["message"]) == (400, True)


async def test_who_is_not_admitted_is_turned_away_before_anything_is_read(client: Client):
    answer = await client.post({**PLAIN, HEADER: "barred"}, b"not even JSON")
    assert (answer.status, answer.error["message"]) == (403, "Not for you")


async def test_a_fault_of_the_server_is_500_and_says_nothing_of_the_inside(
    client: Client, caplog: pytest.LogCaptureFixture, nothing_is_logged_as_an_error: list[str]
):
    headers, message = modern("tools/list")
    answer = await client.post(headers | {HEADER: FATAL}, message)
    assert (answer.status, answer.error["code"]) == (500, -32603)
    assert not any(word in answer.body.decode() for word in ("RuntimeError", "foreseen", "shop.py", FATAL))
    assert "not foreseen" in caplog.text
    nothing_is_logged_as_an_error.remove("toolyard.edge: identify failed")
    assert (await client.post(headers | {HEADER: ANNA}, message)).status == 200


async def test_health_and_preflight_need_no_key(client: Client):
    assert (await client.raw(http("GET", "/health"))).status == 200
    asking = {"Origin": "http://localhost", "Access-Control-Request-Headers": HEADER}
    assert (await client.raw(http("OPTIONS", "/mcp", asking))).status == 204


async def test_a_session_belongs_to_the_key_it_was_opened_with(client: Client):
    headers, message = initialize("2025-11-25", None)
    opened = await client.post({**headers, HEADER: ANNA}, message)
    session = {**PLAIN, "Accept": BOTH, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "mine", "arguments": {}}}
    assert (
        (await client.post({**session, HEADER: ANNA}, call))
        .result["content"][0]["text"]
        .startswith(ANNA[::-1])
    )
    assert (await client.post({**session, HEADER: BEN}, call)).status == 404
    assert (await client.post(session, call)).status == 401


async def test_a_session_id_says_nothing_of_the_key(client: Client):
    headers, message = initialize("2025-11-25", None)
    opened = await client.post({**headers, HEADER: ANNA}, message)
    id = opened.headers["mcp-session-id"]
    assert ANNA.encode() not in base64.urlsafe_b64decode(id + "=" * (-len(id) % 4))


async def test_the_tenant_is_a_keyed_hash(client: Client, shop: Shop):
    shop.tenants.clear()
    await mine(client, {HEADER: ANNA})
    await mine(client, {"Authorization": f"Bearer {ANNA}"})
    await mine(client, {HEADER: BEN})
    first, again, other = shop.tenants
    assert first == again != other
    assert ANNA not in first
    elsewhere = Shop()
    elsewhere.server = Server("other", key=b"fedcba9876543210")
    assert elsewhere.server.sealer.fingerprint(ANNA, "caller-key") not in first


async def test_a_tool_may_be_there_for_one_tenant_and_unknown_to_another(client: Client):
    async def names(key: str) -> set[str]:
        headers, message = modern("tools/list")
        return {
            tool["name"] for tool in (await client.post({**headers, HEADER: key}, message)).result["tools"]
        }

    assert "special" in await names(ANNA)
    assert "special" not in await names(BEN)
    headers, message = modern("tools/call", {"name": "special", "arguments": {}})
    assert (await client.post({**headers, HEADER: ANNA}, message)).result["content"][0]["text"] == "for you"
    refused = await client.post({**headers, HEADER: BEN}, message)
    assert refused.error["message"] == "Unknown tool: 'special'"


async def test_a_task_does_not_take_the_key_along(client: Client):
    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    headers, message = modern("tools/call", {"name": "later", "arguments": {}}, capabilities=tasks)
    started = (await client.post({**headers, HEADER: ANNA}, message)).result
    while True:
        headers, message = modern("tasks/get", {"taskId": started["taskId"]}, capabilities=tasks)
        found = (await client.post({**headers, HEADER: ANNA}, message)).result
        if found["status"] != "working":
            break
    assert found["result"]["content"][0]["text"] == "None"
    assert "error" in (await client.post({**headers, HEADER: BEN}, message)).json


async def test_whoever_keeps_a_secret_keeps_a_fingerprint(client: Client, shop: Shop):
    shop.kept.clear()
    await mine(client, {HEADER: ANNA})
    headers, message = initialize("2025-11-25", None)
    opened = await client.post({**headers, HEADER: BEN}, message)
    session = {**PLAIN, "Accept": BOTH, "Mcp-Session-Id": opened.headers["mcp-session-id"], HEADER: BEN}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "mine", "arguments": {}}}
    assert (await client.post(session, call)).status == 200
    assert len(shop.kept) == 2
    for kept in shop.kept:
        assert len(kept.fingerprint) == 32
        with pytest.raises(RuntimeError, match="request is over"):
            kept.reveal()


async def test_where_a_key_is_not_required_a_request_without_one_is_served():
    async with serving(Shop(required=False).server.asgi()) as open_client:
        assert await mine(open_client, {}) == "nobody's"
        assert (await mine(open_client, {HEADER: BEN})).startswith(BEN[::-1])


async def test_a_secret_does_not_leave_by_accident():
    secret = Secret(ANNA, "f00dfeed" * 4)
    assert ANNA not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
