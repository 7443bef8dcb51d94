from collections.abc import AsyncIterator, Iterator

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.emulators.peers import Official, Plain, plain


@pytest.fixture(scope="package")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Official]:
    """One process for all tests: the package takes seconds to import."""
    process = Official(tmp_path_factory.mktemp("official"))
    yield process
    process.close()


@pytest.fixture
async def composio() -> AsyncIterator[ComposioEmulator]:
    async with ComposioEmulator() as emulator:
        yield emulator


@pytest.fixture
async def api(composio: ComposioEmulator) -> AsyncIterator[Plain]:
    async with plain(composio) as client:
        yield client
