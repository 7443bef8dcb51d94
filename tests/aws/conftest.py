"""What every test of this folder runs under."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.aws.rie import children_of

# AWS's emulator is a program for Linux.
collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Whatever program a test started has ended when the test has."""
    before = set(children_of(os.getpid()))
    yield
    assert set(children_of(os.getpid())) <= before
