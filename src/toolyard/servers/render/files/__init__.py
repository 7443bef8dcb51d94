"""Local log files and journal exports as a source of logs, read from their ends."""

from .source import FileLogs

__all__ = ["FileLogs"]
