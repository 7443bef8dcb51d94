"""A remote that gives sessions: counted, and held up or refusing on request."""

import asyncio

from toolyard.sessions import NewSession
from toolyard.upstream.errors import NotReachedError


class Remote:
    def __init__(self, name: str = "session", ttl: float | None = None) -> None:
        self.name = name
        self.ttl = ttl
        self.begun = 0
        self.refusing = False
        self.asked = asyncio.Event()
        self.going = asyncio.Event()
        self.going.set()

    async def begin(self) -> NewSession:
        self.asked.set()
        await self.going.wait()
        if self.refusing:
            raise NotReachedError("composio", "connection refused")
        self.begun += 1
        return NewSession(
            f"{self.name}-{self.begun}", self.ttl, "composio", {"mcp_url": "https://secret.example"}
        )
