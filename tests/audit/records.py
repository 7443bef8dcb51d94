"""Records to write, and what is read back of them."""

import resource
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from toolyard.audit import AuditRecord
from toolyard.audit.store import AuditStore

KEY = b"a key of the gateway, for tests"
NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def record(number: int = 0, **changes: Any) -> AuditRecord:
    """A call of its own: its number is in its request id."""
    known: dict[str, Any] = {
        "time": NOON + timedelta(seconds=number),
        "outcome": "ok",
        "method": "tools/call",
        "server": "git",
        "tool": "git_log",
        "tenant": "acme",
        "subject": "jane",
        "agent": "writer",
        "credential_kind": "key",
        "credential": "k1",
        "decision": "allow",
        "rule": "writers",
        "request_id": f"r-{number}",
    }
    return AuditRecord(**{**known, **changes})


async def stored_objects(store: AuditStore) -> list[dict[str, Any]]:
    """Every line of every chain, decoded."""
    return [
        msgspec.json.decode(line.data)
        for chain in await store.chains()
        async for line in store.scan(chain)
        if not line.is_torn
    ]


async def request_ids(store: AuditStore) -> list[str]:
    return [found["request_id"] for found in await stored_objects(store) if found["event"] == "call"]


class full_disk:
    """No file of this process can grow beyond so many bytes; a line that crosses the limit is cut."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
