"""An upstream that lives in this process: a kit server, handed calls as they are, with nothing serialised.

But for results so long that writing them as JSON would hold the event loop: they go by way of a spool.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ..kit import Refused
from ..kit.loading import LoadError, load
from ..kit.server import Server
from ..wire.call import NO_CHANNEL, Call
from ..wire.errors import InvalidRequest
from ..wire.messages import encode
from ..wire.secret import Secret
from ..wire.types import DiscoverResult
from ..wire.versions import LATEST_MODERN
from .errors import Garbled, NotReached
from .handshake import DISCOVER
from .link import OURS, About
from .spool import SpoolError
from .unfolding import unfolded

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""A module that failed to load is not imported again before; each time it has twice as long to be mended."""


class InProcess:
    """Loaded when first used; one that fails to load is tried again like one that cannot be reached."""

    def __init__(self, server: str, module: str, options: Mapping[str, Any]) -> None:
        self._name = server
        self._module = module
        self._options = options
        self._server: Server | None = None
        self._loading = asyncio.Lock()
        self._failed: str | None = None
        self._again = 0.0
        self._pause = FIRST_PAUSE

    async def _loaded(self) -> Server:
        """Imported in a thread: what somebody else's module does meanwhile may take long."""
        async with self._loading:
            if self._server is None:
                if self._failed is not None and time.monotonic() < self._again:
                    raise NotReached(self._name, self._failed)
                try:
                    self._server = await asyncio.to_thread(load, self._module, options=self._options)
                except LoadError as error:
                    self._failed, self._again = error.message, time.monotonic() + self._pause
                    self._pause = min(2 * self._pause, LONGEST_PAUSE)
                    raise NotReached(self._name, error.message) from None
            return self._server

    async def handle(self, call: Call) -> Any:
        server = self._server or await self._loaded()
        if call.secrets:
            await _admit(server, call.secrets)
        try:
            return await unfolded(await server.service.handle(call))
        except SpoolError as error:
            raise Garbled(self._name, f"its result could not be kept: {error}") from None

    async def about(self) -> About:
        server = await self._loaded()
        call = Call("server/discover", Raw(encode(DISCOVER)), OURS, NO_CHANNEL, 1)
        found: DiscoverResult = await server.service.handle(call)
        info = Raw(msgspec.json.encode(server.implementation))
        return About(LATEST_MODERN, info, found.capabilities, found.instructions)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()


async def _admit(server: Server, brought: Mapping[str, Secret]) -> None:
    """Ask what the server's own edge would have asked: whether a caller with this key may enter."""
    keys = server.caller_keys
    key = None if keys is None else next((brought[name] for name in keys.headers if name in brought), None)
    if keys is None or keys.admit is None or key is None:
        return
    try:
        await keys.admit(key)
    except Refused as refused:
        raise InvalidRequest(refused.message) from None
