"""What a callable says of itself: its name, its docstring, and the function that has its annotations."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function that carries the annotations of a partial or of a callable object."""
    if isinstance(function, functools.partial):
        return underlying(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or underlying(function).__name__


def describe(function: Callable[..., Any], given: str | None) -> str | None:
    return given if given is not None else inspect.getdoc(underlying(function))
