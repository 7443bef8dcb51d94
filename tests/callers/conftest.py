"""An issuer for each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.callers.issuer import Issuer, issuing


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as found:
        yield found
