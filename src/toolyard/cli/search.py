"""`toolyard search`: the tools that fit a use case, and why."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import completion, yard
from .failure import Failure, hint, warn
from .key import check_variable
from .logs import to_stderr
from .options import config_option, debug_option, json_option
from .output import stdout_kept_clean
from .render import print_json
from .scores import print_found
from .target import DEMO
from .terminal import Terminal

if TYPE_CHECKING:
    from ..app import Gateway
    from ..config import Config
    from ..views.meta.answers import SearchAnswer

MOST = 25


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
@click.option("--limit", type=click.IntRange(1, MOST), help="How many; without it as configured.")
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

    --config or the toolyard.toml found here says which servers; without one it is the bundled demo.
    Servers that are missing are shown with the reason.
    """
    from ..search.documents import Query

    check_variable()
    use_case = " ".join(words).strip()
    if not use_case:
        raise Failure("the use case is empty", 'toolyard search "send an email to a customer"')
    chosen = _config(config)
    # What goes wrong with a server is shown as a warning of the command, not as a log line too.
    to_stderr(debug) if debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
    with stdout_kept_clean(), Terminal() as user:
        answer = asyncio.run(_searched(chosen, Query(use_case, server=only, limit=limit), user))
    (finding,) = answer.findings
    if as_json:
        print_json(_shown(answer, explain))
        return
    print_found(finding.results, explain)
    for name, reason in {**{item.name: item.reason for item in chosen.broken}, **answer.missing}.items():
        warn(f"{name}: {reason}")
    if not finding.results:
        warn(f"nothing fits {use_case!r}")
    elif finding.total > len(finding.results):
        hint(f"--limit shows more: there are {finding.total} that may fit")


def _config(given: Path | None) -> "Config":
    """Whatever the gateway would show its clients, here everything is searched."""
    from msgspec.structs import replace

    from ..config import Config, InProcess, ServerConfig

    file = yard.config_file(None, given)
    demo = ServerConfig(name="demo", where=InProcess(module=DEMO))
    config = Config(servers=(demo,)) if file is None else yard.read(file)
    settings = replace(config.gateway, view="search", server="", dialects=("native",))
    return replace(config, gateway=settings)


async def _searched(config: "Config", query: Any, user: Terminal) -> "SearchAnswer":
    from msgspec import Raw

    from ..views.search import SearchView
    from ..wire.call import NO_CHANNEL, Call, Caller, Identity
    from ..wire.versions import LATEST_MODERN

    gateway = yard.make(config, None)
    try:
        await _started(gateway, config.gateway.list_wait, user)
        view = gateway.view()
        assert isinstance(view, SearchView)
        caller = Caller(LATEST_MODERN, {}, identity=Identity(agent="toolyard-search"))
        return await view.desk.search(Call("tools/call", Raw(b"{}"), caller, NO_CHANNEL), [query])
    finally:
        await gateway.close()


async def _started(gateway: "Gateway", wait: float, user: Terminal) -> None:
    """With a fresh look at what is new or was not well; a reason from last time may be out of date."""
    from .mounted import settled

    await gateway.start()
    shelves = gateway.catalogue.shelves.values()
    await settled([shelf for shelf in shelves if shelf.fault or not shelf.known], wait, user)


def _shown(answer: "SearchAnswer", explain: bool) -> dict[str, Any]:
    shown = answer.shown()
    if explain:
        for finding, entry in zip(answer.findings, shown["results"], strict=True):
            for found, item in zip(finding.results, entry["results"], strict=True):
                item["parts"] = found.parts
    return shown
