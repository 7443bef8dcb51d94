"""Servers as an AWS Lambda function: loaded once, then answering one event after the other.

Owns what an instance has for its life: the servers, the event loop with the connections that live on it,
the log. What an event is and how it is answered is `edge/aws_lambda`'s business.
"""

import asyncio
import gc
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from msgspec.structs import replace

from ..edge.aws_lambda import Entry, LambdaEdge
from ..edge.lambda_events import BadEvent, kind_of, read
from ..edge.lambda_log import since_start, tell
from ..edge.lambda_outlets import Collected, Outlet
from ..kit.loading import load
from ..kit.server import KEY_VARIABLE, Server
from ..telemetry.logs import setup
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error
from .lambda_fitting import Widened, fit

logger = logging.getLogger("toolyard.function")

ORIGIN_VARIABLE = "TOOLYARD_ALLOW_ORIGIN"
PATH = "/mcp"
TABLES = (".toml", ".json")
_SERVERS = "toolyard.servers"
MARGIN = 0.05
"""Of the time that is left, what is kept for saying that it is over."""
MARGIN_LEAST, MARGIN_MOST = 0.25, 1.0


class Context(Protocol):
    """What a runtime tells of an invocation."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


class Function:
    """What AWS calls: `handler(event, context)`. `answer` is for a runtime that streams."""

    def __init__(self, edge: LambdaEdge) -> None:
        self._edge = edge
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
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
        started = time.perf_counter()
        init_ms, self._init_ms = self._init_ms, None
        try:
            request = read(event)
        except BadEvent as error:
            await self._refuse(outlet, error)
            return
        request_id = str(getattr(context, "aws_request_id", ""))
        it = await self._edge.serve(request, outlet, seconds_left(context), request_id)
        tell(it, time.perf_counter() - started, init_ms)
        # Errors and the frames they came through hold each other, and a frame may hold a caller's key.
        gc.collect()

    async def _refuse(self, outlet: Outlet, error: BadEvent) -> None:
        logger.warning("an event that is no HTTP request was refused: %s", error)
        await outlet.start(400, [(b"content-type", b"application/json")])
        await outlet.write(encode_error(None, InvalidRequest(str(error))))


def seconds_left(context: Any) -> float | None:
    """How long an answer may take, so that it comes before the function's time is up."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    if remaining is None:
        return None
    left = max(0.0, remaining() / 1000)
    margin = min(MARGIN_MOST, max(MARGIN_LEAST, left * MARGIN), left / 2)
    return left - margin


def function(servers: Sequence[str], options: Mapping[str, Mapping[str, Any]] | None = None) -> Function:
    """A function of these servers: names of bundled ones, targets, or files with tables.

    One is at `/mcp`; several are at `/mcp/NAME` each. `options` are settings, by the same names.
    """
    setup("json")
    loaded = [_loaded(target, (options or {}).get(target)) for target in servers]
    if not loaded:
        raise ValueError("a function needs at least one server")
    if not os.environ.get(KEY_VARIABLE):
        logger.warning(
            "%s is not set: sessions end with this instance, and no other one knows them", KEY_VARIABLE
        )
    entries = {PATH if len(loaded) == 1 else f"{PATH}/{server.name}": _entry(server) for server in loaded}
    if len(entries) != len(loaded):
        raise ValueError(f"two servers have one name: {', '.join(server.name for server in loaded)}")
    origins = [origin.strip() for origin in os.environ.get(ORIGIN_VARIABLE, "").split(",") if origin.strip()]
    made = Function(LambdaEdge(entries, origins=origins, fit=fit))
    gc.freeze()  # what is here stays: collecting after each request costs 20 µs then, else 10 ms
    return made


def _loaded(target: str, options: Mapping[str, Any] | None) -> Server:
    if target.endswith(TABLES):
        return _stateless(load(_module("rest"), options={**(options or {}), "table": target}))
    return _stateless(load(_module(target), options=options))


def _module(target: str) -> str:
    """The module of a bundled server, by its name; anything else as it is.

    Looked for among the modules, since the list of them is in `config`: 17 ms of CPU at every start.
    """
    bundled = f"{_SERVERS}.{target}"
    return bundled if target.isidentifier() and find_spec(bundled) is not None else target


def _stateless(server: Server) -> Server:
    """Without what a function cannot keep: tasks are work that goes on when the answer is out.

    And where callers can bring keys they must: the function's own would serve anybody who finds its address.
    """
    for tool in server.tools.values():
        tool.long = None
    server.features.discard("tasks")
    if server.caller_keys is not None:
        server.caller_keys = replace(server.caller_keys, required=True)
    return server


def _entry(server: Server) -> Entry:
    keys = None if server.caller_keys is None else lambda: server.caller_keys
    return Entry(server.name, Widened(server), server.sealer, keys)
