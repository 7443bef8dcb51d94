from collections.abc import AsyncIterator

import pytest

from tests.emulators.tiflux import TifluxEmulator


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own account is used here."""
    for name in ("API_KEY", "API_BASE_URL", "MCP_VERBOSITY", "DEFAULT_CLIENT_ID", "DEFAULT_DESK_ID"):
        monkeypatch.delenv(f"TIFLUX_{name}", raising=False)


@pytest.fixture
async def tiflux() -> AsyncIterator[TifluxEmulator]:
    async with TifluxEmulator() as emulator:
        yield emulator
