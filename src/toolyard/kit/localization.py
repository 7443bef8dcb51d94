"""Tools in two languages: one function with a name, texts and parameter names in each.

A server lists its tools in its own language and also answers calls by the other language's name.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Unpack

from msgspec import Meta, Struct

from .calls.context import Context
from .features.base import ToolOptions
from .server import Server


class LocalizedTool(Struct, frozen=True, kw_only=True):
    """The name, texts and parameter names of a tool in one language."""

    name: str
    title: str
    description: str
    parameters: Mapping[str, "str | tuple[str, str]"] = {}
    """By the function's parameter names: a description, or a name in this language and a description."""


def add_localized_tool(
    server: Server,
    function: Callable[..., Any],
    *,
    en: LocalizedTool,
    pt: LocalizedTool,
    **options: Unpack[ToolOptions],
) -> None:
    """Declare a tool under both names, and list that of the server's language; once if they are equal."""
    shown, other = (en, pt) if server.locale == "en" else (pt, en)
    _add_localized(server, function, shown, {**options, "listed": True})
    if other.name != shown.name:
        _add_localized(server, function, other, {**options, "listed": False})


def _add_localized(
    server: Server, function: Callable[..., Any], texts: LocalizedTool, options: ToolOptions
) -> None:
    server.add_tool(
        localize(function, texts),
        **{**options, "name": texts.name, "title": texts.title, "description": texts.description},
    )


def localize(function: Callable[..., Any], texts: LocalizedTool) -> Callable[..., Any]:
    """A wrapper of the function with the names and descriptions of one language."""
    own = inspect.signature(function)
    hints = typing.get_type_hints(function, include_extras=True)
    names: dict[str, str] = {}
    parameters: list[inspect.Parameter] = []
    annotations: dict[str, Any] = {}
    for name, parameter in own.parameters.items():
        hint = hints[name]
        if hint is Context:
            shown = name
        else:
            text = texts.parameters.get(name)
            if text is None:
                raise ValueError(f"{texts.name!r} has no description for parameter {name!r}")
            shown, description = (name, text) if isinstance(text, str) else text
            hint = Annotated[hint, Meta(description=description)]
        names[shown] = name
        annotations[shown] = hint
        parameters.append(parameter.replace(name=shown, annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
    unknown = set(texts.parameters) - set(own.parameters)
    if unknown:
        raise ValueError(f"{texts.name!r} describes unknown parameters: {sorted(unknown)}")

    async def call(**arguments: Any) -> Any:
        return await function(**{names[name]: value for name, value in arguments.items()})

    call.__name__ = texts.name
    call.__doc__ = texts.description
    if "return" in hints:
        annotations["return"] = hints["return"]
    call.__annotations__ = annotations
    call.__signature__ = own.replace(  # pyright: ignore[reportFunctionMemberAccess] (inspect reads it)
        parameters=parameters, return_annotation=hints.get("return", inspect.Signature.empty)
    )
    return call
