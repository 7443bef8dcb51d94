"""What a function writes to its log of each request: one line, and nothing of what was said in it."""

import logging
import time
from pathlib import Path

from ..telemetry.logs import write
from .lambda_invocation import Invocation

requests = logging.getLogger("toolyard.requests")

_KEY = "key:"
_SHOWN = 12
"""Hexadecimal digits of a key's keyed hash."""


def tell(it: Invocation, seconds: float, init_ms: float | None) -> None:
    """`init_ms` comes with an instance's first request: what it took to start it."""
    if not requests.isEnabledFor(logging.INFO):
        return
    seen = it.seen
    fields: dict[str, object] = {
        "request_id": seen.request_id,
        "method": seen.method[:80],
        "tool": (seen.name or "")[:80],
        "server": seen.server,
        "key": _key(it.identity.tenant),
        "http_method": it.method[:20],
        "path": it.path[:80],
        "status": it.status,
        "outcome": it.outcome,
        "duration_ms": round(seconds * 1000, 3),
    }
    extra = {name: value for name, value in fields.items() if value not in ("", None)}
    if init_ms is not None:
        extra |= {"cold_start": 1, "init_ms": round(init_ms, 1)}
    write(requests.name, seen.method[:80] or it.method[:20], extra)


def _key(tenant: str) -> str:
    """The part of a tenant's name that is the hash of its key."""
    _, mark, hashed = tenant.rpartition(_KEY)
    return hashed[:_SHOWN] if mark else ""


def since_start() -> float:
    """Milliseconds since this process was started, the interpreter's own start included."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / 100) * 1000
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time() * 1000
