from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.results.shelf import Shelf, shelf_in


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    async with shelf_in(tmp_path) as found:
        yield found
