from collections.abc import AsyncIterator

import pytest

from tests.dialects.talking import Place, gateway


@pytest.fixture
async def quiet() -> AsyncIterator[Place]:
    """A gateway that speaks every dialect, and no Composio behind it."""
    async with gateway("suna", "composio", "rube") as place:
        yield place
