"""`Context`: what a tool, resource or prompt can do while it runs: progress, logs, questions."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, get_args

from ...wire.call import Call, Caller, Level, Secret
from ..schema.validation import JsonSchema
from .input_requests import (
    Answer,
    Detached,
    Elicit,
    ElicitUrl,
    InputRequester,
    InputRequestKind,
    InputRequired,
    Root,
    Roots,
    Sample,
    Sampled,
)

T = TypeVar("T")

LEVELS: tuple[str, ...] = get_args(Level)


class Cancelled(Exception):
    """Raised by `raise_if_cancelled` and `wait` in a thread whose caller has gone."""


class Context:
    """One per call. Everything reads the same in both eras; `kit.rounds` explains what a replay is."""

    def __init__(
        self, call: Call, asker: InputRequester, on_progress: Callable[[str], None] | None = None
    ) -> None:
        self._call = call
        self._asker = asker
        self._on_progress = on_progress
        self._keys: set[str] = set()
        self._counts: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._cancelled = False
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._over = False

    def check_own(self, signal: InputRequired | Detached) -> None:
        """A tool may be a client of other servers here; what their callers need is not ours to answer."""
        if signal.owner is not self._asker:
            raise signal

    def close(self) -> None:
        """The call is answered: nothing more is said in its name, whatever the tool left running."""
        self._over = True

    @property
    def caller(self) -> Caller:
        return self._call.caller

    def secret(self, *headers: str) -> Secret | None:
        """The key that the caller brought, in the first of these headers that came. Never keep it."""
        sent = {} if self._over else self._call.secrets or {}
        return next((sent[name] for name in headers if name in sent), None)

    @property
    def cancelled(self) -> bool:
        """For `def` tools, which run in a thread and cannot be interrupted: look now and then."""
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        if self._cancelled:
            raise Cancelled("the caller has gone")

    def mark_cancelled(self) -> None:
        """The caller has gone: what a thread waits for will not come, so it is told."""
        self._cancelled = True
        for future in list(self._waiting):
            future.cancel()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """For `def` tools: `ctx.wait(ctx.elicit(…))` does on the loop what `await` does in an `async def`."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise RuntimeError("ctx.wait would block the server here; in an `async def`, use await")
        if self._cancelled:
            coroutine.close()
            raise Cancelled("the caller has gone")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._waiting.add(future)
        if self._cancelled:  # between the check above and here
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Cancelled("the caller has gone") from None
        finally:
            self._waiting.discard(future)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far we are, if it asked. A task shows the message as its status."""
        if self._over:
            return
        if self._on_progress is not None:
            if message is not None:
                self._on_progress(message)
            return
        if self._call.progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self._call.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self._call.channel.notify("notifications/progress", params)

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log line to the client, if it wants lines of that level."""
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is none of {', '.join(LEVELS)}")
        threshold = self._log_threshold()
        # Tasks have no stream of their own for lines to travel on.
        if self._over or threshold is None or self._on_progress is not None:
            return
        if LEVELS.index(level) < LEVELS.index(threshold):
            return
        params = {"level": level, "data": data} | ({"logger": logger} if logger else {})
        await self._call.channel.notify("notifications/message", params)

    def _log_threshold(self) -> str | None:
        if self.caller.era == "modern":
            wanted = self.caller.log_level
            return wanted if wanted in LEVELS else None
        session = self._call.session
        return (session.log_level if session is not None else None) or "info"

    async def ask(self, **questions: InputRequestKind) -> dict[str, Any]:
        """Put several questions in one round; the answers come by the same names."""
        for key in questions:
            self._claim(key)
        return await self._asker.ask(questions)

    async def elicit(self, message: str, schema: JsonSchema | type[T], key: str | None = None) -> Answer[Any]:
        """Ask the user to fill a form."""
        return await self._one(Elicit(message, schema), key)

    async def elicit_url(self, message: str, url: str, key: str | None = None) -> Answer[None]:
        """Ask the user to open a page."""
        return await self._one(ElicitUrl(message, url), key)

    async def sample(
        self,
        messages: str | list[dict[str, Any]],
        max_tokens: int = 1000,
        system: str | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Sampled:
        """Let the client's model write. `more` takes temperature, stop_sequences, model_preferences, …"""
        return await self._one(Sample(messages, max_tokens, system, **more), key)

    async def roots(self, key: str | None = None) -> list[Root]:
        """The folders the client has opened."""
        return await self._one(Roots(), key)

    async def _one(self, question: InputRequestKind, key: str | None) -> Any:
        if key is None:
            count = self._counts[question.kind] = self._counts.get(question.kind, 0) + 1
            key = f"{question.kind}-{count}"
        self._claim(key)
        return (await self._asker.ask({key: question}))[key]

    def _claim(self, key: str) -> None:
        if self._over:
            raise RuntimeError("the call has been answered; its client can no longer be asked")
        if key in self._keys:
            raise ValueError(f"two questions of one call have the key {key!r}; give each its own")
        self._keys.add(key)

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        """The value of `make()`, computed once even when the call is replayed. It must be plain JSON.

        The client carries it between rounds and can read it (not change it): no secrets here.
        """
        return await self._asker.remember(key, make)

    async def detach(self) -> None:
        """In a tool with `Long(detach="by_hand")`: go on as a task from here, if the client follows tasks."""
        await self._asker.detach()

    async def close_stream(self, retry_ms: int | None = None) -> None:
        """Legacy HTTP: free the connection; the client comes back for the rest after `retry_ms`."""
        await self._call.channel.release(retry_ms)
