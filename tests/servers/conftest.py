from pathlib import Path

import pytest

from tests.cli.running import Toolyard


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)
