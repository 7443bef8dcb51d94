"""The servers of a configuration as one client: a gateway without an HTTP edge, for one command."""

import asyncio
import logging
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...config import Config
from ..configuration import loader
from ..process import log_to_stderr
from ..serving.session_key import check_key_variable
from .connection import (
    DISABLED,
    DOWN,
    READY,
    STARTING,
    UNUSABLE,
    CliSession,
    ConnectOptions,
    ServerDescription,
    ServerStatus,
    UserInterface,
)

if TYPE_CHECKING:
    from ...catalogue.catalogue import ServerCatalogue

FRAME_SECONDS = 0.1
"""How often whoever waits is told what for."""


def _for_people(config: Config) -> Config:
    """Whoever types a command wants the tools themselves, and whole results: those are for models.

    Servers are waited for here, before the first list, and not again with every list.
    """
    view = "all" if config.gateway.view == "search" else config.gateway.view
    gateway = replace(config.gateway, view=view, list_wait=0.0)
    return replace(config, gateway=gateway, results=replace(config.results, shape=False))


async def wait_for_servers(servers: "list[ServerCatalogue]", wait: float, user: UserInterface) -> None:
    """Wait until each was tried, and no longer than `wait` seconds; the user is shown whom for."""
    tries = {asyncio.ensure_future(server.settled.wait()): server for server in servers}
    end = time.monotonic() + wait
    try:
        while (left := end - time.monotonic()) > 0:
            pending = [server for server in servers if not server.settled.is_set()]
            if not pending:
                return
            names = ", ".join(server.name for server in pending)
            doing = next((f": {server.activity}" for server in pending if server.activity), "")
            waited = f"waiting for {names}, {max(server.age for server in pending):.0f} s{doing}"
            user.waiting(len(servers) - len(pending), len(servers), waited)
            await asyncio.wait(tries, timeout=min(left, FRAME_SECONDS))
    finally:
        user.waiting(0, 0, "")
        for future in tries:
            future.cancel()


class MountedSession(CliSession):
    """A client of a gateway without an edge."""

    def __init__(self, config: Config, user: UserInterface, where: ConnectOptions) -> None:
        check_key_variable()
        super().__init__(user)
        self._config = _for_people(config)
        # What goes wrong with a server is shown as a warning of the command, not as a log line too.
        log_to_stderr(True) if where.debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
        self._gateway = loader.make_gateway(self._config, None)
        wait = config.gateway.list_wait if where.wait is None else where.wait
        try:
            self.run(self._started(wait, where, user))
        except BaseException:
            self.close()
            raise
        self.open(self._gateway.view(), timeout=None)

    # Waiting

    async def _started(self, wait: float, where: ConnectOptions, user: UserInterface) -> None:
        """With a fresh look at what is new or was not well; a reason from last time may be out of date."""
        await self._gateway.start()
        servers = self._gateway.catalogue.servers.values()
        owners = self._owners(where.wanted) if where.wanted is not None else []
        doubtful = [
            server for server in owners or servers if where.fresh or server.fault or not server.was_read
        ]
        # Whoever has what is wanted may take as long as it starts; nobody else is waited for then.
        await wait_for_servers(doubtful, math.inf if owners else wait, user)

    def _owners(self, wanted: str) -> "list[ServerCatalogue]":
        """Who has what is wanted, or would have it by its name."""
        from ...catalogue.items import KINDS, shown_name

        catalogue = self._gateway.catalogue
        for kind in KINDS:
            if entry := catalogue.find(kind, wanted):
                return [catalogue.servers[entry.server]]
        prefixes = {name: shown_name(name, "x").removesuffix("x") for name in catalogue.servers}
        return [catalogue.servers[name] for name, prefix in prefixes.items() if wanted.startswith(prefix)]

    async def closed(self) -> None:
        await self._gateway.close()

    # What is there

    @property
    def about(self) -> ServerDescription:
        servers = tuple(self._standings())
        notes = self._gateway.catalogue.unavailable()
        missing = {one.name: notes[one.name] for one in servers if one.name in notes}
        missing |= {
            one.name: f"still {one.shown}" if one.state == STARTING else one.detail
            for one in servers
            if one.is_missing
        }
        about = super().about
        return ServerDescription(about.info, about.capabilities, about.instructions, missing, servers)

    def _standings(self) -> Iterator[ServerStatus]:
        from ...catalogue.items import KINDS

        settings, catalogue = self._config.gateway, self._gateway.catalogue
        bare = settings.view == "bare"
        listed = {
            kind.name: [(entry.server, entry.bare if bare else entry.name) for entry in catalogue.all(kind)]
            for kind in KINDS
        }
        for server_catalogue in catalogue.servers.values():
            if bare and server_catalogue.name != settings.server:
                continue
            holds = {
                kind: frozenset(name for server, name in names if server == server_catalogue.name)
                for kind, names in listed.items()
            }
            if server_catalogue.state == "starting" and (
                server_catalogue.fault is not None or not server_catalogue.was_read
            ):
                yield ServerStatus(
                    server_catalogue.name, STARTING, server_catalogue.activity, server_catalogue.age, holds
                )
            else:
                yield ServerStatus(
                    server_catalogue.name,
                    DOWN if server_catalogue.fault else READY,
                    server_catalogue.fault or "",
                    0.0,
                    holds,
                )
        for item in self._config.broken:
            yield ServerStatus(item.name, UNUSABLE, item.reason)
        for name in self._config.disabled:
            yield ServerStatus(name, DISABLED)
