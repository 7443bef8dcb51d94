"""`toolyard approvals`: what waits, and the decision, from a store that is shared or over HTTP."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Outcome, Toolyard
from tests.policy.confirming import KEY, Setup, opened, text_of
from tests.serving import serving
from toolyard.app.approvals import ApprovalsApi, Approver, approver_of
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import Receive, Refused, Scope, Send
from toolyard.policy.approvals import RefusedByUserError
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer


@asynccontextmanager
async def on_sqlite(folder: Path) -> AsyncGenerator[tuple[Toolyard, Setup]]:
    """A gateway's store in a file, and commands on the configuration that names it."""
    toolyard = Toolyard(folder)
    toolyard.write("toolyard.toml", f'[state]\nurl = "sqlite://{folder}/state.db"\n')
    async with opened("sqlite", folder) as state:
        yield toolyard, Setup(state)


async def run(toolyard: Toolyard, *arguments: str) -> Outcome:
    return await asyncio.to_thread(toolyard, "approvals", *arguments)


async def test_nothing_waits(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, _):
        assert await run(toolyard) == Outcome(0, "No call waits for approval.\n", "")
        assert (await run(toolyard, "--json")).out == "[]\n"


async def test_a_waiting_call_is_listed_and_approved(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, setup):
        calling = asyncio.create_task(setup.client().call(path="x" * 300, password="hunter2"))
        id = (await setup.waiting()).id
        listed = await run(toolyard)
        assert listed.status == 0, listed.err
        heading, line = listed.out.splitlines()
        assert heading.split() == ["id", "who", "what", "arguments", "age", "left"]
        assert line.startswith(
            f"{id}  agent 'writer' of 'anna' (tenant 'acme')  files/delete  {{\"path\":\"xxx"
        )
        assert "hunter2" not in listed.out
        assert len(line) < 170
        assert f"approvals approve {id}" in listed.err
        (row,) = json.loads((await run(toolyard, "--json")).out)
        assert row["arguments"]["password"] == "***"
        told = await run(toolyard, "approve", id, "--always", "--by", "olga")
        assert told == Outcome(0, f"Approved {id} for its conversation.\n", "")
        assert text_of(await calling).startswith("deleted")
        assert setup.service.approved[0].by == "olga"
        late = await run(toolyard, "deny", id)
        assert late.status == 2
        assert "decided already: approve, by olga" in late.err


async def test_what_is_approved_for_a_conversation_is_listed_and_withdrawn(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, setup):
        assert (await run(toolyard, "standing")).out == "Nothing is approved for a conversation.\n"
        calling = asyncio.create_task(setup.client().call(path="a"))
        await setup.approvals.pending.decide((await setup.waiting()).id, "approve", "olga", always=True)
        await calling
        (row,) = json.loads((await run(toolyard, "standing", "--json")).out)
        listed = await run(toolyard, "standing")
        heading, line = listed.out.splitlines()
        assert heading.split() == ["id", "who", "what", "by", "age", "left"]
        assert line.startswith(f"{row['id']}  agent 'writer' of 'anna' (tenant 'acme')  files/delete  olga")
        assert line.endswith("8 h")
        assert f"toolyard approvals withdraw {row['id']}" in listed.err
        told = await run(toolyard, "withdraw", row["id"])
        assert (
            told.out == f"Withdrew {row['id']}: files/delete for agent 'writer' of 'anna' (tenant 'acme').\n"
        )
        late = await run(toolyard, "withdraw", row["id"])
        assert late.status == 2
        assert "hint: toolyard approvals standing lists what is approved" in late.err


async def test_a_waiting_call_is_denied(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, setup):
        calling = asyncio.create_task(setup.client().call())
        id = (await setup.waiting()).id
        told = await run(toolyard, "deny", id, "--by", "olga", "--json")
        assert json.loads(told.out)["decision"] == "deny"
        with pytest.raises(RefusedByUserError, match="olga refused it"):
            await calling


async def test_an_unknown_id_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, _):
        told = await run(toolyard, "approve", "nothing")
        assert told.status == 2
        assert "error: no call waits as 'nothing'" in told.err
        assert "hint: toolyard approvals lists those that wait" in told.err


async def test_an_option_of_the_list_is_not_lost_before_a_decision(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, _):
        told = await run(toolyard, "--config", "other.toml", "approve", "0123456789")
        assert told.status == 2
        assert "put it after 'approve'" in told.err


async def test_watching_prints_what_is_new(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path) as (toolyard, setup):
        calling = asyncio.create_task(setup.client().call())
        id = (await setup.waiting()).id
        watching = toolyard.start("approvals", "--watch", "--json")
        try:
            assert watching.stdout is not None
            line = await asyncio.to_thread(watching.stdout.readline)
            assert json.loads(line)["id"] == id
        finally:
            watching.send_signal(signal.SIGINT)
            await asyncio.to_thread(watching.communicate)
        assert watching.returncode == 130
        await setup.approvals.pending.decide(id, "approve", "olga")
        await calling


class Beside:
    """An MCP endpoint with the approvals beside it, as the gateway has them."""

    path = "/mcp"

    def __init__(self, setup: Setup) -> None:
        self._edge = HttpEdge(setup.service, Sealer(KEY, "edge"))
        self._api = ApprovalsApi(setup.approvals.pending, self._authorize)

    async def _authorize(self, scope: Scope, receive: Receive) -> Approver:
        if dict(scope["headers"]).get(b"authorization") != b"Bearer secret":
            raise Refused(401, "a key is missing")
        return approver_of(Principal(tenant="acme", subject="ops", kind="key", scopes=frozenset({"approve"})))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] == "http" and scope["path"].startswith("/approvals")
        app: Any = self._api if is_ours else self._edge
        await app(scope, receive, send)

    async def close(self) -> None:
        await self._edge.close()


async def test_a_gateway_that_keeps_its_state_in_memory_is_asked_over_http(tmp_path: Path) -> None:
    toolyard = Toolyard(tmp_path)
    async with opened("memory", tmp_path) as state:
        setup = Setup(state)
        async with serving(Beside(setup)) as served:
            toolyard.write("toolyard.toml", f"[gateway]\nport = {served.port}\n")
            refused = await run(toolyard)
            assert refused.status == 2
            assert "a key is missing" in refused.err
            assert "scope approve" in refused.err
            calling = asyncio.create_task(setup.client().call())
            id = (await setup.waiting()).id
            key = ("--header", "Authorization: Bearer secret")
            assert id in (await run(toolyard, *key)).out
            url = ("--url", f"http://127.0.0.1:{served.port}/mcp")
            told = await run(toolyard, "approve", id, "--always", "--by", "olga", *url, *key)
            assert told.out == f"Approved {id} for its conversation.\n", told.err
            assert text_of(await calling) == "deleted a"
            assert setup.service.approved[0].by == "olga (by ops)"
            assert "was decided already" in (await run(toolyard, "deny", id, *key)).err
            (row,) = json.loads((await run(toolyard, "standing", "--json", *key)).out)
            assert (await run(toolyard, "withdraw", row["id"], *key)).status == 0
        gone = await run(toolyard)
        assert gone.status == 2
        assert f"no gateway answers at http://127.0.0.1:{served.port}" in gone.err
