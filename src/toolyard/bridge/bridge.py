"""All four pairs: a caller of either era, an upstream of either era.

| caller | upstream | a question of the upstream |
|---|---|---|
| modern | modern | passes as `input_required`, its state sealed for this caller |
| legacy | modern | is put to the client on its stream, then the call is tried again with the answers |
| legacy | legacy | is put to the client on its stream |
| modern | legacy | parks the call; the client gets `input_required` and comes back |
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ..kit.calls.content import error_result
from ..upstream.connection import (
    GATEWAY_CALLER,
    SILENT,
    ConnectionPool,
    Params,
    RawResult,
    SilentListener,
    UpstreamConnection,
    askable,
)
from ..upstream.errors import InvalidReplyError, UpstreamError
from ..upstream.messages.spool import Spooled
from ..wire.call import TASKS_EXTENSION, Call
from ..wire.errors import INVALID_PARAMS, MISSING_CAPABILITY, RESOURCE_NOT_FOUND, InvalidParams, McpError
from ..wire.messages import decode_params
from ..wire.seal import BrokenSeal, Sealer
from .input_requests import ParkedCall, ParkedCalls, ask_all, check_input_requests, follow_task
from .subscriptions import listen
from .translation import (
    LEVELS,
    CallListener,
    ModernMeta,
    as_modern,
    for_legacy,
    is_complete,
    kind_of,
    members_of,
    raw,
    with_own_token,
)

MAX_ROUNDS = 20
_PURPOSE = "upstream"


class Bridge:
    """A remote upstream as something that can be handed calls."""

    def __init__(self, links: ConnectionPool, sealer: Sealer, parking: ParkedCalls) -> None:
        self.links = links
        self._sealer = sealer
        self._parking = parking
        self._meta = ModernMeta()
        self._under_way = 0
        self._none_left = asyncio.Event()

    async def handle(self, call: Call) -> Any:
        links = self.links
        link = await (links.any() if call.caller is GATEWAY_CALLER else links.get(call))
        if call.method == "subscriptions/listen":
            # Changes of lists may be told on any session; a caller's resources are those of its own.
            return await listen(link, call, links if call.caller is GATEWAY_CALLER else link)
        params = members_of(call)
        modern = call.caller.era == "modern"
        if link.about.era == "modern":
            return await (self._pass(link, call, params) if modern else self._in_rounds(link, call, params))
        if modern:
            return await self._parking_it(link, call, params)
        return await self._plainly(link, call, params)

    # A modern upstream

    async def _pass(self, link: UpstreamConnection, call: Call, params: Params) -> RawResult:
        token = None
        if not is_complete(params):
            params = self._meta.add(call, params, tasks=False)
        if call.progress_token is not None and link.shares_tokens:
            params, token = with_own_token(params)
        if "requestState" in params:
            params = {**params, "requestState": self._unsealed(call, params["requestState"])}
        result = await link.request(call.method, params, _listener(call, token), token, _headers(call))
        kind = kind_of(link.server, result)
        if kind == "task" and not call.caller.supports(TASKS_EXTENSION):
            raise InvalidReplyError(
                link.server, "it answered with a task, which the client did not say it can follow"
            )
        if kind != "input_required":
            return result
        check_input_requests(link.server, call, result)
        return self._sealed(call, result)

    def _sealed(self, call: Call, result: RawResult) -> RawResult:
        """The upstream knows us, not our callers: what it gives one of them, another must not bring back."""
        if isinstance(result, Spooled):
            return result
        members = decode_params(result, dict[str, Raw])
        state = members.get("requestState")
        if state is None:
            return result
        bound = msgspec.json.encode([call.caller.identity.principal, self.links.server, state])
        members["requestState"] = raw(self._sealer.seal(bound, _PURPOSE))
        return raw(members)

    def _unsealed(self, call: Call, state: Raw) -> Raw:
        try:
            opened = self._sealer.open(decode_params(state, str), _PURPOSE)
            principal, server, inner = msgspec.json.decode(opened, type=tuple[str, str, Raw])
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams("requestState was not issued by this server, or was altered") from None
        if principal != call.caller.identity.principal or server != self.links.server:
            raise InvalidParams("requestState belongs to another request")
        return Raw(bytes(inner))

    async def _in_rounds(self, link: UpstreamConnection, call: Call, params: Params) -> RawResult:
        """A legacy caller of a modern upstream: we answer for it in rounds, and wait for its tasks."""
        extensions = link.about.capabilities.get("extensions")
        tasks = isinstance(extensions, dict) and TASKS_EXTENSION in extensions
        params = self._meta.add(call, params, tasks)
        for number in range(MAX_ROUNDS):
            token = None
            if call.progress_token is not None and link.shares_tokens:
                params, token = with_own_token(params)
            try:
                result = await link.request(
                    call.method, params, CallListener(call, token), token, _headers(call)
                )
            except McpError as error:
                if call.method == "tools/call" and _is_about_asking(error, number):
                    return raw(error_result(error.message))
                raise _as_legacy_error(call, error) from None
            kind = kind_of(link.server, result)
            if kind == "input_required" and not isinstance(result, Spooled):
                check_input_requests(link.server, call, result)
                params |= await ask_all(call, result)
            elif kind == "task" and not isinstance(result, Spooled):
                return await follow_task(link, call, result, self._meta.add(call, {}, tasks))
            else:
                return result
        raise InvalidReplyError(self.links.server, f"it asked for input {MAX_ROUNDS} times without an end")

    # A legacy upstream

    async def _plainly(self, link: UpstreamConnection, call: Call, params: Params) -> RawResult:
        params, token = for_legacy(call, params)
        await self._set_level(link, call)
        return await link.request(call.method, params, CallListener(call, token), token, call.more_headers)

    async def _parking_it(self, link: UpstreamConnection, call: Call, params: Params) -> Any:
        if "requestState" in params:
            result = await self._parking.resume(call, params)
        else:
            params, token = for_legacy(call, params)
            await self._set_level(link, call)
            try:
                if not askable(call.caller):
                    # Who cannot be asked anything need not be waited for in any special way.
                    listener, more = _listener(call, token), call.more_headers
                    result = await link.request(call.method, params, listener, token, more)
                else:
                    parked = ParkedCall(call, params, token)
                    asking = link.request(call.method, params, parked, token, call.more_headers)
                    running = self._counted(asking)
                    result = await self._parking.begin(parked, running)
            except McpError as error:
                raise _as_modern_error(error) from None
        return as_modern(call, result, link.about.info) if isinstance(result, Raw | Spooled) else result

    async def _counted(self, request: Awaitable[RawResult]) -> RawResult:
        """A call that may be parked: whoever closes us waits for it, whether its client is there or not."""
        self._under_way += 1
        try:
            return await request
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none_left.set()

    async def idle(self) -> None:
        """Wait until no call is parked here any more; each has its time."""
        while self._under_way:
            self._none_left.clear()
            await self._none_left.wait()

    async def _set_level(self, link: UpstreamConnection, call: Call) -> None:
        """Make a session as talkative as its most curious caller; each hears only what they asked for."""
        caller = call.caller
        wanted = caller.log_level if caller.era == "modern" else call.session and call.session.log_level
        if not wanted or wanted not in LEVELS or "logging" not in link.about.capabilities:
            return
        known = link.standing.log_level
        if known is None or LEVELS.index(wanted) < LEVELS.index(known):
            link.standing.log_level = wanted
            try:
                await link.request("logging/setLevel", {"level": raw(wanted)}, CallListener(call, None))
            except UpstreamError:
                raise
            except McpError:
                pass  # it promised and does not: then there are no lines to be had

    def abandon(self, state: str) -> None:
        """Nobody will answer what a call was told to ask: one that waits for it here is ended."""
        self._parking.abandon(state)

    async def roots_changed(self, call: Call) -> None:
        """A legacy caller has other folders open now: tell the session that speaks for it, if any does."""
        link = self.links.of(call)
        if link is not None:
            await link.notify("notifications/roots/list_changed", {})

    async def close(self) -> None:
        await self.links.close()


def _listener(call: Call, token: str | None) -> CallListener | SilentListener:
    return SILENT if call.caller is GATEWAY_CALLER else CallListener(call, token)


def _headers(call: Call) -> Mapping[str, str] | None:
    """For a modern upstream, which reads arguments in headers."""
    if call.param_headers is None:
        return call.more_headers
    return {**call.param_headers(), **(call.more_headers or {})}


def _is_about_asking(error: McpError, round: int) -> bool:
    """Whether it is about a question of the upstream's: a legacy client, who did nothing wrong, is told so
    by the tool's result, as a legacy upstream would have done it."""
    if isinstance(error, UpstreamError):
        return False
    return error.code == MISSING_CAPABILITY or (round > 0 and error.code == INVALID_PARAMS)


def _as_legacy_error(call: Call, error: McpError) -> McpError:
    data: Any = error.data
    not_found = isinstance(data, dict) and "uri" in data
    if call.method == "resources/read" and error.code == INVALID_PARAMS and not_found:
        return McpError(RESOURCE_NOT_FOUND, error.message, error.data)
    return error


def _as_modern_error(error: McpError) -> McpError:
    if error.code == RESOURCE_NOT_FOUND:
        return McpError(INVALID_PARAMS, error.message, error.data)
    return error
