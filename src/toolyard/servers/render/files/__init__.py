"""Log files and exports of the journal, read from their ends."""

from .source import Files

__all__ = ["Files"]
