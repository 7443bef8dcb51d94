"""What stands between HTTP and a function: a request as a Function URL's event, a reply as HTTP again.

Written from AWS's description of payload 2.0, not from our reader of it: neither may vouch for the other.
"""

import base64
import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_EVENT = 6 * 1024 * 1024
"""Bytes that an invocation may bring, and a buffered reply may have."""

PRELUDE_END = b"\0" * 8
"""Between the status and headers of a streamed reply, which are JSON, and its body."""

_DOMAIN = "abcdefghij.lambda-url.us-east-1.on.aws"
_PLAIN = ("text/", "application/json", "application/javascript", "application/xml")


@dataclass(frozen=True)
class Asked:
    """One HTTP request."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class Answered:
    """One HTTP reply."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def event_of(asked: Asked) -> dict[str, Any]:
    """The event that a function at a Function URL would get."""
    headers = _joined(asked.headers)
    content_type = headers.get("content-type", "")
    plain = not asked.body or content_type.startswith(_PLAIN)
    body = asked.body.decode("utf-8", "replace") if plain else base64.b64encode(asked.body).decode()
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": asked.path,
        "rawQueryString": asked.query,
        "headers": headers | {"x-forwarded-proto": "https", "x-forwarded-port": "443"},
        "requestContext": _context(asked, headers),
        "isBase64Encoded": not plain,
    }
    return event | ({"body": body} if asked.body else {})


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        lower = name.lower()
        found[lower] = f"{found[lower]},{value}" if lower in found else value
    return found


def _context(asked: Asked, headers: dict[str, str]) -> dict[str, Any]:
    now = time.time()
    return {
        "accountId": "anonymous",
        "apiId": "abcdefghij",
        "domainName": _DOMAIN,
        "domainPrefix": "abcdefghij",
        "http": {
            "method": asked.method,
            "path": asked.path,
            "protocol": "HTTP/1.1",
            "sourceIp": "127.0.0.1",
            "userAgent": headers.get("user-agent", ""),
        },
        "requestId": str(uuid.uuid4()),
        "routeKey": "$default",
        "stage": "$default",
        "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
        "timeEpoch": int(now * 1000),
    }


def answer_of(returned: bytes) -> Answered:
    """What a Function URL makes of what a function returned: JSON, or the gathered pieces of a stream."""
    prelude, separator, streamed = returned.partition(PRELUDE_END)
    if separator:
        said = json.loads(prelude)
        return Answered(said["statusCode"], list(said.get("headers", {}).items()), streamed)
    if len(returned) > MAX_EVENT:
        return Answered(502, [], b'{"Message":"Internal Server Error"}')
    value = json.loads(returned)
    if isinstance(value, dict) and "errorType" in value and "statusCode" not in value:
        return Answered(502, [], b'{"Message":"Internal Server Error"}')
    if not isinstance(value, dict) or "statusCode" not in value:
        return Answered(200, [("content-type", "application/json")], returned)
    body: str = value.get("body") or ""
    content = base64.b64decode(body, validate=True) if value.get("isBase64Encoded") else body.encode()
    headers = [(name, str(text)) for name, text in (value.get("headers") or {}).items()]
    cookies = [("set-cookie", cookie) for cookie in value.get("cookies") or []]
    return Answered(int(value["statusCode"]), headers + cookies, content)
