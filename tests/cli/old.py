"""A server of the legacy era: our own, made to treat modern requests as an SDK of 2025 would."""

import json
from typing import Any

from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import Receive, Scope, Send
from toolyard.kit import Server
from toolyard.wire.versions import LEGACY_VERSIONS

REFUSAL = {
    "jsonrpc": "2.0",
    "id": "server-error",
    "error": {"code": -32600, "message": "Bad Request: Unsupported protocol version"},
}


class OldEdge(HttpEdge):
    """Refuses versions it does not know, and calls an empty 202 JSON."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = dict(scope.get("headers", ()))
        version = sent.get(b"mcp-protocol-version", b"").decode()
        if version and version not in LEGACY_VERSIONS:
            await refuse(send)
            return

        async def send_as_of_old(event: Any) -> None:
            if event.get("status") == 202:
                event["headers"] = [*event["headers"], (b"content-type", b"application/json")]
            await send(event)

        await super().__call__(scope, receive, send_as_of_old)


async def refuse(send: Send) -> None:
    body = json.dumps(REFUSAL).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def old_edge(server: Server) -> OldEdge:
    return OldEdge(server.service, server.sealer)
