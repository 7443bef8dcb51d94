"""Builds the gateway from a configuration, serves it, and keeps up with changes of the file."""

from .gateway import Gateway
from .serving import asgi
from .watching import watch

__all__ = ["Gateway", "asgi", "watch"]
