"""The stages around every request on its way to an upstream, outermost first.

A stage takes a handler and returns one. The stages are folded once, when the gateway is built; a stage that is
switched off is not there at all.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw
from msgspec.structs import replace

from .dispatch import Mount
from .results.limits import NO_OPTIONS, may_have_options, take_options
from .results.shaper import ResultPolicy, Shaper, ShapeRequest
from .telemetry.metrics import Metrics
from .telemetry.requests import Observation, ObservedRequest, new_request_id
from .upstream.base import Forward, Outcome
from .wire.messages import decode_params, encode

if TYPE_CHECKING:
    from .telemetry.spans import Tracing

Handler = Callable[[Mount, Forward], Awaitable[Outcome]]
Stage = Callable[[Handler], Handler]

SHAPED = ("tools/call", "tasks/result")


def pipeline(
    metrics: Metrics | None,
    traces: "Tracing | None",
    shaping: "Shaping | None" = None,
    access_log: bool = False,
) -> Handler:
    stages: list[Stage] = [
        *([] if shaping is None else [shaped(shaping)]),
        observed(metrics, traces, access_log),
    ]
    handler: Handler = Mount.send
    for stage in reversed(stages):
        handler = stage(handler)
    return handler


class Shaping(Protocol):
    """What the stage of results needs."""

    @property
    def shaper(self) -> Shaper: ...

    def policy(self, server: str, tool: str) -> ResultPolicy: ...

    def own_parameters(self, server: str, tool: str) -> Collection[str]:
        """The tool's own parameters that have the name of one of our options."""
        ...


def shaped(shaping: Shaping) -> Stage:
    """Passes small results of tools through; replaces large ones with a summary."""

    shaper = shaping.shaper

    def stage(inner: Handler) -> Handler:
        async def shape(mount: Mount, forward: Forward) -> Outcome:
            if forward.method not in SHAPED:
                return await inner(mount, forward)
            server, tool, options = mount.server, forward.name or "", NO_OPTIONS
            arguments = forward.params.get("arguments")
            if arguments is not None and may_have_options(bytes(arguments)):
                own = shaping.own_parameters(server, tool)
                params, options = take_options(Raw(encode(forward.params)), own)
                forward = replace(forward, params=decode_params(params, dict[str, Raw]))
            outcome = await inner(mount, forward)
            body, caller, policy = outcome.body, forward.call.caller, shaping.policy(server, tool)
            if options is NO_OPTIONS and isinstance(body, Raw) and shaper.passes(caller, policy, bytes(body)):
                return outcome
            fitting = await shaper.fit(body, ShapeRequest(caller, policy, forward.read_hint, options))
            return outcome if fitting is body else outcome.with_body(fitting)

        return shape

    return stage


def observed(metrics: Metrics | None, traces: "Tracing | None", access_log: bool) -> Stage:
    """Records each request: span, metrics and log line."""

    def stage(inner: Handler) -> Handler:
        async def observe(mount: Mount, forward: Forward) -> Outcome:
            call = forward.call
            seen = ObservedRequest(
                method=forward.method,
                server=mount.server,
                caller=call.caller,
                transport=mount.transport,
                name=forward.name,
                request_id=new_request_id(),
                rpc_id=call.id,
                session_id=call.session.id if call.session is not None else "",
                request_bytes=len(memoryview(call.params)),
                address=mount.address,
                port=mount.port,
                in_access_log=access_log,
            )
            if traces is None:
                with Observation(seen, metrics):
                    outcome = await inner(mount, forward)
                    seen.response_bytes, seen.is_error_result = outcome.size, outcome.is_error
                    return outcome
            seen.upstream_version = mount.version()
            meta = decode_params(forward.params.get("_meta", Raw(b"{}")), dict[str, Raw])
            with Observation(seen, metrics, traces, meta) as told:
                outcome = await inner(
                    mount, replace(forward, params={**forward.params, "_meta": Raw(encode(told))})
                )
                seen.response_bytes, seen.is_error_result = outcome.size, outcome.is_error
                return outcome

        return observe

    return stage
