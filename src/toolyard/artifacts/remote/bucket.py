"""The interface of a bucket in object storage, and its errors.

Quotas, expiry and links belong to `store`.

ArtifactStoreUnreachableError
├── BucketForbiddenError      the bucket does not allow this with our key
└── BucketNotFoundError       the bucket does not exist
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
    """The metadata of an object to upload."""

    content_type: str
    encoding: str
    """`identity` or `gzip`."""
    about: str
    """A line of ASCII that is stored with the object."""


class ObjectInfo(Struct, frozen=True):
    size: int
    content_type: str
    about: str
    """Empty if the object is not ours."""


class ListedObject(Struct, frozen=True):
    key: str
    size: int
    modified: float


class ObjectUpload(Protocol):
    """Writes an object in constant memory."""

    async def write(self, piece: bytes) -> None: ...

    async def finish(self) -> None:
        """From now on the object exists."""
        ...

    async def abort(self) -> None:
        """Remove all parts."""
        ...


class Bucket(Protocol):
    """Keys include the prefix. Methods raise ArtifactStoreError; the caller sets time limits."""

    @property
    def type(self) -> str: ...

    @property
    def name(self) -> str: ...

    async def ensure(self) -> None:
        """Create the bucket if it is missing and the service allows it."""
        ...

    def upload(self, key: str, label: ObjectLabel) -> ObjectUpload: ...

    async def find(self, key: str) -> ObjectInfo | None: ...

    async def read(self, key: str, start: int, length: int) -> bytes:
        """A range of bytes that exists."""
        ...

    def list(self, folder: str) -> AsyncIterator[Sequence[ListedObject]]:
        """All objects below a folder, in pages."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Objects that do not exist are ignored."""
        ...

    async def signed(self, key: str, seconds: float) -> str | None:
        """A link that expires; None if this bucket cannot make one."""
        ...

    async def public(self, key: str) -> str | None:
        """A link that does not expire; None if the bucket is private."""
        ...

    async def close(self) -> None: ...
