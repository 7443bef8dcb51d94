"""Tools in two languages: one function with a name, texts and parameter names in each.

A server lists its tools in its own language and also answers calls by the other language's name.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Unpack

from msgspec import Meta, Struct

from .calls.context import Context
from .features.base import ToolOptions
from .server import Server

Locale = Literal["en", "pt"]


class LocalizedTool(Struct, frozen=True, kw_only=True):
    """How a tool looks in one language."""

    name: str
    title: str
    description: str
    parameters: Mapping[str, "str | tuple[str, str]"] = {}
    """By the function's own names: what each is for, or how it is called here and what it is for."""


def add_localized_tool(
    server: Server,
    locale: Locale,
    function: Callable[..., Any],
    *,
    en: LocalizedTool,
    pt: LocalizedTool,
    **options: Unpack[ToolOptions],
) -> None:
    """Declare a tool under both names; where they are the same, once."""
    shown, other = (en, pt) if locale == "en" else (pt, en)
    _add_localized(server, function, shown, {**options, "listed": True})
    if other.name != shown.name:
        _add_localized(server, function, other, {**options, "listed": False})


def _add_localized(
    server: Server, function: Callable[..., Any], face: LocalizedTool, options: ToolOptions
) -> None:
    server.add_tool(
        localized(function, face),
        **{**options, "name": face.name, "title": face.title, "description": face.description},
    )


def localized(function: Callable[..., Any], face: LocalizedTool) -> Callable[..., Any]:
    """The function with the names and descriptions of a face; its own stay as they are."""
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
            said = face.parameters.get(name)
            if said is None:
                raise ValueError(f"{face.name!r} says nothing of the parameter {name!r}")
            shown, description = (name, said) if isinstance(said, str) else said
            hint = Annotated[hint, Meta(description=description)]
        names[shown] = name
        annotations[shown] = hint
        parameters.append(parameter.replace(name=shown, annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
    unknown = set(face.parameters) - set(own.parameters)
    if unknown:
        raise ValueError(f"{face.name!r} describes parameters that are not there: {sorted(unknown)}")

    async def call(**arguments: Any) -> Any:
        return await function(**{names[name]: value for name, value in arguments.items()})

    call.__name__ = face.name
    call.__doc__ = face.description
    if "return" in hints:
        annotations["return"] = hints["return"]
    call.__annotations__ = annotations
    call.__signature__ = own.replace(  # pyright: ignore[reportFunctionMemberAccess] (inspect reads it)
        parameters=parameters, return_annotation=hints.get("return", inspect.Signature.empty)
    )
    return call
