"""Results of tasks: the same as any tool's, inside the task's state.

A finished task is asked for again and again, so what took the place of its result is remembered for a while.
"""

from collections import OrderedDict
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from ..wire.call import Streamed
from ..wire.messages import encode
from ..wire.types import CallToolResult, TaskState
from .shaper import Shaper, Wanted

REMEMBERED = 200
LONGEST_REMEMBERED = 64 * 1024

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class Tasks:
    def __init__(self, shaper: Shaper) -> None:
        self._shaper = shaper
        self._fitted: OrderedDict[tuple[str, str], Raw] = OrderedDict()

    async def fit(self, state: Any, id: str, wanted: Wanted) -> Any:
        """A task's state as it came, or with what fits in the place of its result. `id`: its server's own."""
        if isinstance(state, TaskState):
            result = state.result
            if result is UNSET:
                return state
            body = result if isinstance(result, CallToolResult) else Raw(encode(result))
            fitting = await self._once(body, id, wanted)
            return msgspec.structs.replace(state, result=fitting)
        if isinstance(state, Streamed):
            state = await _held(state)
        if not isinstance(state, Raw) or b'"result"' not in bytes(state):
            return state
        try:
            members = _decode(state)
        except (msgspec.DecodeError, RecursionError):
            return state
        if "result" not in members:
            return state
        fitting = await self._once(members["result"], id, wanted)
        return state if fitting is members["result"] else Raw(encode({**members, "result": fitting}))

    async def _once(self, result: Any, id: str, wanted: Wanted) -> Any:
        key = (wanted.tool.server, id)
        if key not in self._fitted:
            fitting = await self._shaper.fit(result, wanted)
            if len(memoryview(fitting)) > LONGEST_REMEMBERED:
                return fitting
            self._fitted[key] = fitting
            while len(self._fitted) > REMEMBERED:
                self._fitted.popitem(last=False)
        return self._fitted[key]


async def _held(state: Streamed) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in state.chunks()]))
    finally:
        state.close()
