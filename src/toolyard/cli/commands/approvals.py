"""`toolyard approvals`: the calls that wait for a person, the decision about one, and those that stand.

Reads and writes the state store of the configuration. A store in memory belongs to the running gateway, so
then, or with --url, the command asks the gateway over HTTP.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack
from urllib.parse import quote

import click
import msgspec

from ..configuration import loader
from ..ui.messages import CommandError, hint, one_line
from ..ui.output import print_json
from ..ui.tables import print_table
from .options import GatewayOptions, gateway_options, json_option

if TYPE_CHECKING:
    from ...state.store import State
    from ..client.operator import GatewayApi

T = TypeVar("T")
Row = dict[str, Any]
DecisionWord = Literal["approve", "deny"]

WATCH_SECONDS = 1.0
MAX_ARGUMENTS = 60
_HEADINGS = ("id", "who", "what", "arguments", "age", "left")
_STANDING_HEADINGS = ("id", "who", "what", "by", "age", "left")


class ApprovalSource(Protocol):
    """Where waiting calls are found."""

    async def rows(self) -> list[Row]: ...

    async def decide(self, id: str, decision: DecisionWord, by: str, always: bool) -> Row: ...

    async def standing(self) -> list[Row]: ...

    async def withdraw(self, id: str) -> Row: ...


@click.group("approvals", invoke_without_command=True, short_help="Decide calls that wait for a person.")
@click.option("--watch", is_flag=True, help="Go on, and print the list again when it changes.")
@gateway_options
@json_option
@click.pass_context
def command(ctx: click.Context, watch: bool, as_json: bool, **options: Unpack[GatewayOptions]) -> None:
    """List the calls that wait for a person, and approve or deny one.

    A rule with `confirm` makes a call wait if its client cannot ask its user. Whoever decides first, decides;
    a call that nobody decides is refused after `confirm_seconds`. Arguments are shown without secrets, and
    shortened; --json has more of them.
    """
    if ctx.invoked_subcommand is None:
        _run(options, lambda source: _watch(source, as_json) if watch else _list(source, as_json))
    elif watch or as_json or any(options.values()):
        raise CommandError(
            f"an option stands before {ctx.invoked_subcommand!r}", f"put it after {ctx.invoked_subcommand!r}"
        )


def _decide(
    options: GatewayOptions, word: DecisionWord, id: str, by: str | None, always: bool, as_json: bool
) -> None:
    decided = _run(options, lambda source: source.decide(id, word, by or _user(), always))
    if as_json:
        print_json(decided)
        return
    what = "Approved" if word == "approve" else "Denied"
    click.echo(f"{what} {decided['id']}{' for its conversation' if decided['always'] else ''}.")


_by_option = click.option("--by", metavar="NAME", help="Who decides. Default: your user name.")


@command.command("approve", short_help="Let a waiting call be made.")
@click.argument("id", metavar="ID")
@click.option("--always", is_flag=True, help="Approve this tool for the rest of the conversation.")
@_by_option
@gateway_options
@json_option
def approve(id: str, always: bool, by: str | None, as_json: bool, **options: Unpack[GatewayOptions]) -> None:
    """Let the call that waits as ID be made."""
    _decide(options, "approve", id, by, always, as_json)


@command.command("deny", short_help="Refuse a waiting call.")
@click.argument("id", metavar="ID")
@_by_option
@gateway_options
@json_option
def deny(id: str, by: str | None, as_json: bool, **options: Unpack[GatewayOptions]) -> None:
    """Refuse the call that waits as ID."""
    _decide(options, "deny", id, by, False, as_json)


@command.command("standing", short_help="List what is approved for conversations.")
@gateway_options
@json_option
def standing(as_json: bool, **options: Unpack[GatewayOptions]) -> None:
    """List the tools that somebody approved for the rest of a conversation."""
    found = _run(options, lambda source: source.standing())
    if as_json:
        print_json(found)
    elif not found:
        click.echo("Nothing is approved for a conversation.")
    else:
        print_table(_STANDING_HEADINGS, [_cells(row, one_line(str(row["by"]))) for row in found])
        hint(f"toolyard approvals withdraw {found[0]['id']}")


@command.command("withdraw", short_help="Ask again in a conversation.")
@click.argument("id", metavar="ID")
@gateway_options
@json_option
def withdraw(id: str, as_json: bool, **options: Unpack[GatewayOptions]) -> None:
    """Withdraw what is approved as ID: the next call is asked about again. A call under way goes on."""
    withdrawn = _run(options, lambda source: source.withdraw(id))
    if as_json:
        print_json(withdrawn)
        return
    what = f"{withdrawn['server']}/{withdrawn['tool']} for {withdrawn['who']}"
    click.echo(f"Withdrew {one_line(str(withdrawn['id']))}: {one_line(what)}.")


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return "an operator"


# The list


async def _list(source: ApprovalSource, as_json: bool) -> None:
    found = await source.rows()
    if as_json:
        print_json(found)
    else:
        _print(found)


async def _watch(source: ApprovalSource, as_json: bool) -> None:
    """As JSON, one line for each call that is new."""
    known: list[str] | None = None
    while True:
        found = await source.rows()
        ids = [str(row["id"]) for row in found]
        if ids != known:
            if not as_json:
                _print(found)
            for row in found if as_json else ():
                if row["id"] not in (known or ()):
                    click.echo(msgspec.json.encode(row))
            known = ids
        await asyncio.sleep(WATCH_SECONDS)


def _print(found: list[Row]) -> None:
    if not found:
        click.echo("No call waits for approval.")
        return
    print_table(_HEADINGS, [_cells(row, _arguments(row)) for row in found])
    hint(f"toolyard approvals approve {found[0]['id']}, or deny {found[0]['id']}")


def _arguments(row: Row) -> str:
    arguments = msgspec.json.encode(row["arguments"]).decode()
    return one_line(arguments if len(arguments) <= MAX_ARGUMENTS else f"{arguments[: MAX_ARGUMENTS - 1]}…")


def _cells(row: Row, shown: str) -> tuple[str, ...]:
    return (
        one_line(str(row["id"])),
        one_line(str(row["who"])),
        one_line(f"{row['server']}/{row['tool']}"),
        shown,
        _span(float(row["age_seconds"])),
        _span(float(row["seconds_left"])),
    )


def _span(seconds: float) -> str:
    """`12 s`, `5 min`, `7 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


# Where the calls are


def _run(options: GatewayOptions, work: Callable[[ApprovalSource], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _source(options) as source:
            return await work(source)

    return asyncio.run(run())


@asynccontextmanager
async def _source(options: GatewayOptions) -> AsyncGenerator[ApprovalSource]:
    from ...config import Config
    from ...config.files import state_folder
    from ...state.factory import open_state
    from ...state.store import StateError
    from ..client.operator import GatewayApi, find_config

    config = find_config(options) or Config()
    try:
        api = GatewayApi.where_needed(
            options,
            config,
            scope="approve",
            not_found="toolyard approvals lists those that wait; is this the address of a gateway?",
        )
        if api is not None:
            yield _Gateway(api)
            return
        state = open_state(config.state.url, state_folder(config))
        try:
            yield _Store(state)
        finally:
            await state.close()
    except StateError as error:
        raise loader.config_error(error) from None


class _Store:
    def __init__(self, state: "State") -> None:
        from ...policy.pending import PendingApprovals

        self._pending = PendingApprovals(state)

    async def rows(self) -> list[Row]:
        now = time.time()
        return [pending.as_row(now) for pending in await self._pending.list()]

    async def decide(self, id: str, decision: DecisionWord, by: str, always: bool) -> Row:
        from ...policy.pending import ApprovalError

        try:
            decided = await self._pending.decide(id, decision, by, always=always)
        except ApprovalError as error:
            raise CommandError(str(error), "toolyard approvals lists those that wait") from None
        assert decided.verdict is not None
        return {"id": decided.id, **msgspec.structs.asdict(decided.verdict)}

    async def standing(self) -> list[Row]:
        now = time.time()
        return [standing.as_row(now) for standing in await self._pending.list_standing()]

    async def withdraw(self, id: str) -> Row:
        from ...policy.pending import ApprovalError

        try:
            return (await self._pending.withdraw(id)).as_row(time.time())
        except ApprovalError as error:
            raise CommandError(str(error), "toolyard approvals standing lists what is approved") from None


class _Waiting(msgspec.Struct):
    approvals: list[Row]


class _Standing(msgspec.Struct):
    standing: list[Row]


class _Gateway:
    """The HTTP API of a running gateway."""

    def __init__(self, api: "GatewayApi") -> None:
        self._api = api

    async def rows(self) -> list[Row]:
        return (await self._api.request("GET", "/approvals", _Waiting)).approvals

    async def decide(self, id: str, decision: DecisionWord, by: str, always: bool) -> Row:
        wanted = {"decision": decision, "by": by, "always": always}
        return await self._api.request("POST", f"/approvals/{quote(id, safe='')}", Row, wanted)

    async def standing(self) -> list[Row]:
        return (await self._api.request("GET", "/approvals/standing", _Standing)).standing

    async def withdraw(self, id: str) -> Row:
        return await self._api.request("DELETE", f"/approvals/standing/{quote(id, safe='')}", Row)
