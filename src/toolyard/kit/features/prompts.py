"""Prompts: declaration, listing and rendering; and completion of the arguments of prompts and templates."""

import copy
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, Unpack, cast

from msgspec import Raw
from msgspec.structs import replace

from ...wire.call import Call, Caller
from ...wire.messages import decode_params
from ...wire.text import clean
from ...wire.types import (
    BLOCKS,
    Block,
    CompleteParams,
    CompleteResult,
    Completion,
    GetPromptParams,
    GetPromptResult,
    ListPromptsResult,
    Message,
    PromptArgument,
    PromptInfo,
    PromptRef,
    Result,
    Text,
)
from ..calls.content import to_wire
from ..calls.context import Context
from ..calls.input_requests import InputRequired
from ..components import Home, Kind, tags_of, with_tags
from ..schema.annotations import describe, name_of, underlying
from ..schema.validation import Signature
from .base import (
    AuthorFunction,
    Feature,
    FeatureHost,
    PromptOptions,
    author_function,
    check_options,
    icons_of,
    require_own,
    run_author,
    unknown,
)


def user(content: str | Block) -> Message:
    return Message("user", Text(clean(content)) if isinstance(content, str) else content)


def assistant(content: str | Block) -> Message:
    return Message("assistant", Text(clean(content)) if isinstance(content, str) else content)


class Prompt:
    kind: Kind = "prompt"
    home: Home | None = None
    serial = 0
    """Its place in lists."""

    def __init__(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        check_options(options, PromptOptions, "a prompt")
        self.name = options.get("name") or name_of(function)
        self.original = self.name
        """Its name at `home`."""
        self.tags = tags_of(options.get("tags"))
        self._signature = Signature(function, Context, strict=False)
        self._function = author_function(function, self._signature.context_name)
        schema = self._signature.validate.schema
        required = schema.get("required", [])
        arguments = [
            PromptArgument(key, prop.get("title"), prop.get("description"), key in required)
            for key, prop in schema["properties"].items()
        ]
        self.info = PromptInfo(
            name=self.name,
            title=options.get("title"),
            description=describe(function, options.get("description")),
            arguments=arguments or None,
            icons=icons_of(options),
            meta=with_tags(options.get("meta"), self.tags),
        )

    @property
    def key(self) -> str:
        return self.name

    def under(self, namespace: str) -> "Prompt":
        """Itself, as it is asked for where its server is mounted."""
        prompt = copy.copy(self)
        prompt.name = f"{namespace}_{self.name}"
        prompt.original = self.name
        prompt.info = replace(self.info, name=prompt.name)
        return prompt

    @property
    def wants_context(self) -> bool:
        return self._function.wants_context

    async def render(self, arguments: Raw | dict[str, Any], context: Context | None) -> list[Message]:
        """Raises MismatchError if the arguments do not fit."""
        value = await self._function(self._signature.bind(arguments), context)
        items = cast(list[Any], value if isinstance(value, list) else [value])
        return [_message(self.name, item) for item in items]


def _message(name: str, value: Any) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, (str, *BLOCKS)):
        return user(value)
    if hasattr(value, "model_dump"):
        return to_wire(value, Message, "a message")
    raise TypeError(f"prompt {name!r} returned {type(value).__name__}; return str, content or messages")


class Completer:
    """`complete(value, context) -> list[str]`; a parameter annotated `Caller` gets the caller."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._caller_name = _caller_parameter(function)
        extra: dict[str, Any] = {self._caller_name: None} if self._caller_name else {}
        try:
            inspect.signature(function).bind(value="", context={}, **extra)
        except TypeError as error:
            raise TypeError(f"{name_of(function)} must take 'value' and 'context': {error}") from None
        self._function = AuthorFunction(function, None)

    def __call__(self, value: str, context: Mapping[str, str], caller: Caller) -> Awaitable[Any]:
        extra = {self._caller_name: caller} if self._caller_name else {}
        return self._function({"value": value, "context": context, **extra}, None)


def _caller_parameter(function: Callable[..., Any]) -> str | None:
    try:
        hints = typing.get_type_hints(underlying(function))
    except (NameError, TypeError):  # annotations that only a type checker can resolve
        return None
    return next((name for name, hint in hints.items() if hint is Caller and name != "return"), None)


MAX_COMPLETIONS = 100


class PromptHost(FeatureHost, Protocol):
    prompts: Mapping[str, Prompt]
    completions: dict[tuple[str, str, str], Completer]

    @property
    def resources(self) -> Mapping[str, object]: ...


class PromptFeature(Feature[PromptHost]):
    def __init__(self, host: PromptHost) -> None:
        super().__init__(host)
        self.shared = {
            "prompts/list": self._list,
            "prompts/get": self._get,
            "completion/complete": self._complete,
        }

    async def _list(self, call: Call) -> ListPromptsResult:
        self._require(call, "prompts")
        shown, cursor = self._page(call, self._host.prompts.values())
        result = ListPromptsResult(prompts=[item.info for item in shown], next_cursor=cursor)
        return self._cached(call, result)

    async def _get(self, call: Call) -> Result:
        self._require(call, "prompts")
        params = decode_params(call.params, GetPromptParams)
        prompt = self._host.prompts.get(params.name)
        if prompt is None:
            raise unknown("prompt", params.name)
        if prompt.home is not None:
            return await prompt.home.forward(call, "name", prompt.original)
        context = self._context(call, params, params.name, params.arguments) if prompt.wants_context else None
        try:
            messages = await run_author(prompt.render(params.arguments, context), "prompt", params.name)
        except InputRequired as pending:
            require_own(pending, context)
            return pending.result
        finally:
            if context is not None:
                context.close()
        return GetPromptResult(messages=messages, description=prompt.info.description)

    async def _complete(self, call: Call) -> CompleteResult:
        self._require(call, "completions")
        params = decode_params(call.params, CompleteParams)
        ref = params.ref
        kind, target = ("prompt", ref.name) if isinstance(ref, PromptRef) else ("resource", ref.uri)
        known = self._host.prompts if kind == "prompt" else self._host.resources
        if target not in known:
            raise unknown(kind, target)
        complete = self._host.completions.get((kind, target, params.argument.name))
        if complete is None:
            return CompleteResult(completion=Completion([], 0, False))
        completing = complete(params.argument.value, params.context.arguments, call.caller)
        values = await run_author(_strings(completing), "completion of", params.argument.name)
        shown = values[:MAX_COMPLETIONS]
        return CompleteResult(completion=Completion(shown, len(values), len(values) > len(shown)))


async def _strings(completing: Awaitable[Any]) -> list[str]:
    returned = await completing
    if returned is None or isinstance(returned, str) or not isinstance(returned, Iterable):
        raise TypeError(f"a completion returns strings, not {type(returned).__name__}")
    values = list(cast(Iterable[Any], returned))
    if not all(isinstance(value, str) for value in values):
        raise TypeError("a completion returns strings only")
    return [clean(value) for value in values]
