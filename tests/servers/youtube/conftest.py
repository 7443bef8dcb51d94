from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.programs import need
from tests.servers.youtube.site import Site, make_media


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("ffmpeg")
    return make_media(tmp_path_factory.mktemp("media"))


@pytest_asyncio.fixture
async def site(media: Path) -> AsyncIterator[Site]:
    async with Site(media).open() as site:
        yield site


@pytest_asyncio.fixture
async def forbidden(media: Path) -> AsyncIterator[Site]:
    """Beside it, on another port, which nobody allowed."""
    async with Site(media).open() as site:
        yield site
