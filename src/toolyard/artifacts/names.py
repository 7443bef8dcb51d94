"""Names of stored results: ids that cannot be guessed, in a folder of their tenant."""

import hashlib
import re
import time
import uuid
from datetime import UTC, datetime
from urllib.parse import quote

_ID = re.compile(r"[0-9a-f]{32}")
LONGEST_FOLDER = 100


def new_id() -> str:
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether it can be one of ours at all; nothing else ever becomes a part of a path."""
    return _ID.fullmatch(text) is not None


def folder_of(tenant: str) -> str:
    """One name for each tenant, no two the same, whatever letters it has."""
    plain = quote(tenant, safe="").replace(".", "%2E")
    # Where capital letters make no difference two tenants could meet.
    if plain and len(plain) <= LONGEST_FOLDER and plain == plain.lower() and not plain.startswith("~"):
        return plain
    return "~" + hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def key_of(tenant: str, id: str) -> str:
    return f"{folder_of(tenant)}/mcp/{id}.json"


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> float:
    return time.time()
