"""`toolyard search`: find tools for a use case, and explain their scores."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..configuration import loader
from ..process import log_to_stderr, stdout_for_data
from ..target import DEMO
from ..ui.messages import CommandError, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import MIN_TEXT, TextLayout
from ..ui.terminal import Terminal
from . import completion
from .options import config_option, debug_option, json_option

if TYPE_CHECKING:
    from ...app import Gateway
    from ...config import Config
    from ...views.meta.tools import SearchAnswer, ToolMatch


_Cells = tuple[str, ...]
GAP = "  "


def _print_results(found: "Sequence[ToolMatch]", explain: bool) -> None:
    """Print the table. Names are for copying, so only descriptions are cut."""
    if not found:
        return
    page = TextLayout()
    parts = _parts(found) if explain else []
    headings = ("tool", "server", "score", *parts, "what it does")
    rows = [_row(one, parts) for one in found]
    widths = [max(map(page.measure, column)) for column in list(zip(headings, *rows, strict=True))[:-1]]
    room = max(MIN_TEXT, page.width - sum(widths) - len(GAP) * len(widths))
    click.echo(click.style(_line(headings, widths, page, room), bold=True))
    for row, one in zip(rows, found, strict=True):
        name, rest = _line(row[:1], widths, page, room), _line(row[1:], widths[1:], page, room)
        click.echo(f"{click.style(name, fg='cyan', bold=one.recommended)}{rest}")


def _line(cells: Sequence[str], widths: list[int], page: TextLayout, room: int) -> str:
    """Join cells; a cell beyond the last width is the description."""
    padded = [page.padded(cell, width) + GAP for cell, width in zip(cells, widths, strict=False)]
    return "".join([*padded, *(page.cut(cell, room) for cell in cells[len(widths) :])])


def _parts(found: "Sequence[ToolMatch]") -> list[str]:
    """The parts that scores are made of, the largest first."""
    totals: dict[str, float] = {}
    for one in found:
        for name, value in one.parts.items():
            totals[name] = totals.get(name, 0.0) + abs(value)
    return sorted(totals, key=lambda name: -totals[name])


def _row(one: "ToolMatch", parts: list[str]) -> _Cells:
    shares = [f"{one.parts[name]:+.2f}" if name in one.parts else "" for name in parts]
    about = ": ".join(text for text in (one.title, one.description) if text)
    state = "" if one.connected else "(not connected) "
    return (
        one_line(one.tool),
        one_line(one.toolkit or one.server),
        f"{one.score:.2f}",
        *shares,
        state + one_line(about),
    )


MAX_LIMIT = 25


@click.command("search", short_help="Find the tools that fit a use case.")
@click.argument("words", nargs=-1, required=True, metavar="USE_CASE...")
@click.option(
    "--server",
    "only",
    metavar="NAME",
    default="",
    shell_complete=completion.servers,
    help="Only tools of this server.",
)
@click.option(
    "--limit", type=click.IntRange(1, MAX_LIMIT), help="How many results. Default: limit of the file."
)
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@config_option
@json_option
@debug_option
def command(
    words: tuple[str, ...],
    only: str,
    limit: int | None,
    explain: bool,
    config: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Find tools for USE_CASE among the servers of a configuration, as an agent's search_tools does.

    Searches the servers of --config or of the toolyard.toml that is found; if there is none, the bundled
    demo. Warns of servers that are missing, with the reason.
    """
    from ...search.documents import ToolQuery, fits_well
    from ...views.meta.search import TO_CONNECT

    use_case = " ".join(words).strip()
    if not use_case:
        raise CommandError("the use case is empty", 'toolyard search "send an email to a customer"')
    chosen = _config(config)
    # The command warns of servers that fail; a log line would say it twice.
    log_to_stderr(debug) if debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
    with stdout_for_data(), Terminal() as user:
        answer = asyncio.run(_searched(chosen, ToolQuery(use_case, server=only, limit=limit), user))
    (finding,) = answer.findings
    if as_json:
        print_json(_as_json(answer, explain))
        return
    _print_results(finding.results, explain)
    for name, reason in {**{item.name: item.reason for item in chosen.broken}, **answer.missing}.items():
        warn(f"{name}: {reason.replace(TO_CONNECT, f'run `toolyard login {name}`')}")
    if not finding.results:
        warn(f"no tool fits {use_case!r}")
        return
    if not fits_well(one.score for one in finding.results):
        warn(f"nothing fits {use_case!r} well; say more of what it is about, or mount a server that does it")
    if finding.total > len(finding.results):
        hint(f"--limit shows more: {finding.total} tools may fit")


def _config(given: Path | None) -> "Config":
    """The configuration with the search view, whatever view its gateway has."""
    from msgspec.structs import replace

    from ...config import Config, InProcess, ServerConfig

    file = loader.config_file(None, given)
    demo = ServerConfig(name="demo", where=InProcess(module=DEMO))
    config = Config(servers=(demo,)) if file is None else loader.load_config(file)
    settings = replace(config.gateway, view="search", server="", dialects=("native",))
    return replace(config, gateway=settings)


async def _searched(config: "Config", query: Any, user: Terminal) -> "SearchAnswer":
    from msgspec import Raw

    from ...views.view import SearchView
    from ...wire.call import NO_CHANNEL, Call, Caller, Identity, Principal
    from ...wire.versions import LATEST_MODERN

    gateway = loader.make_gateway(config, None)
    try:
        await started(gateway, config.gateway.list_wait, user)
        view = gateway.view()
        assert isinstance(view, SearchView)
        caller = Caller(LATEST_MODERN, {}, identity=Identity(Principal(agent="toolyard-search")))
        return await view.meta_tools.search(Call("tools/call", Raw(b"{}"), caller, NO_CHANNEL), [query])
    finally:
        await gateway.close()


async def started(gateway: "Gateway", wait: float, user: Terminal) -> None:
    """Start the gateway and wait for servers that are new or failed last time."""
    from ..client.connection import wait_for_servers

    await gateway.start()
    servers = gateway.catalogue.servers.values()
    await wait_for_servers([server for server in servers if server.fault or not server.was_read], wait, user)


def _as_json(answer: "SearchAnswer", explain: bool) -> dict[str, Any]:
    shown = answer.shown()
    for finding, entry in zip(answer.findings, shown["results"], strict=True):
        for found, item in zip(finding.results, entry["results"], strict=True):
            if found.input_schema is not None:
                item["input_schema"] = found.input_schema
            if explain:
                item["parts"] = found.parts
    return shown
