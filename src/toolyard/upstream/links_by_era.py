"""The links to an upstream that is spoken to in the era of whoever calls, where it speaks both.

What only one era has then reaches the caller as it is: a legacy server that lets a stream go, for one, to be
asked again. The price is a session for each legacy client that a modern server would not need.
"""

import asyncio

from ..wire.call import Call
from .link import Connector, Link
from .links import Links


class LinksByEra(Links):
    """Modern callers, and what we ask in our own name, go the usual way; legacy callers have links apart."""

    def __init__(self, server: str, connector: Connector, legacy_first: Connector) -> None:
        super().__init__(server, connector)
        self._older = Links(server, legacy_first)

    async def get(self, call: Call) -> Link:
        if call.caller.era == "modern":
            return await super().get(call)
        if self.about is None:
            await self.any()
        # One that speaks nothing newer is spoken to in its own era anyway, by the sessions that are there.
        if self.about is not None and self.about.era == "legacy":
            return await super().get(call)
        return await self._older.get(call)

    def of(self, call: Call) -> Link | None:
        return self._older.of(call) or super().of(call)

    def let_go(self, call: Call) -> None:
        self._older.let_go(call)
        super().let_go(call)

    def close_idle(self) -> None:
        self._older.close_idle()
        super().close_idle()

    async def reset(self) -> None:
        await asyncio.gather(self._older.reset(), super().reset())

    async def close(self) -> None:
        await asyncio.gather(self._older.close(), super().close())
