"""`toolyard completion` and the names that a shell completes.

Starts no server and uses no network: names are those that were last seen.
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
# bash puts a completion into the line as it is, where `$(…)` or `;` in a stranger's address would be run.
_SAFE = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")


@click.command("completion", short_help="Print what sets up completion in a shell.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print the lines that have SHELL complete commands, options and names of tools.

    For bash: eval "$(toolyard completion bash)" in ~/.bashrc. For zsh the same in ~/.zshrc, after compinit.
    For fish: toolyard completion fish > ~/.config/fish/completions/toolyard.fish. Without SHELL it is yours.
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    found = get_completion_class(chosen) if chosen in SHELLS else None
    if found is None:
        raise CommandError(
            "no shell was named, and yours is not one of them", f"known are {', '.join(SHELLS)}"
        )
    root = ctx.find_root().command
    click.echo(_source(found, root), nl=False)


def _source(kind: Any, root: click.Command) -> str:
    """The lines without the check of bash's version, which is meant for whoever runs them."""
    completion = kind(root, {}, "toolyard", VARIABLE)
    return completion.source_template % completion.source_vars()


# What a word may be


def tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _known_names(ctx, "tools", incomplete)


def prompts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _known_names(ctx, "prompts", incomplete)


def resources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _known_names(ctx, "resources", incomplete)


def servers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Those of the configuration."""
    config = _config(ctx)
    names = [] if config is None else [one.name for one in (*config.servers, *config.broken)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Servers that come with Toolyard, and files."""
    return [*bundled(ctx, param, incomplete), CompletionItem(incomplete, type="file")]


def bundled(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ...config.servers import BUNDLED

    found = [(name, about) for name, about in BUNDLED.items() if name.startswith(incomplete)]
    return [CompletionItem(name, help=about) for name, about in found]


def _config(ctx: click.Context) -> "Config | None":
    given = ctx.params.get("config") or ctx.params.get("file")
    try:
        file = loader.config_file(ctx.params.get("server"), Path(given) if given else None)
        return None if file is None else loader.load_config(file)
    except CommandError:
        return None


def _known_names(ctx: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    if ctx.params.get("url") or ctx.params.get("server"):
        return []  # what they have is not known without asking them
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
        server_catalogue = ServerCatalogue(server, number, lambda item: item)
        store.load(server, server_catalogue)
        for entry in server_catalogue.entries[kind]:
            about = msgspec.json.decode(b"{" + entry.item.rest).get("description")
            name = entry.bare if config.gateway.view == "bare" else entry.name
            yield name, first_sentence(str(about or ""))


def _demo_names(kind: str) -> Iterator[tuple[str, str]]:
    from ...servers.demo import server

    held = {"tools": server.tools, "prompts": server.prompts, "resources": server.resources}[kind]
    yield from ((name, "") for name in held)
