"""Prompts: named message templates with arguments."""

from collections.abc import Callable
from typing import Any, Unpack, cast

from msgspec import Raw

from ..wire.text import clean
from ..wire.types import BLOCKS, Block, Message, PromptArgument, PromptInfo, Text
from .context import Context
from .introspection import describe, name_of
from .options import PromptOptions, check
from .running import Callee
from .schema import Signature


def user(content: str | Block) -> Message:
    return Message("user", Text(clean(content)) if isinstance(content, str) else content)


def assistant(content: str | Block) -> Message:
    return Message("assistant", Text(clean(content)) if isinstance(content, str) else content)


class Prompt:
    def __init__(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        check(options, PromptOptions, "a prompt")
        self.name = options.get("name") or name_of(function)
        self.serial = 0
        self._signature = Signature(function, Context, strict=False)
        self._callee = Callee(function, self._signature.context_name)
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
            icons=options.get("icons"),
            meta=options.get("meta"),
        )

    @property
    def wants_context(self) -> bool:
        return self._callee.wants_context

    async def render(self, arguments: Raw | dict[str, Any], context: Context | None) -> list[Message]:
        """Raises Mismatch when the arguments do not fit."""
        value = await self._callee(self._signature.bind(arguments), context)
        items = cast(list[Any], value if isinstance(value, list) else [value])
        return [_message(self.name, item) for item in items]


def _message(name: str, value: Any) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, (str, *BLOCKS)):
        return user(value)
    raise TypeError(f"prompt {name!r} returned {type(value).__name__}; return str, content or messages")
