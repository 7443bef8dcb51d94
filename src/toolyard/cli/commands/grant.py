"""`toolyard grant`: rights lent to a sub-agent: made, narrowed, shown, listed and revoked.

A token is printed alone on standard output; everything about it goes to standard error. `narrow` and `show`
need no gateway and no store.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..configuration import loader
from ..serving.credentials import open_credentials
from ..serving.session_key import check_key_variable, session_key
from ..ui.messages import CommandError, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import print_table
from .keys import DURATION, gateway_settings, iso_time, key_file_option, moment_of
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...callers.grants import Grants, IssuedGrant, ListedGrant
    from ...callers.keys import ApiKeys
    from ...config import Config
    from ...wire.call import Principal

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_MAKE = "make"


class _GrantGroup(click.Group):
    """`toolyard grant NAME` makes a grant, unless NAME is a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            args = [_MAKE, *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options may come before NAME, too."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = [_MAKE, *args]
        return super().parse_args(ctx, args)


def _limit_options(command: F) -> F:
    for option in (
        click.option("--note", default="", metavar="TEXT", help="What it is for; its holder can read it."),
        click.option("--calls", type=click.IntRange(1), metavar="NUMBER", help="How many calls it permits."),
        click.option("--ttl", type=DURATION, metavar="TIME", help="Its life, such as 1h, 30m or 90."),
        click.option(
            "--deny", multiple=True, metavar="PATTERN", help="What it does not permit; may be repeated."
        ),
        click.option(
            "--allow",
            multiple=True,
            metavar="PATTERN",
            help="What it permits: SERVER, SERVER/TOOL, SERVER/*:read; may be repeated. Default: everything.",
        ),
    ):
        command = option(command)
    return command


@click.group("grant", cls=_GrantGroup, short_help="Lend rights to a sub-agent.")
def command() -> None:
    """Grants: tokens for sub-agents, with fewer rights than their maker's, an end and a number of calls.

    `toolyard grant NAME` makes one. Its holder sends it as `Authorization: Bearer tyg_…`, to the gateway's
    address or to /agents/NAME/mcp, and can narrow it further without asking the gateway.
    """


@command.command(_MAKE, short_help="Make a grant and print it, once.")
@click.argument("name")
@_limit_options
@click.option(
    "--from",
    "parent",
    metavar="KEY",
    help="Whose rights: the name or id of an API key, or a grant. Default: the local user's.",
)
@key_file_option
@config_option
@json_option
def make(
    name: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    ttl: float | None,
    calls: int | None,
    note: str,
    parent: str | None,
    key_file: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make a grant for the agent NAME and print it. It is shown this once: the gateway does not keep it.

    The rules for its maker apply to it, and those for NAME. It ends with its maker's key.
    """
    _check_patterns((*allow, *deny))
    settings = gateway_settings(config, "grants")

    async def work(grants: "Grants", keys: "ApiKeys") -> "IssuedGrant":
        lender = await _lender(grants, keys, parent)
        return await grants.make(lender, name, allow or None, deny, ttl, calls, note)

    issued = _run(settings, key_file, work)
    record = issued.record
    if as_json:
        print_json({"token": issued.token, "path": f"/agents/{record.name}/mcp", **_record_object(record)})
    else:
        click.echo(issued.token)
        hint(f"this is shown once; it is the grant {record.id}, valid until {moment_of(record.expires)}")
        hint(f"send it as 'Authorization: Bearer …' to the gateway, at its path or at /agents/{name}/mcp")
    if ttl is not None and record.expires < record.made + int(ttl):
        warn(
            "the grant ends earlier than you asked", "grant_ttl of [auth], or the end of its maker, limits it"
        )
    if not settings.auth.knows_callers:
        warn(
            "the gateway does not ask callers who they are, so nobody needs the grant",
            "add to the configuration: [auth] with keys = true",
        )


@command.command("narrow", short_help="Make a grant with fewer rights out of another.")
@click.argument("token", metavar="TOKEN|-")
@click.option("--name", default="", metavar="NAME", help="Another agent. Default: the same name.")
@_limit_options
def narrow(
    token: str,
    name: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    ttl: float | None,
    calls: int | None,
    note: str,
) -> None:
    """Print a grant that permits less than TOKEN. Asks neither a gateway nor its store.

    What TOKEN does not permit, the new grant does not either. - reads TOKEN from standard input.
    """
    from ...callers.grant_token import GrantError, narrow_grant

    _check_patterns((*allow, *deny))
    try:
        narrowed = narrow_grant(
            _token(token), name=name, allow=allow or None, deny=deny, ttl=ttl, calls=calls, note=note
        )
    except GrantError as error:
        raise _command_error(error) from None
    click.echo(narrowed)


@command.command("show", short_help="Show what a grant says.")
@click.argument("token", metavar="TOKEN|-")
@json_option
def show(token: str, as_json: bool) -> None:
    """Show what TOKEN says, without what makes it valid. - reads it from standard input.

    Only the gateway can tell whether it is genuine, revoked or used up.
    """
    from ...callers.grant_token import GrantError, show_grant

    try:
        shown = show_grant(_token(token))
    except GrantError as error:
        raise _command_error(error) from None
    if as_json:
        print_json(shown)
        return
    over = " (over)" if shown["expires"] <= time.time() else ""
    click.echo(f"{one_line(shown['name'])}, grant {shown['id']}, until {moment_of(shown['expires'])}{over}")
    parent = shown["blocks"][0]["parent"]
    click.echo(f"made by: {_parent_text(parent)}")
    rows = [_block_cells(at, block) for at, block in enumerate(shown["blocks"], 1)]
    print_table(("step", "name", "allow", "deny", "calls", "until", "note"), rows)


@command.command("list", short_help="List grants, with the calls they used.")
@key_file_option
@config_option
@json_option
def list_grants(key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """List the grants that the gateway made and that have not expired. It does not know narrowed ones."""

    async def work(grants: "Grants", keys: "ApiKeys") -> "list[ListedGrant]":
        return await grants.list()

    found = _run(gateway_settings(config, "grants"), key_file, work)
    if as_json:
        print_json([{**_record_object(one.record), "used": one.used, "state": one.state} for one in found])
        return
    if not found:
        click.echo("No grants.")
        hint("`toolyard grant NAME` makes one")
        return
    headings = ("name", "id", "made by", "allow", "deny", "calls", "expires", "state", "note")
    print_table(headings, [_cells(one) for one in found])


@command.command("revoke", short_help="End a grant, and those made from it.")
@click.argument("id_or_token", metavar="ID|TOKEN|-")
@key_file_option
@config_option
@json_option
def revoke(id_or_token: str, key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """End a grant and all that were made from it. Running gateways refuse them within five seconds."""
    given = _token(id_or_token)

    async def work(grants: "Grants", keys: "ApiKeys") -> "str | None":
        record = await grants.revoke(given)
        return None if record is None else record.name

    name = _run(gateway_settings(config, "grants"), key_file, work)
    id = _id_of(given)
    if as_json:
        print_json({"id": id, "name": name})
        return
    if name is None:
        click.echo(f"Revoked the grant {id}.")
        hint("the gateway did not make it: its holder did, or there is no such grant")
    else:
        click.echo(f"Revoked the grant {name!r} ({id}).")


# The store


def _run(settings: "Config", key_file: Path | None, work: "Callable[[Grants, ApiKeys], Awaitable[T]]") -> T:
    from ...callers.grant_token import GrantError
    from ...callers.keys import ApiKeyError
    from ...state.store import StateError

    check_key_variable()
    key = session_key(key_file)
    if key is None:
        raise CommandError(
            "grants need a key of the gateway that lasts", "set TOOLYARD_KEY, or give --key-file FILE"
        )

    async def run() -> T:
        async with open_credentials(settings, key) as (keys, grants):
            return await work(grants, keys)

    try:
        return asyncio.run(run())
    except StateError as error:
        raise loader.config_error(error) from None
    except (GrantError, ApiKeyError) as error:
        raise _command_error(error) from None


async def _lender(grants: "Grants", keys: "ApiKeys", parent: str | None) -> "Principal":
    from ...callers.errors import CallerError
    from ...wire.call import Principal

    if parent is None:
        return Principal()
    try:
        if grants.recognizes(parent):
            return await grants.verify(parent, "")
        if keys.recognizes(parent):
            return await keys.verify(parent, "")
    except CallerError as error:
        raise CommandError(f"--from: {error.reason}") from None
    return (await keys.find(parent)).principal


def _token(given: str) -> str:
    """Arguments can be seen by other users of the machine, so `-` reads from standard input."""
    return sys.stdin.readline().strip() if given == "-" else given


def _id_of(given: str) -> str:
    from ...callers.grant_token import PREFIX, GrantToken

    return GrantToken.read(given).id if given.startswith(PREFIX) else given


def _check_patterns(patterns: tuple[str, ...]) -> None:
    from ...config.patterns import PatternError, parse

    try:
        for pattern in patterns:
            parse(pattern)
    except PatternError as error:
        raise CommandError(error.message, error.hint) from None


def _command_error(error: Any) -> CommandError:
    return CommandError(error.message, *([error.hint] if error.hint else []))


# What is shown


def _record_object(record: Any) -> dict[str, object]:
    return {
        "id": record.id,
        "name": record.name,
        "chain": record.chain,
        "made_by": {"kind": record.kind, "credential": record.credential, "agents": record.agents},
        "tenant": record.tenant,
        "user": record.user,
        "allow": record.allow,
        "deny": record.deny,
        "calls": record.calls,
        "note": record.note,
        "made": iso_time(record.made),
        "expires": iso_time(record.expires),
    }


def _cells(one: "ListedGrant") -> tuple[str, ...]:
    record = one.record
    maker = " / ".join(agent for agent in record.agents if agent) or record.user or record.kind
    calls = str(one.used) if record.calls is None and one.used else "-"
    return (
        one_line(record.name),
        record.id,
        one_line(maker),
        _patterns(record.allow),
        _patterns(record.deny) if record.deny else "-",
        calls if record.calls is None else f"{one.used} of {record.calls}",
        moment_of(record.expires),
        one.state,
        one_line(record.note) or "-",
    )


def _block_cells(at: int, block: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(at),
        one_line(block.get("name", "")) or "-",
        _patterns(block.get("allow")),
        _patterns(block["deny"]) if block.get("deny") else "-",
        str(block.get("calls", "-")),
        moment_of(block["expires"]) if "expires" in block else "-",
        one_line(block.get("note", "")) or "-",
    )


def _patterns(patterns: Any) -> str:
    if patterns is None:
        return "*"
    return one_line(", ".join(patterns)) or "nothing"


def _parent_text(parent: dict[str, Any]) -> str:
    if parent["kind"] == "key":
        return f"API key {parent['id']}"
    named = parent.get("agent") or parent.get("subject") or "the local user"
    return one_line(f"{named} ({parent['kind']})")
