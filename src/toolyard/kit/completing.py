"""Completing an argument: the author's function, and what it may be told."""

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..wire.call import Caller
from .introspection import name_of, underlying
from .running import Callee


class Completer:
    """`complete(value, context) -> list[str]`; a parameter annotated `Caller` is told who asks."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._caller_name = _caller_parameter(function)
        told: dict[str, Any] = {self._caller_name: None} if self._caller_name else {}
        try:
            inspect.signature(function).bind(value="", context={}, **told)
        except TypeError as error:
            raise TypeError(f"{name_of(function)} must take 'value' and 'context': {error}") from None
        self._callee = Callee(function, None)

    def __call__(self, value: str, context: Mapping[str, str], caller: Caller) -> Awaitable[Any]:
        told = {self._caller_name: caller} if self._caller_name else {}
        return self._callee({"value": value, "context": context, **told}, None)


def _caller_parameter(function: Callable[..., Any]) -> str | None:
    try:
        hints = typing.get_type_hints(underlying(function))
    except (NameError, TypeError):  # hints that only a type checker can read
        return None
    return next((name for name, hint in hints.items() if hint is Caller and name != "return"), None)
