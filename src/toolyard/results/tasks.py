"""Results of tasks: the same as any tool's, inside the task's state.

A finished task is asked for again and again, so what took the place of its result is remembered for a while.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw

from ..wire.call import Streamed
from ..wire.messages import encode
from ..wire.types import TaskState
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
        if isinstance(state, Streamed):
            state = await _held(state)
        if isinstance(state, TaskState):
            if state.result is UNSET:
                return state
            return msgspec.structs.replace(state, result=await self._once(state.result, id, wanted))
        members = _members(state)
        if "result" not in members:
            return state
        return Raw(encode({**members, "result": await self._once(members["result"], id, wanted)}))

    async def _once(self, result: Any, id: str, wanted: Wanted) -> Raw:
        key = (wanted.tool.server, id)
        known = self._fitted.get(key)
        if known is not None:
            return known
        fitting: Raw = await self._shaper.fit(
            result if isinstance(result, Raw) else Raw(encode(result)), wanted
        )
        if len(memoryview(fitting)) <= LONGEST_REMEMBERED:
            self._fitted[key] = fitting
            while len(self._fitted) > REMEMBERED:
                self._fitted.popitem(last=False)
        return fitting


def _members(state: Any) -> dict[str, Any]:
    """Of a state that is JSON, decoded or not."""
    if isinstance(state, Mapping):
        return dict(cast(Mapping[str, Any], state))
    if not isinstance(state, Raw) or b'"result"' not in bytes(state):
        return {}
    try:
        return dict(_decode(state))
    except (msgspec.DecodeError, RecursionError):
        return {}


async def _held(state: Streamed) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in state.chunks()]))
    finally:
        state.close()
