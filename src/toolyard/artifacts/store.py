"""What a store of whole results can do, wherever it keeps them; ids, signed links and errors.

Ids are random; a tenant's object is `<tenant's folder>/mcp/<id>.json`, and another tenant's id is an
unknown id.

ArtifactStoreError                    could not be stored or read; the reason is fit for a model
├── ArtifactStoreFullError            over the tenant's quota, or the disk is full
└── ArtifactStoreUnreachableError     the store does not answer, or rejects us
"""

import hashlib
import re
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from ..wire.seal import BrokenSeal, Sealer


class ArtifactStoreError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ArtifactStoreFullError(ArtifactStoreError):
    pass


class ArtifactStoreUnreachableError(ArtifactStoreError):
    pass


class Artifact(Struct, frozen=True):
    """One whole result."""

    id: str
    tenant: str
    size: int
    """Of its content, uncompressed."""
    content_type: str
    tool: str
    created: float
    expires: float
    encoding: str = "identity"
    """How it lies in the store: `identity` or `gzip`."""


class StoredArtifact(Struct, frozen=True):
    """An artifact that was kept, and how it is reached."""

    artifact: Artifact
    type: str
    """`local`, `s3`, `gcs`, `azure`, `supabase`."""
    key: str
    url: str | None = None
    bucket: str | None = None
    expires_at: str | None = None
    """Of the link; ISO 8601."""


class ArtifactWriter(Protocol):
    """An artifact on its way into the store, in constant memory. Either `finish` or `discard` it."""

    async def write(self, piece: bytes) -> None: ...

    async def finish(self) -> StoredArtifact: ...

    async def discard(self) -> None: ...


class ArtifactReader(Protocol):
    """An artifact that is there. Whoever opened it closes it."""

    @property
    def artifact(self) -> Artifact: ...

    async def read(self, start: int, length: int) -> bytes:
        """Some of its content, uncompressed; less than was asked for where it ends."""
        ...

    async def path(self) -> Path:
        """A local file that has all of its content, uncompressed; it stays until this is closed."""
        ...

    async def close(self) -> None: ...


class ArtifactStore(Protocol):
    """StoreError whenever it does not work; it never takes longer than its configured time."""

    @property
    def type(self) -> str: ...

    async def start(self) -> None:
        """See that the place is there, and make it. A failure is told in the log and tried again later."""
        ...

    async def begin(self, tenant: str, tool: str, content_type: str) -> ArtifactWriter: ...

    async def open(self, tenant: str, id: str) -> ArtifactReader | None:
        """None for an unknown id: never given, another tenant's, expired, or no id at all."""
        ...

    async def sweep(self) -> None:
        """Remove what has expired."""
        ...

    async def close(self) -> None: ...


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


LINK_PATH = "/results/"
_PURPOSE = "result"


class ResultLinks:
    """Nothing is kept: the link itself says what it opens and until when, and is signed."""

    def __init__(self, sealer: Sealer, base: str) -> None:
        self._sealer = sealer
        self.base = base.rstrip("/")
        """Where clients reach the gateway; empty when nobody knows, and then there are no links."""

    def make(self, tenant: str, id: str, expires: float) -> str | None:
        if not self.base:
            return None
        token = self._sealer.seal(msgspec.json.encode([tenant, id, int(expires)]), _PURPOSE)
        return f"{self.base}{LINK_PATH}{token}"

    def open(self, token: str) -> tuple[str, str] | None:
        """The tenant and id that a link is for; None when it is forged or too old."""
        try:
            found = self._sealer.open(token, _PURPOSE)
            tenant, id, expires = msgspec.json.decode(found, type=tuple[str, str, int])
        except (BrokenSeal, msgspec.DecodeError):
            return None
        return (tenant, id) if now() < expires else None
