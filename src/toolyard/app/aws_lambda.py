"""Servers as an AWS Lambda function: loaded once, then answering one event after the other.

Owns what an instance has for its life: the servers, the event loop with the connections that live on it,
the log. What an event is and how it is answered is `edge/aws_lambda`'s business.
"""

import asyncio
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from ..edge.aws_lambda import Entry, LambdaEdge
from ..edge.lambda_events import BadEvent, Request, kind_of, read
from ..edge.lambda_log import since_start, tell
from ..edge.lambda_outlets import Collected, Outlet
from ..kit.loading import load
from ..kit.server import KEY_VARIABLE, Server
from ..telemetry.logs import setup
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error
from .lambda_confining import Confined, confined
from .lambda_fitting import fit

logger = logging.getLogger("toolyard.function")

ORIGIN_VARIABLE = "TOOLYARD_ALLOW_ORIGIN"
PATH = "/mcp"
TABLES = (".toml", ".json")
_SERVERS = "toolyard.servers"
MARGIN = 0.05
"""Of the time that is left, what is kept for saying that it is over."""
MARGIN_LEAST, MARGIN_MOST = 0.25, 1.0


class Function:
    """What AWS calls: `handler(event, context)`. `answer` is for a runtime that streams."""

    def __init__(self, edge: LambdaEdge, tidy: Callable[[], object] = lambda: None) -> None:
        """`tidy` is called when a request has been answered."""
        self._edge = edge
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        self._tidy = tidy
        self._init_ms: float | None = since_start()

    def __call__(self, event: Any, context: Any = None) -> dict[str, Any]:
        """One answer as a whole."""
        outlet = Collected(kind_of(event))
        self.run(event, context, outlet)
        return outlet.reply()

    def run(self, event: Any, context: Any, outlet: Outlet) -> None:
        """Answer into an outlet; whoever calls from another thread waits for its turn."""
        with self._turn:
            self._loop.run_until_complete(self.answer(event, context, outlet))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def answer(self, event: Any, context: Any, outlet: Outlet) -> None:
        try:
            await self._serve(read(event), context, outlet)
        except BadEvent as error:
            await self._refuse(outlet, error)
        finally:
            self._tidy()

    async def _serve(self, request: Request, context: Any, outlet: Outlet) -> None:
        started = time.perf_counter()
        request_id = str(getattr(context, "aws_request_id", ""))
        it = await self._edge.serve(request, outlet, seconds_left(context), request_id)
        init_ms, self._init_ms = self._init_ms, None
        tell(it, time.perf_counter() - started, init_ms)

    async def _refuse(self, outlet: Outlet, error: BadEvent) -> None:
        logger.warning("an event that is no HTTP request was refused: %s", error)
        await outlet.start(400, [(b"content-type", b"application/json")])
        await outlet.write(encode_error(None, InvalidRequest(str(error))))


class Collector:
    """Collects what a request leaves behind at once: errors and the frames they came through hold each other,
    and a frame may hold a caller's key.

    What was imported stays anyway, so it is not looked at: a collection costs 20 µs then, else 10 ms.
    """

    def __init__(self) -> None:
        self._modules = len(sys.modules)
        gc.freeze()

    def __call__(self) -> None:
        gc.collect()
        # Not while an error passes by: it and the frames that it holds would stay for good.
        if len(sys.modules) != self._modules and sys.exc_info()[0] is None:
            self._modules = len(sys.modules)
            gc.freeze()


def seconds_left(context: Any) -> float | None:
    """How long an answer may take, so that it comes before the function's time is up."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    if remaining is None:
        return None
    left = max(0.0, remaining() / 1000)
    margin = min(MARGIN_MOST, max(MARGIN_LEAST, left * MARGIN), left / 2)
    return left - margin


def function(servers: Sequence[str], options: Mapping[str, Mapping[str, Any]] | None = None) -> Function:
    """What the module of a function makes, once: `build`, with the process's log and collector taken over."""
    setup("json")
    made = build(servers, options)
    if not os.environ.get(KEY_VARIABLE):
        logger.warning(
            "%s is not set: sessions end with this instance, and no other one knows them", KEY_VARIABLE
        )
    return Function(made, Collector())


def build(servers: Sequence[str], options: Mapping[str, Mapping[str, Any]] | None = None) -> LambdaEdge:
    """These servers behind one edge: names of bundled ones, targets, or files with tables.

    One is at `/mcp`; several are at `/mcp/NAME` each. `options` are settings, by the same names.
    """
    loaded = [_loaded(target, (options or {}).get(target)) for target in servers]
    if not loaded:
        raise ValueError("a function needs at least one server")
    entries = {PATH if len(loaded) == 1 else f"{PATH}/{server.name}": _entry(server) for server in loaded}
    if len(entries) != len(loaded):
        raise ValueError(f"two servers have one name: {', '.join(server.name for server in loaded)}")
    origins = [origin.strip() for origin in os.environ.get(ORIGIN_VARIABLE, "").split(",") if origin.strip()]
    return LambdaEdge(entries, origins=origins, fit=fit)


def _loaded(target: str, options: Mapping[str, Any] | None) -> Server:
    if target.endswith(TABLES):
        return confined(load(_module("rest"), options={**(options or {}), "table": target}))
    return confined(load(_module(target), options=options))


def _module(target: str) -> str:
    """The module of a bundled server, by its name; anything else as it is.

    Looked for among the modules, since the list of them is in `config`: 17 ms of CPU at every start.
    """
    bundled = f"{_SERVERS}.{target}"
    return bundled if target.isidentifier() and find_spec(bundled) is not None else target


def _entry(server: Server) -> Entry:
    keys = None if server.caller_keys is None else lambda: server.caller_keys
    return Entry(server.name, Confined(server), server.sealer, keys)
