"""`toolyard completion`, and the completions of names.

Starts no server and uses no network: names come from the catalogue on disk.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from ..configuration import loader
from ..ui.messages import CommandError

if TYPE_CHECKING:
    from ...config import Config

VARIABLE = "_TOOLYARD_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
MAX_ITEMS = 500
# bash inserts a completion as it is, so `$(…)` or `;` in the URI of an untrusted server would be run.
_SAFE = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")


@click.command("completion", short_help="Print a shell's completion script.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print the script with which SHELL completes commands, options and names of tools.

    For bash, put eval "$(toolyard completion bash)" into ~/.bashrc. For zsh, put the same with zsh into
    ~/.zshrc, after compinit. For fish: toolyard completion fish > ~/.config/fish/completions/toolyard.fish.
    SHELL defaults to your own.
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    found = get_completion_class(chosen) if chosen in SHELLS else None
    if found is None:
        raise CommandError(f"no completion for the shell {chosen!r}", f"SHELL is one of {', '.join(SHELLS)}")
    root = ctx.find_root().command
    click.echo(_source(found, root), nl=False)


def _source(kind: Any, root: click.Command) -> str:
    """The script, without click's check of the version of the bash on PATH."""
    completion = kind(root, {}, "toolyard", VARIABLE)
    return completion.source_template % completion.source_vars()


def tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _known_names(ctx, "tools", incomplete)


def prompts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _known_names(ctx, "prompts", incomplete)


def resources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _known_names(ctx, "resources", incomplete)


def servers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Servers of the configuration."""
    config = _config(ctx)
    names = [] if config is None else [one.name for one in (*config.servers, *config.broken)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Bundled servers, and files."""
    return [*bundled(ctx, param, incomplete), CompletionItem(incomplete, type="file")]


def bundled(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ...config.servers import BUNDLED

    found = [(name, about) for name, about in BUNDLED.items() if name.startswith(incomplete)]
    return [CompletionItem(name, help=about) for name, about in found]


def presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ..presets.catalogue import catalogue

    found = [(name, one) for name, one in catalogue().items() if name.startswith(incomplete)]
    return [CompletionItem(name, help=one.recipe.about.en) for name, one in found]


def _config(ctx: click.Context) -> "Config | None":
    given = ctx.params.get("config")
    try:
        file = loader.config_file(ctx.params.get("target"), Path(given) if given else None)
        return None if file is None else loader.load_config(file)
    except CommandError:
        return None


def _known_names(ctx: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    if ctx.params.get("url") or ctx.params.get("target"):
        return []  # unknown without asking the server
    found: list[CompletionItem] = []
    for name, about in _names(ctx, kind):
        if name.startswith(incomplete) and _SAFE.fullmatch(name):
            found.append(CompletionItem(name, help=about))
        if len(found) == MAX_ITEMS:
            break
    return found


def _names(ctx: click.Context, kind: str) -> Iterator[tuple[str, str]]:
    from ..ui.tables import first_sentence

    config = _config(ctx)
    if config is None:
        if loader.config_file(None, ctx.params.get("config")) is None:
            yield from _demo_names(kind)
        return
    import msgspec

    from ...catalogue.catalogue import ServerCatalogue
    from ...catalogue.store import CatalogueStore
    from ...config.files import state_folder

    store = CatalogueStore(state_folder(config))
    for number, server in enumerate(config.servers):
        catalogue = ServerCatalogue(server, number, lambda item: item)
        store.load(server, catalogue)
        for entry in catalogue.entries[kind]:
            about = msgspec.json.decode(b"{" + entry.item.rest).get("description")
            name = entry.bare if config.gateway.view == "bare" else entry.name
            yield name, first_sentence(str(about or ""))


def _demo_names(kind: str) -> Iterator[tuple[str, str]]:
    from ...servers.demo import server

    held = {"tools": server.tools, "prompts": server.prompts, "resources": server.resources}[kind]
    yield from ((name, "") for name in held)
