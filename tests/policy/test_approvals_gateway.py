"""Confirmations in a whole gateway: every pair of eras, meta tools and batches, with real clients over HTTP.

The stage is the smallest there is, around the gateway's own pipeline.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from tests.app.yard import KEY, Yard, at, yard
from tests.policy.confirming import ABOUT, RULE, files
from tests.serving import serving
from tests.through import LegacyOnly
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.client.types import Elicitation, ElicitResult
from toolyard.config.callers import AccessConfig, AccessRule
from toolyard.dispatch import CallTarget
from toolyard.edge.http.app import HttpEdge
from toolyard.pipeline import Handler
from toolyard.policy.approvals import Approvals
from toolyard.upstream.base import Forward, Outcome
from toolyard.wire.errors import McpError
from toolyard.wire.seal import Sealer

Era = Literal["modern", "legacy"]
WHY = "Server 'files' asks: Why?"
CLIENTS = pytest.mark.parametrize("era", ["modern", "legacy"])
SERVERS = pytest.mark.parametrize("theirs", ["modern", "legacy"])


def confirmed(inner: Handler, approvals: Approvals) -> Handler:
    async def stage(target: CallTarget, forward: Forward) -> Outcome:
        if forward.method != "tools/call":
            return await inner(target, forward)
        asked = await approvals.ask(forward, target.mount.server, target.own, RULE)
        if isinstance(asked, Outcome):
            return asked
        return asked.passed(await inner(target, asked.forward))

    return stage


class Front:
    def __init__(self, yard: Yard, approvals: Approvals, deleted: list[str]) -> None:
        self.yard = yard
        self.approvals = approvals
        self.deleted = deleted
        self.asked: list[str] = []

    def client(self, era: Era, *, asks: bool = True, decision: str = "approve", thread: str = "") -> Client:
        def answer(form: Elicitation) -> ElicitResult:
            self.asked.append(form.message)
            return form.accept(why="old") if form.message == WHY else form.accept(decision=decision)

        url = f"http://127.0.0.1:{self.yard.client.port}/mcp"
        return Client(
            url,
            era=era,
            on_elicit=answer if asks else None,
            headers={"X-Toolyard-Thread": thread} if thread else None,
        )


@asynccontextmanager
async def front(theirs: Era, view: str = "search") -> AsyncIterator[Front]:
    server, deleted = files()
    edge = HttpEdge(server.service, Sealer(KEY, "theirs"))
    async with serving(edge if theirs == "modern" else LegacyOnly(edge)) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        async with yard(at(url, "files"), view=view) as front:
            context = front.gateway._context  # the gateway has no place for a stage of a test
            approvals = Approvals(front.gateway.storage.state, front.gateway.sealer, ABOUT)
            context.forward = confirmed(context.forward, approvals)
            yield Front(front, approvals, deleted)


@CLIENTS
@SERVERS
async def test_a_call_and_the_servers_own_question_are_asked_once_each(era: Era, theirs: Era) -> None:
    async with front(theirs, "all") as gateway, gateway.client(era) as client:
        done = await client.call_tool("mcp__files__ask_and_delete", {"path": "a"})
        assert done.text == "deleted a, because old"
    assert [message == WHY for message in gateway.asked] == [False, True]
    assert gateway.deleted == ["a"]


@CLIENTS
async def test_a_meta_tool_asks_too_and_its_model_reads_the_refusal(era: Era) -> None:
    call = {"tool": "mcp__files__delete", "arguments": {"path": "a"}}
    async with front("modern") as gateway:
        async with gateway.client(era) as client:
            assert "deleted a" in (await client.call_tool("call_tool", call)).text
        async with gateway.client(era, decision="refuse") as client:
            refused = await client.call_tool("call_tool", call)
            assert refused.is_error
            assert RULE in refused.text
    assert len(gateway.asked) == 2
    assert gateway.deleted == ["a"]


@CLIENTS
async def test_a_direct_call_that_is_refused_is_an_error(era: Era) -> None:
    async with front("modern", "all") as gateway, gateway.client(era, decision="refuse") as client:
        with pytest.raises(McpError, match="refused it") as error:
            await client.call_tool("mcp__files__delete", {"path": "a"})
        assert error.value.data == {"rule": RULE, "reason": "refused"}
    assert gateway.deleted == []


@CLIENTS
async def test_a_batch_cannot_ask_and_says_so(era: Era) -> None:
    calls = [{"tool": "mcp__files__delete", "arguments": {"path": "a"}}]
    async with front("modern") as gateway, gateway.client(era) as client:
        done = await client.call_tool("call_tools", {"calls": calls})
        assert "call it alone" in done.text
    assert gateway.asked == []
    assert gateway.deleted == []


async def test_a_batch_of_approved_calls_leaves_none_of_them_parked() -> None:
    """The server asks in turn, which a batch cannot do: it has to hear that no answer will come."""
    tool, arguments = "mcp__files__ask_and_delete", {"path": "a"}
    always = "always for this conversation"
    async with front("legacy") as gateway, gateway.client("modern", decision=always, thread="t") as client:
        assert "because old" in (await client.call_tool(tool, arguments)).text
        done = await client.call_tool("call_tools", {"calls": [{"tool": tool, "arguments": arguments}]})
        assert "call it alone" in done.text
        assert (await gateway.yard.health())["parked"] == 0
    assert gateway.deleted == ["a"]


async def test_always_ends_with_the_session_that_was_the_conversation() -> None:
    always, arguments = "always for this conversation", {"path": "a"}
    server, deleted = files()
    access = AccessConfig(rules=(AccessRule(confirm=("files",)),))
    async with (
        serving(server.asgi()) as served,
        yard(at(f"http://127.0.0.1:{served.port}/mcp", "files"), tables={"access": access}) as front,
    ):
        assert front.gateway.policy is not None
        gateway = Front(front, front.gateway.policy.approvals, deleted)
        standing = gateway.approvals.pending.list_standing
        async with gateway.client("legacy", decision=always) as client:
            await client.call_tool("mcp__files__delete", arguments)
            await client.call_tool("mcp__files__delete", arguments)
            assert len(gateway.asked) == 1
            assert len(await standing()) == 1
        assert await standing() == ()
        # A conversation that the client has named is not over with a session.
        async with gateway.client("legacy", decision=always, thread="t") as client:
            await client.call_tool("mcp__files__delete", arguments)
        assert len(await standing()) == 1


@CLIENTS
async def test_a_client_that_cannot_be_asked_waits_and_goes_on(era: Era) -> None:
    async with front("modern") as gateway, gateway.client(era, asks=False) as client:
        arguments: dict[str, Any] = {"tool": "mcp__files__delete", "arguments": {"path": "a"}}
        calling = asyncio.create_task(client.call_tool("call_tool", arguments))
        async with asyncio.timeout(PATIENCE):
            while not (found := await gateway.approvals.pending.list()):  # noqa: ASYNC110  a store
                await asyncio.sleep(0.01)
        await gateway.approvals.pending.decide(found[0].id, "approve", "olga")
        assert "deleted a" in (await calling).text


@CLIENTS
async def test_a_client_that_leaves_waits_no_longer(era: Era) -> None:
    async with front("modern", "all") as gateway, gateway.client(era, asks=False) as client:
        calling = asyncio.create_task(client.call_tool("mcp__files__delete", {"path": "a"}))
        async with asyncio.timeout(PATIENCE):
            while not await gateway.approvals.pending.list():  # noqa: ASYNC110  a store
                await asyncio.sleep(0.01)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            while await gateway.approvals.pending.list():  # noqa: ASYNC110  a store
                await asyncio.sleep(0.01)
    assert gateway.deleted == []
