"""Sends calls to a remote upstream: in its caller's era, and for all four pairs where one has a single era.

| caller | upstream | if the upstream asks for input |
|---|---|---|
| modern | modern | `input_required` is passed on, its state sealed for this caller |
| legacy | modern | the client is asked on its stream, then the call is sent again with the answers |
| legacy | legacy | the client is asked on its stream |
| modern | legacy | the call is parked; the client gets `input_required` and comes back |
"""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..kit.calls.content import error_result
from ..upstream.attribution import ServerChannel, questions
from ..upstream.base import Forward, Outcome, Upstream
from ..upstream.connection import (
    GATEWAY_CALLER,
    SILENT,
    ConnectionPool,
    RawResult,
    RequestListener,
    StartProgress,
    UpstreamConnection,
    UpstreamInfo,
    askable,
    profile_of,
)
from ..upstream.errors import InvalidReplyError, UpstreamError
from ..upstream.messages.envelope import read_outcome
from ..upstream.messages.spool import Spooled
from ..wire.call import TASKS_EXTENSION, Call
from ..wire.errors import INVALID_PARAMS, MISSING_CAPABILITY, RESOURCE_NOT_FOUND, InvalidParams, McpError
from ..wire.headers import PARAM_PREFIX
from ..wire.messages import decode_params, encode
from ..wire.seal import BrokenSeal, Sealer
from ..wire.types import InputRequiredResult, SetLevelParams
from .input_requests import ParkedCall, ParkedCalls, ask_all, check_input_requests, follow_task
from .subscriptions import SUBSCRIBING, listen, note_subscription, renew_subscriptions, until_closed
from .translation import (
    LEVELS,
    VERSION_JSON,
    BareCallListener,
    CallListener,
    LoneListener,
    ModernMeta,
    as_legacy,
    as_modern,
    for_legacy,
    raw,
    with_own_token,
)

MAX_ROUNDS = 20
LISTEN_AGAIN_SECONDS = 1.0
SET_LEVEL = "logging/setLevel"
INVALID_STATE = "Invalid or expired requestState"
INVALID_STATE_DATA = {"reason": "invalid_request_state"}
"""As the official SDK says it: what is wrong with a state is nobody's business."""
_PURPOSE = "upstream"


class Bridge(Upstream):
    """A remote upstream."""

    runs_named_tools = False

    def __init__(self, connections: ConnectionPool, sealer: Sealer, parked: ParkedCalls) -> None:
        self.connections = connections
        self._server = connections.server
        self._sealer = sealer
        self._parked = parked
        self._meta = ModernMeta()
        self._waiting = 0
        self._none_waiting = asyncio.Event()

    async def send(self, forward: Forward) -> Outcome:
        caller, pool = forward.call.caller, self.connections
        ours = caller is GATEWAY_CALLER
        connection = pool.shared if caller.era == "modern" and not ours else None
        if connection is None or connection.closed:
            connection = await (pool.any() if ours else pool.get(forward.call))
        if forward.method == "subscriptions/listen":
            # List changes may arrive on any session; resource updates only on the caller's own.
            return await listen(connection, forward, pool if ours else connection)
        if connection.about.era == "modern":
            if caller.era == "modern":
                return await self._pass(connection, forward)
            return await self._in_rounds(connection, forward)
        if caller.era == "modern":
            return await self._parking(connection, forward)
        return await self._plainly(connection, forward)

    # A modern upstream

    async def _pass(self, connection: UpstreamConnection, forward: Forward) -> Outcome:
        call, params, token = forward.call, forward.params, None
        if "_meta" not in params or VERSION_JSON not in bytes(params["_meta"]):  # a caller in this process
            params = self._meta.add(call, params, tasks=False)
        if call.progress_token is not None and connection.shares_tokens:
            params, token = with_own_token(params)
        if "requestState" in params and forward.binds:
            params = {**params, "requestState": self._unsealed(call, params["requestState"])}
        listener: RequestListener = SILENT
        if call.caller is not GATEWAY_CALLER:
            listener = self._listener(forward, token)
        body = await connection.request(forward.method, params, listener, token, forward.headers)
        outcome = read_outcome(self._server, body)
        if outcome.kind == "complete":
            return outcome
        if outcome.kind == "task":
            if call.caller.supports(TASKS_EXTENSION):
                return outcome
            raise InvalidReplyError(
                self._server, "it answered with a task, which the client does not support"
            )
        if forward.marks:
            check_input_requests(self._server, call, body)
        return outcome.with_body(self._sealed(forward, body)) if forward.binds else outcome

    def _marked(self, forward: Forward) -> str:
        return self._server if forward.marks else ""

    def _listener(self, forward: Forward, token: str | None, *, is_shared: bool = False) -> LoneListener:
        """Where one server speaks to one client, nothing is left out of what it says."""
        if forward.marks or is_shared:
            return CallListener(forward.call, self._marked(forward), token)
        return LoneListener(forward.call, "") if token is None else BareCallListener(forward.call, "", token)

    def _spoken_on(self, forward: Forward) -> Call:
        """The call as the server speaks on it."""
        call = forward.call
        return replace(call, channel=ServerChannel(call.channel, self._server)) if forward.marks else call

    def _sealed(self, forward: Forward, result: RawResult) -> RawResult:
        """Bind the state to this caller, so that no other caller can send it back, and mark the questions."""
        if isinstance(result, Spooled):
            return result
        members = decode_params(result, dict[str, Raw])
        if forward.marks and "inputRequests" in members:
            members["inputRequests"] = raw(questions(self._server, members["inputRequests"]))
        if (state := members.get("requestState")) is not None:
            bound = msgspec.json.encode([forward.call.caller.principal.binding, self._server, state])
            members["requestState"] = raw(self._sealer.seal(bound, _PURPOSE))
        return raw(members)

    def _unsealed(self, call: Call, state: Raw) -> Raw:
        try:
            opened = self._sealer.open(decode_params(state, str), _PURPOSE)
            principal, server, inner = msgspec.json.decode(opened, type=tuple[str, str, Raw])
        except (BrokenSeal, msgspec.DecodeError):
            raise InvalidParams(INVALID_STATE, INVALID_STATE_DATA) from None
        if principal != call.caller.principal.binding or server != self._server:
            raise InvalidParams(INVALID_STATE, INVALID_STATE_DATA)
        return Raw(bytes(inner))

    async def _in_rounds(self, connection: UpstreamConnection, forward: Forward) -> Outcome:
        """A legacy caller of a modern upstream: ask the client, send the call again, and follow tasks."""
        call, method = forward.call, forward.method
        extensions = connection.about.capabilities.get("extensions")
        tasks = isinstance(extensions, dict) and TASKS_EXTENSION in extensions
        params = self._meta.add(call, forward.params, tasks)
        for number in range(MAX_ROUNDS):
            token = None
            if call.progress_token is not None and connection.shares_tokens:
                params, token = with_own_token(params)
            try:
                body = await connection.request(
                    method, params, self._listener(forward, token), token, forward.headers
                )
            except McpError as error:
                if method == "tools/call" and _is_about_asking(error, number):
                    return Outcome.of(encode(error_result(error.message)), is_error=True)
                raise _as_legacy_error(method, error) from None
            outcome = read_outcome(self._server, body)
            if outcome.kind == "complete" or isinstance(body, Spooled):
                return as_legacy(replace(outcome, kind="complete"))
            if outcome.kind == "task":
                meta = self._meta.add(call, {}, tasks)
                ended = await follow_task(connection, self._spoken_on(forward), body, meta)
                return read_outcome(self._server, ended, modern=False)
            check_input_requests(self._server, call, body)
            params |= await ask_all(self._spoken_on(forward), body)
        raise InvalidReplyError(self._server, f"it asked for input {MAX_ROUNDS} times and did not finish")

    # A legacy upstream

    async def _plainly(self, connection: UpstreamConnection, forward: Forward) -> Outcome:
        call, params = forward.call, forward.params
        if self.connections.is_own(call):
            token = None if call.progress_token is None else str(call.progress_token)
            listener = self._listener(forward, None)
        else:
            params, token = for_legacy(call, params)
            listener = self._listener(forward, token, is_shared=True)
        await self._set_level(connection, forward)
        headers = _without_mirrored(forward.headers)
        body = await connection.request(forward.method, params, listener, token, headers)
        if forward.method in SUBSCRIBING:
            note_subscription(connection, forward.method, params)
        if forward.method == SET_LEVEL:
            with suppress(McpError):  # it has taken a level that we do not know
                connection.standing.log_level = decode_params(raw(params), SetLevelParams).level
        return read_outcome(self._server, body, modern=False)

    async def _parking(self, connection: UpstreamConnection, forward: Forward) -> Outcome:
        """A modern caller of a legacy upstream: a question parks the call until the client answers."""
        call, method, params = forward.call, forward.method, forward.params
        if "requestState" in params:
            body = await self._parked.resume(call, method, params)
        else:
            params, token = for_legacy(call, params)
            await self._set_level(connection, forward)
            try:
                if not askable(call.caller):  # the upstream cannot ask
                    ours = call.caller is GATEWAY_CALLER
                    listener = SILENT if ours else self._listener(forward, token, is_shared=True)
                    body = await connection.request(
                        method, params, listener, token, _without_mirrored(forward.headers)
                    )
                else:
                    parked = ParkedCall(call, self._marked(forward), token, method, params)
                    asking = connection.request(
                        method, params, parked, token, _without_mirrored(forward.headers)
                    )
                    body = await self._parked.begin(parked, self._counted(asking))
            except McpError as error:
                raise _as_modern_error(error) from None
        if isinstance(body, InputRequiredResult):
            return Outcome.of(encode(body), "input_required")
        plain = read_outcome(self._server, body, modern=False)
        return plain.with_body(as_modern(method, body, connection.about.info))

    async def _counted(self, request: Awaitable[RawResult]) -> RawResult:
        """Count a call that may be parked, so that `idle` waits for it even without its client."""
        self._waiting += 1
        try:
            return await request
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._none_waiting.set()

    async def _set_level(self, connection: UpstreamConnection, forward: Forward) -> None:
        """Set a session's log level to the lowest that any caller wants; callers get only their own."""
        call, caller = forward.call, forward.call.caller
        if forward.method == SET_LEVEL:
            return
        wanted = caller.log_level if caller.era == "modern" else call.session and call.session.log_level
        if not wanted or wanted not in LEVELS or "logging" not in connection.about.capabilities:
            return
        known = connection.standing.log_level
        if known is None or LEVELS.index(wanted) < LEVELS.index(known):
            connection.standing.log_level = wanted
            try:
                level = {"level": raw(wanted)}
                await connection.request(SET_LEVEL, level, SILENT)
            except UpstreamError:
                raise
            except McpError:
                pass  # it declares logging but does not support it

    # Upstream

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        pool = self.connections
        return (await (pool.any() if call is None else pool.get(call))).about

    async def reset(self) -> None:
        await self.connections.reset()

    async def idle(self) -> None:
        while self._waiting:
            self._none_waiting.clear()
            await self._none_waiting.wait()

    def close_idle(self) -> None:
        self.connections.close_idle()

    async def close(self) -> None:
        await self.connections.close()

    def starting(self) -> StartProgress | None:
        return self.connections.starting()

    def client_seen(self, call: Call) -> None:
        self.connections.client_seen(profile_of(call.caller, call.session), call.caller.era)

    def end_session(self, call: Call) -> None:
        self.connections.end_session(call)

    def is_own(self, call: Call) -> bool:
        return self.connections.is_own(call)

    async def notified(self, call: Call) -> None:
        connection = self.connections.session_of(call)
        if connection is not None:
            await connection.notify(call.method, call.members())

    async def listen(self, call: Call) -> None:
        if not self.is_own(call) or call.session is None:
            return
        with self.connections.home(call, LoneListener(call, "")):
            while True:
                try:
                    connection = await self.connections.get(call)
                    await renew_subscriptions(connection, call.session.subscriptions)
                    await until_closed(connection)
                except McpError:
                    await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    def abandon(self, state: str) -> None:
        self._parked.abandon(state)


def _without_mirrored(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Remove headers that repeat arguments: a legacy upstream does not read them."""
    return headers and {name: value for name, value in headers.items() if not name.startswith(PARAM_PREFIX)}


def _is_about_asking(error: McpError, round: int) -> bool:
    """Whether asking the client failed. A legacy client gets that as the tool's result, as from a legacy
    upstream."""
    if isinstance(error, UpstreamError):
        return False
    return error.code == MISSING_CAPABILITY or (round > 0 and error.code == INVALID_PARAMS)


def _as_legacy_error(method: str, error: McpError) -> McpError:
    data: Any = error.data
    not_found = isinstance(data, dict) and "uri" in data
    if method == "resources/read" and error.code == INVALID_PARAMS and not_found:
        return McpError(RESOURCE_NOT_FOUND, error.message, error.data)
    return error


def _as_modern_error(error: McpError) -> McpError:
    if error.code == RESOURCE_NOT_FOUND:
        return McpError(INVALID_PARAMS, error.message, error.data)
    return error
