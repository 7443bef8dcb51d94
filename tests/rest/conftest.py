"""An API on loopback for each test, and the proof that nothing of it is left running."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.rest.loopback import Loopback, loopback
from tests.waiting import PATIENCE


@pytest.fixture
async def api() -> AsyncIterator[Loopback]:
    async with loopback() as api:
        yield api
    async with asyncio.timeout(PATIENCE):
        while asyncio.all_tasks() - {asyncio.current_task()}:  # noqa: ASYNC110  the last turns of its tasks
            await asyncio.sleep(0)
