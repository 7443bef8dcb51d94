"""Asking in the legacy era: a request to the client on the call's own stream."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ..wire.call import Call
from ..wire.errors import MissingCapability
from .asks import Ask, made
from .content import ToolError
from .schema import Mismatch


class Direct:
    """The legacy `Asker` of one call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._values: dict[str, Any] = {}

    async def ask(self, questions: dict[str, Ask]) -> dict[str, Any]:
        for question in questions.values():
            try:
                question.require(self._call.caller)
            except MissingCapability as error:
                # -32021 means nothing to a legacy client; a sentence does.
                raise ToolError(error.message) from None
        asking = [asyncio.create_task(self._put(key, question)) for key, question in questions.items()]
        try:
            return dict(zip(questions, await asyncio.gather(*asking), strict=True))
        finally:
            # When one fails, nobody waits for the others any more.
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _put(self, key: str, question: Ask) -> Any:
        request = question.request("legacy")
        raw = await self._call.channel.ask(request.method, request.params)
        try:
            return question.read(raw)
        except Mismatch as error:
            raise ToolError(f"The client's answer to {key!r} is not usable: {error}") from None

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        if key not in self._values:
            self._values[key] = await made(make)
        return self._values[key]

    async def detach(self) -> None:
        """A legacy client waits for its answer."""
