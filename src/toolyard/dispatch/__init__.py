"""Handing a call to the upstream it is for, and keeping one upstream's trouble from everybody else."""

from typing import Any

from msgspec import Struct

from ..wire.call import Call
from .breaker import Breaker
from .mount import Mount


class Forward(Struct):
    """A call that has found its upstream. `call` has the names that the upstream itself uses."""

    call: Call
    mount: Mount
    name: str | None = None
    """The tool, prompt or address, as the upstream calls it; None when we do not know it."""
    safe: bool = False
    """It may run twice."""
    more: str = ""
    """How its caller reads on where a result is cut short, with {id} for that of the whole."""
    options: object = None
    """What the caller asked of the result; for the stage that took it out of the arguments."""


async def dispatch(forward: Forward) -> Any:
    return await forward.mount.call(forward.call, forward.safe)


__all__ = ["Breaker", "Forward", "Mount", "dispatch"]
