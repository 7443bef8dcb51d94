"""Requests to observe."""

from typing import Any

from msgspec import Raw

from toolyard.telemetry.requests import ObservedRequest
from toolyard.wire.call import Caller, ClientInfo, Identity, Principal

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"

ALICE = Caller(
    "2026-07-28", {}, ClientInfo("editor", "1"), Identity(Principal(tenant="acme", agent="writer"), "t-1")
)


def call(**known: Any) -> ObservedRequest:
    """A tool call forwarded over HTTP; `known` says what is different."""
    plain: dict[str, Any] = {
        "method": "tools/call",
        "server": "git",
        "name": "search",
        "caller": ALICE,
        "transport": "http",
        "request_id": "r-1",
        "rpc_id": 7,
        "request_bytes": 120,
        "address": "tools.example.com",
        "port": 443,
        "upstream_version": "2025-11-25",
    }
    return ObservedRequest(**(plain | known))


def carrying(**values: str) -> dict[str, Raw]:
    """A `_meta` with these string values."""
    return {key: Raw(f'"{value}"'.encode()) for key, value in values.items()}
