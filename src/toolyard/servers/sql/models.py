"""Language models over HTTP: the first model that answers fills in a form.

Owns Anthropic's messages API and OpenAI's chat completions, their failures, and how a reply is read. A
model's reply is untrusted: it is returned as plain data that the caller has to check.
"""

import asyncio
import json
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from .settings import Settings

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
STATEMENT = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
MAX_BRACES = 20
"""Places in a reply that are tried as the start of a JSON object."""


class UnreadableReplyError(Exception):
    """The model's reply does not fill in the form."""

    def __init__(self, is_refusal: bool = False) -> None:
        super().__init__("refused" if is_refusal else "unreadable")
        self.is_refusal = is_refusal


class ModelForm(Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    statement: str
    """The field that a reply of plain SQL fills in."""

    @property
    def fields(self) -> set[str]:
        return set(self.schema["properties"])


def read_reply(text: str, form: ModelForm) -> dict[str, Any]:
    """Finds an object with a field of the form anywhere in the text, or plain SQL."""
    decoder = json.JSONDecoder()
    for at in _places(text):
        try:
            found = decoder.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and form.fields & set(cast(dict[str, Any], found)):
            return cast(dict[str, Any], found)
    fenced = FENCED.search(text)
    statement = fenced[1] if fenced else text
    if STATEMENT.match(statement):
        return {form.statement: statement.strip()}
    raise UnreadableReplyError


def _places(text: str) -> list[int]:
    return [found.start() for found in re.finditer(r"\{", text)][:MAX_BRACES]


MAX_TOKENS = 1_000


class AnthropicApi:
    url = "https://api.anthropic.com"
    path = "/v1/messages"
    variable = "ANTHROPIC_API_KEY"
    model = "claude-haiku-4-5-20251001"
    fallback_model = "claude-sonnet-4-5-20250929"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def body(self, model: str, system: str, text: str, form: ModelForm) -> dict[str, Any]:
        return {
            "model": model,
            "max_tokens": MAX_TOKENS,
            "system": system,
            "messages": [{"role": "user", "content": text}],
            "tools": [{"name": form.name, "description": form.description, "input_schema": form.schema}],
            "tool_choice": {"type": "tool", "name": form.name},
        }

    def answer(self, reply: Any, form: ModelForm) -> dict[str, Any]:
        message = _typed(reply, _Message)
        if message.stop_reason == "max_tokens":  # a truncated statement may mean something else
            raise UnreadableReplyError
        for block in message.content:
            if block.type == "tool_use" and block.name == form.name:
                return block.input
        if message.stop_reason == "refusal":
            raise UnreadableReplyError(is_refusal=True)
        return read_reply("\n".join(block.text for block in message.content if block.type == "text"), form)


class OpenAiApi:
    url = "https://api.openai.com/v1"
    path = "/chat/completions"
    variable = "OPENAI_API_KEY"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, model: str, system: str, text: str, form: ModelForm) -> dict[str, Any]:
        # No token limit and no temperature: no name or value works with all servers.
        wanted = msgspec.json.encode(form.schema).decode()
        system = f"{system}\n\n{form.description} Answer with one JSON object and nothing else: {wanted}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return {"model": model, "messages": messages}

    def answer(self, reply: Any, form: ModelForm) -> dict[str, Any]:
        choices = _typed(reply, _Completion).choices
        if not choices:
            raise UnreadableReplyError
        message = choices[0].message
        if message.refusal:
            raise UnreadableReplyError(is_refusal=True)
        return read_reply(message.content or "", form)


class _Block(Struct):
    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] = {}


class _Message(Struct):
    content: list[_Block]
    stop_reason: str | None = None


class _ChatMessage(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _ChatMessage


class _Completion(Struct):
    choices: list[_Choice]


def _typed(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise UnreadableReplyError from None


LONGEST_ANSWER = 2**20
Fault = Literal[
    "key", "busy", "unknown_model", "failing", "slow", "unreachable", "unreadable", "refused", "status"
]
_SAME_FOR_ALL: tuple[Fault, ...] = ("key", "unreachable")
"""Another model at the same URL would fail in the same way."""
_WORTH_A_SECOND_TRY: tuple[Fault, ...] = ("failing", "unreadable")


class FormFillingError(Exception):
    """No model has answered; describes the failure of the last one."""

    def __init__(self, model: str, fault: Fault, detail: str = "") -> None:
        super().__init__(f"{model}: {fault} {detail}".strip())
        self.model = model
        self.fault: Fault = fault
        self.detail = detail
        """A number of seconds or a status; never text from the API."""


class ModelApi(Protocol):
    """The requests and replies of one API."""

    url: str
    path: str
    variable: str
    """The environment variable with the key."""

    def headers(self, key: str) -> dict[str, str]: ...
    def body(self, model: str, system: str, text: str, form: ModelForm) -> dict[str, Any]: ...
    def answer(self, reply: Any, form: ModelForm) -> dict[str, Any]: ...


class ModelEndpoint(Struct, frozen=True):
    """An API and the models to ask there, in order."""

    url: str
    key: str
    models: tuple[str, ...]
    seconds: float


class ModelClient:
    def __init__(self, endpoint: ModelEndpoint, api: ModelApi) -> None:
        self._endpoint = endpoint
        self._api = api
        self._session: aiohttp.ClientSession | None = None

    async def fill(self, form: ModelForm, system: str, text: str) -> dict[str, Any]:
        """Returns the form as filled in by the first model that answers. Raises FormFillingError."""
        waiting = list(self._endpoint.models)
        tried: list[str] = []
        while True:
            model = waiting.pop(0)
            tried.append(model)
            try:
                return await self._ask(model, system, text, form)
            except FormFillingError as failure:
                if failure.fault in _SAME_FOR_ALL:
                    raise
                if not waiting and len(tried) == 1 and failure.fault in _WORTH_A_SECOND_TRY:
                    waiting.append(model)
                if not waiting:
                    raise

    async def _ask(self, model: str, system: str, text: str, form: ModelForm) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._endpoint.seconds):
                reply = await self._post(model, self._api.body(model, system, text, form))
        except TimeoutError:
            raise FormFillingError(model, "slow", f"{self._endpoint.seconds:g}") from None
        try:
            return self._api.answer(reply, form)
        except UnreadableReplyError as error:
            raise FormFillingError(model, "refused" if error.is_refusal else "unreadable") from None

    async def _post(self, model: str, body: dict[str, Any]) -> Any:
        import aiohttp  # 90 ms of CPU, and only for questions

        if self._session is None:
            # `_ask` limits the time of the whole request.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        headers = {"Content-Type": "application/json", **self._api.headers(self._endpoint.key)}
        url = self._endpoint.url.rstrip("/") + self._api.path
        try:
            # A redirect would send the key and the schema to another host.
            async with self._session.post(
                url, data=msgspec.json.encode(body), headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise _failed(model, response.status, response.headers.get("Retry-After", ""))
                return _decoded(model, await _read(response.content))
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise FormFillingError(model, "unreachable") from None

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
        raise FormFillingError(model, "unreadable") from None


def _failed(model: str, status: int, retry_after: str) -> FormFillingError:
    if status in (401, 403):
        return FormFillingError(model, "key", str(status))
    if status == 429:
        return FormFillingError(model, "busy", retry_after if retry_after.isdecimal() else "")
    if status == 404:
        return FormFillingError(model, "unknown_model", "404")
    return FormFillingError(model, "failing" if status >= 500 else "status", str(status))


def model_client(settings: Settings) -> ModelClient | None:
    """Returns None if no model is configured."""
    api: ModelApi = AnthropicApi() if settings.provider == "anthropic" else OpenAiApi()
    key = settings.model_key or os.environ.get(api.variable, "")
    models = _names(settings)
    # Self-hosted servers often need no key.
    if not models or not (key or settings.model_url):
        return None
    return ModelClient(ModelEndpoint(settings.model_url or api.url, key, models, settings.model_seconds), api)


def _names(settings: Settings) -> tuple[str, ...]:
    given: Sequence[str] = (settings.model, settings.fallback_model)
    if settings.provider == "anthropic" and not settings.model:
        given = (AnthropicApi.model, settings.fallback_model or AnthropicApi.fallback_model)
    return tuple(dict.fromkeys(name for name in given if name))
