from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.yard import Yard, yard_in


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with yard_in(tmp_path) as found:
        yield found
