"""`toolyard usage`: what callers have used of their limits."""

import asyncio
from typing import TYPE_CHECKING, Unpack

import click

from ..configuration import loader
from ..ui.messages import CommandError, one_line
from ..ui.output import print_json
from ..ui.tables import format_size, print_table
from .options import GatewayOptions, gateway_options, json_option

if TYPE_CHECKING:
    from ...config import Config
    from ...limits.usage import LimitUsage, UsageReport

BAR_CELLS = 10
NEARLY = 0.8
"""From here on a bar is yellow."""


@click.command("usage", short_help="Show what callers have used of their limits.")
@click.option("--who", metavar="TEXT", help="Only users, agents, servers and so on with this in their name.")
@click.option("--rule", metavar="NAME", help="Only the limits of this rule.")
@click.option(
    "--per",
    type=click.Choice(["user", "agent", "tenant", "server", "tool", "all"]),
    help="Only limits that are counted per user, agent, and so on.",
)
@click.option("--full", is_flag=True, help="Only limits of which nothing is left.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many rows.")
@gateway_options
@json_option
def command(
    who: str | None,
    rule: str | None,
    per: str | None,
    full: bool,
    limit: int,
    as_json: bool,
    **options: Unpack[GatewayOptions],
) -> None:
    """Show what is used of each limit of [limits], the fullest first.

    Reads the state store that the gateways count in, or asks the running gateway if it counts in its own
    memory. Callers who have used nothing are not shown.
    """
    report = _read(options, rule)
    rows = [
        row
        for row in report.usage
        if (who is None or who.casefold() in row.who.casefold())
        and rule in (None, row.rule)
        and per in (None, row.per)
        and (not full or row.left <= 0)
    ]
    if as_json:
        print_json([_object(row) for row in rows])
        return
    if not rows:
        click.echo("Nothing is used of any limit.")
        return
    print_table(_HEADINGS, [_cells(row, report.currency) for row in rows[:limit]], last_style=_bar_style)
    if len(rows) > limit:
        click.echo(f"… and {len(rows) - limit} more")


def _read(options: GatewayOptions, rule: str | None) -> "UsageReport":
    """`rule` has to be in the configuration, where there is one."""
    from ...config import Config
    from ...config.errors import ConfigError
    from ...limits.usage import UsageReport
    from ...state import StateError
    from ..client.operator import GatewayApi, find_config

    settings = find_config(options)
    if settings is not None:
        _check(settings, rule)
    elif not options["url"]:
        raise CommandError("no configuration", "--config names one, --url a running gateway")
    settings = settings or Config()
    try:
        api = GatewayApi.where_needed(
            options,
            settings,
            scope="usage",
            not_found="is this the address of a gateway, and had it [limits] when it was started?",
        )
        if api is not None:
            return asyncio.run(api.request("GET", "/usage", UsageReport))
        return asyncio.run(_read_store(settings))
    except (ConfigError, StateError) as error:
        raise loader.config_error(error) from None


def _check(settings: "Config", rule: str | None) -> None:
    from ...config.errors import nearest_or_all

    if not settings.limits.rules:
        raise CommandError("the configuration has no limits", "add [[limits.rules]]")
    names = [each.name for each in settings.limits.rules if each.name]
    if rule is not None and rule not in names:
        raise CommandError(f"no rule {rule!r} in [limits]", nearest_or_all(rule, names))


async def _read_store(settings: "Config") -> "UsageReport":
    from ...config.files import state_folder
    from ...limits.matching import RuleMatcher
    from ...limits.table import LimitTable
    from ...limits.usage import read_usage
    from ...state import open_state

    table = LimitTable(settings.limits, RuleMatcher(settings.access.groups))
    state = open_state(settings.state.url, state_folder(settings))
    try:
        return await read_usage(table, state)
    finally:
        await state.close()


def _object(row: "LimitUsage") -> dict[str, object]:
    from ...limits.errors import format_time

    return {
        "who": row.who,
        "per": row.per,
        "rule": row.rule,
        "measure": row.measure,
        "limit": row.limit,
        "used": row.used,
        "ceiling": row.ceiling,
        "left": row.left,
        "resets_at": None if row.resets_at is None else format_time(row.resets_at),
    }


_HEADINGS = ("who", "rule", "limit", "used", "left", "resets", "")


def _cells(row: "LimitUsage", currency: str) -> tuple[str, ...]:
    from ...limits.errors import format_duration

    if row.resets_in is None:
        resets = "when a call ends"
    else:
        resets = f"{'full ' if row.measure == 'rate' else ''}in {format_duration(row.resets_in)}"
    return (
        one_line(row.who),
        one_line(row.rule),
        one_line(row.limit),
        one_line(_amount(row.used, row.unit, currency)),
        one_line(_amount(row.left, row.unit, currency)),
        resets,
        _bar(row.share),
    )


def _amount(amount: float, unit: str, currency: str) -> str:
    match unit:
        case "cost":
            return f"{amount:,.2f} {currency}"
        case "bytes":
            return format_size(int(amount))
        case _:
            return f"{int(amount):,}"


def _bar(share: float) -> str:
    """A limit that was used has one cell at least, and only one that is used up has all of them."""
    cells = BAR_CELLS if share >= 1 else min(BAR_CELLS - 1, max(share > 0, round(share * BAR_CELLS)))
    percent = "100%" if share >= 1 else f"{min(99, int(share * 100))}%"
    return f"{'█' * cells}{'░' * (BAR_CELLS - cells)} {percent:>4}"


def _bar_style(bar: str) -> str:
    percent = int(bar.split()[-1].removesuffix("%"))
    return "red" if percent >= 100 else "yellow" if percent >= NEARLY * 100 else "green"
