"""Names of stored results: ids that cannot be guessed, in a folder of their tenant."""

import hashlib
import re
import time
import uuid
from datetime import UTC, datetime

_ID = re.compile(r"[0-9a-f]{32}")
# Letters that every file system and every bucket takes as they are. Supabase has no `%` and no `~`, and where
# capital letters make no difference two tenants could meet.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_KEY = re.compile(r"[a-z0-9_-]+/mcp/([0-9a-f]{32})\.json")
LONGEST_HINT = 32


def new_id() -> str:
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether it can be one of ours at all; nothing else ever becomes a part of a path."""
    return _ID.fullmatch(text) is not None


def folder_of(tenant: str) -> str:
    """One name for each tenant, no two the same, whatever letters it has."""
    if _PLAIN.fullmatch(tenant):
        return tenant
    # A plain name never starts with `_`; what is readable of this one is for people only.
    seen = re.sub(r"[^a-z0-9]+", "-", tenant.lower())[:LONGEST_HINT].strip("-")
    mark = hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"_{seen}-{mark}"


def key_of(tenant: str, id: str) -> str:
    return f"{folder_of(tenant)}/mcp/{id}.json"


def id_of(key: str) -> str | None:
    """The id of the object at a key; None when it is none of ours, and must be left alone."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> float:
    return time.time()
