"""`toolyard logins`: who has let which client in, and the local users who may.

A password is asked for at the terminal or read from standard input, never taken as an argument.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ..configuration import loader
from ..serving.session_key import check_key_variable, session_key
from ..ui.messages import CommandError, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import print_table
from .keys import gateway_settings, iso_time, key_file_option, moment_of
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...authserver.logins import Login, Logins
    from ...authserver.users import LocalUser, LocalUsers
    from ...config import Config

T = TypeVar("T")


@click.group("logins", short_help="List and end logins; manage local users.")
def command() -> None:
    """Logins at the gateway's own authorization server, which [auth.server] switches on.

    A login is what a user has allowed a client. Local users sign in by name and password; with `issuer` in
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
@key_file_option
@config_option
def add_user(
    name: str,
    tenant: str | None,
    groups: tuple[str, ...],
    scopes: tuple[str, ...],
    key_file: Path | None,
    config: Path | None,
) -> None:
    """Add the user NAME. The password is asked for, or read from standard input if that is no terminal."""
    settings = gateway_settings(config, "users")
    password = _read_password(confirm=True)
    given = {} if tenant is None else {"tenant": tenant}
    user = _run(
        settings,
        key_file,
        lambda logins, users: users.add(name, password, groups=groups, scopes=scopes, **given),
    )
    click.echo(f"Added the user {user.name!r}.")
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
            moment_of(user.created),
        )
        for user in found
    ]
    print_table(("name", "tenant", "groups", "scopes", "added"), rows)


@users_group.command("password", short_help="Give a user a new password.")
@click.argument("name")
@key_file_option
@config_option
def change_password(name: str, key_file: Path | None, config: Path | None) -> None:
    """Change the password of NAME. Browsers that are signed in have to sign in again; logins stay."""
    settings = gateway_settings(config, "users")
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
        "created": iso_time(user.created),
    }
