"""What every test of this folder runs under."""

from collections.abc import Iterator

import pytest

from tests.processes import direct_children


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Whatever program a test started has ended when the test has."""
    before = set(direct_children("self"))
    yield
    assert set(direct_children("self")) <= before
