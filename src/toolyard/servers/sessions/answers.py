"""What the three tools answer. The fields are the same in both languages."""

from __future__ import annotations

from msgspec import Struct


class FoundSession(Struct):
    session_id: str
    title: str
    created_at: str
    updated_at: str
    message_count: int
    channel: str
    excerpt: str


class FoundSessions(Struct):
    count: int
    sessions: list[FoundSession]


class RecentSession(Struct):
    session_id: str
    title: str
    created_at: str
    message_count: int
    cost_usd: float | None
    summary: str
    topics: list[str]


class RecentSessions(Struct):
    count: int
    sessions: list[RecentSession]


class AlikeTurn(Struct):
    session_id: str
    title: str
    created_at: str
    similarity: float | None
    user_content: str
    assistant_summary: str


class AlikeTurns(Struct):
    count: int
    fallback_used: bool
    results: list[AlikeTurn]
