"""Running the HTTP edge on uvicorn, with a shutdown that does not wait for open streams."""

import sys
from typing import Any, cast

import uvicorn

from .paths import Endpoint
from .patience import KEEP_ALIVE_SECONDS, MAX_IDLE, LimitedHttp
from .running import run_to_end

GRACE_SECONDS = 2


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, edge: Endpoint) -> None:
        super().__init__(config)
        self._edge = edge

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        # uvicorn waits for connections first and tells the app afterwards; a listening stream would
        # hold it until the grace period ends.
        for listening in self.servers:
            listening.close()
        await self._edge.close()
        self._abandon_stubborn()
        await super().shutdown(sockets)  # type: ignore[arg-type]

    def _abandon_stubborn(self) -> None:
        """A call that is still running by now ignores its cancellation; nobody waits for it on the wire."""
        for connection in list(self.server_state.connections):
            cycle: Any = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                cast(Any, connection).transport.abort()


def server(
    edge: Endpoint,
    host: str,
    port: int,
    log_level: str = "warning",
    keep_alive: float = KEEP_ALIVE_SECONDS,
    max_idle: int = MAX_IDLE,
) -> uvicorn.Server:
    """`keep_alive` is how long a connection may be idle, and `max_idle` how many may be so at a time."""
    config = uvicorn.Config(
        edge,
        host=host,
        port=port,
        log_level=log_level,
        access_log=False,
        server_header=False,
        # Nothing here asks for the client's address, so nobody needs to believe a header about it.
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=cast(int, keep_alive),  # a number of any kind will do
        ws="none",
        http=type("Http", (LimitedHttp,), {"max_idle": max_idle}),
        # uvicorn would put its own handlers in the place of whatever was set up.
        log_config=None,
    )
    return _Uvicorn(config, edge)


def run(
    edge: Endpoint,
    host: str,
    port: int,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    max_idle: int = MAX_IDLE,
) -> None:
    serving = server(edge, host, port, keep_alive=keep_alive, max_idle=max_idle)
    # Where nothing was set up to show a log, a server that says nothing looks like one that hangs.
    sys.stderr.write(f"serving MCP at http://{host}:{port}{edge.path} (Ctrl-C stops it)\n")
    run_to_end(serving.serve(), serving.config.get_loop_factory())
