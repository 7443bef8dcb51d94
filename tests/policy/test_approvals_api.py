"""Approvals over HTTP: who may list and decide, and what a bad request is told."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.policy.confirming import RULE, Setup, text_of
from tests.serving import Answer, call_asgi
from toolyard.app.approvals import ApprovalsApi, Approver, approver_of
from toolyard.edge.request import Receive, Refused, Scope
from toolyard.policy.pending import PendingApprovals
from toolyard.state.memory import MemoryState
from toolyard.state.store import StateUnavailableError
from toolyard.wire.call import Grant, Principal

CONSOLE = Principal(tenant="acme", subject="console", kind="key", scopes=frozenset({"approve"}))
JSON = {"content-type": "application/json"}


def api(pending: PendingApprovals, principal: Principal = CONSOLE) -> Any:
    async def authorize(scope: Scope, receive: Receive) -> Approver:
        return approver_of(principal)

    return ApprovalsApi(pending, authorize)


async def get(app: Any, path: str = "/approvals", method: str = "GET") -> Answer:
    return await call_asgi(app, {}, b"", method, path)


async def post(app: Any, id: str, body: Any, headers: Any = JSON) -> Answer:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await call_asgi(app, headers, sent, "POST", f"/approvals/{id}")


async def test_a_console_lists_and_decides(setup: Setup) -> None:
    app = api(setup.approvals.pending)
    assert (await get(app)).json == {"approvals": []}
    calling = asyncio.create_task(setup.client().call(path="a", password="hunter2"))
    id = (await setup.waiting()).id
    answer = await get(app)
    (row,) = answer.json["approvals"]
    assert row["id"] == id
    assert row["who"] == "agent 'writer' of 'anna' (tenant 'acme')"
    assert (row["server"], row["tool"], row["rule"]) == ("files", "delete", RULE)
    assert row["arguments"] == {"path": "a", "password": "***"}
    assert 0 < row["seconds_left"] <= 60
    assert row["may_always"] is True
    assert answer.headers["cache-control"] == "no-store"
    decided = await post(app, id, {"decision": "approve", "by": "olga", "always": True})
    assert decided.status == 200
    assert decided.json["by"] == "olga (by console)"
    assert text_of(await calling) == "deleted a"
    assert setup.service.approved[0].by == "olga (by console)"
    again = await post(app, id, {"decision": "deny"})
    assert again.status == 409
    assert "olga" in again.json["error"]


async def test_a_console_sees_and_withdraws_what_stands(setup: Setup) -> None:
    app = api(setup.approvals.pending)
    other = api(setup.approvals.pending, replace(CONSOLE, tenant="other"))
    assert (await get(app, "/approvals/standing")).json == {"standing": []}
    calling = asyncio.create_task(setup.client().call(path="a"))
    id = (await setup.waiting()).id
    await post(app, id, {"decision": "approve", "by": "olga", "always": True})
    await calling
    (row,) = (await get(app, "/approvals/standing")).json["standing"]
    assert (row["who"], row["by"]) == ("agent 'writer' of 'anna' (tenant 'acme')", "olga (by console)")
    assert (row["server"], row["tool"], row["rule"]) == ("files", "delete", RULE)
    assert 0 < row["seconds_left"] <= 8 * 3600
    assert "arguments" not in row
    assert (await get(other, "/approvals/standing")).json == {"standing": []}
    place = f"/approvals/standing/{row['id']}"
    assert (await get(other, place, "DELETE")).status == 404
    assert (await get(app, place)).status == 405
    assert (await get(app, "/approvals/standing", "DELETE")).status == 405
    stranger = api(setup.approvals.pending, Principal(tenant="acme", subject="anna", kind="key"))
    for answer in (await get(stranger, "/approvals/standing"), await get(stranger, place, "DELETE")):
        assert answer.status == 403
    assert (await get(app, place, "DELETE")).json["id"] == row["id"]
    assert (await get(app, place, "DELETE")).status == 404
    calling = asyncio.create_task(setup.client().call(path="b"))
    await setup.approvals.pending.decide((await setup.waiting()).id, "approve", "olga")
    await calling


async def test_without_the_scope_nothing_is_seen_or_decided(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call())
    id = (await setup.waiting()).id
    grant = Grant("g", ("g",), (), 0.0)
    for principal in (
        Principal(tenant="acme", subject="anna", kind="key"),
        Principal(tenant="acme", subject="x", kind="grant", scopes=frozenset({"approve"}), grant=grant),
    ):
        app = api(setup.approvals.pending, principal)
        for answer in (await get(app), await post(app, id, {"decision": "approve"})):
            assert answer.status == 403
            assert 'scope="approve"' in answer.headers["www-authenticate"]
    await setup.approvals.pending.decide(id, "approve", "olga")
    await calling


async def test_another_tenants_calls_do_not_exist(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call())
    id = (await setup.waiting()).id
    other = Principal(tenant="other", subject="eve", kind="key", scopes=frozenset({"approve"}))
    app = api(setup.approvals.pending, other)
    assert (await get(app)).json == {"approvals": []}
    theirs, none = [await post(app, one, {"decision": "approve"}) for one in (id, "0123456789")]
    assert theirs.status == none.status == 404
    assert theirs.body.replace(id.encode(), b"0123456789") == none.body
    local = api(setup.approvals.pending, Principal())
    assert (await post(local, id, {"decision": "deny"})).status == 200
    await asyncio.gather(calling, return_exceptions=True)


async def test_a_request_that_is_not_admitted_is_answered_as_the_function_says(setup: Setup) -> None:
    async def nobody(scope: Scope, receive: Receive) -> Approver:
        raise Refused(401, "who are you?", [(b"www-authenticate", b"Bearer")])

    answer = await get(ApprovalsApi(setup.approvals.pending, nobody))
    assert (answer.status, answer.json, answer.headers["www-authenticate"]) == (
        401,
        {"error": "who are you?"},
        "Bearer",
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{}", 400),
        ({"decision": "yes"}, 400),
        ({"decision": "approve", "alwyas": True}, 400),
        ({"decision": "approve", "always": "yes"}, 400),
        (b'{"decision": "\xff"}', 400),
        (b" " * 20_000, 413),
        ({"decision": "approve"}, 404),
    ],
)
async def test_bad_decisions_are_refused(setup: Setup, body: Any, status: int) -> None:
    answer = await post(api(setup.approvals.pending), "0123456789", body)
    assert answer.status == status
    assert answer.json["error"]


async def test_a_form_of_another_site_decides_nothing(setup: Setup) -> None:
    app = api(setup.approvals.pending)
    for headers in (
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ):
        assert (await post(app, "0123456789", {"decision": "approve"}, headers)).status == 415


async def test_other_methods_and_paths_are_named(setup: Setup) -> None:
    app = api(setup.approvals.pending)
    assert (await get(app, method="DELETE")).headers["allow"] == "GET"
    assert (await get(app, "/approvals/0123456789")).headers["allow"] == "POST"
    assert (await get(app, "/approvalsX")).status == 404
    assert (await get(app, "/approvals/a/b")).status == 404


async def test_a_store_that_is_down_is_said_without_its_address() -> None:
    class Dead(MemoryState):
        async def keys(self, prefix: str) -> list[str]:
            raise StateUnavailableError("redis at 10.0.0.5: gone")

    answer = await get(api(PendingApprovals(Dead())))
    assert answer.status == 503
    assert b"10.0.0.5" not in answer.body
