"""The base of every feature: options, the call of an author's function, pages, caching hints.

Async functions run on the event loop, others in a thread. Catches and logs bugs of authors.
"""

import asyncio
import base64
import binascii
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar

from msgspec import Raw

from ...edge.runner import in_thread
from ...languages import said
from ...wire.call import Call, Caller
from ...wire.errors import INTERNAL_ERROR, InternalError, InvalidParams, McpError, MethodNotFound
from ...wire.messages import decode_params
from ...wire.seal import Sealer
from ...wire.types import Annotations, Cacheable, Icon, ListParams, Meta, RoundTrip, ToolAnnotations
from ..calls.content import ToolError, to_wire
from ..calls.context import Context
from ..calls.input_requests import (
    Detached,
    InputRequired,
    LegacyRequester,
    RoundTripRequester,
    await_signals,
    fingerprint,
    signals_in,
)
from ..calls.tasks import Long, TaskRegistry
from ..dependencies import Dependency, Resolver, dependencies_of
from ..events import EventHub
from ..schema.annotations import underlying
from ..schema.validation import MismatchError, context_parameter

logger = logging.getLogger("toolyard.kit")

T = TypeVar("T")
C = TypeVar("C", bound=Cacheable)

FeatureMethod = Callable[[Call], Awaitable[Any]]
FeatureMethods = dict[str, FeatureMethod]


class FeatureHost(Protocol):
    """The parts of a server that every feature uses."""

    features: set[str]
    page_size: int
    cache_ttl: float
    cache_scope: Literal["public", "private"]
    state_ttl: float
    max_subscriptions: int
    sealer: Sealer
    hub: EventHub
    tasks: TaskRegistry

    def subscribed(self, uri: str, caller: Caller) -> None:
        """A caller wants to hear of changes of a resource."""
        ...


H = TypeVar("H", bound=FeatureHost)


class AuthorFunction:
    """A function, and the name of its parameter for the context."""

    def __init__(self, function: Callable[..., Any], context_name: str | None) -> None:
        self._function = function
        self._context_name = context_name
        self._is_async = inspect.iscoroutinefunction(underlying(function))

    @property
    def wants_context(self) -> bool:
        return self._context_name is not None

    def __call__(self, arguments: dict[str, Any], context: Context | None) -> Awaitable[Any]:
        if self._context_name is not None:
            arguments[self._context_name] = context
        if self._is_async:
            return self._function(**arguments)
        return self._in_thread(arguments, context)

    async def _in_thread(self, arguments: dict[str, Any], context: Context | None) -> Any:
        try:
            value = await in_thread(self._run, arguments)
            # An `async def` behind an ordinary decorator looks like a `def`.
            return await value if inspect.isawaitable(value) else value
        except asyncio.CancelledError:
            if context is not None:
                context.mark_cancelled()
            raise

    def _run(self, arguments: dict[str, Any]) -> Any:
        try:
            return self._function(**arguments)
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
            # A future does not accept the first, so the call would never end; the others would stop the loop.
            raise RuntimeError(f"the function raised {type(error).__name__}") from error


class DependentFunction(AuthorFunction):
    """A function of whose parameters some are `Depends`."""

    def __init__(
        self, function: Callable[..., Any], context_name: str | None, wanted: Mapping[str, Dependency]
    ) -> None:
        super().__init__(function, context_name)
        self._wanted = wanted

    @property
    def wants_context(self) -> bool:
        return True  # its dependencies may

    async def __call__(self, arguments: dict[str, Any], context: Context | None) -> Any:
        async with AsyncExitStack() as stack:
            resolver = Resolver(stack, partial(context_parameter, context_type=Context), context)
            arguments |= await resolver.resolve(self._wanted)
            return await super().__call__(arguments, context)


def author_function(function: Callable[..., Any], context_name: str | None) -> AuthorFunction:
    wanted = dependencies_of(function)
    return (
        DependentFunction(function, context_name, wanted)
        if wanted
        else AuthorFunction(function, context_name)
    )


class TimedFunction:
    """Given up after so many seconds. A thread goes on, and hears it from its context."""

    def __init__(self, function: AuthorFunction, name: str, seconds: float) -> None:
        if seconds <= 0:
            raise ValueError(f"timeout of tool {name!r} must be more than 0 seconds, not {seconds}")
        self._function = function
        self._name = name
        self._seconds = seconds

    @property
    def wants_context(self) -> bool:
        return self._function.wants_context

    async def __call__(self, arguments: dict[str, Any], context: Context | None) -> Any:
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await self._function(arguments, context)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(
                said(
                    f"Tool {self._name!r} took longer than {self._seconds:g} seconds",
                    f"A ferramenta {self._name!r} levou mais de {self._seconds:g} segundos",
                )
            ) from None


def reraise_signals(error: BaseException) -> None:
    """Raise our own signals and the cancellation of this task again: they are not the author's failures.

    A cancellation that leaked from another task is a failure like others.
    """
    if next(signals_in(error), None) is not None:
        raise error
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise error


class Numbered(Protocol):
    serial: int


N = TypeVar("N", bound=Numbered)


def page(items: Iterable[N], cursor: str | None, size: int) -> tuple[list[N], str | None]:
    after = _read_cursor(cursor) if cursor is not None else 0
    left = [item for item in items if item.serial > after]
    shown = left[:size]
    return shown, _write_cursor(shown[-1].serial) if len(left) > size else None


def _write_cursor(serial: int) -> str:
    return base64.urlsafe_b64encode(b"after:%d" % serial).decode()


def _read_cursor(cursor: str) -> int:
    try:
        mark, _, number = base64.b64decode(cursor, altchars=b"-_", validate=True).partition(b":")
        if mark == b"after" and number.isdigit() and len(number) < 19:
            return int(number)
    except (binascii.Error, ValueError):
        pass
    raise invalid_cursor(cursor)


def invalid_cursor(cursor: str) -> InvalidParams:
    shown = cursor[:80]
    return InvalidParams(
        said(
            f"Invalid cursor {shown!r}; start again without one",
            f"Cursor inválido {shown!r}; recomece sem ele",
        )
    )


def unknown(kind: Literal["tool", "prompt", "resource"], name: str, hint: str = "") -> InvalidParams:
    """The error for a name that is not there; `hint` is said after it."""
    shown = name[:80]
    if kind == "tool":
        text = said(f"Unknown tool: {shown!r}", f"Ferramenta desconhecida: {shown!r}")
    elif kind == "prompt":
        text = said(f"Unknown prompt: {shown!r}", f"Prompt desconhecido: {shown!r}")
    else:
        text = said(f"Unknown resource: {shown!r}", f"Recurso desconhecido: {shown!r}")
    return InvalidParams(text + hint)


class Feature(Generic[H]):
    """Protocol methods: `shared` for both eras, `modern` and `legacy` for one."""

    shared: FeatureMethods
    modern: FeatureMethods
    legacy: FeatureMethods

    def __init__(self, host: H) -> None:
        self._host = host
        self.shared, self.modern, self.legacy = {}, {}, {}

    def _require(self, call: Call, feature: str) -> None:
        """Refuse the methods of a feature that was never declared."""
        if feature not in self._host.features:
            raise MethodNotFound(call.method)

    def _page(self, call: Call, items: Iterable[N]) -> tuple[list[N], str | None]:
        return page(items, decode_params(call.params, ListParams).cursor, self._host.page_size)

    def _cached(self, call: Call, result: C) -> C:
        if call.caller.era == "modern":
            result.ttl_ms = int(self._host.cache_ttl * 1000)
            result.cache_scope = self._host.cache_scope
        return result

    def _context(
        self, call: Call, trip: RoundTrip, name: str, arguments: Raw, may_detach: bool = False
    ) -> Context:
        if call.caller.era == "legacy":
            return Context(call, LegacyRequester(call), server=self._host)
        host = self._host
        what = fingerprint(name, arguments)
        sealer = call.sealer or host.sealer
        requester = RoundTripRequester(call, trip, what, sealer, host.state_ttl, may_detach)
        return Context(call, requester, server=self._host)


def require_own(signal: InputRequired | Detached, context: Context | None) -> None:
    """Raise a signal again if it belongs to another call, whose tool uses this server as a client."""
    if context is None:
        raise signal
    context.require_own(signal)


_WHAT = {"prompt": "o prompt", "resource": "o recurso", "completion of": "o complemento de"}


async def run_author(running: Awaitable[T], what: str, name: str) -> T:
    """Turn failures into JSON-RPC errors, for resources and prompts, which have no error result."""
    try:
        return await await_signals(running)
    except McpError:
        raise
    except MismatchError as error:
        about = said(what, _WHAT[what])
        raise InvalidParams(
            said(
                f"Invalid arguments for {about} {name!r}: {error}",
                f"Argumentos inválidos para {about} {name!r}: {error}",
            )
        ) from None
    except ToolError as error:
        raise McpError(INTERNAL_ERROR, str(error)) from None
    except BaseException as error:
        reraise_signals(error)
        logger.error("%s %r failed", what, name, exc_info=error)
        raise InternalError() from None


class _Described(TypedDict, total=False):
    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon | Mapping[str, Any]] | None
    meta: Meta | None
    tags: Collection[str] | None
    """Names by which `enable` and `disable` find it; clients see them under `_meta.fastmcp.tags`."""
    enabled: bool
    """Whether it is offered before anybody calls `enable`."""


BOUNDED = "toolyard/bounded"
"""The key in `_meta` of a tool or result that is small enough for a model as it is."""


class ToolOptions(_Described, total=False):
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    annotations: "ToolAnnotations | Mapping[str, Any] | None"
    """The same four and a title, as the protocol spells them."""
    input_schema: Mapping[str, Any] | None
    output_schema: "Mapping[str, Any] | type | None"
    """A schema, or a type to make it from. Results are checked against it."""
    lenient_output: bool
    """Send a result that does not fit the output schema all the same, and log it."""
    long: bool | Long
    ui: str | None
    bounded: bool
    """Whether results are small enough for a model: a gateway then sends them whole."""
    listed: bool
    """Whether `tools/list` shows the tool; it can be called by name in any case."""
    timeout: float | None
    """Seconds after which a call is given up, with an error that says so."""


class ResourceOptions(_Described, total=False):
    mime_type: str | None
    size: int | None
    annotations: Annotations | Mapping[str, Any] | None


class PromptOptions(_Described, total=False):
    pass


def check_options(options: Mapping[str, Any], known: type, what: str) -> None:
    """Refuse unknown options, which Python accepts in a mapping."""
    names: frozenset[str] = vars(known)["__optional_keys__"]
    for name in options:
        if name not in names:
            raise TypeError(f"{what} has no option {name!r}; there are: {', '.join(sorted(names))}")


def icons_of(options: _Described) -> list[Icon] | None:
    """The icons of a definition; those of the SDK and dicts are as good as ours."""
    given = options.get("icons")
    return None if given is None else [to_wire(icon, Icon, "an icon") for icon in given]
