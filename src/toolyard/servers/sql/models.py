"""Models over HTTP: a form is filled in by the first of them that can.

Owns the requests and their failures, not what is asked. What a model says is a stranger's text: it comes back
as plain data, and whoever uses it has to check it.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import Struct

from .dialogues import Anthropic, OpenAi
from .forms import Form, Unreadable
from .settings import Settings

if TYPE_CHECKING:
    import aiohttp

LONGEST_ANSWER = 2**20
Fault = Literal[
    "key", "busy", "unknown_model", "failing", "slow", "unreachable", "unreadable", "refused", "status"
]
_SAME_FOR_ALL: tuple[Fault, ...] = ("key", "unreachable")
"""What another model at the same address would meet as well."""
_WORTH_A_SECOND_TRY: tuple[Fault, ...] = ("failing", "unreadable")


class ModelFailed(Exception):
    """No model has answered; of the last one that was asked."""

    def __init__(self, model: str, fault: Fault, detail: str = "") -> None:
        super().__init__(f"{model}: {fault} {detail}".strip())
        self.model = model
        self.fault: Fault = fault
        self.detail = detail
        """A number of seconds, a status: never words of the other side."""


class Dialogue(Protocol):
    """How an API is spoken to."""

    url: str
    path: str
    variable: str
    """Of the environment, with the key."""

    def headers(self, key: str) -> dict[str, str]: ...
    def body(self, model: str, system: str, text: str, form: Form) -> dict[str, Any]: ...
    def answer(self, reply: Any, form: Form) -> dict[str, Any]: ...


class Place(Struct, frozen=True):
    """Where models are, and which."""

    url: str
    key: str
    models: tuple[str, ...]
    seconds: float


class Models:
    def __init__(self, place: Place, dialogue: Dialogue) -> None:
        self._place = place
        self._dialogue = dialogue
        self._session: aiohttp.ClientSession | None = None

    async def fill(self, form: Form, system: str, text: str) -> dict[str, Any]:
        """A filled form, from the first model that gives one; ModelFailed when none does."""
        waiting = list(self._place.models)
        tried: list[str] = []
        while True:
            model = waiting.pop(0)
            tried.append(model)
            try:
                return await self._ask(model, system, text, form)
            except ModelFailed as failure:
                if failure.fault in _SAME_FOR_ALL:
                    raise
                if not waiting and len(tried) == 1 and failure.fault in _WORTH_A_SECOND_TRY:
                    waiting.append(model)
                if not waiting:
                    raise

    async def _ask(self, model: str, system: str, text: str, form: Form) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._place.seconds):
                reply = await self._post(model, self._dialogue.body(model, system, text, form))
        except TimeoutError:
            raise ModelFailed(model, "slow", f"{self._place.seconds:g}") from None
        try:
            return self._dialogue.answer(reply, form)
        except Unreadable as error:
            raise ModelFailed(model, "refused" if error.is_refusal else "unreadable") from None

    async def _post(self, model: str, body: dict[str, Any]) -> Any:
        import aiohttp  # 90 ms of CPU, and only for questions

        if self._session is None:
            # The time limit is ours, around all of a request.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        headers = {"Content-Type": "application/json", **self._dialogue.headers(self._place.key)}
        url = self._place.url.rstrip("/") + self._dialogue.path
        try:
            # A redirect would carry the key, and the schema, to somebody else.
            async with self._session.post(
                url, data=msgspec.json.encode(body), headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise _failed(model, response.status, response.headers.get("Retry-After", ""))
                return _decoded(model, await _read(response.content))
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ModelFailed(model, "unreachable") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(content: "aiohttp.StreamReader") -> bytes:
    found = bytearray()
    async for piece in content.iter_chunked(64 * 1024):
        found += piece
        if len(found) > LONGEST_ANSWER:
            break
    return bytes(found)


def _decoded(model: str, body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ModelFailed(model, "unreadable") from None


def _failed(model: str, status: int, retry_after: str) -> ModelFailed:
    if status in (401, 403):
        return ModelFailed(model, "key", str(status))
    if status == 429:
        return ModelFailed(model, "busy", retry_after if retry_after.isdecimal() else "")
    if status == 404:
        return ModelFailed(model, "unknown_model", "404")
    return ModelFailed(model, "failing" if status >= 500 else "status", str(status))


def configured(settings: Settings) -> Models | None:
    """None when there is nobody to ask."""
    dialogue: Dialogue = Anthropic() if settings.provider == "anthropic" else OpenAi()
    key = settings.model_key or os.environ.get(dialogue.variable, "")
    models = _names(settings)
    # Servers of one's own often want no key.
    if not models or not (key or settings.model_url):
        return None
    return Models(Place(settings.model_url or dialogue.url, key, models, settings.model_seconds), dialogue)


def _names(settings: Settings) -> tuple[str, ...]:
    given: Sequence[str] = (settings.model, settings.fallback_model)
    if settings.provider == "anthropic" and not settings.model:
        given = (Anthropic.model, settings.fallback_model or Anthropic.fallback_model)
    return tuple(dict.fromkeys(name for name in given if name))
