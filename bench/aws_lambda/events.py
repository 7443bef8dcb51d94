"""Calls of `get_ticket` as Function URL events, and whether a reply to one is right."""

from __future__ import annotations

import json
from typing import Any

from bench.aws_lambda.api import mark_of
from bench.connection import WrongReply
from bench.load import Era

VERSION = {"modern": "2026-07-28", "legacy": "2025-11-25"}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION["modern"],
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
Event = dict[str, Any]


def get_ticket(number: int, key: str, era: Era) -> Event:
    """A legacy call without a session, as `curl` sends it; the other library understands nothing else."""
    params: dict[str, Any] = {"name": "get_ticket", "arguments": {"ticket_number": str(number)}}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "host": "abcdefghijklmnop.lambda-url.us-east-1.on.aws",
        "mcp-protocol-version": VERSION[era],
        "user-agent": "bench/1.0",
        "x-forwarded-for": "203.0.113.9",
        "x-forwarded-port": "443",
        "x-forwarded-proto": "https",
        "x-tiflux-api-key": key,
    }
    if era == "modern":
        params["_meta"] = META
        headers |= {"mcp-method": "tools/call", "mcp-name": "get_ticket"}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return _post("/mcp", headers, json.dumps(message))


def _post(path: str, headers: dict[str, str], body: str) -> Event:
    http = {
        "method": "POST",
        "path": path,
        "protocol": "HTTP/1.1",
        "sourceIp": "203.0.113.9",
        "userAgent": "bench/1.0",
    }
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "abcdefghijklmnop",
            "domainName": headers["host"],
            "domainPrefix": "abcdefghijklmnop",
            "http": http,
            "requestId": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
            "routeKey": "$default",
            "stage": "$default",
            "time": "16/Nov/2026:01:00:00 +0000",
            "timeEpoch": 1794790800000,
        },
        "body": body,
        "isBase64Encoded": False,
    }


def check(reply: Any, number: int, key: str) -> None:
    """Checks that the reply answers this call with this tenant's ticket; wrong replies are not timed."""
    try:
        message = json.loads(reply["body"])
        data = message["result"]["structuredContent"]["data"]
        wanted = f"Ticket {number} of {mark_of(key)}"
        right = reply["statusCode"] == 200 and message["id"] == number and data["title"] == wanted
    except (KeyError, TypeError, ValueError):
        right = False
    if not right:
        raise WrongReply(f"get_ticket {number}: {str(reply)[:400]}")
