"""`toolyard show-view`: which view a client is served, why, and what it costs the client's model."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..configuration import loader
from ..process import log_to_stderr, stdout_for_data
from ..ui.messages import CommandError, one_line
from ..ui.output import print_json
from ..ui.terminal import Terminal
from .options import config_option, debug_option, json_option

if TYPE_CHECKING:
    from ...config import Config


@click.command("show-view", short_help="Show which view a client is served, and why.")
@click.option(
    "--client",
    metavar="NAME",
    default="",
    help="What the client calls itself, such as claude-code. Default: one that is not known.",
)
@config_option
@json_option
@debug_option
def command(client: str, config: Path | None, as_json: bool, debug: bool) -> None:
    """Show which view a client is served by the gateway of --config or of the toolyard.toml that is found.

    With view = "auto", the default, this depends on the client and on how many tokens an index of the tools
    takes. Tools are counted as the local user sees them.
    """
    file = loader.config_file(None, config)
    if file is None:
        raise CommandError("there is no configuration", "`toolyard add local_toolkit` adds a server")
    chosen = loader.load_config(file)
    log_to_stderr(debug) if debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
    with stdout_for_data(), Terminal() as user:
        shown = asyncio.run(_explained(chosen, client or "unknown", user))
    if as_json:
        print_json(shown)
        return
    click.echo(
        f"{one_line(shown['client'])} is served {click.style(shown['view'], bold=True)}: {shown['reason']}"
    )
    click.echo(f"tools/list: {shown['listed']} of {shown['tools']} tools, about {shown['tokens']:,} tokens")
    click.echo(f'view = "all": about {shown["tokens_of_all"]:,} tokens')
    for key in ("source", "measured"):
        if key in shown:
            click.echo(f"{key}: {shown[key]}")


async def _explained(config: "Config", client: str, user: Terminal) -> dict[str, Any]:
    from ...catalogue.items import TOOLS, item_json
    from ...client import Client
    from ...results.measure import estimate_tokens
    from ...views.auto import AutoView
    from ...wire.call import ClientInfo
    from .search import started

    gateway = loader.make_gateway(config, None)
    try:
        await started(gateway, config.gateway.list_wait, user)
        view = gateway.view()
        entries = gateway.catalogue.all(TOOLS)
        whole = [item_json(TOOLS, entry.item, entry.name).decode() for entry in entries]
        shown: dict[str, Any] = {"client": client, "view": config.gateway.view}
        if config.gateway.view == "auto" and isinstance(view, AutoView):
            choice = view.explain(ClientInfo(client))
            shown |= {"view": choice.view, "reason": choice.reason}
            shown |= {"source": choice.row.source, "measured": choice.row.measured}
        elif config.gateway.view == "auto":
            shown |= {"view": "search", "reason": "[gateway] has other dialects than native"}
        else:
            shown["reason"] = f'[gateway] has view = "{config.gateway.view}"'
        async with Client(view, info=ClientInfo(client, "1"), timeout=None) as asking:
            listed = await asking.list_all("tools/list")
    finally:
        await gateway.close()
    definitions = [msgspec.json.encode(tool).decode() for tool in listed]
    return shown | {
        "listed": len(listed),
        "tools": len(entries),
        "tokens": sum(map(estimate_tokens, definitions)),
        "tokens_of_all": sum(map(estimate_tokens, whole)),
    }
