"""One mounted upstream and the steps around each call: breaker, deadline, slot, retry, session renewal.

What never left may always be retried. What left and was not answered is retried only if it may run twice
(reads, lists, tools that call themselves read-only or idempotent). A call refused because its session
expired had no effect, and runs once more in a new session.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..config import ServerConfig
from ..sessions.leases import BeginSession, Lease, Leases, NewSession
from ..telemetry.requests import Transport
from ..upstream.composio import replies
from ..upstream.composio.rest import JsonApi
from ..upstream.connection import GATEWAY_CALLER
from ..upstream.errors import (
    ConnectionLostError,
    HttpRpcError,
    InvalidReplyError,
    NotReachedError,
    StaleSessionError,
    UpstreamBusyError,
    UpstreamDownError,
    UpstreamError,
    UpstreamRefusedError,
    UpstreamStartingError,
    UpstreamTimeoutError,
    is_refusal,
)
from ..wire.call import Call, Channel, key_header_value, thread_of
from ..wire.errors import McpError

THRESHOLD = 5
GRACE_SECONDS = 5.0


class Breaker:
    """`on_trouble` is told of every failure, and whether calls are refused from now on.

    Whoever finds the upstream well calls `well`.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.reason: str | None = None
        """Why calls are refused; None when they are not."""
        self.on_trouble: Callable[[str, bool], None] = lambda reason, opened: None
        self._failures = 0
        self._since: float | None = None
        self._was_well = False

    @property
    def is_open(self) -> bool:
        return self.reason is not None

    def check(self) -> None:
        if self.reason is not None:
            raise UpstreamDownError(self.server, f"it is down: {self.reason}; it is tried again by itself")

    def failed(self, reason: str) -> None:
        """A call was not answered."""
        self._failures += 1
        opened = self._failures >= THRESHOLD and not self._in_grace()
        self._note(reason, opened)

    def unwell(self, reason: str) -> None:
        """A probe was not answered; no need to wait for callers to find out too."""
        self._note(reason, not self._in_grace())

    def _note(self, reason: str, opened: bool) -> None:
        if opened and self.reason is None:
            self.reason = reason
        self.on_trouble(reason, opened)

    def _in_grace(self) -> bool:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return self._was_well and now - self._since < GRACE_SECONDS

    def answered(self) -> None:
        """A call was answered. That does not close it: the answer may have been on its way for long."""
        self._failures = 0
        if self.reason is None:
            self._since = None
            self._was_well = True

    def well(self) -> None:
        self._failures = 0
        self._since = None
        self._was_well = True
        self.reason = None


class Deadline:
    """The time limit of one call, which runs in the task that asked for it."""

    __slots__ = ("_asked", "_book", "_left", "due", "ended", "expired", "task")

    def __init__(self, book: "Deadlines", task: "asyncio.Task[Any]", due: float) -> None:
        self._book = book
        self.task = task
        self.due = due
        self.expired = False
        self.ended = False
        self._asked = 0
        self._left = 0.0

    @property
    def left(self) -> float:
        return self.due - self._book.now()

    def end(self) -> None:
        self.ended = True
        self._book.running.pop(self, None)

    def pause(self) -> None:
        """A question is put to the user: the clock stands still until all are answered."""
        if self._asked == 0:
            self._left = self.left
            self._book.running.pop(self, None)
        self._asked += 1

    def resume(self) -> None:
        self._asked -= 1
        if self._asked == 0 and not self.ended and not self.expired:
            self.due = self._book.now() + self._left
            self._book.add(self)

    def took_effect(self) -> bool:
        """For a call that was cancelled: whether it was us, and nobody else."""
        return self.expired and self.task.uncancel() == 0


class Deadlines:
    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._due = 0.0
        self.running: dict[Deadline, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> Deadline:
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        # Naming the loop spares a system call: before Python 3.12 finding it asks for the process id.
        task = asyncio.current_task(loop)
        assert task is not None, "a call runs in a task"
        deadline = Deadline(self, task, loop.time() + self.limit)
        self.add(deadline)
        return deadline

    def now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def add(self, deadline: Deadline) -> None:
        self.running[deadline] = None
        if self._timer is None or deadline.due < self._due:
            self._arm(deadline.due)

    def _arm(self, due: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self.now()
        for deadline in [deadline for deadline in self.running if deadline.due <= now]:
            del self.running[deadline]
            deadline.expired = True
            deadline.task.cancel()
        if self.running:
            self._arm(min(deadline.due for deadline in self.running))


logger = logging.getLogger("toolyard.dispatch")

WAITING_PER_SLOT = 16
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0


class CallHandler(Protocol):
    async def handle(self, call: Call) -> Any: ...


class _PausingChannel:
    """A call's channel, whose time limit stands still while its user is being asked."""

    __slots__ = ("_channel", "_deadline")

    def __init__(self, channel: Channel, deadline: Deadline) -> None:
        self._channel = channel
        self._deadline = deadline

    async def notify(self, method: str, params: Any) -> None:
        await self._channel.notify(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        self._deadline.pause()
        try:
            return await self._channel.ask(method, params)
        finally:
            self._deadline.resume()

    async def release(self, retry_ms: int | None) -> None:
        await self._channel.release(retry_ms)


class Mount:
    def __init__(self, config: ServerConfig, service: CallHandler, transport: Transport) -> None:
        self.config = config
        self.server = config.name
        self.service = service
        self.transport: Transport = transport
        self.address = ""
        self.port = 0
        self.version: Callable[[], str] = lambda: ""
        """The revision it speaks, as far as that is known."""
        self.breaker = Breaker(config.name)
        self.in_flight = 0
        self.on_retry: Callable[[], None] = lambda: None
        self.let_go: Callable[[Call], None] = lambda call: None
        """A legacy client has ended its session: what was opened for it alone can go."""
        self.roots_changed: Callable[[Call], Awaitable[None]] | None = None
        """A legacy client has other folders open; None where nobody is to be told."""
        self._deadlines = Deadlines(config.timeout)
        self._queue: deque[asyncio.Future[None]] = deque()
        self._empty = asyncio.Event()

    def reconfigure(self, config: ServerConfig) -> None:
        """Other limits for calls from now on; those under way keep theirs."""
        self.config = config
        self._deadlines.limit = config.timeout
        self._admit()

    def keyed(self, call: Call) -> Call:
        """The call with the keys that are for this server: as headers where it is reached by HTTP."""
        sent = call.secrets or {}
        ours = {name: sent[name] for name in self.config.caller_keys if name in sent}
        if self.transport != "http" or not ours:
            return replace(call, secrets=ours or None)
        headers = {name: key_header_value(name, key) for name, key in ours.items()}
        return replace(call, secrets=ours, more_headers={**(call.more_headers or {}), **headers})

    async def call(self, call: Call, safe: bool) -> Any:
        """`safe`: it may run twice."""
        if call.secrets is not None:
            call = self.keyed(call)
        self.breaker.check()
        deadline = self._deadlines.start()
        if call.caller.era == "legacy":
            call.channel = _PausingChannel(call.channel, deadline)
        entered = False
        try:
            await self._enter()
            entered = True
            try:
                return await self._try(call, safe, deadline)
            finally:
                self._leave()
        except asyncio.CancelledError:
            if not deadline.took_effect():
                raise
            limit = self.config.timeout
            if not entered:
                places = self.config.concurrency
                raise UpstreamBusyError(
                    self.server, f"its {places} places were all taken for {limit:g} s"
                ) from None
            late = UpstreamTimeoutError(self.server, f"it did not answer {call.method!r} within {limit:g} s")
            self.breaker.failed(late.reason)
            raise late from None
        finally:
            deadline.end()

    async def idle(self, wait: float) -> None:
        """Wait until no call is under way, but not for ever."""
        self._empty.clear()
        if self.in_flight:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._empty.wait()

    async def _enter(self) -> None:
        """Wait for a place among the calls it takes at a time; the queue for one is not endless."""
        if self.in_flight < self.config.concurrency and not self._queue:
            self.in_flight += 1
            return
        if len(self._queue) >= self.config.concurrency * WAITING_PER_SLOT:
            raise UpstreamBusyError(self.server, "too many calls are waiting for it already")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn had just come; it is somebody else's now
                self._leave()
            else:
                with suppress(ValueError):  # whoever left last may have passed it over already
                    self._queue.remove(turn)
            raise

    def _leave(self) -> None:
        self.in_flight -= 1
        self._admit()
        if not self.in_flight:
            self._empty.set()

    def _admit(self) -> None:
        while self._queue and self.in_flight < self.config.concurrency:
            turn = self._queue.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    def _may_try_again(self, error: UpstreamError, safe: bool, tries: int, stale: bool) -> bool:
        if isinstance(error, UpstreamDownError | UpstreamStartingError) or (
            stale and isinstance(error, StaleSessionError)
        ):
            return False
        if isinstance(error, NotReachedError):  # as often as there is time, until the breaker opens
            return self.config.retries > 0
        return (
            safe
            and isinstance(error, ConnectionLostError | InvalidReplyError)
            and tries < self.config.retries
        )

    async def _try(self, call: Call, safe: bool, deadline: Deadline) -> Any:
        tries = 0
        stale = False
        while True:
            try:
                result = await self.service.handle(call)
            except UpstreamError as error:
                if not isinstance(error, UpstreamBusyError | UpstreamStartingError):
                    self.breaker.failed(error.reason)
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries) * random.uniform(0.5, 1.5)
                pause = max(pause, error.retry_after or 0.0)
                if not self._may_try_again(error, safe, tries, stale) or deadline.left < pause:
                    raise
                stale = stale or isinstance(error, StaleSessionError)
                tries += 1
                self.on_retry()
                await asyncio.sleep(pause)
                self.breaker.check()
            except McpError:
                self.breaker.answered()
                raise
            except Exception as error:  # whatever it made us stumble over, it is this upstream's doing
                logger.error("a call to %s failed in an unforeseen way", self.server, exc_info=error)
                self.breaker.failed("its answer was not foreseen")
                raise InvalidReplyError(
                    self.server, "its answer was not foreseen; the log has the details"
                ) from None
            else:
                self.breaker.answered()
                return result


class Forward(Struct):
    """A call that has found its upstream. `call` has the names that the upstream itself uses."""

    call: Call
    mount: Mount
    name: str | None = None
    """The tool, prompt or address, as the upstream calls it; None when we do not know it."""
    safe: bool = False
    """It may run twice."""
    more: str = ""
    """How its caller reads on where a result is cut short, with {id} for that of the whole."""
    options: object = None
    """What the caller asked of the result; for the stage that took it out of the arguments."""


async def dispatch(forward: Forward) -> Any:
    return await forward.mount.call(forward.call, forward.safe)


T = TypeVar("T")

MAX_REFUSAL = 8 * 1024
REFUSED = (401, 410)


class SessionSlot(Struct, frozen=True):
    """Whose session it is, and how one is begun."""

    leases: Leases
    tenant: str
    thread: str
    upstream: str
    begin: BeginSession

    async def get(self) -> Lease:
        return await self.leases.get(self.tenant, self.thread, self.upstream, self.begin)

    async def peek(self) -> Lease | None:
        return await self.leases.peek(self.tenant, self.thread, self.upstream)

    async def renew(self, stale: str) -> Lease:
        """At most one is begun, however many ask at once."""
        return await self.leases.renew(self.tenant, self.thread, self.upstream, stale, self.begin)


async def renew_once(
    lease: Lease | None,
    renew: Callable[[], Awaitable[Lease]],
    work: Callable[[Lease | None], Awaitable[T]],
    is_over: Callable[[McpError], bool],
    says_over: Callable[[T], bool],
) -> T:
    """Do it, and once more when it was refused for its session's sake and another session can be had."""
    try:
        result = await work(lease)
    except McpError as error:
        if not is_over(error) or not _is_another(fresh := await renew(), lease):
            raise
    else:
        if not says_over(result) or not _is_another(fresh := await renew(), lease):
            return result
    return await work(fresh)


def _is_another(fresh: Lease, lease: Lease | None) -> bool:
    """A local one is sent nowhere: in the place of another local one, or of none, it changes nothing."""
    return not fresh.is_local or not (lease is None or lease.is_local)


def is_over(error: McpError) -> bool:
    """Whether an MCP server refused a call because of its session."""
    if isinstance(error, UpstreamRefusedError):
        return error.expired or error.status in REFUSED
    if isinstance(error, UpstreamError):
        return isinstance(error, StaleSessionError) and error.expired
    if isinstance(error, HttpRpcError) and error.status in REFUSED:
        return True
    return is_refusal(error.message)


class _TextBlock(Struct):
    text: str = ""


class _ToolResult(Struct, rename="camel"):
    is_error: bool = False
    content: list[_TextBlock] = []
    structured_content: Any = None


_decode = msgspec.json.Decoder(_ToolResult).decode


def says_over(result: Any) -> bool:
    """Whether a tool's result is nothing but the word that the session is over."""
    if not isinstance(result, Raw):
        return False
    body = bytes(result)
    if len(body) > MAX_REFUSAL or b'"isError"' not in body:
        return False
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    alone = found.is_error and len(found.content) == 1 and not found.structured_content
    return alone and is_refusal(found.content[0].text)


class LeasedUpstream:
    """`rest` is where sessions are begun."""

    def __init__(self, server: str, inner: CallHandler, leases: Leases, header: str, rest: JsonApi) -> None:
        self._server = server
        self._inner = inner
        self._leases = leases
        self._header = header
        self._rest = rest

    async def handle(self, call: Call) -> Any:
        ours = call.caller is GATEWAY_CALLER
        tenant, thread = ("", "") if ours else (call.caller.tenant, thread_of(call))
        seat = SessionSlot(self._leases, tenant, thread, self._server, self._begin)
        lease = await (seat.peek() if ours else seat.get())

        async def renew() -> Lease:
            return await (seat.get() if lease is None else seat.renew(lease.id))

        async def work(lease: Lease | None) -> Any:
            return await self._inner.handle(self._with(call, lease))

        return await renew_once(lease, renew, work, is_over, says_over)

    def _with(self, call: Call, lease: Lease | None) -> Call:
        if lease is None or lease.is_local:
            return call
        return replace(call, more_headers={**(call.more_headers or {}), self._header: lease.id})

    async def _begin(self) -> NewSession | None:
        body = await self._rest.post("", {"generate_id": True})
        try:
            reply = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidReplyError(self._server, "what its session_url answers is no JSON object") from None
        found = replies.session(reply, "")
        if found is None:
            raise InvalidReplyError(self._server, "its session_url gave no id")
        return NewSession(found.id, found.ttl, source=self._server)
