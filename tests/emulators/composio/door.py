"""The ASGI app: records every request, lets faults strike, checks the key, finds the operation, replies."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from . import accounts, configs, files, inside, labs, servers, sessions, toolkits, tools
from .asked import Asked, Operation, Reply
from .desk import Desk
from .endpoint import SEAT
from .faults import Fault, Faults
from .refusals import Refusal, expired, not_found, unauthorised
from .world import Session, World

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Drop = Callable[[Scope], None]

PARTS = (sessions, inside, files, tools, toolkits, configs, accounts, servers, labs)
API = [operation for part in PARTS for operation in part.OPERATIONS]
OPEN = [*accounts.BROWSER, *files.STORE]
"""For browsers and for who was given an address: no key."""
RATE = {"X-RateLimit": "600", "X-RateLimit-Remaining": "599", "X-RateLimit-Window-Size": "60"}
SESSION_MCP = re.compile(r"/tool_router/([^/]+)/mcp/?")
SERVER_MCP = re.compile(r"/v3/mcp/([^/]+)(/mcp)?/?")
PROXIED = re.compile(r"http://[^/]+")
"""How a request begins that a client sends to its HTTP proxy, which the emulator can be: see `storage`."""
FORK_HEADER = "x-composio-session-id"


class Dropped(Exception):
    """The connection is to be cut without a reply."""


@dataclass(frozen=True)
class Record:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    """Decoded if it was JSON, else bytes; None if there was none."""
    operation: str


@dataclass
class Door:
    world: World
    api_key: str
    faults: Faults
    mcp: StreamableHTTPSessionManager
    drop: Drop
    url: str = ""
    apis: tuple[str, ...] = ("v3", "v3.1")
    shape: str = "2026"
    records: list[Record] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        raw = await _body(receive)
        try:
            try:
                await self._serve(scope, raw, receive, send)
            except Refusal as refusal:
                await _send(send, Reply(refusal.body, refusal.status, refusal.headers))
        except Dropped:
            self.drop(scope)

    async def _serve(self, scope: Scope, raw: bytes, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
        path, method = PROXIED.sub("", scope["raw_path"].decode(), count=1), scope["method"]
        if SESSION_MCP.fullmatch(path) or SERVER_MCP.fullmatch(path):
            self._record(method, path, query, headers, raw, _mcp_operation(method, raw))
            await self._mcp(path, query, scope, headers, raw, receive, send)
            return
        operation, api, values = self._find(method, path)
        name = operation.name if operation else "unknown"
        self._record(method, path, query, headers, raw, name)
        session = values.get("session_id", "")
        fault = await self._strike(name, session, send)
        if fault is not None and fault.kind == "garbage":
            await _garbage(send)
            return
        if operation is None:
            raise not_found("Endpoint", f"{method} {path}")
        if operation not in OPEN:
            self._check_key(headers)
        body = operation.checked(raw, query)
        is_empty = fault is not None and fault.kind == "empty"
        asked = Asked(
            name, self.world, self.url, api, values, query, headers, body, raw, is_empty, self.shape
        )
        reply = await operation.answer(asked)
        reply.headers.update(RATE)
        await _send(send, reply)

    async def _mcp(
        self,
        path: str,
        query: dict[str, list[str]],
        scope: Scope,
        headers: dict[str, str],
        raw: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        match = SESSION_MCP.fullmatch(path)
        fault = await self._strike(self.records[-1].operation, match[1] if match else "", send)
        if fault is not None and fault.kind == "garbage":
            await _garbage(send)
            return
        self._check_fork_session(headers)
        session = self._seat(path, query, headers)
        is_empty = fault is not None and fault.kind == "empty"
        scope[SEAT] = Desk(self.world, session, self.url, self.shape, is_empty)
        await self.mcp.handle_request(scope, _again(raw, receive), send)

    def _seat(self, path: str, query: dict[str, list[str]], headers: dict[str, str]) -> Session:
        if match := SESSION_MCP.fullmatch(path):
            self._check_key(headers)
            return self.world.session(match[1])
        match = SERVER_MCP.fullmatch(path)
        assert match is not None
        # The address of such a server is a secret itself: a key is not needed, a wrong one is refused.
        if "x-api-key" in headers:
            self._check_key(headers)
        return servers.seat(self.world, match[1], query)

    async def _strike(self, operation: str, session: str, send: Send) -> Fault | None:
        """Let the next fault for this operation strike; those that spoil a reply are left to the caller."""
        fault = self.faults.next(operation)
        if fault is None:
            return None
        if fault.kind == "slow":
            await fault.wait()
        elif fault.kind == "drop":
            raise Dropped
        elif fault.kind in ("status", "expired"):
            raise fault.refusal(session)
        return fault

    def _check_key(self, headers: dict[str, str]) -> None:
        if headers.get("x-api-key") != self.api_key:
            raise unauthorised()

    def _check_fork_session(self, headers: dict[str, str]) -> None:
        """The header is the Suna fork's; where it is sent, it must name a session that lives."""
        id = headers.get(FORK_HEADER)
        if id is None:
            return
        held = self.world.sessions.get(id)
        if held is None:
            raise unauthorised(f"Session {id} is invalid")
        if held.expired_with is not None:
            raise expired(id, held.expired_with if held.expired_with >= 400 else 401)

    def _find(self, method: str, path: str) -> tuple[Operation | None, str, dict[str, str]]:
        for operation in OPEN:
            values = _match(operation.path, path)
            if values is not None and operation.method == method:
                return operation, "", values
        _, prefix, rest = path.partition("/api/")
        api, _, rest = rest.partition("/")
        for operation in API:
            if not prefix or api not in self.apis or api not in operation.apis or operation.method != method:
                continue
            values = _match(operation.path, "/" + rest)
            if values is not None:
                return operation, api, values
        return None, api, {}

    def _record(
        self,
        method: str,
        path: str,
        query: dict[str, list[str]],
        headers: dict[str, str],
        raw: bytes,
        operation: str,
    ) -> None:
        body: Any = raw or None
        if raw and headers.get("content-type", "").startswith("application/json"):
            try:
                body = json.loads(raw)
            except ValueError:
                body = raw
        self.records.append(Record(method, path, query, headers, body, operation))


def _match(template: str, path: str) -> dict[str, str] | None:
    parts, given = template.strip("/").split("/"), path.strip("/").split("/")
    if len(parts) != len(given):
        return None
    values: dict[str, str] = {}
    for part, value in zip(parts, given, strict=True):
        if part.startswith("{"):
            values[part.strip("{}")] = unquote(value)
        elif part != value:
            return None
    return values


def _mcp_operation(method: str, raw: bytes) -> str:
    """`mcp.GET`, `mcp.tools/list`, `mcp.tools/call.COMPOSIO_SEARCH_TOOLS`, …"""
    if method != "POST":
        return f"mcp.{method}"
    try:
        message = json.loads(raw)
        name = message["params"]["name"] if message["method"] == "tools/call" else ""
        return ".".join(part for part in ("mcp", message["method"], name) if part)
    except (ValueError, KeyError, TypeError):
        return "mcp.POST"


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise asyncio.CancelledError
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body


def _again(raw: bytes, receive: Receive) -> Receive:
    """The body once more, for an app that reads it itself."""
    waiting = [{"type": "http.request", "body": raw, "more_body": False}]

    async def next_event() -> dict[str, Any]:
        return waiting.pop() if waiting else await receive()

    return next_event


async def _garbage(send: Send) -> None:
    """A reply that claims to be JSON."""
    await _send(send, Reply(b'<html>{"data": [oops', headers={"Content-Type": "application/json"}))


async def _send(send: Send, reply: Reply) -> None:
    body = reply.bytes
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    headers |= {name.lower(): value for name, value in reply.headers.items()}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
