"""What the tests of confirmations share: a gateway on either store that needs no server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.policy.confirming import Setup, opened


@pytest.fixture(params=["memory", "sqlite"])
async def setup(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Setup]:
    async with opened(request.param, tmp_path) as state:
        yield Setup(state)
