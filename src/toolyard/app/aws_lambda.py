"""Servers as an AWS Lambda function: loaded once, then answering one event after another.

Owns the objects of an instance (servers, event loop, log), the removal of features that a function lacks
(tasks, change notifications), and results over AWS's limit. `edge.aws` reads events and writes responses.
`results` is imported when it is needed: a cold start does not need it.
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
from typing import Any, Protocol

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
from ..edge.request import App, AuthenticatorSetting, RequestAuthenticator
from ..kit.loader import load
from ..kit.server import Server
from ..languages import said
from ..telemetry.logs import setup
from ..wire.call import AUTHORIZATION, Call
from ..wire.errors import InvalidRequest
from ..wire.messages import decode_params, encode_error
from ..wire.seal import KEY_VARIABLE
from ..wire.types import CallToolParams

_NEEDS_STREAMS = frozenset({"listChanged", "subscribe"})


def limited_to_function(server: Server) -> Server:
    """Remove tasks, which would run on after the response.

    Require a key where callers can send one: the function's own would serve anyone who knows its URL.
    """
    server.disable_tasks()
    server.require_caller_keys()
    return server


class FunctionService:
    """The service of a server in a function.

    It does not declare change notifications. Its listed output schemas also admit the preview that replaces
    a result over AWS's limit.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._service = server.service
        self._widened: set[int] = set()
        self.listen = self._service.listen
        self.end_session = self._service.end_session
        self.close = self._service.close
        self.health = self._service.health

    async def handle(self, call: Call) -> Any:
        if call.method == "tools/list":
            self._widen_schemas()
        result = await self._service.handle(call)
        if call.method in ("initialize", "server/discover"):
            result.capabilities = {
                name: _without_streams(capability) for name, capability in result.capabilities.items()
            }
        return result

    def _widen_schemas(self) -> None:
        """Widen the output schema of each tool once; a server may add tools."""
        from ..results.preview import either_schema  # 13 ms of CPU that a cold start does not need

        for tool in self._server.tools.values():
            if tool.info.output_schema is not None and tool.serial not in self._widened:
                tool.list_output_schema(either_schema(tool.info.output_schema))
                self._widened.add(tool.serial)


def _without_streams(capability: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in capability.items() if name not in _NEEDS_STREAMS}


SHAPED_BYTES = 64_000
PREVIEW_ITEMS = 50
PREVIEW_CHARS = 16_000


async def fit_result(call: Call, result: Raw) -> Raw:
    """Replace a result over the limit by its summary and preview; images and the like stay as they are."""
    from ..results.limits import Limits
    from ..results.measure import find_oversized
    from ..results.payload import parse_payload
    from ..results.preview import ContentForms, RemainingContent, as_tool_result, preview_answer
    from ..results.storage import StoredResult
    from ..results.summary import summarize

    limits = Limits(
        max_bytes=SHAPED_BYTES, preview_items=PREVIEW_ITEMS, preview_chars=PREVIEW_CHARS, shape_always=True
    )
    payload = parse_payload(bytes(result))
    parts = find_oversized(payload, limits.by_bytes_alone())
    if not parts:  # images and the like cannot be cut
        return result
    tool = decode_params(call.params, CallToolParams).name
    reason = said(
        "it is larger than a response of a function may be; ask for fewer items, or for a part",
        "é maior do que a resposta de uma função pode ser; peça menos itens, ou uma parte",
    )
    answer = preview_answer(tool, summarize(parts[0].whole), StoredResult("none", error=reason), limits, "")
    remaining = RemainingContent(parts[0].other_blocks, payload.meta, payload.is_error)
    return as_tool_result(ContentForms.of(answer), remaining, None, call.caller.era)


logger = logging.getLogger("toolyard.function")

ORIGIN_VARIABLE = "TOOLYARD_ALLOW_ORIGIN"
PATH = "/mcp"
TABLES = (".toml", ".json")
_SERVERS = "toolyard.servers"
MARGIN = 0.05
"""The share of the remaining time that is reserved for a timeout response."""
MIN_MARGIN, MAX_MARGIN = 0.25, 1.0


class LambdaFunction:
    """The handler that AWS calls: `handler(event, context)`. A runtime that streams calls `answer`."""

    def __init__(self, edge: LambdaEdge, after_request: Callable[[], object] = lambda: None) -> None:
        self._edge = edge
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._after_request = after_request
        self._init_ms: float | None = uptime_ms()

    def __call__(self, event: Any, context: Any = None) -> dict[str, Any]:
        """Answer with one whole response."""
        writer = BufferedResponse(kind_of(event))
        self.run(event, context, writer)
        return writer.reply()

    def run(self, event: Any, context: Any, writer: ResponseWriter) -> None:
        """Answer into a writer; calls from other threads wait."""
        with self._lock:
            self._loop.run_until_complete(self.answer(event, context, writer))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def answer(self, event: Any, context: Any, writer: ResponseWriter) -> None:
        try:
            await self._serve(read_event(event), context, writer)
        except BadEventError as error:
            await self._refuse(writer, error)
        finally:
            self._after_request()

    async def _serve(self, request: EventRequest, context: Any, writer: ResponseWriter) -> None:
        started = time.perf_counter()
        request_id = str(getattr(context, "aws_request_id", ""))
        invocation = await self._edge.serve(request, writer, seconds_left(context), request_id)
        init_ms, self._init_ms = self._init_ms, None
        log_invocation(invocation, time.perf_counter() - started, init_ms)

    async def _refuse(self, writer: ResponseWriter, error: BadEventError) -> None:
        logger.warning("refused an event that is not an HTTP request: %s", error)
        await writer.start(400, [(b"content-type", b"application/json")])
        await writer.write(encode_error(None, InvalidRequest(str(error))))


class GarbageCollector:
    """Collects the garbage of a request at once: errors and their frames form cycles, and a frame may hold
    a caller's key.

    Imported modules are frozen, which makes a collection take 20 µs instead of 10 ms.
    """

    def __init__(self) -> None:
        self._modules = len(sys.modules)
        gc.freeze()

    def __call__(self) -> None:
        gc.collect()
        # Not while an error is handled: it and its frames would be frozen for good.
        if len(sys.modules) != self._modules and sys.exc_info()[0] is None:
            self._modules = len(sys.modules)
            gc.freeze()


def seconds_left(context: Any) -> float | None:
    """The time limit of a request, so that the response comes before the function times out."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    if remaining is None:
        return None
    left = max(0.0, remaining() / 1000)
    margin = min(MAX_MARGIN, max(MIN_MARGIN, left * MARGIN), left / 2)
    return left - margin


class Callers(RequestAuthenticator, Protocol):
    """Who may call a function, and the pages that say so. `function_callers` has them."""

    @property
    def routes(self) -> Mapping[str, App]: ...


def function(
    servers: Sequence[str],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    callers: Callers | None = None,
) -> LambdaFunction:
    """Make the handler of a function's module: `build`, and set up the log and the garbage collector."""
    setup("json")
    made = build(servers, options, callers)
    if not os.environ.get(KEY_VARIABLE):
        logger.warning("%s is not set: sessions are valid in this instance only", KEY_VARIABLE)
    return LambdaFunction(made, GarbageCollector())


def build(
    servers: Sequence[str],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    callers: Callers | None = None,
) -> LambdaEdge:
    """Load servers behind one edge: names of bundled servers, targets, or tables.

    One server is at `/mcp`, several are at `/mcp/NAME`. `options` are settings by the same names. `callers`
    finds out who calls; without it nobody is asked.
    """
    loaded = [_loaded(target, (options or {}).get(target)) for target in servers]
    if not loaded:
        raise ValueError("a function needs at least one server")
    asks = callers is not None
    entries = {
        PATH if len(loaded) == 1 else f"{PATH}/{server.name}": _entry(server, asks) for server in loaded
    }
    if len(entries) != len(loaded):
        raise ValueError(f"two servers have the same name: {', '.join(server.name for server in loaded)}")
    origins = [origin.strip() for origin in os.environ.get(ORIGIN_VARIABLE, "").split(",") if origin.strip()]
    return LambdaEdge(
        entries,
        origins=origins,
        callers=AuthenticatorSetting(callers),
        fit=fit_result,
        routes=None if callers is None else callers.routes,
    )


def _loaded(target: str, options: Mapping[str, Any] | None) -> Server:
    if target.endswith(TABLES):
        return limited_to_function(load(_module("rest"), options={**(options or {}), "table": target}))
    return limited_to_function(load(_module(target), options=options))


def _module(target: str) -> str:
    """The module of a bundled server; other targets stay as they are.

    Found with `find_spec`, because importing the list in `config` takes 17 ms of CPU at every start.
    """
    bundled = f"{_SERVERS}.{target}"
    return bundled if target.isidentifier() and find_spec(bundled) is not None else target


def _entry(server: Server, asks: bool) -> LambdaRoute:
    """`asks` who calls: then Authorization has the token, and no key for a server."""
    keys = server.caller_keys
    if asks and keys is not None:
        keys = replace(keys, headers=tuple(name for name in keys.headers if name != AUTHORIZATION))
    return LambdaRoute(server.name, FunctionService(server), server.sealer, keys, server.locale)
