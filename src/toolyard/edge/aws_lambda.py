"""The edge of an AWS Lambda function: HTTP requests that come as events, both eras, no connection to keep.

Owns what is HTTP here: paths, methods, CORS, who may enter, and an answer before the function's time is up.
Nothing of a request outlives it. What a function cannot do, it says: it keeps no stream open (no GET, no
`subscriptions/listen`), ends no session, and asks legacy clients nothing.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ..telemetry.observed import current
from ..wire.call import NO_CHANNEL, Call, Service
from ..wire.errors import InternalError, McpError, MethodNotFound
from ..wire.messages import Message, decode_params, encode, parse, recover_id
from ..wire.seal import Sealer
from ..wire.types import InitializeParams
from .accepting import Acceptance
from .answer import take_notification
from .asgi import Headers
from .guard import Guard
from .identity import Refused
from .lambda_events import MOST_BYTES, Request
from .lambda_invocation import Fit, Invocation
from .lambda_outlets import Outlet
from .legacy_calls import call_of, passer_by, session_of, turned_away
from .sessions import Sessions
from .tenants import CallerKeys, Tenants
from .understanding import Understanding, wrong_form

logger = logging.getLogger("toolyard.edge")

HEALTH = "/health"
NEEDS_STREAMS = frozenset({"subscriptions/listen", "resources/subscribe", "resources/unsubscribe"})
LAST_MOMENT = 0.1
"""Seconds that a call has to tidy up after it was stopped."""
# Where Python can (3.12), a request is begun at once and not in the loop's next turn, which is a system call.
_EAGERLY: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
_ALLOWED: Headers = [(b"allow", b"POST, OPTIONS")]


class Entry(Struct, frozen=True):
    """A server at one path."""

    name: str
    service: Service
    sealer: Sealer
    keys: Callable[[], CallerKeys | None] | None = None


class LambdaEdge:
    """`entries` by their paths; `origins` whose pages may call, all of them unless some are named."""

    def __init__(
        self, entries: Mapping[str, Entry], *, origins: list[str] | None = None, fit: Fit | None = None
    ) -> None:
        self._entries = dict(entries)
        self._tenants = {
            path: Tenants(entry.keys, entry.sealer)
            for path, entry in entries.items()
            if entry.keys is not None
        }
        self._guard = Guard(["*"], origins or ["*"])
        self._fit = fit
        self._acceptance = Acceptance()
        self._understanding = Understanding()

    async def serve(
        self, request: Request, outlet: Outlet, seconds: float | None, request_id: str = ""
    ) -> Invocation:
        """Answer a request, within so many seconds. The answer is in the outlet, how it went is returned."""
        it = Invocation(request, outlet)
        it.seen.request_id = request_id
        loop = asyncio.get_running_loop()
        # What `asyncio.wait` does, at less than half its price: it was a tenth of a short request.
        ended: asyncio.Future[bool] = loop.create_future()
        working = asyncio.Task(self._work(it, ended), loop=loop, **_EAGERLY)
        timer = None if seconds is None else loop.call_later(seconds, _settle, ended, False)
        try:
            in_time = await ended
            if timer is not None:
                timer.cancel()
            if in_time or seconds is None:
                working.result()  # what the outlet raised: it is lost, and so is the answer
            else:
                working.cancel()
                await asyncio.wait({working}, timeout=LAST_MOMENT)
                await it.too_late(seconds)
        finally:
            it.forget()
        return it

    async def _work(self, it: Invocation, ended: "asyncio.Future[bool]") -> None:
        current.set(it.seen)
        try:
            await self._route(it)
        except asyncio.CancelledError as error:
            if ended.done():  # by us: the time is up
                raise
            # By its own code. AWS's loop does not catch it, so the instance would end.
            logger.error("a request was cancelled from inside", exc_info=error)
            await it.fail(500, InternalError(), None if it.call is None else it.call.id)
        except Exception as error:  # the last net: the instance goes on
            logger.error("a request failed", exc_info=error)
            await it.fail(500, InternalError())
        finally:
            _settle(ended, True)

    # Where to

    async def _route(self, it: Invocation) -> None:
        method, path = it.method, it.path.rstrip("/")
        refusal = self._guard.refusal(it.head)
        if refusal is not None:
            await it.refuse(*refusal)
            return
        if b"origin" in it.head.raw:
            it.headers = self._guard.cors(it.head)
        if path == HEALTH and method in ("GET", "HEAD"):
            await it.finish(200, b"" if method == "HEAD" else encode(self._health()))
        elif path != HEALTH and path not in self._entries:
            known = ", ".join(repr(name) for name in self._entries)
            await it.refuse(404, f"Nothing at {it.path[:80]!r}; the MCP endpoint is {known}")
        elif method == "OPTIONS":
            await it.empty(204, self._preflight(it))
        elif path == HEALTH:
            await it.refuse(405, f"{method[:20]} is not allowed here", [(b"allow", b"GET, HEAD, OPTIONS")])
        elif method != "POST":
            await it.refuse(405, f"{method[:20]} is not allowed here: a function keeps no streams", _ALLOWED)
        else:
            await self._enter(it, path)

    def _health(self) -> object:
        told = [entry.service.health() for entry in self._entries.values()]
        return told[0] if len(told) == 1 else {"status": "ok", "servers": told}

    def _preflight(self, it: Invocation) -> Headers:
        requested = it.head.raw.get(b"access-control-request-headers") or b"content-type"
        allowed: Headers = [
            (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
            (b"access-control-allow-headers", requested),
            (b"access-control-max-age", b"600"),
        ]
        return allowed if it.headers else [(b"access-control-allow-origin", b"*"), *allowed]

    async def _enter(self, it: Invocation, path: str) -> None:
        entry = self._entries[path]
        it.seen.server = entry.name
        tenants = self._tenants.get(path)
        if tenants is not None:
            try:
                it.identity, it.secrets = await tenants.enter(it.head, it.identity)
            except Refused as refused:
                await it.refuse(refused.status, refused.message, refused.headers)
                return
        await self._post(it, entry)

    # What

    async def _post(self, it: Invocation, entry: Entry) -> None:
        body = it.body
        it.accepted = self._acceptance.of(it.head.raw.get(b"accept"))
        wrong = wrong_form(it.head, it.accepted)
        most = MOST_BYTES[it.kind]
        if wrong is None and len(body) > most:
            wrong = 413, f"The body is over the limit of {most} bytes"
        if wrong is not None:
            await it.refuse(*wrong)
            return
        try:
            message = parse(body)
            call = self._understanding.call_of(it.head, it.identity, body, message)
        except McpError as error:
            await it.fail(error.http_status, error, recover_id(body))
            return
        if call is None:
            await self._legacy(it, entry, message)
        else:
            call.secrets = it.secrets
            await self._answer(it, entry, call)

    async def _answer(self, it: Invocation, entry: Entry, call: Call) -> None:
        if call.id is None:
            it.take(call)
            await take_notification(entry.service, call)
            await it.empty(202)
        elif call.method in NEEDS_STREAMS:
            it.take(call)
            await it.fail(
                404, MethodNotFound("subscriptions/listen, by a function: it keeps no streams"), call.id
            )
        else:
            await it.run(entry.service, call, self._fit)

    async def _legacy(self, it: Invocation, entry: Entry, message: Message) -> None:
        sessions = Sessions(entry.sealer)  # made for each request: what it remembers goes with it
        if message.method == "initialize" and message.is_request:
            await self._initialize(it, entry, message, sessions)
            return
        opened = session_of(sessions, it.head, it.identity) or passer_by(
            sessions, it.head, it.identity, message
        )
        if opened is None:
            it.outcome = "invalid"
            await it.finish(*turned_away(it.head, message.id))
        elif isinstance(message.method, str):
            call = call_of(it.body, message, opened, opened.session, it.secrets)
            await self._answer(it, entry, call)
        else:
            await it.empty(202)  # the answer to a question that no function asked

    async def _initialize(self, it: Invocation, entry: Entry, message: Message, sessions: Sessions) -> None:
        assert isinstance(message.method, str)
        assert isinstance(message.id, int | str)
        try:
            id, caller, session = sessions.start(decode_params(message.params, InitializeParams), it.identity)
        except McpError as error:
            await it.fail(400, error, message.id)
            return
        call = Call(message.method, message.params, caller, NO_CHANNEL, message.id, session=session)
        it.headers.append((b"mcp-session-id", id.encode()))
        await it.run(entry.service, call, None)


def _settle(ended: "asyncio.Future[bool]", in_time: bool) -> None:
    if not ended.done():
        ended.set_result(in_time)
