"""`toolyard login` and `toolyard logout`: connect a server that wants a login or a key, and end that."""

import asyncio
import os
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qs, urlsplit

import click

from ..configuration import loader
from ..configuration.file import ConfigFile
from ..serving.session_key import session_key
from ..ui.messages import CommandError, hint, warn
from .options import config_option

if TYPE_CHECKING:
    from ...config import Config, ServerConfig
    from ...config.server_auth import KeyAuth, OAuthAuth
    from ...connections.keys import KeyAccounts
    from ...connections.oauth.accounts import OAuthAccounts
    from ...connections.oauth.authorization import ServerProtection
    from ...connections.oauth.metadata import Challenge
    from ...connections.oauth.tokens import TokenRecord, TokenStore
    from ...vault.vault import Vault
    from ...wire.call import Principal

T = TypeVar("T")

PORT = 8976
"""The same each time, because many issuers compare the whole redirect, port included."""
LOGIN_SECONDS = 600.0
MAX_PASTES = 5
MAX_INPUT = 64 * 1024


@click.command("login", short_help="Log in to a server that wants OAuth or an API key.")
@click.argument("server")
@click.option("--no-browser", is_flag=True, help="Show the address; paste back the one you are sent to.")
@click.option("--device", is_flag=True, help="Log in with a code on another device, if the server can.")
@click.option("--port", default=PORT, show_default=True, help="The port on this machine to come back to.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True),
    default=LOGIN_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the browser, or for the code to be entered.",
)
@config_option
def login(server: str, no_browser: bool, device: bool, port: int, wait: float, config: Path | None) -> None:
    """Log in to SERVER, a name in the configuration. Its tokens or its key are kept in the vault.

    Opens a browser and waits for it to come back to this machine. Where there is no browser, shows the
    address to open elsewhere; the page that you are sent to in the end does not load, and its address is what
    to paste. An entry without `auth` gets auth = "oauth" when the login has worked.

    For a server with auth = "api_key", asks for the key, or reads it from standard input.
    """
    from ...config.server_auth import KeyAuth

    file = _file(config)
    settings = loader.load_config(file)
    found, auth = _server(settings, server, file)
    if isinstance(auth, KeyAuth):
        _enter_key(settings, found, auth)
        return
    if auth.mode != "oauth":
        raise CommandError(
            f"{server!r} gets its tokens by {auth.mode!r}; nobody has to log in", "see its auth in the file"
        )
    headless = no_browser or not _has_browser()

    async def work(accounts: "OAuthAccounts", principal: "Principal", tokens: "TokenStore") -> "TokenRecord":
        from ...connections.oauth.grants import UserSource

        challenge = await accounts.probe()
        redirect = f"http://127.0.0.1:{port}/callback"
        if device:
            protection = await accounts.discovery().find(challenge)
            record = await _by_device(accounts, principal, protection, challenge, redirect, wait)
        else:
            authorize = _paste if headless else _browse(redirect, server, wait)
            flow = accounts.flow(principal.tenant, redirect, "native")
            record = await UserSource(accounts.discovery(), flow, authorize).obtain(challenge, None)
        await tokens.save(accounts.address(principal), record)
        return record

    record = _with_accounts(settings, found, auth, work)
    if found.auth is None:
        _add_auth(file, server)
    lasts = "" if record.refresh_token or record.lifetime is None else f", for {record.lifetime / 60:.0f} min"
    click.echo(f"logged in to {server} ({urlsplit(record.issuer).netloc}){lasts}")
    if record.lifetime is not None and not record.refresh_token:
        hint("its issuer gave no refresh token, so you will have to log in again then")


@click.command("logout", short_help="End the connection to a server.")
@click.argument("server")
@config_option
def logout(server: str, config: Path | None) -> None:
    """Forget the tokens for SERVER, and tell their issuer to revoke them. An API key is only forgotten."""
    from ...config.server_auth import KeyAuth

    file = _file(config)
    settings = loader.load_config(file)
    found, auth = _server(settings, server, file)
    if isinstance(auth, KeyAuth):
        _forget_key(settings, found, auth)
        return

    async def work(accounts: "OAuthAccounts", principal: "Principal", tokens: "TokenStore") -> bool:
        return await accounts.disconnect(principal)

    if not _with_accounts(settings, found, auth, work):
        raise CommandError(f"you are not logged in to {server!r}", f"toolyard login {server}")
    click.echo(f"logged out of {server}")


def _file(config: Path | None) -> Path:
    file = loader.config_file(None, config)
    if file is None:
        raise CommandError("there is no configuration", "toolyard add NAME URL makes one")
    return file


def _server(config: "Config", name: str, file: Path) -> "tuple[ServerConfig, OAuthAuth | KeyAuth]":
    from ...config import Http
    from ...config.errors import nearest_or_all
    from ...config.server_auth import OAuthAuth

    servers = {server.name: server for server in config.servers}
    found = servers.get(name)
    if found is None:
        raise CommandError(f"no server {name!r} in {file.name}", nearest_or_all(name, tuple(servers)))
    if found.auth is None and not isinstance(found.where, Http):
        raise CommandError(f"{name!r} is not at an address; nobody has to log in to it")
    return found, found.auth or OAuthAuth()


_PROBLEMS = {
    "empty": ("no key was entered", "run it again"),
    "long": ("this is too long for a key", "copy it again, without anything around it"),
    "characters": (
        "this cannot be a key: it has blanks, line breaks or letters that no header can carry",
        "copy it again, without anything around it",
    ),
    "refused": ("the server does not accept this key; it was not saved", "was it copied completely?"),
    "unreachable": ("the server does not answer; the key was not saved", "try again when it does"),
}


def _enter_key(config: "Config", server: "ServerConfig", auth: "KeyAuth") -> None:
    async def work(accounts: "KeyAccounts", principal: "Principal") -> "str | None":
        return await accounts.enter(accounts.address(principal), key)

    if sys.stdin.isatty():
        if auth.help:
            hint(f"get one at {auth.help}")
        key: str = click.prompt(auth.label or f"API key for {server.name}", hide_input=True, err=True)
    else:
        key = sys.stdin.read(MAX_INPUT)
    problem = _with_keys(config, server, auth, work)
    if problem is not None:
        raise CommandError(*_PROBLEMS[problem])
    whose = "for you" if auth.is_personal else "for all callers"
    click.echo(f"kept the API key for {server.name}, {whose}")


def _forget_key(config: "Config", server: "ServerConfig", auth: "KeyAuth") -> None:
    async def work(accounts: "KeyAccounts", principal: "Principal") -> bool:
        return await accounts.disconnect(principal)

    if not _with_keys(config, server, auth, work):
        raise CommandError(f"there is no API key for {server.name!r}", f"toolyard login {server.name}")
    click.echo(f"forgot the API key for {server.name}")


def _with_keys(
    config: "Config",
    server: "ServerConfig",
    auth: "KeyAuth",
    work: "Callable[[KeyAccounts, Principal], Awaitable[T]]",
) -> T:
    from ...app.connections import key_accounts
    from ...upstream.errors import UpstreamError
    from ...upstream.http.client import PooledHttpClient
    from ..serving.gateway import process_principal
    from ..serving.vault import with_vault

    principal = process_principal(config, session_key(None))

    async def run(vault: "Vault") -> T:
        http = PooledHttpClient()
        accounts = key_accounts(server, auth, vault, vault.store, http, str)
        try:
            return await work(accounts, principal)
        finally:
            await accounts.close()
            await http.close()

    try:
        return with_vault(config, run)
    except UpstreamError as error:
        raise CommandError(error.reason) from None


def _with_accounts(
    config: "Config",
    server: "ServerConfig",
    auth: "OAuthAuth",
    work: "Callable[[OAuthAccounts, Principal, TokenStore], Awaitable[T]]",
) -> T:
    """Runs work with the accounts at one server, in the name of whoever started this process."""
    from ...config import Http
    from ...config.files import state_folder
    from ...connections.oauth.accounts import OAuthAccounts
    from ...connections.oauth.errors import OAuthError
    from ...connections.oauth.tokens import TokenStore
    from ...state.store import StateError
    from ...upstream.errors import UpstreamError
    from ...vault.base import VaultError
    from ...vault.factory import open_vault
    from ..serving.gateway import process_principal

    assert isinstance(server.where, Http)
    url, principal = server.where.url, process_principal(config, session_key(None))

    async def run() -> T:
        vault = open_vault(config, state_folder(config))
        tokens = TokenStore(vault, vault.store)
        accounts = OAuthAccounts(server.name, url, auth, tokens, vault.store, str)
        try:
            return await work(accounts, principal, tokens)
        finally:
            await accounts.close()
            await vault.close()

    try:
        return asyncio.run(run())
    except (OAuthError, VaultError) as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None
    except UpstreamError as error:
        raise CommandError(error.message) from None
    except StateError as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None


def _has_browser() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    return bool(shown) and "SSH_CONNECTION" not in os.environ


def _browse(redirect: str, server: str, wait: float) -> Callable[[str], Awaitable[str]]:
    async def authorize(url: str) -> str:
        from ...connections.oauth.loopback import LoopbackRedirect

        state = parse_qs(urlsplit(url).query)["state"][0]
        async with LoopbackRedirect(redirect, state, server) as waiting:
            click.echo(f"opening {url}", err=True)
            opening = asyncio.create_task(_in_thread(lambda: _open_browser(url)))
            try:
                async with asyncio.timeout(wait):
                    return await waiting.answer()
            except TimeoutError:
                raise CommandError(
                    f"the browser did not come back within {wait:g} s",
                    "--wait SECONDS waits longer; --no-browser if the browser is on another machine",
                ) from None
            finally:
                opening.cancel()

    return authorize


async def _paste(url: str) -> str:
    """The browser is elsewhere: its last page cannot load there, but its address bar has the answer."""
    click.echo(f"Open this address in a browser, and log in:\n\n  {url}\n", err=True)
    click.echo("The page that you are sent to then does not load. Paste its address here:", err=True)
    state = parse_qs(urlsplit(url).query)["state"][0]
    for _ in range(MAX_PASTES):
        line = await _in_thread(_read_line)
        if not line:
            raise CommandError("no address was pasted", "run it again")
        wrong = _why_not_the_answer(line.strip(), state)
        if not wrong:
            return line.strip()
        warn(wrong, "paste the address of the page that did not load: it has 'code=' and 'state=' in it")
    raise CommandError("nothing of what was pasted is the answer to this login", "run it again")


def _why_not_the_answer(pasted: str, state: str) -> str:
    """Whether it can be the end of this login is checked here, to ask again; nothing of it is repeated."""
    try:
        found = parse_qs(urlsplit(pasted).query)
    except ValueError:
        found = {}
    if not {"code", "error"} & {*found}:
        return "this is not the address that a login ends at"
    return "" if found.get("state") == [state] else "this is the answer to another login"


def _read_line() -> str:
    """A line of standard input, unbuffered: a thread that waits in the buffer would hold up the end."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_INPUT:
        piece = os.read(0, 1)
        if not piece:
            break
        line += piece
    return line.decode("utf-8", "replace")


def _open_browser(url: str) -> None:
    if not webbrowser.open(url):
        hint("no browser could be started; open the address yourself")


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs work that nothing can end, such as reading a line, in a thread that the end does not wait for."""
    done: Future[T] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            try:
                done.set_result(work())
            except OSError as error:
                done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


async def _by_device(
    accounts: "OAuthAccounts",
    principal: "Principal",
    protection: "ServerProtection",
    challenge: "Challenge",
    redirect: str,
    wait: float,
) -> "TokenRecord":
    from ...connections.oauth.authorization import DeviceAuthorization

    def show(found: DeviceAuthorization) -> None:
        click.echo(f"Open {found.address} and enter the code\n\n  {found.user_code}\n", err=True)
        if found.complete_address:
            click.echo(f"or open {found.complete_address}", err=True)

    deadline = asyncio.timeout(wait)
    try:
        async with deadline:
            return await accounts.authorize_device(principal, protection, challenge, redirect, show)
    except TimeoutError:
        if not deadline.expired():
            raise
        raise CommandError(
            f"the code was not entered within {wait:g} s", "run it again; --wait SECONDS waits longer"
        ) from None


def _add_auth(file: Path, server: str) -> None:
    """The entry says from now on how its tokens are got."""
    edited = ConfigFile(file)
    name = edited.servers.get(server)
    fields = next((entries[server] for entries in edited.tables.values() if server in entries), None)
    if name is None or fields is None:
        hint(f'add auth = "oauth" to the entry of {server!r}, which is not in {file.name} itself')
        return
    edited.set_server(server, {**fields, "auth": "oauth"})
    edited.save()
