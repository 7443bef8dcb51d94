"""The shop for callers with keys, as a target of its own."""

from tests.languages.shop import keyed

server = keyed()
