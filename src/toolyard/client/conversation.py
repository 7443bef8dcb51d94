"""A client's side of an open connection: what each era wants in a request, and answers to the server.

Owns progress tokens, time limits, the rounds of the modern era and the handlers that answer. The methods are
in `client`, the transports in `upstream`.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..upstream.connection import ClientProfile, Connector, Params, UpstreamConnection
from ..upstream.errors import StaleSessionError
from ..upstream.messages.spool import Spooled
from ..wire.call import CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY, TASKS_EXTENSION, VERSION_KEY
from ..wire.errors import INTERNAL_ERROR, McpError, MethodNotFound
from ..wire.messages import encode
from ..wire.versions import LATEST_LEGACY, LATEST_MODERN
from .errors import ProtocolError, explained, timed_out
from .types import Json, LogMessage, Progress, number, object_of

logger = logging.getLogger("toolyard.client")

MAX_ROUNDS = 20
MAX_QUESTIONS = 100
PRINCIPAL = "client"
PROGRESS, MESSAGE = "notifications/progress", "notifications/message"
_tokens = count(1)

OnProgress = Callable[[Progress], Any]
Answerer = Callable[[Json], Any]
"""Takes a question's params and returns its result in wire form, now or when awaited."""


class Handlers(Struct, frozen=True):
    """Who answers the server, and who hears it."""

    answers: Mapping[str, Answerer] = {}
    """By method: elicitation/create, sampling/createMessage, roots/list."""
    on_log: Callable[[LogMessage], Any] | None = None
    on_progress: OnProgress | None = None
    on_notification: Callable[[str, Json], Any] | None = None

    @property
    def want_progress(self) -> bool:
        return self.on_progress is not None or self.on_notification is not None


class OwnProfile(Struct):
    """As whom a client speaks."""

    info: Json
    capabilities: Json
    version: str = LATEST_LEGACY
    log_level: str | None = None

    def profile(self) -> ClientProfile:
        askable = frozenset(self.capabilities) & {"elicitation", "sampling", "roots"}
        return ClientProfile(
            msgspec.json.encode(self.capabilities), askable, PRINCIPAL, "", encode(self.info), self.version
        )

    def meta(self, tasks: bool) -> Json:
        """What a modern request says of its client."""
        capabilities: Json = self.capabilities
        if tasks:
            extensions = object_of(capabilities.get("extensions"))
            capabilities = {**capabilities, "extensions": {**extensions, TASKS_EXTENSION: {}}}
        meta: Json = {VERSION_KEY: LATEST_MODERN, CAPABILITIES_KEY: capabilities, CLIENT_KEY: self.info}
        return meta if self.log_level is None else {**meta, LOG_LEVEL_KEY: self.log_level}


class IdleTimer:
    """Ends a request when the server gave no sign for so long; stands still while somebody is asked."""

    def __init__(self, seconds: float | None, end: Callable[[], object]) -> None:
        self._seconds = seconds
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        self._asking = 0
        self.expired = False

    def renew(self) -> None:
        self.stop()
        if self._seconds is not None and not self._asking:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def _expire(self) -> None:
        self.expired = True
        self._end()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __enter__(self) -> None:
        self._asking += 1
        self.stop()

    def __exit__(self, *_: object) -> None:
        self._asking -= 1
        self.renew()


class ClientCallListener:
    """Hears what the server says during one request, and answers what it asks."""

    principal = PRINCIPAL
    asks_immediately = True

    def __init__(self, handlers: Handlers, method: str = "", on_progress: OnProgress | None = None) -> None:
        self._handlers = handlers
        self._method = method
        self._on_progress = on_progress or handlers.on_progress
        self._asked = 0
        self.clock = IdleTimer(None, lambda: None)
        self.flooded: Callable[[], None] = lambda: None
        self.on_message: Callable[[str, Json], None] | None = None

    async def notify(self, method: str, params: Raw) -> None:
        self.clock.renew()
        try:
            said = msgspec.json.decode(params, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if self.on_message is not None:
            self.on_message(method, said)
        await self._tell(self._handlers.on_notification, method, said)
        if method == PROGRESS and (done := number(said.get("progress"))) is not None:
            message = said.get("message")
            progress = Progress(
                done, number(said.get("total")), message if isinstance(message, str) else None
            )
            await self._tell(self._on_progress, progress)
        elif method == MESSAGE:
            name = said.get("logger")
            line = LogMessage(str(said.get("level", "info")), said.get("data"), str(name) if name else None)
            await self._tell(self._handlers.on_log, line)

    async def _tell(self, handler: Callable[..., Any] | None, *said: Any) -> None:
        """A handler that fails concerns neither the call nor the server."""
        if handler is None:
            return
        try:
            found = handler(*said)
            if inspect.isawaitable(found):
                await found
        except Exception:
            logger.exception("a handler of %s failed", self._method or "notifications")

    async def ask(self, method: str, params: Raw) -> Raw:
        return Raw(encode(await self.answer(method, msgspec.json.decode(params, type=dict[str, Any]))))

    async def answer(self, method: str, params: Json) -> Any:
        """The result of a question; McpError when nobody can answer it."""
        self._asked += bool(self._method)
        if self._asked >= MAX_QUESTIONS:
            self.flooded()
            raise McpError(INTERNAL_ERROR, "too many questions in one call")
        answerer = self._handlers.answers.get(method)
        if answerer is None:
            raise MethodNotFound(method[:80])
        with self.clock:
            found = answerer(params)
            return await found if inspect.isawaitable(found) else found

    async def release(self, retry_ms: int | None) -> None:
        self.clock.renew()

    def alive(self) -> None:
        self.clock.renew()


class OutgoingRequest(Struct, frozen=True):
    """A request to make."""

    method: str
    params: Json
    timeout: float | None = None
    on_progress: OnProgress | None = None
    headers: Mapping[str, str] | None = None
    tasks: bool = False
    """Whether the server may answer with a task."""
    on_message: Callable[[str, Json], None] | None = None


class ClientConversation:
    def __init__(
        self,
        name: str,
        connector: Connector,
        manner: OwnProfile,
        handlers: Handlers,
        timeout: float | None,
    ) -> None:
        self.name = name
        self.manner = manner
        self._connector = connector
        self._handlers = handlers
        self._timeout = timeout
        self._connection: UpstreamConnection | None = None
        self._opening = asyncio.Lock()

    @property
    def connection(self) -> UpstreamConnection:
        assert self._connection is not None
        return self._connection

    @property
    def is_modern(self) -> bool:
        return self.connection.about.era == "modern"

    async def open(self, method: str = "server/discover") -> None:
        try:
            connection = await self._connector.open(self.manner.profile())
        except McpError as error:
            raise explained(error, self.name, method, self._timeout) from error
        self._connection = connection
        connection.adopt(ClientCallListener(self._handlers))

    async def _reopen(self, stale: UpstreamConnection) -> None:
        """The server has forgotten our session, or was replaced by one of another era."""
        async with self._opening:
            if self._connection is stale:
                await stale.close()
                await self.open()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def request(self, ask: OutgoingRequest) -> Json:
        """The result, questions answered on the way; McpError when refused, ClientError when it failed."""
        params = ask.params
        hearing = ClientCallListener(self._handlers, ask.method, ask.on_progress)
        hearing.on_message = ask.on_message
        for _ in range(MAX_ROUNDS):
            result = await self._once(ask, params, hearing)
            kind = result.get("resultType", "complete")
            if not self.is_modern or kind == "complete" or (kind == "task" and ask.tasks):
                return result
            if kind != "input_required":
                raise ProtocolError(
                    f"the server answered {ask.method!r} with a {kind!r}, which was not asked for"
                )
            answers = await self.answers(result, hearing)
            params = {key: value for key, value in params.items() if key != "requestState"} | answers
        raise ProtocolError(f"{ask.method!r} asked for input {MAX_ROUNDS} times and did not finish")

    async def answers(self, result: Json, hearing: ClientCallListener | None = None) -> Json:
        """What a retry brings back: the answers to all that was asked, and the server's own state."""
        hearing = hearing or ClientCallListener(self._handlers)
        found: Json = {}
        for key, question in object_of(result.get("inputRequests")).items():
            asked = object_of(question)
            found[key] = await hearing.answer(str(asked.get("method")), object_of(asked.get("params")))
        state = result.get("requestState")
        return {"inputResponses": found} | ({"requestState": state} if state is not None else {})

    async def _once(self, ask: OutgoingRequest, params: Json, hearing: ClientCallListener) -> Json:
        """One request to its result; once more where it was turned away unread by a session that is over."""
        for last in (False, True):
            connection = self.connection
            try:
                sending = self._send(connection, ask, params, hearing)
                return await _decoded(await self._limited(sending, ask, hearing), self.name)
            except StaleSessionError as error:
                if last:
                    raise explained(error, self.name, ask.method, ask.timeout) from error
                await self._reopen(connection)
            except McpError as error:
                raise explained(error, self.name, ask.method, ask.timeout) from error
        raise AssertionError

    async def _send(
        self, connection: UpstreamConnection, ask: OutgoingRequest, params: Json, hearing: ClientCallListener
    ) -> Raw | Spooled:
        meta: Json = object_of(params.get("_meta"))
        if connection.about.era == "modern":
            meta = {**meta, **self.manner.meta(ask.tasks)}
        token = None
        if ask.method in _WITH_PROGRESS and (ask.on_progress or self._handlers.want_progress):
            token = f"toolyard-{next(_tokens)}"
            meta = {**meta, "progressToken": token}
        members: Params = {key: Raw(encode(value)) for key, value in params.items() if key != "_meta"}
        if meta:
            members["_meta"] = Raw(encode(meta))
        return await connection.request(ask.method, members, hearing, token, ask.headers)

    async def _limited(
        self, work: Awaitable[Raw | Spooled], ask: OutgoingRequest, hearing: ClientCallListener
    ) -> Raw | Spooled:
        """Within its time, and not for ever asking. Cancelling the work cancels the request at the server."""
        task = asyncio.ensure_future(work)
        flooded = False

        def flood() -> None:
            nonlocal flooded
            flooded = True
            task.cancel()

        clock = hearing.clock = IdleTimer(ask.timeout, task.cancel)
        hearing.flooded = flood
        clock.renew()
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if (
                current is not None and current.cancelling()
            ):  # it is we who are cancelled, and the task with us
                raise
            if flooded:
                raise ProtocolError(
                    f"{ask.method!r} asked for input {MAX_QUESTIONS} times and did not finish"
                ) from None
            if clock.expired:
                raise timed_out(self.name, ask.timeout) from None
            raise
        finally:
            clock.stop()

    async def notify(self, method: str, params: Json) -> None:
        try:
            await self.connection.notify(method, {key: Raw(encode(value)) for key, value in params.items()})
        except McpError as error:
            raise explained(error, self.name, method, None) from error


_WITH_PROGRESS = ("tools/call", "resources/read", "prompts/get")


async def _decoded(result: Raw | Spooled, name: str) -> Json:
    try:
        if isinstance(result, Spooled):
            try:
                whole = b"".join([chunk async for chunk in result.chunks()])
            finally:
                result.close()
            return msgspec.json.decode(whole, type=dict[str, Any])
        return msgspec.json.decode(result, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the answer of {name} cannot be read: {error}") from None
