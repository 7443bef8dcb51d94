"""The shipped embedding, read once."""

import pytest

from toolyard.meaning.semantic import Semantic


@pytest.fixture(scope="session")
def semantic() -> Semantic:
    return Semantic.load()
