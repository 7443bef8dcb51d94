"""Composio as an upstream: a session for each conversation, its own search, tools that are lent, accounts."""

from .upstream import ComposioUpstream

__all__ = ["ComposioUpstream"]
