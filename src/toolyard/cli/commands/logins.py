"""`toolyard logins`: who has let which client in, and the local users who may.

A password is asked for at the terminal or read from standard input, never taken as an argument. A link to
make a passkey is printed alone on standard output; everything about it goes to standard error.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..configuration import loader
from ..serving.session_key import check_key_variable, session_key
from ..ui.messages import CommandError, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import print_table
from .keys import DURATION, gateway_settings, iso_time, key_file_option, moment_of
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...authserver.logins import Login, Logins
    from ...authserver.passkeys import Passkey
    from ...authserver.users import LocalUser, LocalUsers
    from ...config import Config

T = TypeVar("T")


def _link_options(command: Any) -> Any:
    expires = click.option(
        "--expires",
        type=DURATION,
        default="15m",
        show_default=True,
        metavar="TIME",
        help="How long the link to make a passkey is valid, such as 2h or 3d.",
    )
    url = click.option(
        "--url",
        metavar="URL",
        help="The gateway's address in the link. Default: public_url of the file, else localhost.",
    )
    return expires(url(command))


@click.group("logins", short_help="List and end logins; manage local users.")
def command() -> None:
    """Logins at the gateway's own authorization server, which [auth.server] switches on.

    A login is what a user has allowed a client. Local users sign in by password or passkey; with `issuer` in
    [auth.server] users sign in there, and local users have no part.
    """


@command.command("list", short_help="List logins.")
@key_file_option
@config_option
@json_option
def list_logins(key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """List the logins of the gateway, those that ended in the last week included."""
    found = _run(gateway_settings(config, "logins"), key_file, lambda logins, users: logins.list())
    now = time.time()
    if as_json:
        print_json([_object(login, now) for login in found])
        return
    if not found:
        click.echo("No logins yet.")
        return
    headings = ("id", "user", "tenant", "client", "scopes", "since", "last renewed", "ends", "state")
    print_table(headings, [_cells(login, now) for login in found])


@command.command("revoke", short_help="End logins.")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--user", metavar="NAME", help="All logins of this user.")
@key_file_option
@config_option
def revoke(ids: tuple[str, ...], user: str | None, key_file: Path | None, config: Path | None) -> None:
    """End logins, by their ids or all of a user. Running gateways refuse their tokens within five seconds."""
    if bool(ids) == (user is not None):
        raise CommandError("name the logins to end, or a user", "`toolyard logins list` shows ids")

    async def end(logins: "Logins", users: "LocalUsers") -> list[str]:
        wanted = list(ids) if user is None else await _valid_of(logins, user)
        return [id for id in wanted if await logins.end(id, "revoked")]

    ended = _run(gateway_settings(config, "logins"), key_file, end)
    missing = [id for id in ids if id not in ended]
    for id in ended:
        click.echo(f"Ended the login {id}.")
    if missing:
        raise CommandError(
            f"no login {', '.join(map(repr, missing))} that is valid", "`toolyard logins list` shows ids"
        )
    if not ended:
        click.echo(f"No login of {user!r} is valid.")


async def _valid_of(logins: "Logins", user: str) -> list[str]:
    return [one.id for one in await logins.list() if one.person.subject == user and not one.ended]


@command.group("users", short_help="Add, list, change and remove local users.")
def users_group() -> None:
    """Local users of the authorization server, in the state store of the configuration."""


@users_group.command("add", short_help="Add a user.")
@click.argument("name")
@click.option("--tenant", metavar="NAME", show_default="local", help="The tenant that the user belongs to.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group; may be repeated.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="NAME",
    help="A scope that this user may give to clients, such as `approve`; may be repeated.",
)
@click.option(
    "--passkey", is_flag=True, help="No password: print a link with which the user makes a passkey."
)
@_link_options
@key_file_option
@config_option
def add_user(
    name: str,
    tenant: str | None,
    groups: tuple[str, ...],
    scopes: tuple[str, ...],
    passkey: bool,
    expires: float,
    url: str | None,
    key_file: Path | None,
    config: Path | None,
) -> None:
    """Add the user NAME. The password is asked for, or read from standard input if that is no terminal."""
    from ...authserver.users import check_enrolment

    settings = gateway_settings(config, "users")
    base = _link_base(settings, url) if passkey else ""
    password = None if passkey else _read_password(confirm=True)
    given = {} if tenant is None else {"tenant": tenant}

    async def add(logins: "Logins", users: "LocalUsers") -> "tuple[LocalUser, str]":
        check_enrolment(expires)
        user = await users.add(name, password, groups=groups, scopes=scopes, **given)
        return user, await users.open_enrolment(user.name, expires) if passkey else ""

    user, ticket = _run(settings, key_file, add)
    click.echo(f"Added the user {user.name!r}.", err=passkey)
    if ticket:
        _print_link(base, ticket, user.name, expires)
    _warn_of_no_login(settings)


def _warn_of_no_login(settings: "Config") -> None:
    server = settings.auth.server
    if server is None:
        warn("nobody can log in yet", "add to the configuration: [auth.server]")
    elif server.issuer:
        warn(f"users sign in at {server.issuer}, and not here", "remove 'issuer' from [auth.server]")


@users_group.command("list", short_help="List users.")
@key_file_option
@config_option
@json_option
def list_users(key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """List the local users."""
    found = _run(gateway_settings(config, "users"), key_file, lambda logins, users: users.list())
    if as_json:
        print_json([_user_object(user) for user in found])
        return
    if not found:
        click.echo("No users yet.")
        hint("`toolyard logins users add NAME` adds one")
        return
    rows = [
        (
            one_line(user.name),
            one_line(user.tenant),
            one_line(", ".join(user.groups)) or "-",
            one_line(" ".join(user.scopes)) or "-",
            _ways_in(user),
            moment_of(user.created),
        )
        for user in found
    ]
    print_table(("name", "tenant", "groups", "scopes", "signs in by", "added"), rows)


def _ways_in(user: "LocalUser") -> str:
    count = len(user.passkeys)
    passkeys = f"{count} passkey{'' if count == 1 else 's'}" if count else ""
    return ", ".join(way for way in ("password" if user.password else "", passkeys) if way) or "nothing yet"


@users_group.command("password", short_help="Give a user a new password.")
@click.argument("name")
@click.option("--remove", is_flag=True, help="Leave the user passkeys only.")
@key_file_option
@config_option
def change_password(name: str, remove: bool, key_file: Path | None, config: Path | None) -> None:
    """Change the password of NAME. Browsers that are signed in have to sign in again; logins stay."""
    settings = gateway_settings(config, "users")
    if remove:
        user = _run(settings, key_file, lambda logins, users: users.remove_password(name))
        click.echo(f"Removed the password of {user.name!r}.")
        return
    password = _read_password(confirm=True)
    user = _run(settings, key_file, lambda logins, users: users.change(name, password=password))
    click.echo(f"Changed the password of {user.name!r}.")


@users_group.command("remove", short_help="Remove a user and end its logins.")
@click.argument("name")
@key_file_option
@config_option
def remove_user(name: str, key_file: Path | None, config: Path | None) -> None:
    """Remove the user NAME, and end all of its logins."""

    async def remove(logins: "Logins", users: "LocalUsers") -> tuple[str, int]:
        user = await users.find(name)
        await users.remove(name)
        ids = await _valid_of(logins, name if user is None else user.name)
        return name if user is None else user.name, len([id for id in ids if await logins.end(id, "revoked")])

    removed, ended = _run(gateway_settings(config, "users"), key_file, remove)
    click.echo(f"Removed the user {removed!r} and ended {ended} login{'' if ended == 1 else 's'}.")


@command.group("passkeys", short_help="List, add and remove passkeys of local users.")
def passkeys_group() -> None:
    """Passkeys of local users. Each is made in a browser, by a link that counts once."""


@passkeys_group.command("list", short_help="List passkeys.")
@click.argument("name", required=False)
@key_file_option
@config_option
@json_option
def list_passkeys(name: str | None, key_file: Path | None, config: Path | None, as_json: bool) -> None:
    """List the passkeys of the user NAME, or of all."""

    async def read(logins: "Logins", users: "LocalUsers") -> "list[LocalUser]":
        return await users.list() if name is None else [await users.get(name)]

    found = _run(gateway_settings(config, "users"), key_file, read)
    passkeys = [(user, passkey) for user in found for passkey in user.passkeys]
    if as_json:
        print_json([_passkey_object(user, passkey) for user, passkey in passkeys])
        return
    if not passkeys:
        click.echo("No passkeys yet.")
        hint("`toolyard logins passkeys add NAME` makes a link for one")
        return
    rows = [
        (
            passkey.id,
            one_line(user.name),
            one_line(passkey.name) or "-",
            one_line(passkey.host),
            "yes" if passkey.synced else "no",
            moment_of(passkey.created),
            moment_of(passkey.used) if passkey.used else "never",
            f"counter went back {moment_of(passkey.went_back)}" if passkey.went_back else "-",
        )
        for user, passkey in passkeys
    ]
    print_table(("id", "user", "name", "at", "synced", "made", "last used", "note"), rows)


@passkeys_group.command("add", short_help="Print a link with which a user makes a passkey.")
@click.argument("name")
@_link_options
@key_file_option
@config_option
def add_passkey(
    name: str, expires: float, url: str | None, key_file: Path | None, config: Path | None
) -> None:
    """Print a link with which the user NAME makes one passkey, beside what there is."""
    settings = gateway_settings(config, "users")
    base = _link_base(settings, url)
    ticket = _run(settings, key_file, lambda logins, users: users.open_enrolment(name, expires))
    _print_link(base, ticket, name, expires)
    _warn_of_no_login(settings)


@passkeys_group.command("remove", short_help="Remove a passkey.")
@click.argument("name")
@click.argument("id")
@click.option("--lock-out", is_flag=True, help="Even if the user then has no way in.")
@key_file_option
@config_option
def remove_passkey(name: str, id: str, lock_out: bool, key_file: Path | None, config: Path | None) -> None:
    """Remove the passkey ID of the user NAME. Browsers have to sign in again; logins stay."""
    user = _run(
        gateway_settings(config, "users"),
        key_file,
        lambda logins, users: users.remove_passkey(name, id, lock_out=lock_out),
    )
    click.echo(f"Removed the passkey {id} of {user.name!r}.")


def _link_base(settings: "Config", url: str | None) -> str:
    from ...authserver.passkeys import relying_party

    base = (url or settings.gateway.public_url or f"http://localhost:{settings.gateway.port}").rstrip("/")
    if relying_party(base) is None:
        raise CommandError(
            f"browsers allow no passkeys at {base[:200]!r}",
            "public_url of [gateway] has to be https with a host name; on this machine, use localhost",
        )
    return base


def _print_link(base: str, ticket: str, name: str, seconds: float) -> None:
    from ...limits.errors import format_duration

    click.echo(
        f"{name!r} makes the passkey by opening this link, once, within {format_duration(seconds)}. Whoever"
        " has the link can do it: send it to nobody else.",
        err=True,
    )
    click.echo(f"{base}/oauth/enrol?ticket={ticket}")


def _read_password(confirm: bool) -> str:
    if sys.stdin.isatty():
        return click.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True)
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("standard input has no password", "pipe it in, or run this at a terminal")
    return password


def _run(
    settings: "Config",
    key_file: Path | None,
    work: "Callable[[Logins, LocalUsers], Awaitable[T]]",
) -> T:
    from ...authserver.logins import Logins
    from ...authserver.users import LocalUsers, LoginUserError
    from ...callers.keys import lasting_state
    from ...callers.names import CallerNameError
    from ...config.callers import LoginServerConfig
    from ...config.files import state_folder
    from ...state.store import StateError
    from ...wire.seal import Sealer

    check_key_variable()
    key = session_key(key_file)
    name, server = settings.gateway.name, settings.auth.server or LoginServerConfig()

    async def run() -> T:
        state, _ = lasting_state(settings.state.url, state_folder(settings), None, "logins")
        try:
            return await work(Logins(state, name, Sealer(key, name), server), LocalUsers(state, name))
        finally:
            await state.close()

    try:
        return asyncio.run(run())
    except StateError as error:
        raise loader.config_error(error) from None
    except LoginUserError as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None
    except CallerNameError as error:
        raise CommandError(str(error)) from None


def _object(login: "Login", now: float) -> dict[str, object]:
    return {
        "id": login.id,
        "user": login.person.subject,
        "issuer": login.person.issuer,
        "tenant": login.person.tenant,
        "client": login.client,
        "client_name": login.client_name,
        "scopes": login.scopes,
        "resource": login.resource,
        "created": iso_time(login.created),
        "renewed": iso_time(login.renewed),
        "expires": iso_time(login.expires),
        "state": login.state(now),
    }


def _cells(login: "Login", now: float) -> tuple[str, ...]:
    client = login.client if login.client.startswith("https://") else login.client_name or login.client
    return (
        login.id,
        one_line(login.person.subject),
        one_line(login.person.tenant),
        one_line(client),
        one_line(" ".join(login.scopes)),
        moment_of(login.created),
        moment_of(login.renewed),
        moment_of(login.expires),
        login.state(now),
    )


def _user_object(user: "LocalUser") -> dict[str, object]:
    return {
        "name": user.name,
        "tenant": user.tenant,
        "groups": user.groups,
        "scopes": user.scopes,
        "password": bool(user.password),
        "passkeys": len(user.passkeys),
        "created": iso_time(user.created),
    }


def _passkey_object(user: "LocalUser", passkey: "Passkey") -> dict[str, object]:
    return {
        "id": passkey.id,
        "user": user.name,
        "name": passkey.name,
        "host": passkey.host,
        "synced": passkey.synced,
        "created": iso_time(passkey.created),
        "used": iso_time(passkey.used) if passkey.used else None,
        "counter_went_back": iso_time(passkey.went_back) if passkey.went_back else None,
    }
