"""Render by its public API."""

from .source import Render

__all__ = ["Render"]
