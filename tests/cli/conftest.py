from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Served, Toolyard


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demo server over HTTP."""
    with Toolyard(tmp_path_factory.mktemp("demo")).serving() as served:
        yield served
