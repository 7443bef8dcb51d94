"""No test of the edge, however bad its input, may make the server log an error of its own."""

import logging
from collections.abc import Iterator

import pytest

# Not `toolyard.kit`: a tool that fails on purpose is logged there, as it should be.
WATCHED = ("toolyard.edge", "uvicorn.error", "asyncio")


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture(autouse=True)
def nothing_is_logged_as_an_error() -> Iterator[None]:
    errors = _Errors()
    for name in WATCHED:
        logging.getLogger(name).addHandler(errors)
    yield
    for name in WATCHED:
        logging.getLogger(name).removeHandler(errors)
    assert errors.found == []
