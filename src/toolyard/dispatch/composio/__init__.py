"""Composio as an upstream: a session for each conversation, its own search, its tools and accounts."""

from .upstream import ComposioUpstream

__all__ = ["ComposioUpstream"]
