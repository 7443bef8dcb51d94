"""Servers as an AWS Lambda function: loaded once, then answering one event after the other.

Owns what an instance keeps for its life (servers, event loop, log), what a function cannot offer
(tasks, change notifications), and results over AWS's limit. `edge` reads events and writes responses.
`results` is imported late: a cold start does without it.
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

from msgspec import Raw
from msgspec.structs import replace

from ..edge.aws.events import (
    BadEventError,
    BufferedResponse,
    EventRequest,
    ResponseWriter,
    kind_of,
    read_event,
)
from ..edge.aws.function import LambdaEdge, LambdaRoute, log_invocation, uptime_ms
from ..kit.loader import load
from ..kit.server import KEY_VARIABLE, Server
from ..telemetry.logs import setup
from ..wire.call import Call
from ..wire.errors import InvalidRequest
from ..wire.messages import decode_params, encode_error
from ..wire.types import CallToolParams

_NEEDS_STREAMS = frozenset({"listChanged", "subscribe"})


def limited_to_function(server: Server) -> Server:
    """Without tasks, which are work that goes on when the answer is out.

    And where callers can bring keys they must: the function's own would serve anybody who finds its address.
    """
    for tool in server.tools.values():
        tool.long = None
    server.features.discard("tasks")
    if server.caller_keys is not None:
        server.caller_keys = replace(server.caller_keys, required=True)
    return server


class FunctionService:
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
            result.capabilities = {name: _without_streams(told) for name, told in result.capabilities.items()}
        return result

    def _widen(self) -> None:
        """Each tool once; there may be new ones."""
        from ..results.preview import either_schema  # 13 ms of CPU that a cold start does without

        for tool in self._server.tools.values():
            if tool.info.output_schema is not None and tool.serial not in self._wide:
                tool.info = replace(tool.info, output_schema=either_schema(tool.info.output_schema))
                self._wide.add(tool.serial)


def _without_streams(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in _NEEDS_STREAMS}


SHAPED_BYTES = 64_000
PREVIEW_ITEMS = 50
PREVIEW_CHARS = 16_000
TOO_BIG = "it is over what a function can send in one answer; ask for fewer items, or for a part"


async def fit_result(call: Call, result: Raw) -> Raw:
    """What takes the place of a result that is too big; itself where there is no such thing."""
    from ..results.limits import Limits
    from ..results.measure import find_oversized
    from ..results.payload import parse_payload
    from ..results.preview import ContentForms, RemainingContent, as_tool_result, preview_answer
    from ..results.storage import StoredResult
    from ..results.summary import summarize

    limits = Limits(
        max_bytes=SHAPED_BYTES, preview_items=PREVIEW_ITEMS, preview_chars=PREVIEW_CHARS, always=True
    )
    payload = parse_payload(bytes(result))
    measured = find_oversized(payload, limits.by_bytes_alone())
    if not measured:  # pictures or the like, of which no part would be one
        return result
    tool = decode_params(call.params, CallToolParams).name
    answer = preview_answer(
        tool, summarize(measured[0].whole), StoredResult("none", fault=TOO_BIG), limits, ""
    )
    beside = RemainingContent(measured[0].beside, payload.meta, payload.is_error)
    return as_tool_result(ContentForms.of(answer), beside, None, call.caller.era)


logger = logging.getLogger("toolyard.function")

ORIGIN_VARIABLE = "TOOLYARD_ALLOW_ORIGIN"
PATH = "/mcp"
TABLES = (".toml", ".json")
_SERVERS = "toolyard.servers"
MARGIN = 0.05
"""Of the time that is left, what is kept for saying that it is over."""
MARGIN_LEAST, MARGIN_MOST = 0.25, 1.0


class LambdaFunction:
    """What AWS calls: `handler(event, context)`. `answer` is for a runtime that streams."""

    def __init__(self, edge: LambdaEdge, tidy: Callable[[], object] = lambda: None) -> None:
        """`tidy` is called when a request has been answered."""
        self._edge = edge
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        self._tidy = tidy
        self._init_ms: float | None = uptime_ms()

    def __call__(self, event: Any, context: Any = None) -> dict[str, Any]:
        """One answer as a whole."""
        outlet = BufferedResponse(kind_of(event))
        self.run(event, context, outlet)
        return outlet.reply()

    def run(self, event: Any, context: Any, outlet: ResponseWriter) -> None:
        """Answer into an outlet; whoever calls from another thread waits for its turn."""
        with self._turn:
            self._loop.run_until_complete(self.answer(event, context, outlet))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def answer(self, event: Any, context: Any, outlet: ResponseWriter) -> None:
        try:
            await self._serve(read_event(event), context, outlet)
        except BadEventError as error:
            await self._refuse(outlet, error)
        finally:
            self._tidy()

    async def _serve(self, request: EventRequest, context: Any, outlet: ResponseWriter) -> None:
        started = time.perf_counter()
        request_id = str(getattr(context, "aws_request_id", ""))
        it = await self._edge.serve(request, outlet, seconds_left(context), request_id)
        init_ms, self._init_ms = self._init_ms, None
        log_invocation(it, time.perf_counter() - started, init_ms)

    async def _refuse(self, outlet: ResponseWriter, error: BadEventError) -> None:
        logger.warning("an event that is no HTTP request was refused: %s", error)
        await outlet.start(400, [(b"content-type", b"application/json")])
        await outlet.write(encode_error(None, InvalidRequest(str(error))))


class GarbageCollector:
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


def function(
    servers: Sequence[str], options: Mapping[str, Mapping[str, Any]] | None = None
) -> LambdaFunction:
    """What the module of a function makes, once: `build`, with the process's log and collector taken over."""
    setup("json")
    made = build(servers, options)
    if not os.environ.get(KEY_VARIABLE):
        logger.warning(
            "%s is not set: sessions end with this instance, and no other one knows them", KEY_VARIABLE
        )
    return LambdaFunction(made, GarbageCollector())


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
    return LambdaEdge(entries, origins=origins, fit=fit_result)


def _loaded(target: str, options: Mapping[str, Any] | None) -> Server:
    if target.endswith(TABLES):
        return limited_to_function(load(_module("rest"), options={**(options or {}), "table": target}))
    return limited_to_function(load(_module(target), options=options))


def _module(target: str) -> str:
    """The module of a bundled server, by its name; anything else as it is.

    Looked for among the modules, since the list of them is in `config`: 17 ms of CPU at every start.
    """
    bundled = f"{_SERVERS}.{target}"
    return bundled if target.isidentifier() and find_spec(bundled) is not None else target


def _entry(server: Server) -> LambdaRoute:
    return LambdaRoute(server.name, FunctionService(server), server.sealer, server.caller_keys)
