"""Results that a function can send: a summary and a preview in the place of one that is over its limit.

What takes a result's place does not fit the tool's own output schema, so what is listed admits both. The
shaping is imported when the first list or the first big result needs it: a cold start does without.
"""

from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ..kit.server import Server
from ..wire.call import Call

SHAPED_BYTES = 64_000
PREVIEW_ITEMS = 50
PREVIEW_CHARS = 16_000
TOO_BIG = "it is over what a function can send in one answer; ask for fewer items, or for a part"


async def fit(call: Call, result: Raw) -> Raw:
    """What takes the place of a result that is too big; itself where there is no such thing."""
    from ..results.limits import Limits
    from ..results.measuring import measure
    from ..results.payload import payload_of
    from ..results.shaping import Beside, as_result, shaped
    from ..results.storing import Kept
    from ..results.survey import survey

    limits = Limits(max_bytes=SHAPED_BYTES, preview_items=PREVIEW_ITEMS, preview_chars=PREVIEW_CHARS)
    payload = payload_of(bytes(result))
    measured = measure(payload, limits.by_bytes_alone())
    if measured is None:  # pictures or the like, of which no part would be one
        return result
    answer = shaped(_tool(call), survey(measured.whole), Kept("none", fault=TOO_BIG), limits, "")
    return as_result(answer, Beside(measured.beside, payload.meta, payload.is_error), None, call.caller.era)


def _tool(call: Call) -> str:
    from ..wire.messages import decode_params
    from ..wire.types import CallToolParams

    return decode_params(call.params, CallToolParams).name


class Widened:
    """A server whose listed output schemas admit what may take the place of a result."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._service = server.service
        self._wide: set[int] = set()
        self.listen = self._service.listen
        self.end_session = self._service.end_session
        self.close = self._service.close
        self.health = self._service.health

    async def handle(self, call: Call) -> Any:
        if call.method == "tools/list":
            self._widen()
        return await self._service.handle(call)

    def _widen(self) -> None:
        """Each tool once; there may be new ones."""
        from ..results.schemas import either

        for tool in self._server.tools.values():
            if tool.info.output_schema is not None and tool.serial not in self._wide:
                tool.info = replace(tool.info, output_schema=either(tool.info.output_schema))
                self._wide.add(tool.serial)
