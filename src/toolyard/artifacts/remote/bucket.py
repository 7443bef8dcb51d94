"""The seam below the remote stores: what a bucket somewhere else can do.

Owns the words and the errors. What it means to keep a result in one (quotas, expiry, links) is `remote`'s.

Unreachable         of the store's own errors
├── Forbidden       it takes our key for this not, or not at all
└── NoBucket        there is no such bucket (any more)
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct

from ..store import ArtifactStoreUnreachableError


class BucketForbiddenError(ArtifactStoreUnreachableError):
    pass


class BucketNotFoundError(ArtifactStoreUnreachableError):
    pass


class ObjectLabel(Struct, frozen=True):
    """What goes along with an object."""

    content_type: str
    encoding: str
    """`identity` or `gzip`."""
    about: str
    """A line of plain letters that comes back with it."""


class ObjectInfo(Struct, frozen=True):
    """An object that is there."""

    size: int
    content_type: str
    about: str
    """Empty when it has none, and so is none of ours."""


class ListedObject(Struct, frozen=True):
    key: str
    size: int
    modified: float


class ObjectUpload(Protocol):
    """An object on its way, in constant memory."""

    async def write(self, piece: bytes) -> None: ...

    async def finish(self) -> None:
        """It is there from now on, whole."""
        ...

    async def abort(self) -> None:
        """Leave nothing of it."""
        ...


class Bucket(Protocol):
    """Keys are whole. StoreError whenever it does not work; how long it may take is watched by the caller."""

    @property
    def type(self) -> str: ...

    @property
    def name(self) -> str: ...

    async def ensure(self) -> None:
        """See that the bucket is there, and make it where that can be done."""
        ...

    def upload(self, key: str, label: ObjectLabel) -> ObjectUpload: ...

    async def find(self, key: str) -> ObjectInfo | None: ...

    async def read(self, key: str, start: int, length: int) -> bytes:
        """These bytes, all of which are there."""
        ...

    def list(self, folder: str) -> AsyncIterator[Sequence[ListedObject]]:
        """Everything below a folder, some at a time."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """It is no error when some are gone already."""
        ...

    async def signed(self, key: str, seconds: float) -> str | None:
        """A link that works for so long; None when this bucket cannot make one."""
        ...

    async def public(self, key: str) -> str | None:
        """A link that always works; None while the bucket is private."""
        ...

    async def close(self) -> None: ...
