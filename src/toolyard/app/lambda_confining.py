"""A server as a function can serve it: without what needs a process that stays, and saying so.

Owns what is taken away and what is declared and listed instead. The server's own code is untouched.
"""

from typing import Any

from msgspec.structs import replace

from ..kit.server import Server
from ..wire.call import Call

_NEEDS_STREAMS = frozenset({"listChanged", "subscribe"})


def confined(server: Server) -> Server:
    """Without tasks, which are work that goes on when the answer is out.

    And where callers can bring keys they must: the function's own would serve anybody who finds its address.
    """
    for tool in server.tools.values():
        tool.long = None
    server.features.discard("tasks")
    if server.caller_keys is not None:
        server.caller_keys = replace(server.caller_keys, required=True)
    return server


class Confined:
    """The service of such a server.

    It does not declare that it tells of changes. Its listed output schemas admit what may take the place of
    a result, which else would not fit the tool's own.
    """

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
        result = await self._service.handle(call)
        if call.method in ("initialize", "server/discover"):
            result.capabilities = {name: _quiet(told) for name, told in result.capabilities.items()}
        return result

    def _widen(self) -> None:
        """Each tool once; there may be new ones."""
        from ..results.schemas import either  # 13 ms of CPU that a cold start does without

        for tool in self._server.tools.values():
            if tool.info.output_schema is not None and tool.serial not in self._wide:
                tool.info = replace(tool.info, output_schema=either(tool.info.output_schema))
                self._wide.add(tool.serial)


def _quiet(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in _NEEDS_STREAMS}
