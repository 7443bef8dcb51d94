"""`toolyard keys`: API keys of a gateway, made, listed, rotated and revoked.

The key itself is printed once, alone on standard output; everything about it goes to standard error.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..configuration import loader
from ..serving.session_key import check_key_variable, session_key
from ..ui.messages import CommandError, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import print_table
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...callers.keys import ApiKey, ApiKeys, IssuedKey
    from ...config import Config

T = TypeVar("T")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "": 1}
_LONGEST = 100 * 365 * 86400.0


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = re.fullmatch(r"\s*(\d{1,12})\s*([smhdw]?)\s*", str(value))
        if found is None or int(found[1]) * _UNITS[found[2]] > _LONGEST:
            self.fail(f"{str(value)[:40]!r} is no time; write it as 90d, 12h, 30m or 3600", param, ctx)
        return float(int(found[1]) * _UNITS[found[2]])


DURATION = _Duration()


def key_file_option(command: Any) -> Any:
    return click.option(
        "--key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The gateway's key, if `serve` has it from a file too.",
    )(command)


@click.group("keys", short_help="Make, list, rotate and revoke API keys.")
def command() -> None:
    """API keys of the gateway: who has one may call it, and is known by it.

    Keys are kept as keyed hashes in the state store of the configuration. `keys = true` in [auth] makes the
    gateway accept them. Clients send one as `Authorization: Bearer ty_…`.
    """


@command.command("create", short_help="Make a key and print it, once.")
@click.argument("name")
@click.option("--user", default="", metavar="NAME", help="Whose data it reaches. Default: the key's name.")
@click.option("--agent", default="", metavar="NAME", help="The agent that uses it, for rules and limits.")
@click.option("--tenant", metavar="NAME", show_default="local", help="The tenant that the user belongs to.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group; may be repeated.")
@click.option("--scope", "scopes", multiple=True, metavar="NAME", help="A scope; may be repeated.")
@click.option(
    "--expires", type=DURATION, metavar="TIME", help="Its life, such as 90d or 12h. Default: no end."
)
@key_file_option
@config_option
@json_option
def create(
    name: str,
    user: str,
    agent: str,
    tenant: str | None,
    groups: tuple[str, ...],
    scopes: tuple[str, ...],
    expires: float | None,
    key_file: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make the key NAME and print it. It is shown this once: the gateway keeps a hash of it only."""
    from ...callers.keys import KeyHolder

    settings = gateway_settings(config)
    _check_agent(settings, agent)
    end = _end_of(expires)
    given = {"tenant": tenant} if tenant is not None else {}
    holder = KeyHolder(name=name, user=user, agent=agent, groups=groups, scopes=scopes, **given)
    issued = _run(settings, key_file, lambda keys: keys.create(holder, end))
    _print_issued(issued, as_json)
    if not settings.auth.keys:
        warn("the gateway does not accept keys yet", "add to the configuration: [auth] and keys = true")


@command.command("list", short_help="List keys, with their last use.")
@key_file_option
@config_option
@json_option
def list_keys(key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """List the keys of the gateway. The time of last use is exact to a minute."""
    settings = gateway_settings(config)

    async def read(keys: "ApiKeys") -> "list[tuple[ApiKey, float | None, bool]]":
        return [(key, await keys.last_use(key.id), keys.is_foreign(key)) for key in await keys.list()]

    found = _run(settings, key_file, read)
    now = time.time()
    if as_json:
        print_json([_object(key, now, used, foreign) for key, used, foreign in found])
        return
    if not found:
        click.echo("No keys yet.")
        hint("`toolyard keys create NAME` makes one")
        return
    headings = ("name", "id", "agent", "user", "tenant", "groups", "scopes", "last used", "expires", "state")
    print_table(headings, [_cells(key, now, used, foreign) for key, used, foreign in found])


@command.command("revoke", short_help="End a key.")
@click.argument("name_or_id", metavar="NAME|ID")
@key_file_option
@config_option
@json_option
def revoke(name_or_id: str, key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """End the key. Running gateways refuse it within five seconds."""

    async def end(keys: "ApiKeys") -> "ApiKey":
        return await keys.revoke((await keys.find(name_or_id)).id)

    key = _run(gateway_settings(config), key_file, end)
    if as_json:
        print_json(_object(key, time.time(), None, False))
    else:
        click.echo(f"Revoked the key {key.name!r} ({key.id}).")


@command.command("rotate", short_help="Give a key a new secret and print it, once.")
@click.argument("name_or_id", metavar="NAME|ID")
@click.option(
    "--overlap",
    type=DURATION,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How long the old key is valid beside the new one; 0 ends it at once.",
)
@click.option("--expires", type=DURATION, metavar="TIME", help="Its life from now. Default: the end it had.")
@key_file_option
@config_option
@json_option
def rotate(
    name_or_id: str,
    overlap: float,
    expires: float | None,
    key_file: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make a new key in the place of an old one: same name, user, agent and rights."""
    end = _end_of(expires)

    async def renew(keys: "ApiKeys") -> "IssuedKey":
        return await keys.rotate((await keys.find(name_or_id)).id, overlap, end)

    issued = _run(gateway_settings(config), key_file, renew)
    _print_issued(issued, as_json)
    if not as_json:
        hint(f"the old key ends {'in ' + _span(overlap) if overlap else 'now'}")


def _end_of(life: float | None) -> float | None:
    if life == 0:
        raise CommandError("--expires 0 would end the key at once", "as in --expires 90d")
    return None if life is None else time.time() + life


# The store


def gateway_settings(given: Path | None, what: str = "keys") -> "Config":
    file = loader.config_file(None, given)
    if file is None:
        raise CommandError(
            f"no configuration, so there is no gateway to make {what} for",
            "`toolyard add` makes one, or name it with --config FILE",
        )
    return loader.load_config(file)


def _run(settings: "Config", key_file: Path | None, work: "Callable[[ApiKeys], Awaitable[T]]") -> T:
    from ...callers.keys import ApiKeyError, open_keys
    from ...callers.names import CallerNameError
    from ...config.files import state_folder
    from ...state.store import StateError
    from ...wire.seal import Sealer

    check_key_variable()
    key = session_key(key_file)
    if key is None:
        raise CommandError(
            "API keys need a key of the gateway that lasts", "set TOOLYARD_KEY, or give --key-file FILE"
        )
    name = settings.gateway.name

    async def run() -> T:
        keys = open_keys(settings.state.url, state_folder(settings), name, Sealer(key, name))
        try:
            return await work(keys)
        finally:
            await keys.close()

    try:
        return asyncio.run(run())
    except StateError as error:
        raise loader.config_error(error) from None
    except ApiKeyError as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None
    except CallerNameError as error:
        raise CommandError(str(error)) from None


def _check_agent(settings: "Config", agent: str) -> None:
    """A key for an agent that no rule knows would be a key for nothing."""
    known = settings.access.agents
    if not agent or not known or agent in known:
        return
    from difflib import get_close_matches

    near = get_close_matches(agent, known, 1, 0.6)
    raise CommandError(
        f"no agent {agent!r} in [access]",
        f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}",
    )


# What is shown


def _print_issued(issued: "IssuedKey", as_json: bool) -> None:
    key = issued.key
    if as_json:
        print_json({"key": issued.text, **_object(key, time.time(), None, False)})
        return
    click.echo(issued.text)
    hint(f"this is shown once; it is the key {key.name!r} with the id {key.id}, {_end(key)}")
    hint("Claude Code: claude mcp add --transport http toolyard URL --header 'Authorization: Bearer KEY'")


def _end(key: "ApiKey") -> str:
    return "without an end" if key.expires is None else f"valid until {moment_of(key.expires)}"


def _object(key: "ApiKey", now: float, used: float | None, foreign: bool) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "tenant": key.tenant,
        "user": key.user or key.name,
        "agent": key.agent,
        "groups": key.groups,
        "scopes": key.scopes,
        "created": iso_time(key.created),
        "expires": None if key.expires is None else iso_time(key.expires),
        "last_used": None if used is None else iso_time(used),
        "state": _state(key, now, foreign),
    }


def _state(key: "ApiKey", now: float, foreign: bool) -> str:
    state = key.state(now)
    return "made with another TOOLYARD_KEY" if state == "valid" and foreign else state


def _cells(key: "ApiKey", now: float, used: float | None, foreign: bool) -> tuple[str, ...]:
    return (
        one_line(key.name),
        key.id,
        one_line(key.agent) or "-",
        one_line(key.user or key.name),
        one_line(key.tenant),
        one_line(", ".join(key.groups)) or "-",
        one_line(" ".join(key.scopes)) or "-",
        "never" if used is None else f"{_span(max(0.0, now - used))} ago",
        "never" if key.expires is None else moment_of(key.expires),
        _state(key, now, foreign),
    )


def iso_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def moment_of(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _span(seconds: float) -> str:
    """`40 s`, `5 min`, `3 h`, `12 days`."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and unit != "days"):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
