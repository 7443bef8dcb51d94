"""The ASGI app: records every request, lets faults strike, checks the key, finds the operation, replies."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from . import accounts, configs, files, inside, labs, servers, sessions, toolkits, tools
from .asked import Asked, Operation, Reply
from .desk import Desk
from .endpoint import SEAT
from .faults import Fault, Faults
from .incoming import Gone, Incoming, Receive, Record, Scope, Send
from .refusals import Refusal, expired, not_found, unauthorised
from .world import Session, World

PARTS = (sessions, inside, files, tools, toolkits, configs, accounts, servers, labs)
API = [operation for part in PARTS for operation in part.OPERATIONS]
OPEN = [*accounts.BROWSER, *files.STORE]
"""For browsers and for who was given an address: no key."""
OPERATIONS = {operation.name for operation in [*API, *OPEN]}
"""Their names, for faults and records. The names of MCP requests follow from the message."""

RATE = {"X-RateLimit": "600", "X-RateLimit-Remaining": "599", "X-RateLimit-Window-Size": "60"}
SESSION_MCP = re.compile(r"/tool_router/([^/]+)/mcp/?")
SERVER_MCP = re.compile(r"/v3/mcp/([^/]+)(/mcp)?/?")
FORK_HEADER = "x-composio-session-id"
GARBAGE = Reply(b'<html>{"data": [oops')


def can_be(name: str) -> bool:
    """Whether an operation, or a part of one, may be called so."""
    known = {"*", "unknown", *OPERATIONS, *(part for each in OPERATIONS for part in each.split("."))}
    of_mcp = name.split(".")[0] == "mcp" or "/" in name or name.isupper() or name == "initialize"
    return name in known or of_mcp


class Dropped(Exception):
    """The connection is to be cut without a reply."""


@dataclass
class Door:
    world: World
    api_key: str
    faults: Faults
    mcp: StreamableHTTPSessionManager
    drop: Callable[[Scope], None]
    url: str = ""
    apis: tuple[str, ...] = ("v3", "v3.1")
    shape: str = "2026"
    records: list[Record] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(Gone):
            request = await Incoming.read(scope, receive, send)
            try:
                await self._serve(request)
            except Refusal as refusal:
                await request.reply(Reply(refusal.body, refusal.status, refusal.headers))
            except Dropped:
                self.drop(scope)

    async def _serve(self, request: Incoming) -> None:
        if SESSION_MCP.fullmatch(request.path) or SERVER_MCP.fullmatch(request.path):
            await self._serve_mcp(request)
        else:
            await self._serve_api(request)

    async def _serve_api(self, request: Incoming) -> None:
        operation, api, values = self._find(request.method, request.path)
        name = operation.name if operation else "unknown"
        self.records.append(request.record(name))
        fault = await self._strike(name, values.get("session_id", ""))
        if fault is not None and fault.kind == "garbage":
            await request.reply(GARBAGE)
            return
        if operation is None:
            raise not_found("Endpoint", f"{request.method} {request.path}")
        if operation not in OPEN:
            self._check_key(request.headers)
        asked = Asked(
            name,
            self.world,
            self.url,
            api,
            values,
            request.query,
            request.headers,
            operation.checked(request.raw, request.query),
            request.raw,
            fault is not None and fault.kind == "empty",
            fault.kind if fault is not None else "",
            self.shape,
        )
        reply = await operation.answer(asked)
        reply.headers.update(RATE)
        if fault is not None and fault.kind == "cut":
            await request.reply_half(reply)
            raise Dropped
        await request.reply(reply)

    async def _serve_mcp(self, request: Incoming) -> None:
        record = request.record(_mcp_operation(request))
        self.records.append(record)
        match = SESSION_MCP.fullmatch(request.path)
        fault = await self._strike(record.operation, match[1] if match else "")
        if fault is not None and fault.kind == "garbage":
            await request.reply(GARBAGE)
            return
        self._check_fork_session(request.headers)
        is_empty = fault is not None and fault.kind == "empty"
        request.scope[SEAT] = Desk(self.world, self._seat(request), self.url, self.shape, is_empty)
        await self.mcp.handle_request(request.scope, request.replayed(), request.send)

    def _seat(self, request: Incoming) -> Session:
        if match := SESSION_MCP.fullmatch(request.path):
            self._check_key(request.headers)
            return self.world.session(match[1])
        match = SERVER_MCP.fullmatch(request.path)
        assert match is not None
        # The address of such a server is a secret itself: a key is not needed, a wrong one is refused.
        if "x-api-key" in request.headers:
            self._check_key(request.headers)
        return servers.seat(self.world, match[1], request.query)

    async def _strike(self, operation: str, session: str) -> Fault | None:
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
        """The operation, its API version, and the values in its path."""
        for operation in OPEN:
            values = _match(operation.path, path)
            if values is not None and operation.method == method:
                return operation, "", values
        _, prefix, rest = path.partition("/api/")
        api, _, rest = rest.partition("/")
        offered = API if prefix and api in self.apis else []
        for operation in offered:
            values = _match(operation.path, rest)
            if values is not None and operation.method == method and api in operation.apis:
                return operation, api, values
        return None, api, {}


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


def _mcp_operation(request: Incoming) -> str:
    """`mcp.GET`, `mcp.tools/list`, `mcp.tools/call.COMPOSIO_SEARCH_TOOLS`, …"""
    if request.method != "POST":
        return f"mcp.{request.method}"
    try:
        message = json.loads(request.raw)
        name = message["params"]["name"] if message["method"] == "tools/call" else ""
        return ".".join(part for part in ("mcp", message["method"], name) if part)
    except (ValueError, KeyError, TypeError):
        return "mcp.POST"
