"""From what the user typed to the `Server` it names."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config.bundled import is_table, module_of, served
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
        hints = [_meant(target)] if target and _is_configuration(target) else error.hints
        raise Failure(message, *hints, details=error.details) from error


def _is_configuration(target: str) -> bool:
    """Whether it is the other file of Toolyard's, which people name where a table is meant."""
    from ..config import ConfigError
    from ..config.reading import read

    try:
        data = read(Path(target).expanduser()) if is_table(target) else {}
    except ConfigError:
        return False
    return ("servers" in data or "mcpServers" in data) and "base_url" not in data


def _meant(target: str) -> str:
    """What to do with a configuration that was given in the place of a table."""
    context = click.get_current_context()
    if any("--config" in parameter.opts for parameter in context.command.params):
        return f"`{context.command_path} --config {target}` takes it"
    if context.info_name == "lambda":
        return "a configuration cannot be a function; name servers, as in toolyard deploy lambda sql crm.toml"
    return f"`toolyard serve --config {target}` serves it"


def split(target: str) -> tuple[str, str]:
    from ..kit.loading import split

    return split(target)
