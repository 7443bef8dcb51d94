"""One question to a vision model over HTTP: OpenAI's chat completions, as Z.AI and many others speak them.

Owns the request, the retries and the failures. The model's reply is text from outside.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from ...telemetry.redaction import redact
from .settings import VisionEndpoint

if TYPE_CHECKING:
    import aiohttp

LONGEST_REPLY = 4 * 1024 * 1024
LONGEST_REASON = 300
PAUSE_SECONDS = 1.0
LONGEST_PAUSE = 20.0
"""A longer Retry-After is for the caller to wait."""

Fault = Literal[
    "key", "credit", "busy", "unknown", "content", "too_large", "refused", "failing", "slow", "unreachable",
    "unreadable", "empty", "redirect",
]  # fmt: skip
_FAULTS: dict[int, Fault] = {
    401: "key",
    403: "key",
    404: "unknown",
    408: "slow",
    413: "too_large",
    429: "busy",
}
_WORTH_ANOTHER_TRY: tuple[Fault, ...] = ("busy", "failing", "unreachable", "unreadable")


class VisionError(Exception):
    """The API has not answered the question."""

    def __init__(self, fault: Fault, status: int = 0, reason: str = "", wait: float | None = None) -> None:
        super().__init__(f"{fault} {status}")
        self.fault: Fault = fault
        self.status = status
        self.reason = reason
        """The API's own words, without secrets."""
        self.wait = wait
        """Seconds that the API wants us to wait."""


class VisionReply(Struct, frozen=True):
    text: str
    model: str
    is_cut: bool = False
    tokens: int | None = None


class _Message(Struct):
    content: Any = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(Struct):
    total_tokens: int | None = None


class _Completion(Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: _Usage | None = None


class VisionClient:
    def __init__(self, endpoint: VisionEndpoint) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None

    @property
    def endpoint(self) -> VisionEndpoint:
        return self._endpoint

    async def ask(
        self, system: str, content: Sequence[dict[str, Any]], on_retry: Callable[[], Awaitable[None]]
    ) -> VisionReply:
        """Raises VisionError."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": list(content)})
        body = {
            "model": self._endpoint.model,
            "messages": messages,
            "stream": False,
            **self._endpoint.parameters,
        }
        data = msgspec.json.encode(body)
        left = self._endpoint.retries
        while True:
            try:
                return await self._post(data)
            except VisionError as error:
                pause = PAUSE_SECONDS if error.wait is None else error.wait
                if left <= 0 or error.fault not in _WORTH_ANOTHER_TRY or pause > LONGEST_PAUSE:
                    raise
                left -= 1
                await on_retry()
                await asyncio.sleep(pause)

    async def _post(self, data: bytes) -> VisionReply:
        import aiohttp  # 90 ms of CPU, and only for questions

        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        headers = {"Content-Type": "application/json", **self._endpoint.headers}
        if self._endpoint.key:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        try:
            # A redirect would send the key and the pictures to another host.
            async with (
                asyncio.timeout(self._endpoint.timeout),
                self._session.post(
                    self._endpoint.url, data=data, headers=headers, allow_redirects=False
                ) as response,
            ):
                found = await _read(response.content)
                if response.status != 200:
                    raise self._failed(response.status, response.headers.get("Retry-After", ""), found)
                return self._reply(found)
        except TimeoutError:
            raise VisionError("slow") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise VisionError("unreachable", reason=type(error).__name__) from None

    def _reply(self, body: bytes) -> VisionReply:
        try:
            completion = msgspec.json.decode(body, type=_Completion)
            choice = completion.choices[0]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IndexError):
            raise VisionError("unreadable") from None
        text = _text_of(choice.message.content).strip()
        if choice.message.refusal or choice.finish_reason in ("content_filter", "sensitive"):
            raise VisionError("refused", reason=self._clean(choice.message.refusal or ""))
        if not text:
            raise VisionError("empty")
        tokens = completion.usage.total_tokens if completion.usage else None
        model = completion.model or self._endpoint.model
        return VisionReply(text, model[:100], choice.finish_reason == "length", tokens)

    def _failed(self, status: int, retry_after: str, body: bytes) -> VisionError:
        reason, code = _reason(body)
        wait = float(retry_after) if re.fullmatch(r"\d{1,6}", retry_after.strip()) else None
        return VisionError(_fault(status, code), status, self._clean(reason), wait)

    def _clean(self, text: str) -> str:
        """An API may quote what it was sent."""
        if self._endpoint.key:
            text = text.replace(self._endpoint.key, "***")
        plain = "".join(one if one.isprintable() else " " for one in redact(text))
        return " ".join(plain.split())[:LONGEST_REASON]

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _fault(status: int, code: str) -> Fault:
    # Z.AI says with 429 both that an account is empty (1113) and that there were too many requests.
    if status == 402 or code in ("1113", "insufficient_quota"):
        return "credit"
    if code in ("1301", "content_filter"):
        return "refused"
    if status in _FAULTS:
        return _FAULTS[status]
    if status >= 500:
        return "failing"
    return "redirect" if status < 400 else "content"


def _reason(body: bytes) -> tuple[str, str]:
    """The message and the code of an error in any of the usual forms."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
    for _ in range(2):
        if isinstance(found, dict) and isinstance(found.get("error"), dict | str):  # pyright: ignore
            found = found["error"]  # pyright: ignore
    if isinstance(found, str):
        return found, ""
    if not isinstance(found, dict):
        return "", ""
    members: dict[str, Any] = found  # pyright: ignore[reportUnknownVariableType]
    return str(members.get("message") or members.get("detail") or ""), str(members.get("code") or "")


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))  # pyright: ignore
    return ""


async def _read(content: "aiohttp.StreamReader") -> bytes:
    found = bytearray()
    async for piece in content.iter_chunked(64 * 1024):
        found += piece
        if len(found) > LONGEST_REPLY:
            raise VisionError("unreadable")
    return bytes(found)
