"""Whether what a table says can work."""

from collections.abc import Iterator

from .mistakes import Mistake
from .table import Overlay, Table


def mistakes(table: Table) -> Iterator[Mistake]:
    yield from ()


def mistakes_of_overlay(overlay: Overlay, table: Table) -> Iterator[Mistake]:
    yield from ()
