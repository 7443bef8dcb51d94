"""Servers that are made with settings: the annotation of a module's `build(settings)` says what can be set.

A setting is given as an option, or else by an environment variable, whose names begin with what the module's
ENVIRONMENT says.
"""

import inspect
import os
import typing
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import msgspec

from .annotations import read_type
from .schema import explain
from .server import Server

BUILD, ENVIRONMENT = "build", "ENVIRONMENT"


class WrongSettings(Exception):
    """A setting that does not exist, or whose value does not fit; the message names it."""


def can_make(module: ModuleType) -> bool:
    return _kind(module) is not None


def make(module: ModuleType, options: Mapping[str, Any]) -> Server:
    build: Callable[[Any], Server] = getattr(module, BUILD)
    return build(settings_of(module, options, os.environ))


def settings_of(module: ModuleType, options: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    kind = _kind(module)
    assert kind is not None
    try:
        read_type(kind)
    except TypeError as error:
        raise WrongSettings(f"the settings {kind.__qualname__!r}: {error}") from None
    prefix: str = getattr(module, ENVIRONMENT, "")
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in options:
        if name not in names:
            raise WrongSettings(f"there is no setting {name!r}; there are: {', '.join(names)}")
    found = {
        name: environ[prefix + name.upper()] for name in names if prefix and prefix + name.upper() in environ
    }
    try:
        # What comes from the environment or a command line is text, also where a number is wanted.
        return msgspec.convert({**found, **options}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise WrongSettings(explain(error)) from None


def _kind(module: ModuleType) -> type[msgspec.Struct] | None:
    """What its `build` takes: one struct. Any other function of that name is the author's own affair."""
    build = getattr(module, BUILD, None)
    names = list(inspect.signature(build).parameters) if inspect.isfunction(build) else []
    if len(names) != 1:
        return None
    kind = typing.get_type_hints(build).get(names[0])
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None
