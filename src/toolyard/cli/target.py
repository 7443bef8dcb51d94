"""From what the user typed to the `Server` it names."""

from typing import TYPE_CHECKING

from .failure import Failure
from .key import check_variable

if TYPE_CHECKING:
    from ..kit import Server

DEMO = "toolyard.servers.demo:server"


def load(target: str | None, debug: bool = False) -> "Server":
    """The server that `target` names; Failure with a hint when there is none."""
    check_variable()
    from ..kit.loading import LoadError, load  # the target is made of the kit; other commands do without it

    try:
        return load(target or DEMO, debug)
    except LoadError as error:
        raise Failure(error.message, *error.hints, details=error.details) from error


def split(target: str) -> tuple[str, str]:
    from ..kit.loading import split

    return split(target)
