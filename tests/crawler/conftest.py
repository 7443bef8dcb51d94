"""A web for each test, and crawlers that may reach it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.crawler.crawling import Crawls
from tests.crawler.web import Web


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web().open() as opened:
        yield opened


@pytest.fixture
async def crawls(web: Web, tmp_path: Path) -> AsyncIterator[Callable[..., Crawls]]:
    """Makes crawlers; each is closed with the test."""
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> Crawls:
            made = Crawls(web, tmp_path / "cache", **options)
            stack.push_async_callback(made.close)
            return made

        yield make
