"""One session of a command with a server: a `toolyard.Client`, used from code that does not await."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ...config import Config
from ...wire.call import Principal
from ...wire.errors import INTERNAL_ERROR, MISSING_CAPABILITY, McpError
from ...wire.versions import LEGACY_VERSIONS, MODERN_VERSIONS
from .. import target, traffic
from ..configuration import loader
from ..json_values import JsonMapping
from ..process import log_to_stderr, stdout_for_data
from ..serving.session_key import session_key
from ..ui.messages import CommandError, warn

if TYPE_CHECKING:
    from ...catalogue.catalogue import Catalogue, ServerCatalogue
    from ...client import Client, ClientError


LOG_LEVEL = "info"

READY, STARTING, DOWN, UNUSABLE, DISABLED = "ready", "starting", "down", "not usable", "disabled"
UNCONNECTED = "not connected"
_MISSING = {STARTING: "still ", UNCONNECTED: ""}


class UserInterface(Protocol):
    """Who sits in front of the command."""

    def waiting(self, done: int, total: int, message: str) -> None:
        """Servers are being waited for; an empty message when that is over."""
        ...

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """A notification of the server."""
        ...

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A question of the server; McpError when it is none that can be answered."""
        ...


class ServerStatus(Struct, frozen=True):
    """How one server of a configuration stands."""

    name: str
    state: str
    """`ready`, `starting`, `down`, `not connected` (it wants a login), `not usable` (as the file has it) or
    `disabled`."""
    detail: str = ""
    """Why, or what it is doing."""
    seconds: float = 0.0
    """For how long it has been starting."""
    holds: Mapping[str, frozenset[str]] = {}
    """What the lists show of it, by list."""

    @property
    def is_missing(self) -> bool:
        return self.state not in (READY, DISABLED)

    @property
    def shown(self) -> str:
        """`starting for 7 s: fetching`, `down: it refused the connection`."""
        state = f"starting for {self.seconds:.0f} s" if self.state == STARTING else self.state
        return f"{state}: {self.detail}" if self.detail and self.is_missing else state


class ServerDescription(Struct, frozen=True):
    """What a server says of itself."""

    info: JsonMapping
    capabilities: JsonMapping
    instructions: str | None = None
    missing: Mapping[str, str] = {}
    """Of a gateway: the servers that are not there, and why."""
    servers: tuple[ServerStatus, ...] = ()
    """Of a configuration: all of its servers."""
    unlisted: Mapping[str, JsonMapping] = {}
    """Of a server in this process: tools that it answers to without listing them."""


class ConnectOptions(Struct, frozen=True):
    """Which server a command is about, as its options say."""

    target: str | None
    config: Path | None
    url: str | None
    headers: tuple[str, ...]
    timeout: float
    debug: bool = False
    key: str | None = None
    """The API key for a server at an address. It may be from the environment, so others ignore it."""
    wait: float | None = None
    """How long servers of a configuration that start are waited for; None: as the configuration says."""
    wanted: str | None = None
    """The name or address of what the command is about: then only whoever may have it is waited for."""
    fresh: bool = False
    """Whether servers whose lists are known from before are looked at anew, and waited for too."""


@contextmanager
def connected(where: ConnectOptions, user: UserInterface) -> Generator["CliSession", None, None]:
    with stdout_for_data(), _explained():
        session = _open(where, user)
        try:
            yield session
        finally:
            session.close()


def _open(where: ConnectOptions, user: UserInterface) -> "CliSession":
    if where.url is None:
        if where.headers:
            raise CommandError("--header is for servers at an address", "add --url URL")
        file = loader.config_file(where.target, where.config)
        if file is not None:
            return MountedSession(loader.load_config(file), user, where)
        return LocalSession(target.load(where.target, where.debug), user)
    if where.target is not None or where.config is not None:
        given = "a target" if where.target is not None else "--config"
        raise CommandError(f"{given} and --url at once", "give one of them")
    if (tapped := traffic.current()) is not None:
        return MountedSession(
            loader.load_config(
                tapped.address_file(_address(where.url), sent_headers(where.headers, where.key))
            ),
            user,
            where,
        )
    session = CliSession(user)
    session.open(
        _address(where.url),
        headers=sent_headers(where.headers, where.key),
        timeout=where.timeout,
        open_timeout=where.timeout,
    )
    return session


def _address(url: str) -> str:
    return url if "://" in url else f"://{url}"  # which is refused as what it is, and not taken for a file


def sent_headers(lines: Iterable[str], key: str | None) -> dict[str, str]:
    """The headers of --header and --key; a key that cannot be one is not sent."""
    headers = dict(read_header(line) for line in lines)
    if key and "authorization" not in {name.lower() for name in headers}:
        from ...callers.grant_token import PREFIX, GrantError, GrantToken
        from ...callers.keys import MalformedKeyError, check_key

        try:
            if key.startswith(PREFIX):
                GrantToken.read(key)
            else:
                check_key(key)
        except (MalformedKeyError, GrantError) as error:
            raise CommandError(error.message, error.hint) from None
        headers["Authorization"] = f"Bearer {key}"
    return headers


def read_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or not line.isascii() or not line.isprintable():
        raise CommandError(f"--header {line!r} is not a header", "write it as 'Name: value'")
    return name.strip(), value.strip()


class CliSession:
    """One open client. Its methods run the event loop until they have their result."""

    def __init__(self, user: UserInterface) -> None:
        self._user = user
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_ignore)
        self._client: Client | None = None

    def open(self, target: Any, **options: Any) -> None:
        from ...client import Client

        client = Client(
            target,
            log_level=LOG_LEVEL,
            on_elicit=lambda question: self._user.answer("elicitation/create", question.raw),
            on_notification=self._user.hear,
            **options,
        )
        try:
            self.run(client.__aenter__())
            self._client = client
        except BaseException:
            self.close()
            raise

    @property
    def client(self) -> "Client":
        assert self._client is not None
        return self._client

    @property
    def about(self) -> ServerDescription:
        client = self.client
        return ServerDescription(client.server_raw, client.capabilities, client.instructions)

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request, the server's questions answered on the way; McpError when refused."""
        return self.run(self.client.request(method, params))

    def list_all(self, method: str) -> list[dict[str, Any]]:
        return self.run(self.client.list_all(method))

    def call_tool(self, tool: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """`tool` is its definition, which the headers of an HTTP call are made from."""
        return self.run(self.client.call_tool(tool, arguments)).raw

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        # Not `Runner.run`: its handler for Ctrl-C waits for a loop that a form is holding up.
        task = self._loop.create_task(work)
        try:
            return self._loop.run_until_complete(task)
        finally:
            if not task.done():  # Ctrl-C came out of the loop itself
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task]))

    def close(self) -> None:
        """What was started is ended before we leave."""
        if self._loop.is_closed():
            return
        try:
            if self._client is not None:
                self.run(self._client.close())
            self.run(self.closed())
        finally:
            for task in (left := asyncio.all_tasks(self._loop)):
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def closed(self) -> None:
        """The client is: end what was started for it."""


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ctrl-C while a form is open ends a task that nobody awaits; that need not be told twice."""


class LocalSession(CliSession):
    """A server of this process."""

    def __init__(self, server: Any, user: UserInterface) -> None:
        super().__init__(user)
        self._server = server
        self.open(server, timeout=None)

    @property
    def about(self) -> ServerDescription:
        about = super().about
        hidden = {
            tool.name: to_builtins(tool.info) for tool in self._server.tools.values() if not tool.listed
        }
        return ServerDescription(about.info, about.capabilities, about.instructions, unlisted=hidden)

    async def closed(self) -> None:
        await self._server.close()


@contextmanager
def _explained() -> Generator[None, None, None]:
    try:
        yield
    except McpError as error:
        raise error_from_server(error) from None
    except Exception as error:
        failure = _failure_of(error)
        if failure is None:
            raise
        raise failure from None


def error_from_server(error: McpError) -> CommandError:
    if error.code == MISSING_CAPABILITY:
        return CommandError(
            error.message, "a terminal can only fill forms; use a client that has what is missing"
        )
    if error.code == INTERNAL_ERROR:
        return CommandError(error.message, "the server's log may tell more")
    return CommandError(f"{error.message} (code {error.code})")


def _failure_of(error: Exception) -> CommandError | None:
    """A client's error in the words of a command: what a program would set, a user types as an option."""
    from ...client import ClientError

    if not isinstance(error, ClientError):
        return None
    hint = _hint_of(error)
    return CommandError(error.message, *([hint] if hint else []))


def _hint_of(error: "ClientError") -> str:
    from ...client import ClientTimeoutError, RefusedError, TargetError, UnknownVersionError

    hints: list[tuple[Callable[[], bool], str]] = [
        (lambda: isinstance(error, ClientTimeoutError), "--timeout SECONDS waits longer"),
        (
            lambda: isinstance(error, RefusedError) and error.status == 401,
            "give what it asks for: --key KEY, or --header 'Authorization: Bearer …'",
        ),
        (
            lambda: isinstance(error, TargetError) and "password" in error.message,
            "--header 'Authorization: Basic …'",
        ),
        (
            lambda: isinstance(error, UnknownVersionError),
            f"this command speaks {', '.join((*LEGACY_VERSIONS, *MODERN_VERSIONS))}",
        ),
    ]
    return next((hint for applies, hint in hints if applies()), error.hint)


FRAME_SECONDS = 0.1
"""How often whoever waits is told what for."""


def _for_people(config: Config) -> Config:
    """Whoever types a command wants the tools themselves, and whole results: those are for models.

    Servers are waited for here, before the first list, and not again with every list.
    """
    view = "bare" if config.gateway.view == "bare" else "all"
    gateway = replace(config.gateway, view=view, list_wait=0.0)
    return replace(config, gateway=gateway, results=replace(config.results, shape=False))


async def wait_for_servers(servers: "list[ServerCatalogue]", wait: float, user: UserInterface) -> None:
    """Wait until each was tried, and no longer than `wait` seconds; the user is shown whom for."""
    tries = {asyncio.ensure_future(server.settled.wait()): server for server in servers}
    end = time.monotonic() + wait
    try:
        while (left := end - time.monotonic()) > 0:
            pending = [server for server in servers if not server.settled.is_set()]
            if not pending:
                return
            names = ", ".join(server.name for server in pending)
            doing = next((f": {server.activity}" for server in pending if server.activity), "")
            waited = f"waiting for {names}, {max(server.age for server in pending):.0f} s{doing}"
            user.waiting(len(servers) - len(pending), len(servers), waited)
            await asyncio.wait(tries, timeout=min(left, FRAME_SECONDS))
    finally:
        user.waiting(0, 0, "")
        for future in tries:
            future.cancel()


class MountedSession(CliSession):
    """A client of a gateway without an edge."""

    def __init__(self, config: Config, user: UserInterface, where: ConnectOptions) -> None:
        super().__init__(user)
        self._config = _for_people(config)
        # What goes wrong with a server is shown as a warning of the command, not as a log line too.
        log_to_stderr(True) if where.debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
        self._gateway = loader.make_gateway(self._config, partial(session_key, None))
        self._lacking: dict[str, str] = {}
        """Servers that whoever runs this has no account at, and why."""
        wait = config.gateway.list_wait if where.wait is None else where.wait
        try:
            self.run(self._started(wait, where, user))
        except BaseException:
            self.close()
            raise
        self.open(self._gateway.view(), timeout=None)

    # Waiting

    async def _started(self, wait: float, where: ConnectOptions, user: UserInterface) -> None:
        """With a fresh look at what is new or was not well; a reason from last time may be out of date."""
        await self._gateway.start()
        await self._warn_of_audit()
        servers = self._gateway.catalogue.servers.values()
        owners = self._owners(where.wanted) if where.wanted is not None else []
        doubtful = [
            server for server in owners or servers if where.fresh or server.fault or not server.was_read
        ]
        # Whoever has what is wanted may take as long as it starts; nobody else is waited for then.
        await wait_for_servers(doubtful, math.inf if owners else wait, user)
        for name, accounts in self._gateway.accounts().items():
            with suppress(McpError):  # a server that cannot be asked says so itself
                state = await accounts.state(Principal())
                if not state.connected:
                    command = f"`toolyard login {name}`"
                    why = "" if state.reason == UNCONNECTED else f"{state.reason}; "
                    self._lacking[name] = state.reason if command in state.reason else f"{why}run {command}"

    async def _warn_of_audit(self) -> None:
        """Calls may be refused for it, and the log that says why is not shown."""
        from ...audit.store import AuditStoreError

        audit = None if self._gateway.policy is None else self._gateway.policy.audit
        if audit is not None and audit.is_failing:
            try:
                await audit.check()
            except AuditStoreError as error:
                warn(error.message, *([error.hint] if error.hint else []))

    def _owners(self, wanted: str) -> "list[ServerCatalogue]":
        """Who has what is wanted, or would have it by its name."""
        from ...catalogue.items import KINDS, shown_name

        catalogue = self._gateway.catalogue
        for kind in KINDS:
            if entry := catalogue.find(kind, wanted):
                return [catalogue.servers[entry.server]]
        prefixes = {name: shown_name(name, "x").removesuffix("x") for name in catalogue.servers}
        return [catalogue.servers[name] for name, prefix in prefixes.items() if wanted.startswith(prefix)]

    async def closed(self) -> None:
        await self._gateway.close()

    # What is there

    @property
    def catalogue(self) -> "Catalogue":
        """All that the servers have, whoever may see it."""
        return self._gateway.catalogue

    @property
    def about(self) -> ServerDescription:
        servers = tuple(self._standings())
        notes = self._gateway.catalogue.unavailable()
        if self._config.gateway.view != "bare":
            clashes = {name: self.catalogue.clashes(name) for name in self.catalogue.servers}
            notes = {name: "; ".join(found) for name, found in clashes.items() if found} | notes
        missing = {one.name: notes[one.name] for one in servers if one.name in notes}
        missing |= {
            one.name: f"{_MISSING[one.state]}{one.shown}" if one.state in _MISSING else one.detail
            for one in servers
            if one.is_missing
        }
        about = super().about
        return ServerDescription(about.info, about.capabilities, about.instructions, missing, servers)

    def _standings(self) -> Iterator[ServerStatus]:
        from ...catalogue.items import KINDS

        settings, catalogue = self._config.gateway, self._gateway.catalogue
        bare = settings.view == "bare"
        listed = {
            kind.name: [(entry.server, entry.bare if bare else entry.name) for entry in catalogue.all(kind)]
            for kind in KINDS
        }
        for server_catalogue in catalogue.servers.values():
            if bare and server_catalogue.name != settings.server:
                continue
            holds = {
                kind: frozenset(name for server, name in names if server == server_catalogue.name)
                for kind, names in listed.items()
            }
            if server_catalogue.state == "starting" and (
                server_catalogue.fault is not None or not server_catalogue.was_read
            ):
                yield ServerStatus(
                    server_catalogue.name, STARTING, server_catalogue.activity, server_catalogue.age, holds
                )
            elif server_catalogue.name in self._lacking:
                yield ServerStatus(
                    server_catalogue.name, UNCONNECTED, self._lacking[server_catalogue.name], 0.0, holds
                )
            else:
                yield ServerStatus(
                    server_catalogue.name,
                    DOWN if server_catalogue.fault else READY,
                    server_catalogue.fault or "",
                    0.0,
                    holds,
                )
        for item in self._config.broken:
            yield ServerStatus(item.name, UNUSABLE, item.reason)
        for name in self._config.disabled:
            yield ServerStatus(name, DISABLED)
