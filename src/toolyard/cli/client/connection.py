"""Connects a command to its server: in this process, in a configuration, or at a URL.

`connected` chooses. Every failure on the way becomes a CommandError with a hint.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ...wire.errors import INTERNAL_ERROR, MISSING_CAPABILITY, McpError
from .. import target
from ..configuration import loader
from ..json_values import JsonMapping, as_object
from ..process import stdout_for_data
from ..ui.messages import CommandError

# What the terminal can answer. A server may only ask in ways that its client declared.
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
LOG_LEVEL = "info"
PROGRESS_TOKEN = "call"
MAX_ROUNDS = 20


READY, STARTING, DOWN, UNUSABLE, DISABLED = "ready", "starting", "down", "not usable", "disabled"


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
    """`ready`, `starting`, `down`, `not usable` (as the file has it) or `disabled`."""
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


def read_description(info: Any, answer: dict[str, Any]) -> ServerDescription:
    """From the answer to `server/discover` or `initialize`."""
    instructions = answer.get("instructions")
    told = instructions if isinstance(instructions, str) else None
    return ServerDescription(as_object(info), as_object(answer.get("capabilities")), told)


class CliClient(Protocol):
    @property
    def about(self) -> ServerDescription: ...

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request, the server's questions answered on the way; McpError when refused."""
        ...

    def call_tool(self, tool: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """`tool` is its definition, which the headers of an HTTP call are made from."""
        ...

    def close(self) -> None: ...


class ConnectOptions(Struct, frozen=True):
    """Which server a command is about, as its options say."""

    target: str | None
    config: Path | None
    url: str | None
    headers: tuple[str, ...]
    timeout: float
    debug: bool = False
    wait: float | None = None
    """How long servers of a configuration that start are waited for; None: as the configuration says."""
    wanted: str | None = None
    """The name or address of what the command is about: then only whoever may have it is waited for."""
    fresh: bool = False
    """Whether servers whose lists are known from before are looked at anew, and waited for too."""


@contextmanager
def connected(where: ConnectOptions, user: UserInterface) -> Generator[CliClient, None, None]:
    with stdout_for_data():
        client = _open(where, user)
        try:
            yield client
        except McpError as error:
            raise error_from_server(error) from None
        finally:
            client.close()


def _open(where: ConnectOptions, user: UserInterface) -> CliClient:
    if where.url is None:
        if where.headers:
            raise CommandError("--header is for servers at an address", "add --url URL")
        file = loader.config_file(where.target, where.config)
        if file is not None:
            from .gateway import GatewayClient

            return GatewayClient(loader.load_config(file), user, where)
        from .in_process import InProcessClient

        return InProcessClient(target.load(where.target, where.debug), user)
    if where.target is not None or where.config is not None:
        given = "a target" if where.target is not None else "--config"
        raise CommandError(f"{given} and --url at once", "give one of them")
    from .remote import open_remote

    try:
        return open_remote(where.url, where.headers, where.timeout, user)
    except McpError as error:
        raise error_from_server(error) from None


def error_from_server(error: McpError) -> CommandError:
    if error.code == MISSING_CAPABILITY:
        return CommandError(
            error.message, "a terminal can only fill forms; use a client that has what is missing"
        )
    if error.code == INTERNAL_ERROR:
        return CommandError(error.message, "the server's log may tell more")
    return CommandError(f"{error.message} (code {error.code})")
