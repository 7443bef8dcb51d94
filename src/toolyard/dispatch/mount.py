"""One mounted upstream: its time limit, its share of attention, its breaker, and trying again.

What may be tried again: what never left, always; what left and was not answered, only when it may run
twice (reads, lists, tools that call themselves read-only or idempotent).
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Raw
from msgspec.structs import replace

from ..config import ServerConfig
from ..telemetry.observed import Transport
from ..upstream.errors import Busy, Down, Garbled, Late, Lost, NotReached, Stale, Starting, UpstreamError
from ..wire.call import Call, Channel
from ..wire.errors import McpError
from ..wire.secret import in_header
from .breaker import Breaker
from .deadlines import Deadline, Deadlines

logger = logging.getLogger("toolyard.dispatch")

WAITING_PER_SLOT = 16
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0


class Handles(Protocol):
    async def handle(self, call: Call) -> Any: ...


class _Clock:
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
    def __init__(self, config: ServerConfig, service: Handles, transport: Transport) -> None:
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
        headers = {name: in_header(name, key) for name, key in ours.items()}
        return replace(call, secrets=ours, more_headers={**(call.more_headers or {}), **headers})

    async def call(self, call: Call, safe: bool) -> Any:
        """`safe`: it may run twice."""
        if call.secrets is not None:
            call = self.keyed(call)
        self.breaker.check()
        deadline = self._deadlines.start()
        if call.caller.era == "legacy":
            call.channel = _Clock(call.channel, deadline)
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
                raise Busy(self.server, f"its {places} places were all taken for {limit:g} s") from None
            late = Late(self.server, f"it did not answer {call.method!r} within {limit:g} s")
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
            raise Busy(self.server, "too many calls are waiting for it already")
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
        if isinstance(error, Down | Starting) or (stale and isinstance(error, Stale)):
            return False
        if isinstance(error, NotReached):  # as often as there is time, until the breaker opens
            return self.config.retries > 0
        return safe and isinstance(error, Lost | Garbled) and tries < self.config.retries

    async def _try(self, call: Call, safe: bool, deadline: Deadline) -> Any:
        tries = 0
        stale = False
        while True:
            try:
                result = await self.service.handle(call)
            except UpstreamError as error:
                if not isinstance(error, Busy | Starting):
                    self.breaker.failed(error.reason)
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries) * random.uniform(0.5, 1.5)
                pause = max(pause, error.retry_after or 0.0)
                if not self._may_try_again(error, safe, tries, stale) or deadline.left < pause:
                    raise
                stale = stale or isinstance(error, Stale)
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
                raise Garbled(self.server, "its answer was not foreseen; the log has the details") from None
            else:
                self.breaker.answered()
                return result
