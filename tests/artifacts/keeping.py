"""What a gateway does with a store, in one line each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolyard.artifacts.store import ArtifactStore, ArtifactWriter, StoredArtifact

TOOL = "mcp__git__log"
JSON = "application/json"
PIECE = 256 * 1024


@asynccontextmanager
async def running(store: ArtifactStore) -> AsyncIterator[ArtifactStore]:
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def keep(
    store: ArtifactStore, content: bytes, tenant: str = "acme", content_type: str = JSON
) -> StoredArtifact:
    """Write it in pieces, as it would come from an upstream; discard it when that fails."""
    writing = await store.begin(tenant, TOOL, content_type)
    try:
        await send(writing, content)
        return await writing.finish()
    except BaseException:
        await writing.discard()
        raise


async def send(writing: ArtifactWriter, content: bytes) -> None:
    for start in range(0, len(content), PIECE):
        await writing.write(content[start : start + PIECE])


async def read(store: ArtifactStore, tenant: str, id: str) -> bytes | None:
    """All of it; None when it is unknown."""
    reading = await store.open(tenant, id)
    if reading is None:
        return None
    try:
        return await reading.read(0, reading.artifact.size)
    finally:
        await reading.close()
