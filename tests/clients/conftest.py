"""What every test of this folder runs under."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import direct_children


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Whatever program a test started has ended when the test has, but for its guardian."""
    before = set(direct_children("self"))
    yield
    left = set(direct_children("self")) - before
    assert not [pid for pid in left if b"--guarding=" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
