"""`Context`: progress, logs and questions of a tool, resource or prompt while it runs."""

import asyncio
import concurrent.futures
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar, get_args

from ...languages import said
from ...wire.call import Call, Caller, Level, Secret
from ...wire.errors import McpError
from ...wire.seal import Sealer
from ..schema.pydantic_types import JsonSchema
from .content import ToolError, plain_result
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
    """Raised by `raise_if_cancelled` and `wait` in a thread whose caller cancelled or disconnected."""


class Context:
    """One for each call, the same in both eras; `kit.calls.input_requests` explains replays."""

    def __init__(
        self,
        call: Call,
        requester: InputRequester,
        on_progress: Callable[[str], None] | None = None,
        server: Any = None,
    ) -> None:
        self._call = call
        self._server = server
        self._requester = requester
        self._on_progress = on_progress
        self._keys: set[str] = set()
        self._counts: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._cancelled = False
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._closed = False

    def require_own(self, signal: InputRequired | Detached) -> None:
        """Raise a signal of another call again: a tool may be a client of other servers in this process."""
        if signal.owner is not self._requester:
            raise signal

    def close(self) -> None:
        """The call is answered: code that the tool left running sends nothing more."""
        self._closed = True

    @property
    def caller(self) -> Caller:
        return self._call.caller

    @property
    def server(self) -> Any:
        """The `Server` that is called."""
        return self._server

    @property
    def fastmcp(self) -> Any:
        """The same, as FastMCP spells it."""
        return self._server

    @property
    def lifespan_context(self) -> Any:
        """What the server's `lifespan` gave; an empty dict if it has none."""
        return self._server.lifespan_result

    @property
    def session_id(self) -> str:
        """The legacy session's; empty in the modern era, which has none."""
        session = self._call.session
        if session is None:
            return ""
        session.label = session.id or session.label or secrets.token_hex(16)
        return session.label

    @property
    def request_id(self) -> str:
        return str(self._call.id)

    @property
    def sealer(self) -> Sealer | None:
        """The gateway's for this server; None if it has none, or a key that does not last."""
        return self._call.sealer

    def secret(self, *headers: str) -> Secret | None:
        """The caller's key in the first of these headers that was sent. Do not store it."""
        sent = {} if self._closed else self._call.secrets or {}
        return next((sent[name] for name in headers if name in sent), None)

    @property
    def cancelled(self) -> bool:
        """For `def` tools, which run in a thread and cannot be interrupted: check it now and then."""
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        if self._cancelled:
            raise Cancelled("the caller cancelled or disconnected")

    def mark_cancelled(self) -> None:
        """The caller cancelled or disconnected: end the waits of the thread."""
        self._cancelled = True
        for future in list(self._waiting):
            future.cancel()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """For `def` tools: `ctx.wait(ctx.elicit(…))` is what `await` is in an `async def`."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise RuntimeError("ctx.wait would block the server here; in an `async def`, use await")
        if self._cancelled:
            coroutine.close()
            raise Cancelled("the caller cancelled or disconnected")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._waiting.add(future)
        if self._cancelled:  # between the check above and here
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Cancelled("the caller cancelled or disconnected") from None
        finally:
            self._waiting.discard(future)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress, if the client asked for it. A task shows the message as its status."""
        if self._closed:
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
        """Send a log line to the client, if it accepts that level."""
        if level not in LEVELS:
            raise ValueError(f"unknown level {level!r}; use one of {', '.join(LEVELS)}")
        threshold = self._log_threshold()
        # A task has no stream for log lines.
        if self._closed or threshold is None or self._on_progress is not None:
            return
        if LEVELS.index(level) < LEVELS.index(threshold):
            return
        params = {"level": level, "data": data} | ({"logger": logger} if logger else {})
        await self._call.channel.notify("notifications/message", params)

    async def debug(self, message: str, logger: str | None = None, extra: Any = None) -> None:
        """A log line of that level, as `info`, `warning` and `error`; `extra` is data beside the message."""
        await self._say("debug", message, logger, extra)

    async def info(self, message: str, logger: str | None = None, extra: Any = None) -> None:
        await self._say("info", message, logger, extra)

    async def warning(self, message: str, logger: str | None = None, extra: Any = None) -> None:
        await self._say("warning", message, logger, extra)

    async def error(self, message: str, logger: str | None = None, extra: Any = None) -> None:
        await self._say("error", message, logger, extra)

    async def _say(self, level: Level, message: str, logger: str | None, extra: Any) -> None:
        await self.log(level, message if extra is None else {"msg": message, "extra": extra}, logger)

    def _log_threshold(self) -> str | None:
        if self.caller.era == "modern":
            level = self.caller.log_level
            return level if level in LEVELS else None
        session = self._call.session
        return (session.log_level if session is not None else None) or "info"

    async def ask(self, **questions: InputRequestKind) -> dict[str, Any]:
        """Ask several questions in one round; the answers have the same names."""
        for key in questions:
            self._claim(key)
        return await self._requester.ask(questions)

    async def elicit(
        self,
        message: str,
        schema: "JsonSchema | type[T] | list[str] | None" = None,
        key: str | None = None,
        *,
        response_type: "type[T] | list[str] | None" = None,
    ) -> Answer[Any]:
        """Ask the user to fill a form: one of several fields, one value, or a choice from a list of strings.

        `response_type` is another name for `schema`.
        """
        asked = response_type if schema is None else schema
        if asked is None:
            raise TypeError(
                "elicit needs a schema: a type such as `str`, a class with fields, or a list of choices"
            )
        return await self._one(Elicit(message, asked), key)

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
        """Ask the client's model. `more` takes temperature, stop_sequences, model_preferences, …"""
        return await self._one(Sample(messages, max_tokens, system, **more), key)

    async def roots(self, key: str | None = None) -> list[Root]:
        """The folders the client has opened."""
        return await self._one(Roots(), key)

    async def _one(self, question: InputRequestKind, key: str | None) -> Any:
        if key is None:
            count = self._counts[question.kind] = self._counts.get(question.kind, 0) + 1
            key = f"{question.kind}-{count}"
        self._claim(key)
        return (await self._requester.ask({key: question}))[key]

    def _claim(self, key: str) -> None:
        if self._closed:
            raise RuntimeError("the call has been answered; its client can no longer be asked")
        if key in self._keys:
            raise ValueError(f"two questions of one call have the key {key!r}; give each its own")
        self._keys.add(key)

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        """The value of `make()`, computed once even if the call is replayed. It must be plain JSON.

        The client stores it between rounds and can read it, but not change it: no secrets here.
        """
        return await self._requester.remember(key, make)

    async def detach(self) -> None:
        """In a tool with `Long(detach="by_hand")`: continue as a task, if the client supports tasks."""
        await self._requester.detach()

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call another tool of the caller, by the name that the caller sees, with the caller's rights.

        Returns its structured content, or else its text, decoded if it is JSON. Raises ToolError if the tool
        fails, is unknown to the caller, or would ask the user. Works for servers in a gateway's own process.
        """
        if self._closed:
            raise RuntimeError("the call has been answered; it can no longer call tools")
        if self._call.call_tool is None:
            raise ToolError(
                said(
                    "No other tools can be called from here: this server is not mounted in a gateway",
                    "Daqui não se pode chamar outras ferramentas: este servidor não está num gateway",
                )
            )
        try:
            return plain_result(await self._call.call_tool(name, arguments))
        except McpError as error:
            raise ToolError(error.message) from None

    async def close_stream(self, retry_ms: int | None = None) -> None:
        """Legacy HTTP: close the connection; the client reconnects after `retry_ms` for the rest."""
        await self._call.channel.release(retry_ms)
