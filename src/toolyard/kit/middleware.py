"""`Middleware`: code around the requests of a server. Without any, requests do not come through here."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from ..wire.call import Call
from ..wire.messages import decode_params
from ..wire.types import (
    CallToolResult,
    ListPromptsResult,
    ListResourcesResult,
    ListTemplatesResult,
    ListToolsResult,
    Result,
)
from .calls.content import ToolError, error_result, to_result
from .schema.validation import Output

T = TypeVar("T")
R = TypeVar("R", covariant=True)
Answer = Callable[[Call], Awaitable[Any]]


class MiddlewareContext(Struct, Generic[T], kw_only=True, frozen=True):
    """A request on its way. `message` has its params as attributes: `name` and `arguments`, or `uri`."""

    message: T
    method: str
    server: Any = None
    type: str = "request"
    source: str = "client"
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    def copy(self, **changed: Any) -> "MiddlewareContext[T]":
        return replace(self, **changed)


class CallNext(Protocol[T, R]):
    """The rest of the way: the next hook, or the answer."""

    def __call__(self, context: MiddlewareContext[T], /) -> Awaitable[R]: ...


Context = MiddlewareContext[Any]
Next = CallNext[Any, Any]


class Middleware:
    """Override the hooks you want: each awaits `call_next(context)` for the result, or makes one itself.

    `on_message` and `on_request` go around all of them. Hooks of lists get and return lists of definitions;
    `on_call_tool` sees the failure of a tool as `ToolError`, and may raise one.
    """

    async def on_message(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_request(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_initialize(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_call_tool(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_read_resource(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_get_prompt(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_list_tools(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_list_resources(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_list_resource_templates(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)

    async def on_list_prompts(self, context: Context, call_next: Next) -> Any:
        return await call_next(context)


_HOOKS = {
    "initialize": "on_initialize",
    "tools/call": "on_call_tool",
    "resources/read": "on_read_resource",
    "prompts/get": "on_get_prompt",
    "tools/list": "on_list_tools",
    "resources/list": "on_list_resources",
    "resources/templates/list": "on_list_resource_templates",
    "prompts/list": "on_list_prompts",
}
_LISTS: dict[str, tuple[type[Any], str]] = {
    "tools/list": (ListToolsResult, "tools"),
    "resources/list": (ListResourcesResult, "resources"),
    "resources/templates/list": (ListTemplatesResult, "resource_templates"),
    "prompts/list": (ListPromptsResult, "prompts"),
}


class FailedCallError(ToolError):
    """The error result of a tool on its way through middleware."""

    def __init__(self, result: CallToolResult) -> None:
        super().__init__("\n".join(getattr(block, "text", "") for block in result.content))
        self.result = result


def around(middleware: Iterable[Middleware], method: str, answer: Answer, server: Any) -> Answer:
    """The answer to a method, with the hooks for it around; the first middleware is the outermost."""
    names = [name for name in ("on_message", "on_request", _HOOKS.get(method)) if name is not None]
    hooks = [
        getattr(one, name)
        for one in middleware
        for name in names
        if getattr(type(one), name) is not getattr(Middleware, name)
    ]
    if not hooks:
        return answer

    async def through(call: Call) -> Any:
        whole: list[Any] = []

        async def last(context: Context) -> Any:
            params = Raw(msgspec.json.encode(vars(context.message)))
            result = await answer(replace(call, params=params))
            whole[:] = [result]
            return _for_hooks(method, result)

        step: Next = last
        for hook in reversed(hooks):
            step = _Step(hook, step)
        context: Context = MiddlewareContext(message=_message(method, call), method=method, server=server)
        try:
            return _for_wire(method, await step(context), whole)
        except ToolError as error:
            if method != "tools/call":
                raise
            return error.result if isinstance(error, FailedCallError) else error_result(str(error))

    return through


class _Step:
    def __init__(self, hook: Any, following: Next) -> None:
        self._hook = hook
        self._following = following

    def __call__(self, context: Context, /) -> Awaitable[Any]:
        return self._hook(context, self._following)


def _message(method: str, call: Call) -> SimpleNamespace:
    members = decode_params(call.params, dict[str, Any])
    if method in ("tools/call", "prompts/get"):
        members.setdefault("arguments", {})
    return SimpleNamespace(**members)


def _for_hooks(method: str, result: Any) -> Any:
    """Of a list the items; the failure of a tool as an exception."""
    if method in _LISTS:
        return list(getattr(result, _LISTS[method][1]))
    if isinstance(result, CallToolResult) and result.is_error:
        raise FailedCallError(result)
    if isinstance(result, CallToolResult) and isinstance(result.structured_content, Raw):
        result.structured_content = msgspec.json.decode(result.structured_content)
    return result


def _for_wire(method: str, value: Any, whole: list[Any]) -> Any:
    """What the outermost hook returned as a result; a list keeps the cursor that came with it."""
    if method in _LISTS:
        kind, member = _LISTS[method]
        known = whole[0] if whole else kind(**{member: []})
        return replace(known, **{member: list(value)})
    if method == "tools/call" and not isinstance(value, Result):
        return to_result(value, Output(None))
    return value
