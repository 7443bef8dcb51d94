"""Render's public API as a source of logs."""

from .source import RenderLogs

__all__ = ["RenderLogs"]
