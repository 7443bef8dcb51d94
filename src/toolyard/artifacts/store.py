"""The seam: what a store of whole results can do, whoever keeps them.

Owns the words and the errors. Ids are ours and random; a tenant's object is named
`<tenant's folder>/mcp/<id>.json`, and somebody else's id is an unknown id.

StoreError          it could not be kept or read; the reason is fit for a model to read
├── Full            over the tenant's quota, or the disk is full
└── Unreachable     the store does not answer, or refuses us
"""

from pathlib import Path
from typing import Protocol

from msgspec import Struct


class StoreError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Full(StoreError):
    pass


class Unreachable(StoreError):
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


class Stored(Struct, frozen=True):
    """An artifact that was kept, and how it is reached."""

    artifact: Artifact
    type: str
    """`local`, `s3`, `gcs`, `azure`, `supabase`."""
    key: str
    url: str | None = None
    bucket: str | None = None
    expires_at: str | None = None
    """Of the link; ISO 8601."""


class Writing(Protocol):
    """An artifact on its way into the store, in constant memory. Either `finish` or `discard` it."""

    async def write(self, piece: bytes) -> None: ...

    async def finish(self) -> Stored: ...

    async def discard(self) -> None: ...


class Reading(Protocol):
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


class Store(Protocol):
    """StoreError whenever it does not work; it never takes longer than its configured time."""

    @property
    def type(self) -> str: ...

    async def start(self) -> None:
        """See that the place is there, and make it. A failure is told in the log and tried again later."""
        ...

    async def begin(self, tenant: str, tool: str, content_type: str) -> Writing: ...

    async def open(self, tenant: str, id: str) -> Reading | None:
        """None for an unknown id: never given, another tenant's, expired, or no id at all."""
        ...

    async def sweep(self) -> None:
        """Remove what has expired."""
        ...

    async def close(self) -> None: ...
