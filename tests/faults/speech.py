"""What an honest, small MCP server says, in either era. Pure: the transports around it do the misbehaving.

Written from the specification and on nothing of ours, so that the gateway is not measured against itself.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, Literal

Era = Literal["legacy", "modern"]
Message = dict[str, Any]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
CHANGED = "notifications/tools/list_changed"
HUGE = 100_000

_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_READ_ONLY = {"readOnlyHint": True, "idempotentHint": True}
TOOLS: list[Message] = [
    {"name": "echo", "description": "Says it back.", "inputSchema": _TEXT, "annotations": _READ_ONLY},
    {"name": "write", "description": "Must not be done twice.", "inputSchema": _TEXT},
]

_PART = b"x" * 2**16

_flapping = count()
_huge: list[bytes] = []


def reply_to(message: Message, era: Era) -> Message | None:
    """The answer to a request; None for what has no answer."""
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        return None
    params: Message = message.get("params") or {}
    answers = _modern if era == "modern" else _legacy
    result = answers(method, params)
    if result is None:
        return {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": f"No method {method}"}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


def is_foreign(message: Message, era: Era) -> bool:
    """Whether a request belongs to the era that this server does not speak."""
    meta: Message = (message.get("params") or {}).get("_meta") or {}
    modern = PREFIX + "protocolVersion" in meta
    return modern != (era == "modern")


def _legacy(method: str, params: Message) -> Message | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": LEGACY,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return _called(params)
    return None


def _modern(method: str, params: Message) -> Message | None:
    match method:
        case "server/discover":
            result: Message = {
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {"listChanged": True}},
                "instructions": "",
                "ttlMs": 0,
                "cacheScope": "public",
            }
        case "tools/list":
            result = {"tools": TOOLS, "ttlMs": 0, "cacheScope": "public"}
        case "tools/call":
            result = _called(params)
        case _:
            return None
    return result | {
        "resultType": "complete",
        "_meta": {PREFIX + "serverInfo": {"name": "faulty", "version": "1"}},
    }


def _called(params: Message) -> Message:
    return {"content": [{"type": "text", "text": str(params.get("arguments", {}).get("text", ""))}]}


def named(call: Message) -> str:
    """A tools/call as one line, for the journal."""
    params = call["params"]
    return f"call {params['name']} {params['arguments'].get('text')}"


def acknowledgement(listen: Message) -> Message:
    """What opens the stream of a `subscriptions/listen`."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": {PREFIX + "subscriptionId": listen["id"]}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def changed(subscription: Any = None) -> Message:
    """A change notification, for the modern subscription with this id or for a legacy stream."""
    params = {} if subscription is None else {"_meta": {PREFIX + "subscriptionId": subscription}}
    return {"jsonrpc": "2.0", "method": CHANGED, "params": params}


def another_list(reply: Message) -> Message:
    """A list that differs from every one before it."""
    extra = {"name": f"flap_{next(_flapping)}", "inputSchema": {"type": "object"}}
    return reply | {"result": reply["result"] | {"tools": [*TOOLS, extra]}}


def endless_list(reply: Message) -> Message:
    """A page that promises one more, as does each of them."""
    page = next(_flapping)
    extra = {"name": f"page_{page}", "inputSchema": {"type": "object"}}
    return reply | {"result": reply["result"] | {"tools": [*TOOLS, extra], "nextCursor": str(page)}}


def huge_list(reply: Message) -> bytes:
    if not _huge:
        more = b"".join(b', {"name": "tool_%d", "inputSchema": {"type": "object"}}' % n for n in range(HUGE))
        _huge.append(json.dumps(TOOLS).encode()[:-1] + more + b"]")
    return _huge[0].join(_around(reply, {"tools": "HOLE"}, b'"HOLE"'))


def big_result(reply: Message, size: int) -> Iterator[bytes]:
    """In parts that cost nothing to make: the CPU of this process is not what a test wants to measure."""
    content = [{"type": "text", "text": "HOLE"}]
    before, after = _around(reply, {"content": content}, b"HOLE")
    yield before
    for _ in range(size // len(_PART)):
        yield _PART
    yield after + b"\n"


def _around(reply: Message, members: Message, hole: bytes) -> list[bytes]:
    return json.dumps(reply | {"result": reply["result"] | members}).encode().split(hole)
