"""The servers that the edge's tests talk to. No test, however bad its input, may make one log an error."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.edge.workshop import Workshop
from tests.serving import Client, serving
from toolyard.edge.request import Pace

# Not `toolyard.kit`: a tool that fails on purpose is logged there, as it should be.
WATCHED = ("toolyard.edge", "uvicorn.error", "asyncio")


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture(autouse=True)
def nothing_is_logged_as_an_error() -> Iterator[list[str]]:
    """The errors so far; a test that provokes one takes it out."""
    errors = _Errors()
    for name in WATCHED:
        logging.getLogger(name).addHandler(errors)
    yield errors.found
    for name in WATCHED:
        logging.getLogger(name).removeHandler(errors)
    assert errors.found == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    # Without the limit, however busy the machine is, only what a tool says makes a stream of an answer.
    async with serving(Workshop().server.asgi(pace=Pace(stream_after=3600.0))) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def shop() -> Workshop:
    return Workshop()


@pytest_asyncio.fixture(loop_scope="module")
async def at_shop(shop: Workshop) -> AsyncIterator[Client]:
    """A server of the test's own, whose tools it leads through `shop`."""
    async with serving(shop.server.asgi()) as client:
        yield client
