"""One API of models: sends a request, reads the reply's events, and turns failures into ModelError.

Owns what the APIs have in common: event streams, bodies that are not what was promised, and what a status and
its words mean. `openai.py` and `anthropic.py` know the forms of requests and events.
"""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from .base import ModelError, ModelErrorKind, ModelHttpRequest, ModelHttpResponse, ModelTransport
from .retries import Retries, asked_wait

T = TypeVar("T")
JsonObject = dict[str, Any]

MAX_REPLY = 64 * 1024 * 1024
MAX_FAILURE = 64 * 1024
MAX_WORDS = 400
"""Characters of an API's own words that an error quotes."""
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (?:length|window|size)"
    r"|prompt is too long|too many tokens|request_too_large|input is too long|reduce the length",
    re.I,
)
_QUOTA = re.compile(r"insufficient_quota|credit balance|billing|payment", re.I)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy|safety", re.I)
_CONTEXT_SIZES = (
    re.compile(r"maximum context length (?:is|of) (\d+)", re.I),
    re.compile(r"> ?(\d+) maximum", re.I),
    re.compile(r"context (?:size|window)[^\d]{0,40}(\d+)", re.I),
)

_REPLY_LIMIT = re.compile(
    r"max_tokens: \d+ > (\d{1,9})|supports at most (\d{1,9}) (?:completion|output) tokens", re.I
)


class ModelAddress(Struct, frozen=True):
    """Where an API is, what every request carries, and the variables by which a user can change that."""

    url: str
    headers: Mapping[str, str]
    model: str
    key: str
    key_variable: str
    url_variable: str

    def __repr__(self) -> str:
        """Without headers and key."""
        return f"ModelAddress({self.url!r}, {self.model!r})"


class ReplyEvents:
    """The events of one reply, decoded. A reply that is not a stream is a single event."""

    def __init__(self, events: AsyncIterator[JsonObject], is_stream: bool) -> None:
        self._events = events
        self.is_stream = is_stream

    def __aiter__(self) -> AsyncIterator[JsonObject]:
        return self._events


class ModelHost:
    def __init__(
        self,
        address: ModelAddress,
        transport: ModelTransport,
        retries: Retries,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._transport = transport
        self._retries = retries
        self._now = now

    async def ask(self, body: bytes, read: Callable[[ReplyEvents], Awaitable[T]]) -> T:
        """`read` is called anew for every attempt."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        request = ModelHttpRequest(self._address.url, {**headers, **self._address.headers}, body)

        async def attempt() -> T:
            async with self._transport.post(request) as response:
                if response.status != 200:
                    raise await self._refusal(response)
                return await read(await self._events(response))

        return await self._retries.run(attempt)

    async def close(self) -> None:
        await self._transport.close()

    async def _events(self, response: ModelHttpResponse) -> ReplyEvents:
        """Goes by the first byte, because not every server names its type of content."""
        chunks = response.chunks()
        head = b""
        async for chunk in chunks:
            head += chunk
            if head.lstrip(b"\xef\xbb\xbf \r\n\t"):
                break
        first = head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1]
        if not first:
            raise ModelError("cut", f"{self._where} answered with nothing")
        if first == b"{":
            return ReplyEvents(self._whole(head, chunks), is_stream=False)
        if first == b"<":
            raise self._web_page(response.status)
        return ReplyEvents(self._streamed(head, chunks), is_stream=True)

    async def _whole(self, head: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[JsonObject]:
        body = bytearray(head)
        async for chunk in chunks:
            body += chunk
            self._check_size(len(body))
        yield self._decoded(bytes(body))

    async def _streamed(self, head: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[JsonObject]:
        async for data in server_sent_events(head, chunks, self._check_size):
            if data != b"[DONE]":
                yield self._decoded(data)
            else:
                yield {"done": True}

    def _check_size(self, size: int) -> None:
        if size > MAX_REPLY:
            raise ModelError("invalid", f"{self._where} sent a reply of more than {MAX_REPLY} bytes")

    def _decoded(self, data: bytes) -> JsonObject:
        found = _json(data)
        if not isinstance(found, dict):
            raise ModelError("cut", f"{self._where} sent something that is not a JSON object")
        event = cast(JsonObject, found)
        if event.get("error"):
            raise self.failure(200, event, None)
        return event

    @property
    def _where(self) -> str:
        return self._address.url

    async def _refusal(self, response: ModelHttpResponse) -> ModelError:
        body = bytearray()
        async for chunk in response.chunks():
            body += chunk
            if len(body) > MAX_FAILURE:
                break
        status = response.status
        wait = asked_wait(response.headers, self._now)
        found = _json(bytes(body))
        if 300 <= status < 400:
            where = response.headers.get("location", "")
            return ModelError(
                "invalid",
                f"{self._where} redirects to {where!r}",
                f"{self._address.url_variable} should name that address",
                status,
            )
        if found is None and bytes(body).lstrip()[:1] == b"<" and status < 500 and status != 429:
            return self._web_page(status)
        said: JsonObject = cast(JsonObject, found) if isinstance(found, dict) else {}
        return self.failure(status, said, wait)

    def _web_page(self, status: int) -> ModelError:
        return ModelError(
            "invalid",
            f"{self._where} answered with a web page (status {status}), not with JSON",
            f"{self._address.url_variable} should name the API itself",
            status,
        )

    def failure(self, status: int, body: JsonObject, wait: float | None) -> ModelError:
        """What an error object means; `status` is 200 if it came in the middle of a stream."""
        kinds, words = _said(body)
        if self._address.key:
            words = words.replace(self._address.key, "…")
        words = words[:MAX_WORDS] or f"status {status}"
        kind, hint = self._meaning(status, kinds, words)
        return ModelError(kind, f"{self._where}: {words}", hint, status, wait)

    def _meaning(self, status: int, kinds: str, words: str) -> tuple[ModelErrorKind, str]:
        address, all_words = self._address, f"{kinds} {words}"
        if status == 413 or (status in (200, 400, 422, 500) and _TOO_LONG.search(all_words)):
            return "too_long", "a shorter task, or a model with a larger context"
        if status == 402 or _QUOTA.search(all_words):
            return "refused", "the account has no credit left; its owner can add some"
        if status in (401, 403) or "authentication" in kinds or "permission" in kinds:
            return "unauthorized", f"{address.key_variable} should hold a valid key" + (
                "" if address.key else "; it is not set"
            )
        if status == 429 or "rate_limit" in kinds:
            return "rate_limited", ""
        if status in (408, 500, 502, 503, 504, 520, 522, 524, 529) or "overloaded" in kinds:
            return "overloaded", ""
        if status == 404:
            if "model" in words.lower() or "not_found" in kinds:
                return "invalid", f"is {address.model!r} the name of a model of this API?"
            return "invalid", f"{address.url_variable} should name the API itself"
        if status == 200:  # the stream had begun, so the request was in order
            is_ours = "invalid_request" in kinds
            return ("invalid", "") if is_ours else ("overloaded", "")
        if _FILTERED.search(all_words):
            return "refused", "the API declines this request by its rules"
        if re.search(r"(?:does not|doesn't|not) support (?:tools|function)", words, re.I):
            return "invalid", f"choose a model that can call tools instead of {address.model!r}"
        return "invalid", ""


def context_size(words: str) -> int | None:
    """The number of tokens that an API says it takes."""
    for pattern in _CONTEXT_SIZES:
        if (found := pattern.search(words)) is not None and 256 <= int(found[1]) <= 100_000_000:
            return int(found[1])
    return None


def reply_limit(words: str) -> int | None:
    """The longest reply that an API says it gives, after it refused a longer one."""
    found = _REPLY_LIMIT.search(words) if "max" in words and "token" in words else None
    return max(1, int(found[1] or found[2])) if found is not None else None


def _said(body: JsonObject) -> tuple[str, str]:
    """Kinds and words of an error, in the forms of OpenAI, Anthropic, Ollama, vLLM and FastAPI."""
    error: Any = body.get("error", body)
    if isinstance(error, str):
        return "", error
    if not isinstance(error, dict):
        return "", ""
    fields = cast(JsonObject, error)
    kinds = " ".join(str(fields[name]) for name in ("type", "code") if fields.get(name))
    words: Any = fields.get("message") or fields.get("detail") or ""
    return kinds.lower(), words if isinstance(words, str) else msgspec.json.encode(words).decode()


def _json(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def server_sent_events(
    head: bytes, chunks: AsyncIterator[bytes], check_size: Callable[[int], None]
) -> AsyncIterator[bytes]:
    """The data of each event. Names of events are left out: these APIs repeat them in the data."""
    rest, data, size = b"", list[bytes](), len(head)

    def lines_of(chunk: bytes) -> list[bytes]:
        nonlocal rest
        *lines, rest = (rest + chunk).split(b"\n")
        return lines

    lines = lines_of(head)
    while True:
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data)
                data.clear()
        chunk = await anext(chunks, None)
        if chunk is None:
            break
        size += len(chunk)
        check_size(size)
        lines = lines_of(chunk)
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data:  # some servers leave out the empty line at the end
        yield b"\n".join(data)


class ShownText:
    """Passes on text as it arrives, and does not repeat it if the request is sent again."""

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._show = show
        self._shown = ""
        self._said: str | None = None
        """What this attempt said, while it has not caught up with the one before; None once it has."""

    def begin(self) -> None:
        self._said = "" if self._shown else None

    def add(self, text: str) -> None:
        if self._show is None or not text:
            return
        if self._said is None:
            self._shown += text
            self._show(text)
            return
        self._said += text
        if self._shown.startswith(self._said):
            return
        follows = self._said.startswith(self._shown)
        self._show(self._said[len(self._shown) :] if follows else f"\n{self._said}")
        self._shown, self._said = self._said, None
