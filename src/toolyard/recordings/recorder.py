"""Records traffic as it passes: with servers by `RecordingUpstream`, with a model by `RecordingTransport`.

It stands directly in front of each upstream, below retries and limits and above the eras: so every attempt
is seen, with the names and arguments that the server gets, in one form for servers of every kind.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..agents.backends.base import ModelError, ModelHttpRequest, ModelHttpResponse, ModelTransport
from ..bridge.translation import meta_of
from ..catalogue.items import KINDS
from ..config import Config, ServerConfig
from ..config.secrets import possible_secrets
from ..upstream.base import Forward, Outcome, Upstream, WrappedUpstream
from ..upstream.connection import GATEWAY_CALLER, Params, UpstreamInfo
from ..upstream.errors import UpstreamError
from ..wire.call import PREFIX, Call, Channel, StreamedResult
from ..wire.errors import INTERNAL_ERROR, McpError
from ..wire.messages import encode
from .format import (
    AnswerLine,
    GatewayLine,
    ModelChunkLine,
    ModelEndLine,
    ModelHeadLine,
    ModelRequestLine,
    NotificationLine,
    QuestionLine,
    RecordedError,
    RecordingWriter,
    RequestLine,
    ResponseLine,
    ServerLine,
)
from .matching import ResultIds
from .secrets import SecretRemover, secrets_of_process

MAX_RESULT = 64 * 2**20
"""A longer result is left out: the recording stays readable, and a replay says so."""
LONG = 256 * 1024
"""Longer ones are searched for secrets in a thread."""
DEFINITIONS = frozenset(kind.method for kind in KINDS)
SHOWN_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "gateway": ("view", "server", "dialects", "search_first", "name", "instructions", "locale", "page_size"),
    "search": ("limit", "list_found", "schema_tokens"),
    "results": (
        "shape",
        "max_bytes",
        "max_items",
        "max_lines",
        "bounded",
        "preview_items",
        "preview_chars",
        "compact",
        "exempt",
    ),
}
"""What decides how a client sees the servers, by table of the configuration."""
SERVER_SETTINGS = ("description", "allow", "deny", "rename", "pinned", "results")
_VOLATILE_META = ("progressToken", "traceparent", "tracestate", "baggage")
_MODEL_REQUEST_HEADERS = ("content-type", "anthropic-version", "anthropic-beta")
_MODEL_RESPONSE_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id")
MAX_FAILED = 64


class TrafficRecorder:
    """Writes the traffic of one command, without its secrets."""

    def __init__(self, writer: RecordingWriter, secrets: SecretRemover | None = None) -> None:
        self._writer = writer
        self.secrets = secrets or SecretRemover(secrets_of_process())
        self._states: dict[str, str] = {}
        self.today = writer.today
        self._ids = ResultIds(writer.salt)

    # What the gateway is given

    def configured(self, config: Config) -> None:
        """A gateway is built from this configuration."""
        self.secrets.add(*possible_secrets(config))
        if config.env_file is not None:  # the process has got more variables
            self.secrets.add(*secrets_of_process())
        settings = {table: _changed(getattr(config, table), names) for table, names in SHOWN_SETTINGS.items()}
        cleaned = self.secrets.json(settings, definitions=True)
        servers = tuple(server.name for server in config.servers)
        self._writer.add(lambda seq, t: GatewayLine(seq=seq, t=t, servers=servers, settings=cleaned))

    def wrap(self, config: ServerConfig, upstream: Upstream) -> Upstream:
        """The upstream, with its traffic recorded."""
        self.secrets.add(*possible_secrets(config))
        return RecordingUpstream(config, upstream, self)

    def new_id(self, tool: str) -> str:
        """The id of a stored result."""
        return self._ids(tool)

    def model(self, transport: ModelTransport) -> "RecordingTransport":
        return RecordingTransport(transport, self)

    # What happened with a server

    def server(self, config: ServerConfig, info: UpstreamInfo) -> None:
        clean = self.secrets
        settings = clean.json(_changed(config, SERVER_SETTINGS), definitions=True)
        told = clean.raw(info.info, definitions=True)
        capabilities = clean.json(info.capabilities, definitions=True)
        instructions = None if info.instructions is None else clean.text(info.instructions, definitions=True)
        self._writer.add(
            lambda seq, t: ServerLine(
                seq=seq,
                t=t,
                server=config.name,
                version=info.version,
                info=told,
                capabilities=capabilities,
                instructions=instructions,
                settings=settings,
            )
        )

    def request(self, server: str, forward: Forward, retry_of: int | None) -> int:
        call = forward.call
        for secret in (forward.secrets or call.secrets or {}).values():
            self.secrets.add(secret.reveal())
        params = self._params(forward)
        return self._writer.add(
            lambda seq, t: RequestLine(
                seq=seq,
                t=t,
                server=server,
                method=forward.method,
                name=forward.name,
                params=params,
                era=call.caller.era,
                by="gateway" if call.caller is GATEWAY_CALLER else "client",
                retry_of=UNSET if retry_of is None else retry_of,
            )
        )

    def _params(self, forward: Forward) -> Raw:
        params: dict[str, Any] = {key: value for key, value in forward.params.items() if key != "_meta"}
        if "_meta" in forward.params:
            with suppress(McpError):  # no object; whoever reads it will say so
                kept = _lasting(meta_of(forward.params))
                if kept:
                    params["_meta"] = kept
        if (state := params.get("requestState")) is not None:
            params["requestState"] = self._states.get(bytes(state).decode(), state)
        return self.secrets.raw(encode(params))

    def notification(self, of: int, method: str, params: Any) -> None:
        cleaned = self._clean(_without_tokens(params))
        self._writer.add(lambda seq, t: NotificationLine(seq=seq, t=t, of=of, method=method, params=cleaned))

    def question(self, of: int, method: str, params: Any) -> int:
        cleaned = self._clean(params)
        return self._writer.add(
            lambda seq, t: QuestionLine(seq=seq, t=t, of=of, method=method, params=cleaned)
        )

    def answer(self, of: int, result: Raw | McpError) -> None:
        found = UNSET if isinstance(result, McpError) else self._clean(result)
        error = self._error(result) if isinstance(result, McpError) else UNSET
        self._writer.add(lambda seq, t: AnswerLine(seq=seq, t=t, of=of, result=found, error=error))

    async def result(self, of: int, method: str, outcome: Outcome) -> None:
        if outcome.size > MAX_RESULT:
            self._writer.add(lambda seq, t: ResponseLine(seq=seq, t=t, of=of, left_out=outcome.size))
            return
        body = outcome.body
        if isinstance(body, StreamedResult):
            # It can be read more than once, and whoever gets it closes it.
            data = b"".join([chunk async for chunk in body.chunks()])
        else:
            data = bytes(body)
        if outcome.kind == "input_required":
            data = self._with_own_state(data)
        definitions = method in DEFINITIONS
        if len(data) > LONG:
            cleaned = await asyncio.to_thread(self.secrets.raw, data, definitions=definitions)
        else:
            cleaned = self.secrets.raw(data, definitions=definitions)
        self._writer.add(lambda seq, t: ResponseLine(seq=seq, t=t, of=of, result=cleaned))

    def _with_own_state(self, data: bytes) -> bytes:
        """Name the state of a call that waits for input: it is sealed, and so never the same twice."""
        members = msgspec.json.decode(data, type=dict[str, Raw])
        state = members.get("requestState")
        if state is None:
            return data
        name = self._states.setdefault(bytes(state).decode(), f"state-{len(self._states) + 1}")
        return encode({**members, "requestState": name})

    def failure(self, of: int, error: McpError) -> None:
        found = self._error(error)
        self._writer.add(lambda seq, t: ResponseLine(seq=seq, t=t, of=of, error=found))

    def cancelled(self, of: int) -> None:
        self._writer.add(lambda seq, t: ResponseLine(seq=seq, t=t, of=of, cancelled=True))

    def _error(self, error: McpError) -> RecordedError:
        kind = type(error).__name__ if isinstance(error, UpstreamError) else ""
        message = error.reason if isinstance(error, UpstreamError) else error.message
        data = None if kind else self.secrets.json(msgspec.json.decode(encode(error.data)))
        return RecordedError(error.code, self.secrets.text(message), data, kind)

    def _clean(self, value: Any) -> Raw:
        return self.secrets.raw(bytes(value) if isinstance(value, Raw) else encode(value))

    # What happened with a model

    def model_request(self, request: ModelHttpRequest) -> int:
        for name, value in request.headers.items():
            if name.lower() not in _MODEL_REQUEST_HEADERS and (
                "key" in name.lower() or "auth" in name.lower()
            ):
                self.secrets.add(value, value.partition(" ")[2])
        headers = _chosen(request.headers, _MODEL_REQUEST_HEADERS)
        url = self.secrets.text(request.url)
        try:
            body, text = self.secrets.raw(request.body), ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body, text = UNSET, self.secrets.text(request.body.decode(errors="replace"))
        return self._writer.add(
            lambda seq, t: ModelRequestLine(seq=seq, t=t, url=url, headers=headers, body=body, text=text)
        )

    def model_head(self, of: int, response: ModelHttpResponse) -> None:
        headers = _chosen(response.headers, _MODEL_RESPONSE_HEADERS)
        status = response.status
        self._writer.add(lambda seq, t: ModelHeadLine(seq=seq, t=t, of=of, status=status, headers=headers))

    def model_chunk(self, of: int, data: bytes) -> None:
        text = self.secrets.text(data.decode(errors="replace"), definitions=True)
        self._writer.add(lambda seq, t: ModelChunkLine(seq=seq, t=t, of=of, text=text))

    def model_end(self, of: int, error: ModelError | None = None, *, cancelled: bool = False) -> None:
        kind, text = ("", "") if error is None else (error.kind, self.secrets.text(error.message))
        self._writer.add(
            lambda seq, t: ModelEndLine(seq=seq, t=t, of=of, error=text, error_kind=kind, cancelled=cancelled)
        )


def _changed(settings: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named fields that are not as the form has them by default."""
    defaults = dict(zip(settings.__struct_fields__, _defaults(settings), strict=True))
    found = {name: getattr(settings, name) for name in names if getattr(settings, name) != defaults[name]}
    return msgspec.to_builtins(found)


def _defaults(settings: Any) -> list[Any]:
    return [
        field.default
        if field.default is not msgspec.NODEFAULT
        else field.default_factory()
        if field.default_factory is not msgspec.NODEFAULT
        else UNSET
        for field in msgspec.structs.fields(settings)
    ]


def _lasting(meta: Params) -> Params:
    """Without the members that say who asks and how, which are others in a replay."""
    return {
        key: value for key, value in meta.items() if not (key.startswith(PREFIX) or key in _VOLATILE_META)
    }


def _without_tokens(params: Any) -> Any:
    """Without the tokens that tie a notification to its request, which are others in a replay."""
    members: Any = msgspec.json.decode(bytes(params) if isinstance(params, Raw) else encode(params))
    if isinstance(members, dict):
        members.pop("progressToken", None)  # pyright: ignore[reportUnknownMemberType]
        members.pop("_meta", None)  # pyright: ignore[reportUnknownMemberType]
    return members  # pyright: ignore[reportUnknownVariableType]


def _chosen(headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() in names}


class _RecordingChannel:
    """A call's channel; what passes on it is recorded first."""

    __slots__ = ("_channel", "_of", "_recorder")

    def __init__(self, channel: Channel, recorder: TrafficRecorder, of: int) -> None:
        self._channel = channel
        self._recorder = recorder
        self._of = of

    async def notify(self, method: str, params: Any) -> None:
        self._recorder.notification(self._of, method, params)
        await self._channel.notify(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        number = self._recorder.question(self._of, method, params)
        try:
            answer = await self._channel.ask(method, params)
        except McpError as error:
            self._recorder.answer(number, error)
            raise
        self._recorder.answer(number, answer)
        return answer

    async def release(self, retry_ms: int | None) -> None:
        await self._channel.release(retry_ms)


class RecordingUpstream(WrappedUpstream):
    def __init__(self, config: ServerConfig, inner: Upstream, recorder: TrafficRecorder) -> None:
        self._config = config
        super().__init__(inner)
        self._recorder = recorder
        self._told: UpstreamInfo | None = None
        self._failed: dict[int, tuple[Forward, int]] = {}
        """Requests that were not answered, by identity: a retry sends the same object again."""

    async def send(self, forward: Forward) -> Outcome:
        recorder = self._recorder
        before = self._failed.pop(id(forward), None)
        number = recorder.request(self._config.name, forward, None if before is None else before[1])
        channel = _RecordingChannel(forward.call.channel, recorder, number)
        try:
            outcome = await self._inner.send(replace(forward, call=replace(forward.call, channel=channel)))
        except McpError as error:
            recorder.failure(number, error)
            if isinstance(error, UpstreamError):
                self._remember(forward, number)
            raise
        except asyncio.CancelledError:
            recorder.cancelled(number)
            raise
        except Exception as error:
            recorder.failure(number, McpError(INTERNAL_ERROR, f"{type(error).__name__} in the gateway"))
            raise
        await recorder.result(number, forward.method, outcome)
        return outcome

    def _remember(self, forward: Forward, number: int) -> None:
        while len(self._failed) >= MAX_FAILED:
            del self._failed[next(iter(self._failed))]
        self._failed[id(forward)] = forward, number

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        info = await self._inner.info(call)
        if info != self._told:
            self._told = info
            self._recorder.server(self._config, info)
        return info


class RecordingTransport:
    """A model's API, with its requests and answers recorded."""

    def __init__(self, inner: ModelTransport, recorder: TrafficRecorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def post(self, request: ModelHttpRequest) -> AbstractAsyncContextManager[ModelHttpResponse]:
        return self._post(request)

    @asynccontextmanager
    async def _post(self, request: ModelHttpRequest) -> AsyncGenerator[ModelHttpResponse, None]:
        recorder = self._recorder
        number = recorder.model_request(request)
        try:
            async with self._inner.post(request) as response:
                recorder.model_head(number, response)
                yield _RecordedResponse(response, recorder, number)
        except ModelError as error:
            recorder.model_end(number, error)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            recorder.model_end(number, cancelled=True)
            raise
        recorder.model_end(number)

    async def close(self) -> None:
        await self._inner.close()


class _RecordedResponse:
    def __init__(self, inner: ModelHttpResponse, recorder: TrafficRecorder, number: int) -> None:
        self._inner = inner
        self._recorder = recorder
        self._number = number

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Recorded in whole events, so that a secret is not cut in two where the network did it."""
        held = b""
        is_stream = "event-stream" in self._inner.headers.get("content-type", "")
        try:
            async for chunk in self._inner.chunks():
                held += chunk
                end = held.rfind(b"\n\n") + 2 if is_stream else 0
                if end > 1:
                    self._recorder.model_chunk(self._number, held[:end])
                    held = held[end:]
                yield chunk
        finally:
            if held:
                self._recorder.model_chunk(self._number, held)
