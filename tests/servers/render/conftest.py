from collections.abc import AsyncIterator

import pytest

from tests.emulators.render import RenderEmulator


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own key is used here."""
    monkeypatch.delenv("RENDER_API_KEY", raising=False)


@pytest.fixture
async def render() -> AsyncIterator[RenderEmulator]:
    async with RenderEmulator() as emulator:
        yield emulator
