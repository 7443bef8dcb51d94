"""A folder of workspaces, and users of a server over it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.local_toolkit.talking import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("not for anybody here")
    made = Bench(tmp_path / "work")
    yield made
    await made.close()
