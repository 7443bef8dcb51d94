"""One mounted upstream and the steps around each call: breaker, deadline, slot, retry, session renewal.

A request that was never sent may always be retried. A request that was sent and not answered is retried
only if it may run twice (reads, lists, tools declared read-only or idempotent). A call refused because its
session expired had no effect, and runs once more in a new session.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..catalogue.catalogue import CatalogueEntry
from ..config import ServerConfig
from ..languages import said
from ..sessions.leases import BeginSession, Lease, Leases, NewSession
from ..telemetry.events import SessionAttached, session_digest
from ..telemetry.requests import Transport, current
from ..upstream import attribution
from ..upstream.base import Forward, Outcome, Upstream, WrappedUpstream
from ..upstream.composio import replies
from ..upstream.composio.rest import JsonApi
from ..upstream.connection import GATEWAY_CALLER
from ..upstream.errors import (
    ConnectionLostError,
    CredentialError,
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
    cause_of,
    is_refusal,
)
from ..wire.call import CALLER_TOKEN, Channel, key_header_value, thread_of
from ..wire.errors import McpError

logger = logging.getLogger("toolyard.dispatch")

THRESHOLD = 5
GRACE_SECONDS = 5.0
WAITING_PER_SLOT = 16
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0

OnTrouble = Callable[[str, bool], None]
"""Called with the reason why a call or probe failed, and whether calls are refused from now on."""


def _nothing(*_: object) -> None: ...


class Breaker:
    """Refuses calls to an upstream that failed too often; `well` closes it again."""

    def __init__(self, server: str, on_trouble: OnTrouble = _nothing) -> None:
        self.server = server
        self.reason: str | None = None
        """Why calls are refused; None while the breaker is closed."""
        self.is_calm = False
        """The breaker is closed and the last call was answered: another answer changes nothing."""
        self._on_trouble = on_trouble
        self._failures = 0
        self._since: float | None = None
        self._was_well = False

    @property
    def is_open(self) -> bool:
        return self.reason is not None

    def check(self) -> None:
        if self.reason is not None:
            raise UpstreamDownError(
                self.server,
                said(
                    f"it is down: {self.reason}; the gateway keeps trying",
                    f"está fora do ar: {self.reason}; o gateway continua tentando",
                ),
            )

    def failed(self, reason: str) -> None:
        """A call was not answered."""
        self._failures += 1
        self.is_calm = False
        opened = self._failures >= THRESHOLD and not self._in_grace()
        self._note(reason, opened)

    def unwell(self, reason: str) -> None:
        """A probe was not answered. Opens at once, so that calls need not fail first."""
        self._note(reason, not self._in_grace())

    def _note(self, reason: str, opened: bool) -> None:
        self.is_calm = False
        if opened and self.reason is None:
            self.reason = reason
        self._on_trouble(reason, opened)

    def _in_grace(self) -> bool:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return self._was_well and now - self._since < GRACE_SECONDS

    def answered(self) -> None:
        """A call was answered. That does not close an open breaker: the answer may be an old one."""
        self._failures = 0
        if self.reason is None:
            self._since = None
            self._was_well = self.is_calm = True

    def well(self) -> None:
        self._failures = 0
        self._since = None
        self._was_well = True
        self.reason = None


class Deadline(Struct, eq=False):
    """The time limit of one call. It cancels the task that started it."""

    _deadlines: "Deadlines"
    task: "asyncio.Task[Any]"
    due: float
    expired: bool = False
    ended: bool = False
    _questions: int = 0
    _left: float = 0.0

    @property
    def left(self) -> float:
        return self.due - self._deadlines.now()

    def pause(self) -> None:
        """Stop the clock until all questions to the user are answered."""
        if self._questions == 0:
            self._left = self.left
            self._deadlines.running.pop(self, None)
        self._questions += 1

    def resume(self) -> None:
        self._questions -= 1
        if self._questions == 0 and not self.ended and not self.expired:
            self.due = self._deadlines.now() + self._left
            self._deadlines.add(self)

    def took_effect(self) -> bool:
        """Whether this limit alone cancelled the call."""
        return self.expired and self.task.uncancel() == 0


class Deadlines:
    """The limits of all calls to one upstream, with one timer for the earliest.

    `asyncio.timeout` sets a timer for each call: 4 to 5 µs of the 80 that a call in process takes.
    """

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
        # Passing the loop saves a system call: before Python 3.12, finding it calls getpid().
        task = asyncio.current_task(loop)
        assert task is not None, "a call runs in a task"
        deadline = Deadline(self, task, loop.time() + self.limit)
        self.running[deadline] = None
        if self._timer is None or deadline.due < self._due:
            self._arm(deadline.due)
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


class PausingChannel:
    """A call's channel: while its user is asked, the call's clock stands still, and its slot is lent.

    Several may be asked at a time, from other tasks than the call's, and a question may outlive the call.
    """

    __slots__ = ("_channel", "_deadline", "_is_over", "_mount", "_questions", "_returning", "lent")

    def __init__(self, channel: Channel, deadline: Deadline, mount: "Mount") -> None:
        self._channel = channel
        self._deadline = deadline
        self._mount = mount
        self._is_over = False
        self._questions = 0
        self._returning = asyncio.Lock()
        self.lent = False

    async def notify(self, method: str, params: Any) -> None:
        await self._channel.notify(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        async with self.pausing():
            return await self._channel.ask(method, params)

    async def release(self, retry_ms: int | None) -> None:
        await self._channel.release(retry_ms)

    @asynccontextmanager
    async def pausing(self) -> AsyncGenerator[None]:
        """While the call waits for a person."""
        self._deadline.pause()
        self._questions += 1
        if not (self.lent or self._is_over):
            self.lent = True
            self._mount.lend()
        goes_on = True
        try:
            yield
        except asyncio.CancelledError:
            goes_on = False
            raise
        finally:
            self._questions -= 1
            try:
                async with self._returning:
                    if goes_on and self.lent and not self._questions:
                        await self._mount.take_back(self)
            finally:
                self._deadline.resume()

    def end(self) -> None:
        """The call is over, and what it lent is not taken back."""
        self._is_over = True
        if self.lent:
            self.lent = False
            self._mount.forget(self)


class Mount:
    """`version` returns the protocol version of the upstream, once it is known.

    `prepare` returns what a call has to wait for before it takes a slot, or None: a caller whose token is
    being refreshed keeps no others waiting.
    """

    def __init__(
        self,
        config: ServerConfig,
        upstream: Upstream,
        transport: Transport,
        url: str = "",
        *,
        breaker: Breaker | None = None,
        version: Callable[[], str] = str,
        on_retry: Callable[[], None] = _nothing,
        prepare: Callable[[Forward], Awaitable[object] | None] | None = None,
    ) -> None:
        self.config = config
        self._prepare = prepare
        self.server = config.name
        self.upstream = upstream
        self.transport: Transport = transport
        parts = urlsplit(url)
        self.address = parts.hostname or ""
        self.port = (parts.port or (443 if parts.scheme == "https" else 80)) if url else 0
        self.version = version
        self.breaker = breaker or Breaker(config.name)
        self.in_flight = 0
        self._on_retry = on_retry
        self._deadlines = Deadlines(config.timeout)
        self._queue: deque[asyncio.Future[None]] = deque()
        self._lent = 0
        """Calls in flight that have no slot."""
        self._returning: dict[PausingChannel, asyncio.Future[None]] = {}
        self._empty = asyncio.Event()
        self._is_leaving = False

    def reconfigure(self, config: ServerConfig) -> None:
        """Use other limits for new calls; running calls keep theirs."""
        self.config = config
        self._deadlines.limit = config.timeout
        self._admit()

    def keyed(self, forward: Forward) -> Forward:
        """With the caller's keys for this server (as headers if it is reached over HTTP) and no others."""
        sent = forward.call.secrets or {}
        ours = {name: sent[name] for name in self.config.caller_keys if name in sent}
        headers = {name: key_header_value(name, key) for name, key in ours.items()}
        if self.config.acts_for_caller and CALLER_TOKEN in sent:
            ours[CALLER_TOKEN] = sent[CALLER_TOKEN]  # to be exchanged, and in no header
        forward = replace(forward, call=replace(forward.call, secrets=ours or None))
        if self.transport != "http" or not ours:
            return replace(forward, secrets=ours or None)
        return replace(forward, secrets=ours, headers={**(forward.headers or {}), **headers})

    async def send(self, forward: Forward) -> Outcome:
        """One request, within the time limit and in one of the upstream's slots."""
        if self.breaker.reason is not None:
            self.breaker.check()
        call = forward.call
        if call.secrets is not None:
            forward = self.keyed(forward)
            call = forward.call
        if self._prepare is not None and (needed := self._prepare(forward)) is not None:
            await needed
        deadline = self._deadlines.start()
        pausing = None
        if call.caller.era == "legacy":
            pausing = PausingChannel(call.channel, deadline, self)
            forward = replace(forward, call=replace(call, channel=pausing))
        has_slot = False
        try:
            if self.in_flight < self.config.concurrency + self._lent and not self._queue:
                self.in_flight += 1
            else:
                await self._wait_for_slot()
            has_slot = True
            try:
                return await self._attempt(forward, deadline)
            finally:
                self.in_flight -= 1
                if pausing is not None:
                    pausing.end()
                if self._queue or self._returning or self._is_leaving:
                    self._slot_is_free()
        except asyncio.CancelledError:
            if not deadline.took_effect():
                raise
            raise self._timed_out(forward.method, has_slot) from None
        finally:
            deadline.ended = True
            self._deadlines.running.pop(deadline, None)

    def _timed_out(self, method: str, has_slot: bool) -> UpstreamError:
        limit = self.config.timeout
        if not has_slot:
            taken = said(
                f"all of its {self.config.concurrency} slots were busy for {limit:g} s",
                f"todas as suas {self.config.concurrency} vagas ficaram ocupadas por {limit:g} s",
            )
            return UpstreamBusyError(self.server, taken)
        late = UpstreamTimeoutError(
            self.server,
            said(
                f"it did not answer {method!r} within {limit:g} s",
                f"não respondeu {method!r} em {limit:g} s",
            ),
        )
        self.breaker.failed(late.reason)
        return late

    async def _attempt(self, forward: Forward, deadline: Deadline) -> Outcome:
        """Sends the request, and again as long as that is allowed, useful and in time."""
        tries, was_stale = 0, False
        while True:
            try:
                outcome = await self.upstream.send(forward)
            except UpstreamError as error:
                if not isinstance(error, UpstreamBusyError | UpstreamStartingError | CredentialError):
                    self.breaker.failed(error.reason)
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries) * random.uniform(0.5, 1.5)
                pause = max(pause, error.retry_after or 0.0)
                if not self._may_retry(error, forward.safe, tries, was_stale) or deadline.left < pause:
                    raise
                was_stale = was_stale or isinstance(error, StaleSessionError)
                tries += 1
                self._on_retry()
                if (seen := current.get()) is not None:
                    seen.resends = tries
                await asyncio.sleep(pause)
                self.breaker.check()
            except McpError as error:
                self.breaker.answered()
                if forward.marks and attribution.passes_for_ours(error):
                    raise attribution.error(self.server, error) from None
                raise
            except Exception as error:  # a bug of ours that this upstream's answer triggered
                logger.error("a call to %s failed with an unexpected error", self.server, exc_info=error)
                self.breaker.failed("unexpected error; see the log")
                raise InvalidReplyError(
                    self.server,
                    said(
                        "unexpected error in the gateway; see its log",
                        "erro inesperado no gateway; veja o log",
                    ),
                ) from None
            else:
                if not self.breaker.is_calm:
                    self.breaker.answered()
                return outcome

    def _may_retry(self, error: UpstreamError, safe: bool, tries: int, was_stale: bool) -> bool:
        if isinstance(error, UpstreamDownError | UpstreamStartingError):
            return False
        if was_stale and isinstance(error, StaleSessionError):
            return False
        if isinstance(error, NotReachedError):  # until the time is over or the breaker opens
            return self.config.retries > 0
        lost = isinstance(error, ConnectionLostError | InvalidReplyError)
        return safe and lost and tries < self.config.retries

    async def idle(self, wait: float) -> None:
        """Wait at most `wait` seconds until no call is running."""
        self._empty.clear()
        self._is_leaving = True
        if self.in_flight:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._empty.wait()

    async def _wait_for_slot(self) -> None:
        """Wait for a running call to end. The queue is limited."""
        if len(self._queue) >= self.config.concurrency * WAITING_PER_SLOT:
            raise UpstreamBusyError(
                self.server,
                said("too many calls are already waiting for it", "chamadas demais já esperam por ele"),
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given to this call: pass it on
                self.in_flight -= 1
                self._slot_is_free()
            else:
                with suppress(ValueError):  # it may have been passed over already
                    self._queue.remove(turn)
            raise

    def _slot_is_free(self) -> None:
        self._admit()
        if not self.in_flight:
            self._empty.set()

    def _admit(self) -> None:
        """Give free slots to calls that go on, then to those that begin."""
        while (self._returning or self._queue) and self.in_flight < self.config.concurrency + self._lent:
            if self._returning:
                returning = next(iter(self._returning))
                self._returned(returning)
                continue
            turn = self._queue.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    # Calls that wait for a person

    def lend(self) -> None:
        """A call waits for a person: another may have its slot."""
        self._lent += 1
        self._admit()

    async def take_back(self, call: PausingChannel) -> None:
        """Wait until the call has a slot again."""
        turn = self._returning[call] = asyncio.get_running_loop().create_future()
        self._admit()
        try:
            await turn
        finally:
            self._returning.pop(call, None)

    def forget(self, call: PausingChannel) -> None:
        """The call ended while it waited."""
        self._lent -= 1
        if (turn := self._returning.pop(call, None)) is not None and not turn.done():
            turn.set_result(None)

    def _returned(self, call: PausingChannel) -> None:
        turn = self._returning.pop(call)
        if not turn.done():
            self._lent -= 1
            call.lent = False
            turn.set_result(None)


class CallTarget(Struct, frozen=True):
    """The destination of a request: the mount, and the upstream's own name of the tool or prompt."""

    mount: Mount
    own: str = ""
    entry: CatalogueEntry | None = None
    """None if it is not in the catalogue: the upstream itself says whether it exists."""


T = TypeVar("T")

MAX_REFUSAL = 8 * 1024
REFUSED = (401, 410)
EXPIRED = "session expired"
"""How a call was refused, where a text says it and no status."""


class SessionSlot(Struct, frozen=True):
    """The owner of a session, and how a new one is started. `upstream` is its key, `server` the name."""

    leases: Leases
    server: str
    tenant: str
    thread: str
    upstream: str
    begin: BeginSession

    async def get(self) -> Lease:
        return await self.leases.get(self.tenant, self.thread, self.upstream, self.begin, self.server)

    async def peek(self) -> Lease | None:
        return await self.leases.peek(self.tenant, self.thread, self.upstream)

    async def renew(self, stale: str, reason: str = "") -> Lease:
        """Replace a stale session. Concurrent callers start only one new session."""
        whose = self.tenant, self.thread, self.upstream
        return await self.leases.renew(*whose, stale, self.begin, self.server, reason)

    def attach(self, lease: Lease) -> None:
        """A request is sent in this session."""
        self.leases.events.note(SessionAttached(server=self.server, session=session_digest(lease.id)))


async def renew_once(
    lease: Lease | None,
    renew: Callable[[str], Awaitable[Lease]],
    work: Callable[[Lease | None], Awaitable[T]],
    is_over: Callable[[McpError], bool],
    says_over: Callable[[T], bool],
) -> T:
    """Run `work`, and once more in a new session if the call was refused because its session is over.

    `renew` is told how it was refused.
    """
    try:
        result = await work(lease)
    except McpError as error:
        if not is_over(error) or not _is_another(fresh := await renew(cause_of(error, EXPIRED)), lease):
            raise
    else:
        if not says_over(result) or not _is_another(fresh := await renew(EXPIRED), lease):
            return result
    return await work(fresh)


def _is_another(fresh: Lease, lease: Lease | None) -> bool:
    """Whether a retry can succeed. A local session is not sent, so another local one changes nothing."""
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
    content: list[_TextBlock] = []
    structured_content: Any = None


_decode = msgspec.json.Decoder(_ToolResult).decode


def says_over(outcome: Outcome) -> bool:
    """Whether a tool's result says that the session is over, and nothing else."""
    body = outcome.body
    if not outcome.is_error or not isinstance(body, Raw) or outcome.size > MAX_REFUSAL:
        return False
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return len(found.content) == 1 and not found.structured_content and is_refusal(found.content[0].text)


class LeasedUpstream(WrappedUpstream):
    """An upstream whose requests carry the id of a leased session; `rest` is the API that starts sessions."""

    def __init__(self, server: str, inner: Upstream, leases: Leases, header: str, rest: JsonApi) -> None:
        self._server = server
        super().__init__(inner)
        self._leases = leases
        self._header = header
        self._rest = rest

    async def send(self, forward: Forward) -> Outcome:
        call = forward.call
        ours = call.caller is GATEWAY_CALLER
        tenant, thread = ("", "") if ours else (call.caller.owner, thread_of(call))
        slot = SessionSlot(self._leases, self._server, tenant, thread, self._server, self._begin)
        lease = await (slot.peek() if ours else slot.get())

        async def renew(reason: str) -> Lease:
            return await (slot.get() if lease is None else slot.renew(lease.id, reason))

        async def work(lease: Lease | None) -> Outcome:
            if lease is None or lease.is_local:
                return await self._inner.send(forward)
            slot.attach(lease)
            headers = {**(forward.headers or {}), self._header: lease.id}
            return await self._inner.send(replace(forward, headers=headers))

        return await renew_once(lease, renew, work, is_over, says_over)

    async def _begin(self) -> NewSession | None:
        body = await self._rest.post("", {"generate_id": True})
        try:
            reply = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidReplyError(self._server, "its session_url did not return a JSON object") from None
        found = replies.session(reply, "")
        if found is None:
            raise InvalidReplyError(self._server, "its session_url returned no session id")
        return NewSession(found.id, found.ttl, source=self._server)
