from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.results.library import Library, workers
from tests.results.shelf import Shelf, shelf_in
from tests.thirdparty.mounting import all_gone


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    async with shelf_in(tmp_path) as found:
        yield found


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Callable[..., Library]]:
    """Makes one with settings; when it is over, none of its workers is left."""
    found: list[Library] = []

    def make(**settings: Any) -> Library:
        found.append(Library(tmp_path, **settings))
        return found[-1]

    yield make
    for library in found:
        await library.close()
    assert all_gone(workers())


@pytest.fixture
def library(opened: Callable[..., Library]) -> Library:
    return opened()
