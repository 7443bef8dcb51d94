"""From what the user typed to the `Server` it names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.bundled import module_of, served
from .failure import Failure
from .key import check_variable

if TYPE_CHECKING:
    from ..kit import Server

DEMO = "toolyard.servers.demo:server"


def load(target: str | None, debug: bool = False, options: Mapping[str, Any] | None = None) -> "Server":
    """The server that `target` names (a bundled one by its name, a table by its file); Failure when none."""
    check_variable()
    from ..kit.loading import LoadError, load  # the target is made of the kit; other commands do without it

    module, settings = served(target or DEMO, options or {})
    try:
        return load(module, debug, settings)
    except LoadError as error:
        # Of a table, its own file and line say enough.
        message = error.message.removeprefix(f"{module_of('rest')!r}: ")
        raise Failure(message, *error.hints, details=error.details) from error


def split(target: str) -> tuple[str, str]:
    from ..kit.loading import split

    return split(target)
