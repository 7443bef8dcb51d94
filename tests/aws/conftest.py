"""What every test of this folder runs under."""

import os
from collections.abc import Iterator

import pytest

from tests.aws.rie import children_of


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Whatever program a test started has ended when the test has."""
    before = set(children_of(os.getpid()))
    yield
    assert set(children_of(os.getpid())) <= before
