"""Indexes a recording: the keys of its calls, and where their lines are in the file.

What the lines say is read again when it is asked for, so that a long recording needs little memory.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct

from ..config import Config, InProcess, ServerConfig, ServerResults
from .format import (
    AnswerLine,
    DamagedRecordingError,
    EventLine,
    GatewayLine,
    ModelChunkLine,
    ModelHeadLine,
    ModelRequestLine,
    NotificationLine,
    QuestionLine,
    RecordingFile,
    RequestLine,
    ResponseLine,
    ServerLine,
)
from .matching import ComparableParams, comparable, key_of, steady
from .recorder import SHOWN_SETTINGS

LISTEN = "subscriptions/listen"


class LinePlace(Struct, frozen=True):
    """Where a line is in the file."""

    seq: int
    offset: int
    length: int
    t: float
    after: "RecordedCall | None" = None
    """For what a subscription says: the call that had been answered before."""


class RecordedCall(Struct, eq=False):
    """One request of a recording, and where its lines are."""

    place: LinePlace
    server: str
    method: str
    name: str | None
    era: str
    by: str
    key: bytes
    has_secrets: bool
    events: list[LinePlace] = []
    response: LinePlace | None = None
    served: int = 0
    retried: "RecordedCall | None" = None

    @property
    def last(self) -> "RecordedCall":
        """The attempt that counted."""
        found = self
        while found.retried is not None:
            found = found.retried
        return found

    @property
    def title(self) -> str:
        return title_of(self.server, self.method, self.name)


def title_of(server: str, method: str, name: str | None) -> str:
    """`demo/echo` for a tool, `demo prompts/get 'explain'` for something else."""
    if method == "tools/call" and name is not None:
        return f"{server}/{name}"
    return f"{server} {method}" + ("" if name is None else f" {name!r}")


class RecordedModelCall(Struct, eq=False):
    place: LinePlace
    url: str
    key: bytes
    head: LinePlace | None = None
    chunks: list[LinePlace] = []
    end: LinePlace | None = None
    served: int = 0


class ShownSettings(Struct, frozen=True):
    """The settings of a server's entry that change what a client sees."""

    description: str = ""
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    pinned: tuple[str, ...] = ()
    results: ServerResults = ServerResults()


class Recording:
    """A recording, checked and indexed. Raises RecordingError; `cut` says why it is not whole."""

    def __init__(self, path: Path) -> None:
        self.file = RecordingFile(path)
        self.path = path
        self.settings: dict[str, dict[str, Any]] = {}
        self.servers: dict[str, ServerLine | None] = {}
        """None for a server that was asked and never reached."""
        self.calls: dict[int, RecordedCall] = {}
        self.model_calls: dict[int, RecordedModelCall] = {}
        self.events = 0
        try:
            self._index()
        except BaseException:
            self.file.close()
            raise

    @property
    def cut(self) -> str:
        return self.file.cut

    @property
    def today(self) -> date:
        """The day on which it was recorded, in UTC; today if its header does not say."""
        try:
            return datetime.fromisoformat(self.file.header.at).date()
        except ValueError:
            return datetime.now(UTC).date()

    def close(self) -> None:
        self.file.close()

    def _index(self) -> None:
        questions: dict[int, RecordedCall] = {}
        answered: dict[str, RecordedCall] = {}
        for event, offset, length in self.file.lines():
            place = LinePlace(event.seq, offset, length, event.t)
            if isinstance(event, RequestLine):
                params = ComparableParams(event.server, event.method, event.params)
                call = self.calls[event.seq] = RecordedCall(
                    place,
                    event.server,
                    event.method,
                    event.name,
                    event.era,
                    event.by,
                    params.key,
                    params.has_secrets,
                    [],
                )
                self.servers.setdefault(event.server, None)
                if event.retry_of is not UNSET and event.retry_of in self.calls:
                    self.calls[event.retry_of].retried = call
            elif isinstance(event, ResponseLine):
                if (call := self.calls.get(event.of)) is not None:
                    call.response = place
                    if call.by == "client" and call.method != LISTEN:
                        answered[call.server] = call
            elif isinstance(event, NotificationLine | QuestionLine):
                if (call := self.calls.get(event.of)) is not None:
                    call.events.append(
                        msgspec.structs.replace(place, after=answered.get(call.server))
                        if call.method == LISTEN
                        else place
                    )
                    questions[event.seq] = call
            elif isinstance(event, AnswerLine):
                if (call := questions.get(event.of)) is not None:
                    call.events.append(place)
            elif isinstance(event, ServerLine):
                if self.servers.get(event.server) is None:
                    self.servers[event.server] = event
            elif isinstance(event, GatewayLine):
                self.settings = self.settings or event.settings
                for name in event.servers:
                    self.servers.setdefault(name, None)
            elif isinstance(event, ModelRequestLine):
                key = key_of(endpoint_of(event.url), model_body(event))
                self.model_calls[event.seq] = RecordedModelCall(place, event.url, key, None, [])
            elif (model_call := self.model_calls.get(event.of)) is not None:
                if isinstance(event, ModelHeadLine):
                    model_call.head = place
                elif isinstance(event, ModelChunkLine):
                    model_call.chunks.append(place)
                else:
                    model_call.end = place

    # What the lines say

    def request(self, call: RecordedCall) -> RequestLine:
        return self.file.at(call.place.offset, call.place.length, RequestLine)

    def params(self, call: RecordedCall) -> Any:
        return comparable(msgspec.json.decode(self.request(call).params))

    def response(self, call: RecordedCall) -> ResponseLine | None:
        place = call.response
        return None if place is None else self.file.at(place.offset, place.length, ResponseLine)

    def event(self, place: LinePlace) -> EventLine:
        return self.file.read(place.offset, place.length)

    def model_urls(self) -> Iterator[str]:
        """Where models were asked."""
        return iter(dict.fromkeys(call.url for call in self.model_calls.values()))

    def model_body(self, call: RecordedModelCall) -> Any:
        return model_body(self.file.at(call.place.offset, call.place.length, ModelRequestLine))

    # As a configuration

    def server_configs(self) -> tuple[ServerConfig, ...]:
        """The servers, with those settings that change what a client sees."""
        where = InProcess(module="toolyard.recordings")  # never loaded: the replay is in its place
        return tuple(
            ServerConfig(name=name, where=where, retries=0, **self._shown(line))
            for name, line in self.servers.items()
        )

    def _shown(self, line: ServerLine | None) -> dict[str, Any]:
        try:
            settings = msgspec.convert({} if line is None else line.settings, ShownSettings)
        except msgspec.ValidationError as error:
            name = "" if line is None else line.server
            raise DamagedRecordingError(f"{str(self.path)!r}: the settings of {name!r}: {error}") from None
        return msgspec.structs.asdict(settings)

    def config(self, base: Config | None = None) -> Config:
        """A configuration with the recorded servers; without a `base` also with the recorded settings."""
        found = Config() if base is None else base
        if base is None:
            tables = {table: self._table(getattr(found, table), table) for table in SHOWN_SETTINGS}
            found = msgspec.structs.replace(found, **tables)
        return msgspec.structs.replace(found, servers=self.server_configs(), broken=(), disabled=())

    def _table(self, default: Any, table: str) -> Any:
        changed = {**msgspec.to_builtins(default), **self.settings.get(table, {})}
        try:
            return msgspec.convert(changed, cast(type[Struct], type(default)))
        except msgspec.ValidationError as error:
            raise DamagedRecordingError(f"{str(self.path)!r}: [{table}] of its gateway: {error}") from None


def endpoint_of(url: str) -> str:
    """The last part of the path: the same API may be elsewhere when it is replayed."""
    return urlsplit(url).path.rpartition("/")[2]


def model_body(event: ModelRequestLine) -> Any:
    """In the form in which equal ones are equal."""
    return event.text if event.body is UNSET else steady(comparable(msgspec.json.decode(event.body)))


def pairs(recording: Recording) -> Iterator[tuple[RecordedCall, ResponseLine | None]]:
    """The calls of clients with how they ended, each once, in order."""
    repeated = {id(call.retried) for call in recording.calls.values() if call.retried is not None}
    for call in recording.calls.values():
        if call.by == "client" and call.method != LISTEN and id(call) not in repeated:
            yield call, recording.response(call.last)


def model_replies(recording: Recording) -> int:
    """How many requests to a model were answered."""
    return sum(call.head is not None for call in recording.model_calls.values())
