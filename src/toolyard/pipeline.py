"""The stages around every request on its way to an upstream, outermost first.

A stage takes a handler and returns one. The stages are folded once, when the gateway is built; a stage that
is switched off is not there at all.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Raw
from msgspec.structs import replace

from .dispatch import CallTarget
from .results.limits import NO_OPTIONS, has_options, take_options
from .results.shaper import ResultPolicies, ResultPolicy, ResultShaper, ShapeRequest
from .telemetry.content import ContentPolicy
from .telemetry.metrics import Metrics
from .telemetry.requests import Meta, Observation, ObservedRequest, Tracer, current, new_request_id
from .upstream.base import Forward, Outcome
from .upstream.messages.envelope import read_outcome
from .wire.call import StreamedResult
from .wire.messages import decode_params, encode

Handler = Callable[[CallTarget, Forward], Awaitable[Outcome]]
Stage = Callable[[Handler], Handler]

SHAPED = ("tools/call", "tasks/result")
_NO_META = Raw(b"{}")
NESTED_BYTES = 8 * 2**20
"""Up to this size a result passes whole to the tool that called the tool."""


def pipeline(
    metrics: Metrics | None,
    traces: Tracer | None,
    shaping: "Shaping | None" = None,
    access_log: bool = False,
    guard: "Stage | None" = None,
    content: ContentPolicy | None = None,
) -> Handler:
    """`content` is what spans hold of arguments and results; None: nothing."""
    handler = observed(metrics, traces, access_log, content)
    stages: list[Stage] = [] if guard is None else [guard]
    if shaping is not None:
        stages.append(shaped(shaping))
    for stage in reversed(stages):
        handler = stage(handler)
    return handler


class Shaping(Protocol):
    """What the stage of results needs."""

    @property
    def shaper(self) -> ResultShaper: ...

    @property
    def policies(self) -> ResultPolicies: ...

    def unlisted(self, server: str, own: str) -> ResultPolicy:
        """The policy of a tool that is not in the catalogue."""
        ...


def shaped(shaping: Shaping) -> Stage:
    """Passes small results of tools through; replaces large ones with a summary."""

    shaper, policies = shaping.shaper, shaping.policies

    def stage(inner: Handler) -> Handler:
        async def shape(target: CallTarget, forward: Forward) -> Outcome:
            if forward.method not in SHAPED:
                return await inner(target, forward)
            entry, options = target.entry, NO_OPTIONS
            policy = (
                shaping.unlisted(target.mount.server, target.own) if entry is None else policies.of(entry)
            )
            arguments = forward.params.get("arguments") or forward.task_arguments
            if arguments is not None and has_options(bytes(arguments)):
                asked = Raw(encode({"arguments": arguments}))
                rest, options = take_options(asked, policy.own_options)
                if "arguments" in forward.params:
                    cleaned = decode_params(rest, dict[str, Raw])
                    forward = replace(forward, params={**forward.params, **cleaned})
            if forward.call.depth and options.max_bytes is None:
                # A program reads it, not a model.
                options = replace(options, max_bytes=NESTED_BYTES)
            outcome = await inner(target, forward)
            body, caller = outcome.body, forward.call.caller
            if options is NO_OPTIONS and isinstance(body, Raw) and shaper.passes(caller, policy, bytes(body)):
                return outcome
            fitting = await shaper.fit(body, ShapeRequest(caller, policy, forward.read_hint, options))
            if fitting is body:
                return outcome
            if isinstance(body, StreamedResult) and isinstance(fitting, Raw):  # only now it can be read
                failed = read_outcome(target.mount.server, fitting, modern=False).is_error
                outcome = replace(outcome, is_error=failed or outcome.is_error)
            return outcome.with_body(fitting)

        return shape

    return stage


def observed(
    metrics: Metrics | None, traces: Tracer | None, access_log: bool, content: ContentPolicy | None = None
) -> Handler:
    """The innermost handler: sends the request, and records it as span, metrics and log line."""

    async def observe(target: CallTarget, forward: Forward) -> Outcome:
        call, mount = forward.call, target.mount
        seen = ObservedRequest(
            method=forward.method,
            server=mount.server,
            caller=call.caller,
            transport=mount.transport,
            name=forward.name,
            request_id=forward.request_id or new_request_id(),
            rpc_id=call.id,
            session_id=call.session.id if call.session is not None else "",
            request_bytes=len(memoryview(call.params)),
            address=mount.address,
            port=mount.port,
            in_access_log=access_log,
        )
        if traces is None:
            with Observation(seen, metrics):
                outcome = await mount.send(forward)
                seen.response_bytes, seen.is_error_result = outcome.size, outcome.is_error
                return outcome
        seen.upstream_version = mount.version()
        served = current.get()
        if served is not None and served.is_served and target.entry is not None:
            _note_called(served, target.entry.name)
        if content is not None and content.keeps_arguments:
            seen.arguments = content.excerpt(
                memoryview(forward.params.get("arguments", Raw())), _keys(forward)
            )
        sent = bytes(forward.params.get("_meta", _NO_META))
        # Most clients name no trace: then what the span adds is put before what they sent.
        is_named = b"trace" in sent or b"baggage" in sent or not sent.startswith(b"{")
        with Observation(seen, metrics, traces, decode_params(Raw(sent), Meta) if is_named else {}) as told:
            meta = encode(told) if is_named else _before(told, sent)
            traced = replace(forward, params={**forward.params, "_meta": Raw(meta)})
            outcome = await mount.send(traced)
            seen.response_bytes, seen.is_error_result = outcome.size, outcome.is_error
            if outcome.is_error and served is not None and len(served.called) < 2:
                served.is_error_result = True
            if content is not None and content.keeps_results and isinstance(outcome.body, Raw):
                seen.result = content.excerpt(memoryview(outcome.body), _keys(forward))
            return outcome

    return observe


def _before(added: Meta, meta: bytes) -> bytes:
    """`meta`, an object, with members that it does not have."""
    if not added:
        return meta
    rest = meta[1:].lstrip()
    return encode(added)[:-1] + (b"" if rest.startswith(b"}") else b",") + rest


def _note_called(served: ObservedRequest, name: str) -> None:
    served.is_forwarded = True
    if name != served.name and name not in served.called:  # as a meta tool's request names another
        served.called = (*served.called, name)


def _keys(forward: Forward) -> list[str]:
    """The caller's own keys, which must not be in spans."""
    return [key.reveal() for key in (forward.call.secrets or {}).values()]
