"""The shipped embedding, read once."""

import pytest

from toolyard.meaning.embedding import TextEmbedding


@pytest.fixture(scope="session")
def semantic() -> TextEmbedding:
    return TextEmbedding.load()
