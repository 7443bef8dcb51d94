"""An upstream that lives in this process: a kit server, handed calls as they are, with nothing serialised."""

from typing import Any

import msgspec
from msgspec import Raw

from ..kit.loading import LoadError, load
from ..kit.server import Server
from ..wire.call import NO_CHANNEL, Call
from ..wire.messages import encode
from ..wire.types import DiscoverResult
from ..wire.versions import LATEST_MODERN
from .errors import NotReached
from .handshake import DISCOVER
from .link import OURS, About


class InProcess:
    """Loaded when first used; one that fails to load is tried again like one that cannot be reached."""

    def __init__(self, server: str, module: str) -> None:
        self._name = server
        self._module = module
        self._server: Server | None = None

    def _loaded(self) -> Server:
        if self._server is None:
            try:
                self._server = load(self._module)
            except LoadError as error:
                raise NotReached(self._name, error.message) from None
        return self._server

    async def handle(self, call: Call) -> Any:
        return await self._loaded().service.handle(call)

    async def about(self) -> About:
        server = self._loaded()
        call = Call("server/discover", Raw(encode(DISCOVER)), OURS, NO_CHANNEL, 1)
        found: DiscoverResult = await server.service.handle(call)
        info = Raw(msgspec.json.encode(server.implementation))
        return About(LATEST_MODERN, info, found.capabilities, found.instructions)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
