"""`toolyard remove`: take a server out of the configuration file."""

from pathlib import Path

import click

from ..config.errors import nearest_or_all
from . import completion
from .editing import Edited, chosen, config_option
from .failure import Failure, warn
from .options import debug_option


@click.command("remove", short_help="Remove a server from the configuration.")
@click.argument("name", shell_complete=completion.servers)
@config_option
@debug_option
def command(name: str, file: Path | None, debug: bool) -> None:
    """Remove the server NAME. Comments that are not inside its entry stay."""
    edited = Edited(chosen(file))
    if edited.is_new:
        raise Failure(f"no file {edited.label!r}", "--config FILE names another")
    if name not in edited.servers:
        raise _unknown(name, edited)
    loaded = edited.loads_now()
    edited.drop(name)
    if loaded:
        edited.check()
    edited.save()
    click.echo(f"removed {name!r} from {edited.label}")
    if not loaded:
        warn(f"{edited.label} could not be loaded before this", f"toolyard list --config {edited.label}")


def _unknown(name: str, edited: Edited) -> Failure:
    if source := edited.included_from(name):
        return Failure(
            f"{name!r} is not in {edited.label} itself: it is included from {source}",
            f"`toolyard remove {name} --config {source}` takes it out there",
        )
    known = list(edited.servers)
    advice = nearest_or_all(name, known) if known else "it has no servers"
    return Failure(f"no server {name!r} in {edited.label}", advice)
