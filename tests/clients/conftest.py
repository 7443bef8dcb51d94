"""What every test of this folder runs under."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Whatever program a test started has ended when the test has."""
    before = _children()
    yield
    assert _children() <= before


def _children() -> set[int]:
    tasks = Path("/proc/self/task")  # elsewhere than on Linux nobody looks
    return {int(pid) for task in tasks.glob("*/children") for pid in task.read_text().split()}
