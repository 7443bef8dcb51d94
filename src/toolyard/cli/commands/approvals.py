"""`toolyard approvals`: the calls that wait for a person, and the decision about one of them.

Reads and writes the state store of the configuration. A store in memory belongs to the running gateway, so
then, or with --url, the command asks the gateway over HTTP.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlsplit

import click
import msgspec

from ..configuration import loader
from ..ui.messages import CommandError, hint, one_line
from ..ui.output import print_json
from ..ui.tables import print_table
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...config import GatewayConfig
    from ...state.store import State

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Row = dict[str, Any]
DecisionWord = Literal["approve", "deny"]

WATCH_SECONDS = 1.0
HTTP_SECONDS = 15.0
MAX_ARGUMENTS = 60
_HEADINGS = ("id", "who", "what", "arguments", "age", "left")


class ApprovalSource(Protocol):
    """Where waiting calls are found."""

    async def rows(self) -> list[Row]: ...

    async def decide(self, id: str, decision: DecisionWord, by: str, always: bool) -> Row: ...


def _where_options(command: F) -> F:
    for option in (
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="For a running gateway: a header to send; may be repeated.",
        ),
        click.option("--url", metavar="URL", help="A running gateway, instead of the state store."),
        config_option,
    ):
        command = option(command)
    return command


class ApprovalOptions(TypedDict):
    """The values of `_where_options`."""

    config: Path | None
    url: str | None
    headers: tuple[str, ...]


@click.group("approvals", invoke_without_command=True, short_help="Decide calls that wait for a person.")
@click.option("--watch", is_flag=True, help="Go on, and print the list again when it changes.")
@_where_options
@json_option
@click.pass_context
def command(ctx: click.Context, watch: bool, as_json: bool, **options: Unpack[ApprovalOptions]) -> None:
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
    options: ApprovalOptions, word: DecisionWord, id: str, by: str | None, always: bool, as_json: bool
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
@_where_options
@json_option
def approve(id: str, always: bool, by: str | None, as_json: bool, **options: Unpack[ApprovalOptions]) -> None:
    """Let the call that waits as ID be made."""
    _decide(options, "approve", id, by, always, as_json)


@command.command("deny", short_help="Refuse a waiting call.")
@click.argument("id", metavar="ID")
@_by_option
@_where_options
@json_option
def deny(id: str, by: str | None, as_json: bool, **options: Unpack[ApprovalOptions]) -> None:
    """Refuse the call that waits as ID."""
    _decide(options, "deny", id, by, False, as_json)


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
    print_table(_HEADINGS, [_cells(row) for row in found])
    hint(f"toolyard approvals approve {found[0]['id']}, or deny {found[0]['id']}")


def _cells(row: Row) -> tuple[str, ...]:
    arguments = msgspec.json.encode(row["arguments"]).decode()
    shown = arguments if len(arguments) <= MAX_ARGUMENTS else f"{arguments[: MAX_ARGUMENTS - 1]}…"
    return (
        one_line(str(row["id"])),
        one_line(str(row["who"])),
        one_line(f"{row['server']}/{row['tool']}"),
        one_line(shown),
        _span(float(row["age_seconds"])),
        _span(float(row["seconds_left"])),
    )


def _span(seconds: float) -> str:
    """`12 s`, `5 min`."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


# Where the calls are


def _run(options: ApprovalOptions, work: Callable[[ApprovalSource], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _source(options) as source:
            return await work(source)

    return asyncio.run(run())


@asynccontextmanager
async def _source(options: ApprovalOptions) -> AsyncGenerator[ApprovalSource]:
    from ...config import Config
    from ...config.files import state_folder
    from ...state.factory import open_state
    from ...state.store import StateError, kind_of

    file = None if options["url"] else loader.config_file(None, options["config"])
    config = Config() if file is None else loader.load_config(file)
    try:
        if options["url"] or kind_of(config.state.url) == "memory":
            yield _Gateway(options["url"] or _url_of(config.gateway), options["headers"])
            return
        if options["headers"]:
            raise CommandError("--header is for a running gateway", "add --url URL")
        state = open_state(config.state.url, state_folder(config))
        try:
            yield _Store(state)
        finally:
            await state.close()
    except StateError as error:
        raise loader.config_error(error) from None


def _url_of(gateway: "GatewayConfig") -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(gateway.host, gateway.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{gateway.port}"


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


class _Gateway:
    """The HTTP API of a running gateway."""

    def __init__(self, url: str, headers: tuple[str, ...]) -> None:
        from ..client.connection import read_header

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(f"{url!r} is not an address", "as in http://127.0.0.1:8321")
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._headers = dict(read_header(line) for line in headers)

    async def rows(self) -> list[Row]:
        return (await self._request("GET", "/approvals"))["approvals"]

    async def decide(self, id: str, decision: DecisionWord, by: str, always: bool) -> Row:
        wanted = {"decision": decision, "by": by, "always": always}
        return await self._request("POST", f"/approvals/{quote(id, safe='')}", wanted)

    async def _request(self, method: str, path: str, body: Row | None = None) -> Row:
        import aiohttp  # 150 ms

        wait = aiohttp.ClientTimeout(total=HTTP_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=wait) as session,
                session.request(
                    method, self._base + path, json=body, headers=self._headers, allow_redirects=False
                ) as reply,
            ):
                status, text = reply.status, await reply.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CommandError(
                f"no gateway answers at {self._shown}: {error or type(error).__name__}",
                "start it with `toolyard serve`, name it with --url, or keep its state in a store:"
                ' url = "sqlite:" in [state]',
            ) from None
        return self._read(status, text)

    def _read(self, status: int, text: bytes) -> Row:
        try:
            found = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            found = {}
        if status == 200:
            return found
        problem = str(found.get("error") or f"it answered {status}")
        advice = {
            401: "--header 'Authorization: Bearer KEY', with a key that has the scope approve",
            403: "--header 'Authorization: Bearer KEY', with a key that has the scope approve",
            404: "toolyard approvals lists those that wait; is this the address of a gateway?",
        }.get(status)
        raise CommandError(f"{self._shown}: {problem}", *([advice] if advice else []))
