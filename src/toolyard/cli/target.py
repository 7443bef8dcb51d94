"""Loads the server that a TARGET names: a module, a file, a table, or a bundled server."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config.servers import is_table, module_and_options, module_of
from ..wire.seal import Sealer
from .json_values import as_object
from .serving.session_key import check_key_variable, session_key
from .ui.messages import CommandError

if TYPE_CHECKING:
    from ..kit import Server

DEMO = "toolyard.servers.demo:server"


def load(target: str | None, debug: bool = False, options: Mapping[str, Any] | None = None) -> "Server":
    """Load the server that `target` names, a bundled one by its name, a table by its file.

    Without a key of its own it has the stored one, so that a cursor holds in the next process too. The file
    is read or created when something is sealed.
    """
    check_key_variable()
    from ..kit import loader  # other commands do not need the kit

    module, settings = module_and_options(target or DEMO, options or {})
    try:
        server = loader.load(module, debug, settings)
    except loader.LoadError as error:
        # For a table, the message names the file and line already.
        message = error.message.removeprefix(f"{module_of('rest')!r}: ")
        meant = (_config_hint(target) or _mounted_hint(target)) if target else None
        raise CommandError(message, *([meant] if meant else error.hints), details=error.details) from error
    if not server.has_own_key:
        server.sealer = Sealer(partial(session_key, None), server.name)
    return server


def _config_hint(target: str) -> str | None:
    """A hint for a configuration file that was given as a table."""
    data: Mapping[str, Any] = _read(Path(target).expanduser()) if is_table(target) else {}
    if not ("servers" in data or "mcpServers" in data) or "base_url" in data:
        return None
    context = click.get_current_context()
    if any("--config" in parameter.opts for parameter in context.command.params):
        return f"it is a configuration: `{context.command_path} --config {target}`"
    if context.info_name == "lambda":
        return "it is a configuration; name servers instead: toolyard deploy lambda sql crm.toml"
    return f"it is a configuration: `toolyard serve --config {target}`"


def _mounted_hint(target: str) -> str | None:
    """A hint for the name of a server of the configuration, given as a target."""
    from ..config import find

    context = click.get_current_context()
    file = find()
    if file is None or not any("--config" in parameter.opts for parameter in context.command.params):
        return None
    data = _read(file)
    if target not in {**as_object(data.get("servers")), **as_object(data.get("mcpServers"))}:
        return None
    optional = any("--target" in parameter.opts for parameter in context.command.params)
    without = "--target" if optional else "a TARGET"
    return f"{target!r} is a server of {file.name}: use `{context.command_path}` without {without}"


def _read(file: Path) -> Mapping[str, Any]:
    from ..config import ConfigError
    from ..config.files import read

    try:
        return read(file)
    except ConfigError:
        return {}


def split(target: str) -> tuple[str, str]:
    from ..kit import loader

    return loader.split(target)
