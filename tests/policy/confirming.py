"""A server whose tool a rule wants confirmed: a kit server behind `Approvals`, as the gateway's stage has it.

Owns the smallest stage there is: ask, send, hand the outcome back. Clients and stores are real.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from tests.kit.calls import Inbox
from tests.waiting import PATIENCE
from toolyard.kit import Context, Server
from toolyard.policy.approvals import Approval, Approvals
from toolyard.policy.pending import PendingApproval
from toolyard.state import State, open_state
from toolyard.upstream.base import Forward, Outcome
from toolyard.wire.call import Call, Caller, Identity, Principal
from toolyard.wire.messages import decode_params, encode
from toolyard.wire.seal import Sealer
from toolyard.wire.types import Implementation

KEY = b"for the confirmations of the tests"
RULE = "writes need a person"
ABOUT = Implementation(name="yard", version="1")
ABLE: dict[str, Any] = {"elicitation": {}}
APPROVE = {"action": "accept", "content": {"decision": "approve"}}
ALWAYS = {"action": "accept", "content": {"decision": "always for this conversation"}}
REFUSE = {"action": "accept", "content": {"decision": "refuse"}}
ANNA = Identity(Principal(tenant="acme", agent="writer", subject="anna"), "talk-1")


def files() -> tuple[Server, list[str]]:
    """Deletes files, with a word to the user if wanted; and the list of what was deleted."""
    server, deleted = Server("files", key=KEY), list[str]()

    @server.tool
    async def delete(path: str, password: str = "") -> str:
        deleted.append(path)
        return f"deleted {path}"

    @server.tool
    async def ask_and_delete(ctx: Context, path: str) -> str:
        schema = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}
        why = (await ctx.elicit("Why?", schema, key="why")).content["why"]
        deleted.append(path)
        return f"deleted {path}, because {why}"

    @server.tool
    async def ask_twice(ctx: Context, path: str) -> str:
        schema = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}
        first = (await ctx.elicit("Why?", schema, key="first")).content["why"]
        second = (await ctx.elicit("Really?", schema, key="second")).content["why"]
        deleted.append(path)
        return f"{first}, {second}"

    @server.tool
    async def sum_up_and_delete(ctx: Context, path: str) -> str:
        last = (await ctx.sample("Sum it up", key="sum")).text
        deleted.append(path)
        return f"deleted {path}: {last}"

    return server, deleted


class Confirming:
    """A service: the kit server's, with every call of a tool confirmed first."""

    def __init__(self, server: Server, approvals: Approvals) -> None:
        self.approvals = approvals
        self.approved: list[Approval] = []
        self._inner = server.service

    async def handle(self, call: Call) -> Any:
        if call.method != "tools/call":
            return await self._inner.handle(call)
        forward = Forward.of(call)
        tool = decode_params(forward.params["name"], str)
        asked = await self.approvals.ask(forward, "files", tool, RULE)
        if isinstance(asked, Outcome):
            return asked.body
        self.approved.append(asked)
        result = await self._inner.handle(asked.forward.as_call())
        kind: Any = getattr(result, "result_type", "complete") if call.caller.era == "modern" else "complete"
        return asked.passed(Outcome.of(encode(result), kind)).body

    async def listen(self, call: Call) -> None:
        await self._inner.listen(call)

    async def end_session(self, call: Call) -> None:
        await self._inner.end_session(call)

    async def close(self) -> None:
        await self._inner.close()

    def health(self) -> dict[str, Any]:
        return self._inner.health()


class Setup:
    """One gateway: its store, its service, and what its server deleted."""

    def __init__(self, state: State, **options: Any) -> None:
        self.state = state
        self.server, self.deleted = files()
        seconds = options.pop("seconds", 60.0)
        self.approvals = Approvals(state, Sealer(KEY, "yard"), ABOUT, seconds, **options)
        self.service = Confirming(self.server, self.approvals)

    def client(
        self, capabilities: dict[str, Any] | None = None, identity: Identity = ANNA, era: str = "modern"
    ) -> "Steps":
        return Steps(self.service, {} if capabilities is None else capabilities, identity, era)

    async def waiting(self) -> PendingApproval:
        """The one call that waits, as soon as it does."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await self.approvals.pending.list()):  # noqa: ASYNC110  a store has no event
                await asyncio.sleep(0.01)
        (pending,) = found
        return pending


class Steps:
    """A client that answers nothing by itself: every result comes back as it was given."""

    def __init__(
        self, service: Confirming, capabilities: dict[str, Any], identity: Identity, era: str
    ) -> None:
        self.inbox = Inbox()
        self.on_ask: Callable[[str, Any], Any] | None = None
        self._service = service
        version = "2026-07-28" if era == "modern" else "2025-11-25"
        self._caller = Caller(version, capabilities, identity=identity)
        self._ids = itertools.count(1)

    async def call(
        self, tool: str = "delete", /, more: dict[str, Any] | None = None, **arguments: Any
    ) -> Any:
        params = {"name": tool, "arguments": arguments or {"path": "a"}, **(more or {})}
        return await self.send(msgspec.json.encode(params), params.get("_meta", {}).get("progressToken"))

    async def send(self, params: bytes, token: Any = None) -> Any:
        call = Call("tools/call", Raw(params), self._caller, self, next(self._ids), token)
        return msgspec.json.decode(encode(await self._service.handle(call)))

    async def answer(
        self, asked: Any, answer: Any, tool: str = "delete", key: str = "approval", **arguments: Any
    ) -> Any:
        more = {"requestState": asked["requestState"], "inputResponses": {key: answer}}
        return await self.call(tool, more, **arguments)

    async def notify(self, method: str, params: Any) -> None:
        self.inbox(method, msgspec.json.decode(msgspec.json.encode(params)))

    async def ask(self, method: str, params: Any) -> Raw:
        assert self.on_ask is not None
        return Raw(msgspec.json.encode(await self.on_ask(method, params)))

    async def release(self, retry_ms: int | None) -> None:
        return None


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[State]:
    state = open_state(f"{kind}:", folder)
    try:
        yield state
    finally:
        await state.close()


def text_of(result: Any) -> str:
    return result["content"][0]["text"]
