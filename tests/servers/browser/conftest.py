"""One browser for all tests of a module: it takes a second or two to start."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.servers.browser.site import Site
from tests.servers.browser.talking import made
from tests.serving import serving


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site().open() as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def forbidden() -> AsyncIterator[Site]:
    """Beside it, on another port, which nobody allowed."""
    async with Site().open() as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(site: Site, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a server that may reach the one site."""
    folder: Path = tmp_path_factory.mktemp("browser")
    server = made(folder, allow=f"127.0.0.1:{site.port}", snapshot_chars=6000, content_chars=3000)
    async with serving(server.asgi()) as edge:
        yield edge.url


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def hasty(site: Site, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """One that does not wait long, for pages that would keep it waiting for ever."""
    limits = {"timeout": 2.0, "action_timeout": 2.0, "max_pages": 3}
    server = made(tmp_path_factory.mktemp("hasty"), allow=f"127.0.0.1:{site.port}", **limits)
    async with serving(server.asgi()) as edge:
        yield edge.url
