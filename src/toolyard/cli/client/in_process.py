"""A server of this process as a client sees it."""

import asyncio
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ... import __version__
from ...kit import Server
from ...wire.call import SERVER_KEY, ClientInfo
from .connection import CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN, UserInterface, read_description


class InProcessClient:
    def __init__(self, server: Server, user: UserInterface) -> None:
        self._server = server
        self._runner = asyncio.Runner()
        self._connection = server.connect(
            capabilities=CAPABILITIES,
            client=ClientInfo("toolyard", __version__),
            log_level=LOG_LEVEL,
            on_elicit=partial(user.answer, "elicitation/create"),
            on_notification=user.hear,
        )
        found = self.request("server/discover", {})
        hidden = [tool for tool in server.tools.values() if not tool.listed]
        about = read_description(found["_meta"][SERVER_KEY], found)
        self.about = replace(about, unlisted={tool.name: to_builtins(tool.info) for tool in hidden})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        # Not `Runner.run`: its handler for Ctrl-C waits for a loop that a form is holding up.
        return self._runner.get_loop().run_until_complete(self._connection.request(method, params))

    def call_tool(self, tool: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        call = self._connection.call_tool(tool["name"], arguments, progress_token=PROGRESS_TOKEN)
        return self._runner.get_loop().run_until_complete(call)

    def close(self) -> None:
        with self._runner:
            self._runner.get_loop().run_until_complete(self._server.close())
