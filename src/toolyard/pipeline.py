"""The stages around every forwarded call, outermost first: shaping results, then telemetry.

A stage takes a handler and returns one. They are folded once, when the gateway is built; a stage that is
switched off is not in the list.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw, Struct

from .dispatch import Forward, dispatch
from .results.limits import may_have_options, take_options
from .results.shaper import ResultPolicy, ResultShaper, ShapeRequest
from .telemetry.metrics import Metrics
from .telemetry.requests import Observation, ObservedRequest, new_request_id
from .wire.messages import decode_params, encode
from .wire.types import CallToolResult

if TYPE_CHECKING:
    from .telemetry.spans import Tracing

Handler = Callable[[Forward], Awaitable[Any]]
Stage = Callable[[Handler], Handler]

LOOK_FOR_ERRORS_UP_TO = 64 * 1024
SHAPED = ("tools/call", "tasks/result")


def pipeline(
    metrics: Metrics | None,
    traces: "Tracing | None",
    shaping: "ShapingPolicy | None" = None,
    access_log: bool = False,
) -> Handler:
    stages: list[Stage] = [
        *([] if shaping is None else [shaping_stage(shaping)]),
        telemetry_stage(metrics, traces, access_log),
    ]
    handler: Handler = dispatch
    for stage in reversed(stages):
        handler = stage(handler)
    return handler


class ShapingPolicy(Protocol):
    """Who makes results fit, and what is wanted of one."""

    @property
    def shaper(self) -> ResultShaper: ...

    def policy(self, forward: Forward) -> ResultPolicy: ...

    def request(self, forward: Forward) -> ShapeRequest: ...

    def own_parameters(self, forward: Forward) -> Collection[str]:
        """What looks like a wish about the result, and is a parameter of the tool."""
        ...


def shaping_stage(shaping: ShapingPolicy) -> Stage:
    """Results of tools that fit a model's context; big ones are kept, and told of."""

    shaper = shaping.shaper

    def stage(inner: Handler) -> Handler:
        async def fitting(forward: Forward) -> Any:
            call = forward.call
            if call.method not in SHAPED:
                return await inner(forward)
            if may_have_options(bytes(call.params)):
                call.params, forward.options = take_options(call.params, shaping.own_parameters(forward))
            result = await inner(forward)
            if isinstance(result, CallToolResult):
                result = Raw(encode(result))  # it was going to be, a little later
            plain = forward.options is None and isinstance(result, Raw)
            if plain and shaper.passes(call.caller, shaping.policy(forward), bytes(result)):
                return result
            return await shaper.fit(result, shaping.request(forward))

        return fitting

    return stage


def telemetry_stage(metrics: Metrics | None, traces: "Tracing | None", access_log: bool) -> Stage:
    """Spans, metrics and log lines."""

    def stage(inner: Handler) -> Handler:
        async def watched(forward: Forward) -> Any:
            call, mount = forward.call, forward.mount
            seen = ObservedRequest(
                method=call.method,
                server=mount.server,
                caller=call.caller,
                transport=mount.transport,
                name=forward.name,
                request_id=new_request_id(),
                rpc_id=call.id,
                session_id=call.session.id if call.session is not None else "",
                request_bytes=len(bytes(call.params)),
                address=mount.address,
                port=mount.port,
                in_access_log=access_log,
            )
            if traces is None:
                with Observation(seen, metrics):
                    return _measured(seen, await inner(forward))
            members = decode_params(call.params, dict[str, Raw])
            meta = decode_params(members.get("_meta", Raw(b"{}")), dict[str, Raw])
            seen.upstream_version = mount.version()
            with Observation(seen, metrics, traces, meta) as told:
                call.params = Raw(encode({**members, "_meta": told}))
                return _measured(seen, await inner(forward))

        return watched

    return stage


class _Outcome(Struct, rename="camel"):
    is_error: bool = False


_decode_outcome = msgspec.json.Decoder(_Outcome).decode


def _says_error(body: bytes) -> bool:
    try:
        return _decode_outcome(body).is_error
    except msgspec.DecodeError:
        return False


def _measured(seen: ObservedRequest, result: Any) -> Any:
    if isinstance(result, Raw):
        body = bytes(result)
        seen.response_bytes = len(body)
        # Few results have the word in them at all, and those that do are mostly small.
        if b'"isError"' in body and len(body) <= LOOK_FOR_ERRORS_UP_TO:
            seen.is_error_result = _says_error(body)
    else:
        seen.response_bytes = getattr(result, "size", None)
        seen.is_error_result = getattr(result, "is_error", False) is True
    return result
