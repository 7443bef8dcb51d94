"""Builds the gateway from a configuration, serves it, and keeps up with changes of the file.

And builds a function for AWS Lambda of single servers (`aws_lambda`), which does without the gateway.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config_watcher import watch
    from .gateway import Gateway
    from .http import asgi

__all__ = ["Gateway", "asgi", "watch"]

_PLACES = {"Gateway": "gateway", "asgi": "http", "watch": "config_watcher"}


def __getattr__(name: str) -> Any:
    # When asked for: the gateway costs 150 ms of CPU to import, and a function would pay it at its start.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PLACES[name]}", __name__), name)
