"""The servers of a configuration as a client sees them, mounted for as long as the command runs."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from .. import __version__
from ..config import Config
from ..kit.connection import Connection
from ..wire.eras import SERVER_KEY, ClientInfo
from . import yard
from .client import CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN, About, User, about_of
from .key import check_variable
from .logs import to_stderr


def _plain(config: Config) -> Config:
    """Whoever types a command wants the tools themselves, and whole results: those are for models."""
    view = "all" if config.gateway.view == "search" else config.gateway.view
    gateway, results = replace(config.gateway, view=view), replace(config.results, shape=False)
    return replace(config, gateway=gateway, results=results)


class Mounted:
    """A gateway without an edge."""

    def __init__(self, file: Path, user: User, debug: bool) -> None:
        check_variable()
        config = _plain(yard.read(file))
        # What goes wrong with a server is shown as a warning of the command, not as a log line too.
        to_stderr(debug) if debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._gateway = yard.make(config, None)
        try:
            self._run(self._started(config.gateway.list_wait))
            self._connection = Connection(
                self._gateway.view(),
                capabilities=CAPABILITIES,
                client=ClientInfo("toolyard", __version__),
                log_level=LOG_LEVEL,
                on_elicit=partial(user.answer, "elicitation/create"),
                on_notification=user.hear,
            )
            found = self.request("server/discover", {})
        except BaseException:
            self.close()
            raise
        self._about = about_of(found["_meta"][SERVER_KEY], found)
        self._broken = {item.name: item.reason for item in config.broken}

    async def _started(self, wait: float) -> None:
        """With a fresh look at what is new or was not well; a reason from last time may be out of date."""
        await self._gateway.start()
        catalogue = self._gateway.catalogue
        doubtful = [shelf for shelf in catalogue.shelves.values() if shelf.fault or not shelf.known]
        await catalogue.settled(wait, doubtful)

    @property
    def about(self) -> About:
        missing = {**self._broken, **self._gateway.catalogue.missing()}
        return About(self._about.info, self._about.capabilities, self._about.instructions, missing)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self._run(self._connection.request(method, params))

    def call_tool(self, tool: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        return self._run(self._connection.call_tool(tool["name"], arguments, progress_token=PROGRESS_TOKEN))

    def close(self) -> None:
        """What it started is ended before we leave."""
        self._run(self._gateway.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
