"""Passes small results through; replaces big ones with an answer that is clearly cheaper for a model.

Owns the decision (`passes`, for nearly every result all there is to it), the policy of each tool, the
threads for long work, the `_fields` option, and results inside tasks. A result that its tool has bounded
for a model passes too, and so do definitions of tools. The limits are in `limits`; measuring, summary,
preview and storage of a big result have modules of their own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..artifacts.store import Artifact, ArtifactStore, StoredArtifact
from ..catalogue.catalogue import CatalogueEntry
from ..config import Config
from ..languages import said
from ..telemetry.events import LOG_ALONE, EventRecorder, ResultShortened, Upload, UploadFailed
from ..wire.call import Caller, StreamedResult
from ..wire.messages import encode
from ..wire.types import TaskState
from .formats.definitions import definitions_in
from .formats.json_parts import DEEPEST_ENVELOPE, value_of, values_in
from .formats.tables import as_records
from .formats.truncation import select_fields, size_of
from .limits import (
    NO_LIMIT,
    NO_OPTIONS,
    Limits,
    ResultOptions,
    declared_bound,
    limits_for,
    own_bound,
    own_options,
)
from .measure import OversizedPart, estimate_tokens_in, find_oversized, is_big, join_parts
from .payload import MEDIA, NOTHING, Payload, PayloadPart, parse_payload
from .preview import (
    WORTHWHILE_SHARE,
    ContentForms,
    RemainingContent,
    as_tool_result,
    preview_answer,
    token_cost,
)
from .storage import (
    JSON_TYPE,
    LONGEST_ESCAPE,
    TEXT_TYPE,
    NotTextError,
    StoredResult,
    TextStream,
    is_surely_big,
    pieces_of,
    store_result,
)
from .summary import ResultSummary, summarize, summarize_unread

T = TypeVar("T")

ALWAYS_PASS_BYTES = 200
"""Nothing that could replace a result this short costs half of its tokens."""
MAX_CACHED_POLICIES = 10_000
IN_A_THREAD = 256 * 1024
THREADS = 4
SECONDS = 20.0
"""The time to read one result. After that it is stored unread, and the answer tells only its size."""
MOST_VALUES = 2_000_000
"""`_fields` is not applied to results with more values: it would decode them all at once."""
UNTOUCHED = ("input_required", "task")
_SOME_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_TYPICAL_STORED = StoredResult(
    "local",
    StoredArtifact(
        Artifact(_SOME_ID, "", 10_000, JSON_TYPE, "", 0.0, 0.0),
        "local",
        f"mcp/{_SOME_ID}.json",
        f"https://gateway.example.com/results/{_SOME_ID * 4}",
        expires_at="2026-01-01T00:00:00Z",
    ),
)
"""Stands for a stored result until the first one is stored."""


class ResultPolicy(Struct, frozen=True):
    """The rules for the results of one tool."""

    name: str
    """The tool's full name."""
    server: str
    limits: Limits | None
    """None: results pass as they are."""
    passes_up_to: int = 0
    """Results up to this size pass: they are tiny, or the tool bounds its results itself."""
    own_options: tuple[str, ...] = ()
    """Parameters of the tool that are called like our options; they stay in the arguments."""


class ResultPolicies:
    """The policy of each tool, worked out once for each catalogue entry."""

    def __init__(self, config: Config) -> None:
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self._servers = {server.name: server for server in config.servers}
        self._shape_always = (
            config.gateway.view in ("auto", "search", "index") and "suna" in config.gateway.dialects
        )
        self._known: dict[str, tuple[CatalogueEntry, ResultPolicy]] = {}

    def of(self, entry: CatalogueEntry) -> ResultPolicy:
        known = self._known.get(entry.name)
        if known is not None and known[0] is entry:
            return known[1]
        if len(self._known) >= MAX_CACHED_POLICIES:
            self._known.clear()
        policy = self._policy(entry)
        self._known[entry.name] = (entry, policy)
        return policy

    def _policy(self, entry: CatalogueEntry) -> ResultPolicy:
        name, server, item = entry.name, entry.server, entry.item
        own = own_options(item.rest)
        config = self._servers.get(server)
        if config is None:
            return ResultPolicy(name, server, None, own_options=own)
        limits = limits_for(self._config.results, config.results, item.own, name, self._shape_always)
        if limits is None or limits.shape_always:
            return ResultPolicy(name, server, limits, own_options=own)
        return ResultPolicy(name, server, limits, max(ALWAYS_PASS_BYTES, own_bound(item.rest, limits)), own)


class ShapeRequest(Struct, frozen=True):
    """For whom a result is, and what the caller asked of it."""

    caller: Caller
    policy: ResultPolicy
    hint: str = ""
    """How to read the rest of a stored result: {id} stands for its id, {url} for a word about its link."""
    options: ResultOptions = NO_OPTIONS

    @property
    def limits(self) -> Limits | None:
        limits, max_bytes = self.policy.limits, self.options.max_bytes
        return limits if max_bytes is None else (limits or Limits()).by_bytes_alone(max_bytes)


class UsageRecorder(Protocol):
    def add(self, tenant: str, agent: str, server: str, tool: str, received: int, sent: int) -> None:
        """One result of a tool: the bytes that came and the bytes that went on, as a model sees them."""
        ...


class SizeRecorder(Protocol):
    def note(self, tool: str, size: int) -> None:
        """Records the size of one result of a tool."""
        ...


class ResultShaper:
    def __init__(
        self,
        store: ArtifactStore,
        usage: UsageRecorder,
        sizes: SizeRecorder,
        seconds: float = SECONDS,
        events: EventRecorder = LOG_ALONE,
    ) -> None:
        self._events = events
        self._artifacts = store
        self._usage = usage
        self._sizes = sizes
        self._typical = _TYPICAL_STORED
        self._seconds = seconds
        # Separate threads: work that timed out still runs to its end, and must not block others.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="toolyard-results")

    def passes(self, caller: Caller, policy: ResultPolicy, body: bytes) -> bool:
        """Whether a result surely fits; then it is recorded too. If not, `fit` decides."""
        limits = policy.limits
        if limits is not None and len(body) > policy.passes_up_to and not surely_fits(body, limits):
            return False
        size = estimate_visible_bytes(body, caller)
        principal = caller.identity.principal
        self._usage.add(principal.owner, principal.agent, policy.server, policy.name, size, size)
        self._sizes.note(policy.name, size)
        return True

    async def fit(self, result: Any, request: ShapeRequest) -> Any:
        """The result itself, or a smaller answer in its place."""
        if isinstance(result, Raw):
            fitting, received = await self._shape_bytes(result, request)
        elif isinstance(result, StreamedResult):
            fitting, received = await self._shape_file(result, request)
        else:
            return result
        sent = received if fitting is result else estimate_visible_bytes(bytes(fitting), request.caller)
        caller, policy = request.caller, request.policy
        principal = caller.identity.principal
        self._usage.add(principal.owner, principal.agent, policy.server, policy.name, received, sent)
        self._sizes.note(policy.name, received)
        if fitting is not result:
            self._events.note(
                ResultShortened(
                    server=policy.server,
                    tool=policy.name,
                    approx_size_bytes_before=received,
                    approx_size_bytes_after=sent,
                )
            )
        return fitting

    async def _shape_bytes(self, result: Raw, request: ShapeRequest) -> tuple[Raw, int]:
        """Also returns the size of the result."""
        body = bytes(result)
        if request.limits is None and not request.options.fields:
            return result, estimate_visible_bytes(body, request.caller)
        try:
            fitting, received = await self._shape_body(body, request)
        except TimeoutError:
            return await self._store_unread(pieces_of(body), len(body), request), len(body)
        return fitting or result, received

    async def _shape_file(self, result: StreamedResult, request: ShapeRequest) -> tuple[Any, int]:
        """Also returns the size of the result. Closes the result unless it is returned."""
        limits, fields, received = request.limits, request.options.fields, result.size
        if limits is None and not fields:
            return result, received
        try:
            fitting = None
            is_bounded = result.size <= request.policy.passes_up_to * LONGEST_ESCAPE
            if limits is not None and not fields and not is_bounded and is_surely_big(result, limits):
                fitting = await self._shape_text_stream(result, request, limits)
            if fitting is None:
                fitting, received = await self._shape_collected(result, request)
        except BaseException:
            result.close()
            raise
        if fitting is None:
            return result, received
        result.close()
        return fitting, received

    async def _shape_collected(self, result: StreamedResult, request: ShapeRequest) -> tuple[Raw | None, int]:
        try:
            return await self._shape_body(await _collected(result), request)
        except TimeoutError:
            return await self._store_unread(result.chunks(), result.size, request), result.size

    async def _shape_text_stream(
        self, result: StreamedResult, request: ShapeRequest, limits: Limits
    ) -> Raw | None:
        """Store a long text while it is read, in constant memory. None if the result is not a text."""
        stream = TextStream(result)
        try:
            stored = await self._store(TEXT_TYPE, stream.pieces(), request)
        except NotTextError:
            return None
        remaining = RemainingContent(stream.blocks, stream.meta, stream.is_error)
        return _replace_all(_Replacement(stream.summary(), stored, request, limits), remaining, request)

    async def _shape_body(self, body: bytes | bytearray, request: ShapeRequest) -> tuple[Raw | None, int]:
        """None if the result can pass as it is. Also returns the size of the result."""
        size, received = len(body), estimate_visible_bytes(body, request.caller)
        payload = await self._run(size, parse_payload, body)
        del body  # frees the memory of a long one before its parts are worked on
        return await self._shape_payload(payload, request, size), received

    async def _shape_payload(self, payload: Payload, request: ShapeRequest, size: int) -> Raw | None:
        """None if the result can pass as it is."""
        limits = request.limits
        if request.caller.era == "modern" and payload.kind in UNTOUCHED:
            return None
        if request.options.fields and not payload.is_error:
            projected = await self._project(payload, request)
            if projected is not None:
                return projected
        if limits is None or _is_bounded(payload, request, limits):
            return None
        # An error is there to be read: it is cut only if it has too many bytes.
        allowed = limits.by_bytes_alone() if payload.is_error else limits
        parts = await self._run(size, find_oversized, payload, allowed)
        replacements = {part.form: await self._shape_part(part, payload, request, limits) for part in parts}
        if not any(replacements.values()):
            return None
        return _replace_forms(replacements, parts[0].other_blocks, payload, request)

    async def _shape_part(
        self, part: OversizedPart, payload: Payload, request: ShapeRequest, limits: Limits
    ) -> "_Replacement | None":
        """None if a replacement is not clearly cheaper, or if the part defines tools and is not too long."""
        whole, max_bytes = part.whole, request.options.max_bytes
        defined = await self._run(len(whole.body), definitions_in, whole.body) if whole.is_json else None
        if defined is not None:
            bound = max(limits.max_bytes, limits.max_bounded_bytes) if max_bytes is None else max_bytes
            if len(whole.body) <= bound:
                return None
            room = max(bound // 2, limits.max_bytes) if max_bytes is None else bound
            limits = replace(limits, max_bytes=room)
        summary = await self._run(len(whole.body), summarize, whole)
        summary = replace(summary, definitions=defined)
        if payload.uri:
            summary.fields["uri"] = payload.uri[:200]
        most = NO_LIMIT if limits.shape_always else part.tokens
        # A caller who asks for few bytes wants anything that is smaller.
        share = WORTHWHILE_SHARE if max_bytes is None and defined is None else 1.0
        if _Replacement(summary, self._typical, request, limits).cost > share * most:
            return None
        kind = JSON_TYPE if whole.is_json else TEXT_TYPE
        stored = await self._store(kind, pieces_of(whole.body), request)
        if stored.location is not None:
            self._typical = stored
        replacement = _Replacement(summary, stored, request, limits)
        return replacement if replacement.cost <= most else None  # some stores have long links

    async def _project(self, payload: Payload, request: ShapeRequest) -> Raw | None:
        """The result with the fields of `_fields` alone; None if it has none of them."""
        whole = payload.structured or join_parts(payload)
        fields, limits = request.options.fields, request.limits
        value = await self._run(len(whole.body), _selected_value, whole, fields)
        if value is None:
            return None
        part = PayloadPart(encode(value), True)
        remaining = RemainingContent((*payload.links, *payload.media), payload.meta)
        answer = {"tool_name": request.policy.name, "truncated": False, "fields": fields, "result": value}
        if limits is not None and (is_big(part, limits) or size_of(answer) > limits.max_bytes):
            oversized = OversizedPart(part, estimate_tokens_in(part.body))
            replacement = await self._shape_part(oversized, payload, request, limits)
            if replacement is not None:
                return _replace_all(replacement, remaining, request)
        return as_tool_result(ContentForms.of(answer), remaining, None, request.caller.era)

    async def _store_unread(self, pieces: Any, size: int, request: ShapeRequest) -> Raw:
        """Replaces a result that takes too long to read."""
        stored = await self._store(JSON_TYPE, pieces, request)
        replacement = _Replacement(summarize_unread(size), stored, request, request.limits or Limits())
        return _replace_all(replacement, RemainingContent(), request)

    async def _run(self, size: int, work: Callable[..., T], *on: Any) -> T:
        """Long results are worked on in a thread. TimeoutError if that takes too long."""
        if size <= IN_A_THREAD:
            return work(*on)
        context = copy_context()  # the language in which it is told
        running = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work, *on))
        return await asyncio.wait_for(running, self._seconds)

    async def _store(self, kind: str, pieces: Any, request: ShapeRequest) -> StoredResult:
        policy, place = request.policy, self._artifacts.type
        stored = await store_result(self._artifacts, request.caller.owner, policy.name, kind, pieces)
        about = {"server": policy.server, "what": policy.name}
        if stored.location is None:
            self._events.note(UploadFailed(**about, where=place, error=stored.error))
        else:
            where, size = stored.location.place, stored.location.artifact.size
            self._events.note(Upload(**about, where=where, bytes=size))
        return stored


HEAD = 1000
_WRAPPED = b'{"result":"'
"""How most SDKs repeat a text as structured content."""


class _Block(Struct, gc=False):
    type: str
    text: Raw = NOTHING


class _Result(Struct, rename="camel", gc=False):
    content: list[_Block] = []
    structured_content: Raw = NOTHING
    is_error: bool = False


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode


def surely_fits(body: bytes, limits: Limits) -> bool:
    """Whether a result is within all limits. False means that it has to be measured."""
    if len(body) > limits.max_bytes:
        return False
    # Most results with many commas have them from the beginning.
    if body.count(b",", 0, HEAD) < limits.max_items and body.count(b",") < limits.max_items:
        breaks = body.count(b"\\n")
        # Some servers escape line breaks and commas as \u00XX: those have to be decoded.
        if breaks < limits.max_lines and breaks < limits.max_items and b"\\u00" not in body:
            return True
    try:
        return _result_fits(_decode_result(body), limits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _result_fits(result: _Result, limits: Limits) -> bool:
    """Counts items, keys and lines; the bytes are few enough."""
    if result.is_error:
        return True
    literal = b""
    for block in result.content:
        if block.type == "text" and not literal:
            literal = bytes(block.text)
        elif block.type not in MEDIA:
            return False
    if literal and not _text_fits(_decode_text(literal), limits):
        return False
    structured = bytes(result.structured_content)
    if not structured:
        return True
    if not structured.startswith(_WRAPPED):
        return _value_fits(structured, limits)
    # The same bytes are the text that fits; any other have to be measured.
    return structured[len(_WRAPPED) - 1 : -1] == literal


def _text_fits(text: str, limits: Limits) -> bool:
    first = text[:1]
    if first == "[":
        return len(_decode_items(text)) <= limits.max_items
    if first == "{":
        return _container_fits(text.encode(), limits)
    # A text that begins with white space may be JSON too.
    return not first.isspace() and text.count("\n") < min(limits.max_lines, limits.max_items)


def _value_fits(body: bytes, limits: Limits) -> bool:
    if body[:1] not in (b"[", b"{"):
        return body[:1] != b'"'  # numbers have neither items nor lines
    return _container_fits(body, limits)


def _container_fits(body: bytes, limits: Limits, depth: int = DEEPEST_ENVELOPE) -> bool:
    """A list of few items, or an object of few members, none of which has more: it may be an envelope."""
    if body[:1] == b"[":
        return len(_decode_items(body)) <= limits.max_items
    members = _decode_members(body)
    if len(members) > limits.max_items or depth == 0:
        return False
    inner = [bytes(raw) for raw in members.values()]
    if len(inner) == 1 and inner[0][:1] == b'"':
        return False  # perhaps a text, wrapped because structured content has to be an object
    return all(
        value.count(b",") < limits.max_items or _container_fits(value, limits, depth - 1)
        for value in inner
        if value[:1] in (b"[", b"{")
    )


READ_STRUCTURED = (
    "claude-code",
    "codex-mcp-client",
    "Visual Studio Code",
    "Visual Studio Code - Insiders",
)
"""The names of clients that show their model only the structured content of a result that has any."""

LONGEST_DECODED = 64 * 1024
_STRUCTURED, _TEXTS = b'"structuredContent":', b'"content":'
_NO_TEXTS = len(b'{"resultType": "complete", "content": [], ')


class _Forms(Struct, rename="camel", gc=False):
    content: Raw = NOTHING
    structured_content: Raw = NOTHING


_decode_forms = msgspec.json.Decoder(_Forms).decode


def reads_structured(caller: Caller) -> bool:
    return caller.client.name in READ_STRUCTURED


def estimate_visible_bytes(body: bytes | bytearray, caller: Caller) -> int:
    """`visible_bytes` within a few bytes, without decoding: results may be long."""
    at = body.find(_STRUCTURED)
    if at < 0:
        return len(body)
    if body.find(_TEXTS, 0, at) < 0:  # few servers send the structured content first
        return visible_bytes(body, caller) if len(body) <= LONGEST_DECODED else len(body) // 2
    return len(body) - at - len(_STRUCTURED) if at <= _NO_TEXTS or reads_structured(caller) else at


def visible_bytes(body: bytes | bytearray, caller: Caller) -> int:
    """The size of the form of a result that this client shows its model."""
    if _STRUCTURED not in body:
        return len(body)
    try:
        forms = _decode_forms(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return len(body)
    texts, structured = len(memoryview(forms.content)), len(memoryview(forms.structured_content))
    is_read = reads_structured(caller) or texts <= len(b"[]")
    return structured if is_read and bytes(memoryview(forms.structured_content)[:4]) != b"null" else texts


def _is_bounded(payload: Payload, request: ShapeRequest, limits: Limits) -> bool:
    """Whether the tool bounds its results for a model, and this one is within what we accept as bounded."""
    if request.options.max_bytes is not None or limits.shape_always:
        return False
    most = max(request.policy.passes_up_to, declared_bound(payload.meta, limits.max_bounded_bytes))
    texts = sum(len(text.body) for text in payload.texts)
    links = sum(len(memoryview(link)) for link in payload.links)
    structured = 0 if payload.structured is None else len(payload.structured.body)
    return max(texts, structured) + links <= most


class _Replacement:
    """The answer in place of a result, or of one of its forms."""

    def __init__(
        self, summary: ResultSummary, stored: StoredResult, request: ShapeRequest, limits: Limits
    ) -> None:
        name = request.policy.name
        self.body = preview_answer(name, summary, stored, limits, request.hint)
        self.link = stored.link(name)
        self.size: int = summary.fields["approx_size_bytes"]
        self.cost = token_cost(self.body, self.link)
        """In tokens."""

    def pointer(self) -> str:
        """The text beside the structured content, for a client that shows its model only the latter."""
        storage = self.body["storage"]
        hint = self.body.get("hint") or storage.get("resource") or storage.get("error", "")
        return said(
            f"The result has {self.size} bytes; structuredContent has a summary and a preview. {hint}",
            f"O resultado tem {self.size} bytes; structuredContent tem um resumo e uma prévia. {hint}",
        )


def _replace_all(replacement: _Replacement, remaining: RemainingContent, request: ShapeRequest) -> Raw:
    shape_always = request.limits is not None and request.limits.shape_always
    is_short = not remaining.is_error and not shape_always and reads_structured(request.caller)
    forms = ContentForms.of(replacement.body, replacement.pointer() if is_short else None)
    return as_tool_result(forms, remaining, replacement.link, request.caller.era)


def _replace_forms(
    replacements: Mapping[str, _Replacement | None],
    blocks: tuple[Raw, ...],
    payload: Payload,
    request: ShapeRequest,
) -> Raw | None:
    remaining = RemainingContent(blocks, payload.meta, payload.is_error)
    whole = replacements.get("all")
    if whole is not None:
        return _replace_all(whole, remaining, request)
    assert payload.as_sent is not None
    texts, structured = payload.as_sent.texts, payload.as_sent.structured
    if (replacement := replacements.get("text")) is not None:
        texts = ContentForms.of(replacement.body).texts
    if (replacement := replacements.get("structured")) is not None:
        structured = ContentForms.of(replacement.body).structured
    if not texts or not len(memoryview(structured)):
        return None
    # No link: with the form that stays as it is, the answer would be longer than the result.
    return as_tool_result(ContentForms(texts, structured), remaining, None, request.caller.era)


def _selected_value(whole: PayloadPart, fields: tuple[str, ...]) -> Any:
    if not whole.is_json or values_in(bytes(whole.body)) > MOST_VALUES:
        return None
    try:
        return select_fields(as_records(value_of(whole.body)), fields)
    except ValueError:
        return None


async def _collected(result: StreamedResult) -> bytearray:
    pieces = bytearray()
    async for chunk in result.chunks():
        pieces += chunk
    return pieces


REMEMBERED = 200
LONGEST_REMEMBERED = 64 * 1024

_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class TaskResults:
    """Shapes the results inside task states, each once: a client may ask for one state many times."""

    def __init__(self, shaper: ResultShaper) -> None:
        self._shaper = shaper
        self._shaped: OrderedDict[tuple[str, str], Raw] = OrderedDict()

    async def fit(self, state: Any, id: str, request: ShapeRequest) -> Any:
        """A task's state with its result shaped. `id` is the server's own id of the task."""
        if isinstance(state, StreamedResult):
            state = await _collect_state(state)
        if isinstance(state, TaskState):
            if state.result is UNSET:
                return state
            return replace(state, result=await self._once(state.result, id, request))
        members = _members(state)
        if "result" not in members:
            return state
        return Raw(encode({**members, "result": await self._once(members["result"], id, request)}))

    async def _once(self, result: Any, id: str, request: ShapeRequest) -> Raw:
        key = (request.policy.server, id)
        known = self._shaped.get(key)
        if known is not None:
            return known
        fitting: Raw = await self._shaper.fit(
            result if isinstance(result, Raw) else Raw(encode(result)), request
        )
        if len(memoryview(fitting)) <= LONGEST_REMEMBERED:
            self._shaped[key] = fitting
            while len(self._shaped) > REMEMBERED:
                self._shaped.popitem(last=False)
        return fitting


def _members(state: Any) -> dict[str, Any]:
    """The members of a state that is JSON, decoded or not."""
    if isinstance(state, Mapping):
        return dict(cast(Mapping[str, Any], state))
    if not isinstance(state, Raw) or b'"result"' not in bytes(state):
        return {}
    try:
        return dict(_decode(state))
    except (msgspec.DecodeError, RecursionError):
        return {}


async def _collect_state(state: StreamedResult) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in state.chunks()]))
    finally:
        state.close()
