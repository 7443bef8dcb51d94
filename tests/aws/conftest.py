"""What every test of this folder runs under."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.processes import direct_children

# AWS's emulator is a program for Linux.
collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Whatever program a test started has ended when the test has."""
    before = set(direct_children(os.getpid()))
    yield
    assert set(direct_children(os.getpid())) <= before
