"""A remote that gives sessions: counted, and held up or refusing on request."""

import asyncio

from toolyard.sessions import Begun
from toolyard.upstream.errors import NotReached


class Remote:
    def __init__(self, name: str = "session", ttl: float | None = None) -> None:
        self.name = name
        self.ttl = ttl
        self.begun = 0
        self.refusing = False
        self.asked = asyncio.Event()
        self.going = asyncio.Event()
        self.going.set()

    async def begin(self) -> Begun:
        self.asked.set()
        await self.going.wait()
        if self.refusing:
            raise NotReached("composio", "connection refused")
        self.begun += 1
        return Begun(f"{self.name}-{self.begun}", self.ttl, "composio", {"mcp_url": "https://secret.example"})
