"""A server per test, and the proof that nothing of it is left running."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from toolyard.kit import Server


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks left behind: {left}"


@pytest.fixture
async def server(nothing_left_behind: None) -> AsyncIterator[Server]:
    server = Server("bench", version="1.0")
    yield server
    await server.service.close()


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> Any:
    return request.param
