"""The interface of stores of whole results; ids, keys, signed links and errors.

Ids are random. A tenant's object has the key `<tenant's folder>/mcp/<id>.json`; the id of another tenant is
unknown.

ArtifactStoreError                    could not be stored or read; the reason may be shown to a model
├── ArtifactStoreFullError            over the tenant's quota, or the disk is full
└── ArtifactStoreUnreachableError     the store does not answer, or refuses our key
"""

import hashlib
import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from ..wire.seal import BrokenSeal, Sealer


class ArtifactStoreError(Exception):
    def __init__(self, reason: str, details: str = "", hint: str = "") -> None:
        """`details` and `hint` are for operators: where it is, and what to do."""
        super().__init__(reason)
        self.reason = reason
        self.details = details
        self.hint = hint


class ArtifactStoreFullError(ArtifactStoreError):
    pass


class ArtifactStoreUnreachableError(ArtifactStoreError):
    pass


class Artifact(Struct, frozen=True):
    """One whole result."""

    id: str
    tenant: str
    size: int
    """Bytes of the uncompressed content."""
    content_type: str
    tool: str
    created: float
    expires: float
    encoding: str = "identity"
    """The encoding in the store: `identity` or `gzip`."""


class StoredArtifact(Struct, frozen=True):
    """An artifact in the store, with its link."""

    artifact: Artifact
    type: str
    """`local`, `s3`, `gcs`, `azure`, `supabase`."""
    key: str
    url: str | None = None
    bucket: str | None = None
    expires_at: str | None = None
    """When the link expires, as ISO 8601."""

    @property
    def place(self) -> str:
        """For the log: the kind of store, its bucket and the key in it, and no link."""
        return f"{self.type}:{'' if self.bucket is None else self.bucket + '/'}{self.key}"


class ArtifactWriter(Protocol):
    """Writes an artifact in constant memory. End it with `finish` or `discard`."""

    async def write(self, piece: bytes) -> None: ...

    async def finish(self) -> StoredArtifact: ...

    async def discard(self) -> None: ...


class ArtifactReader(Protocol):
    """Reads a stored artifact. The caller closes it."""

    @property
    def artifact(self) -> Artifact: ...

    async def read(self, start: int, length: int) -> bytes:
        """A range of the uncompressed content; shorter at its end."""
        ...

    async def path(self) -> Path:
        """A local file with the whole uncompressed content; it exists until `close`."""
        ...

    async def close(self) -> None: ...


class ArtifactStore(Protocol):
    """Methods raise ArtifactStoreError on failure, within the configured time."""

    @property
    def type(self) -> str: ...

    async def start(self) -> None:
        """Create the folder or bucket if it is missing."""
        ...

    async def begin(self, tenant: str, tool: str, content_type: str) -> ArtifactWriter: ...

    async def check(self) -> None:
        """Try what can be tried for nothing: a bucket has to answer, a folder to take a file."""
        ...

    async def open(self, tenant: str, id: str) -> ArtifactReader | None:
        """None if the id is unknown: never given, of another tenant, expired, or malformed."""
        ...

    async def sweep(self) -> None:
        """Remove expired artifacts."""
        ...

    async def close(self) -> None: ...


_ID = re.compile(r"[0-9a-f]{32}")
# Characters that every file system and bucket accepts unchanged. Supabase refuses `%` and `~`, and where case
# makes no difference two tenants could share a folder.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_KEY = re.compile(r"[a-z0-9_-]+/mcp/([0-9a-f]{32})\.json")
MAX_READABLE = 32


NewId = Callable[[str], str]
"""Makes the id of a result of a tool."""


def new_id(tool: str = "") -> str:
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether the text has the form of an id; nothing else ever becomes part of a path."""
    return _ID.fullmatch(text) is not None


def folder_of(tenant: str) -> str:
    """A safe and unique folder name for a tenant."""
    if _PLAIN.fullmatch(tenant):
        return tenant
    # A plain name never starts with `_`. The readable part is for people only.
    readable = re.sub(r"[^a-z0-9]+", "-", tenant.lower())[:MAX_READABLE].strip("-")
    digest = hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"_{readable}-{digest}"


def key_of(tenant: str, id: str) -> str:
    return f"{folder_of(tenant)}/mcp/{id}.json"


def id_of(key: str) -> str | None:
    """The id in a key; None if the object is not ours and must not be touched."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> float:
    return time.time()


LINK_PATH = "/results/"
_PURPOSE = "result"


class ResultLinks:
    """Signed links to results. Stateless: the link contains tenant, id and expiry."""

    def __init__(self, sealer: Sealer, base: str) -> None:
        """`base` is the gateway's URL for clients; if empty, there are no links."""
        self._sealer = sealer
        self._base = base.rstrip("/")

    def set_base(self, url: str) -> None:
        """The gateway's URL became known, because it has begun to listen."""
        self._base = url.rstrip("/")

    def make(self, tenant: str, id: str, expires: float) -> str | None:
        if not self._base:
            return None
        token = self._sealer.seal(msgspec.json.encode([tenant, id, int(expires)]), _PURPOSE)
        return f"{self._base}{LINK_PATH}{token}"

    def open(self, token: str) -> tuple[str, str] | None:
        """The tenant and id of a link; None if it is forged or expired."""
        try:
            found = self._sealer.open(token, _PURPOSE)
            tenant, id, expires = msgspec.json.decode(found, type=tuple[str, str, int])
        except (BrokenSeal, msgspec.DecodeError):
            return None
        return (tenant, id) if now() < expires else None
