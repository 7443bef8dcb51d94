"""The fault matrix: faulty upstreams over HTTP."""

from pathlib import Path

import pytest

from tests.faults.matrix import harms_nobody_else
from tests.faults.rows import Row, rows_of


@pytest.mark.timeout(180)
@pytest.mark.parametrize("row", rows_of("http"), ids=lambda row: row.id)
async def test_a_faulty_upstream_harms_nobody_else(row: Row, tmp_path: Path):
    await harms_nobody_else(row, tmp_path)
