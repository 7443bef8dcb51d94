"""Passes small results through; replaces big ones with an answer that is clearly cheaper for a model.

Owns the decision, the threads for long work, the `_fields` option, and results inside tasks. What a
tool has bounded for a model itself passes too.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ..artifacts.store import Artifact, ArtifactStore, StoredArtifact
from ..wire.call import Caller, StreamedResult
from ..wire.messages import encode
from ..wire.types import TaskState
from .formats.json_parts import value_of, values_in
from .formats.tables import as_records
from .formats.truncation import size_of
from .limits import (
    NO_LIMIT,
    NO_OPTIONS,
    Limits,
    ResultOptions,
    declared_bound,
    estimate_visible_bytes,
    pointer_text,
    reads_structured,
    surely_fits,
)
from .measure import OversizedPart, estimate_tokens_in, find_oversized, is_big, join_parts
from .payload import Payload, PayloadPart, parse_payload
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

DEEPEST_FIELDS = 100


def select_fields(value: Any, fields: tuple[str, ...], depth: int = DEEPEST_FIELDS) -> Any:
    """None when none of them is anywhere in it."""
    if depth == 0:
        return None
    if isinstance(value, list):
        items = [select_fields(item, fields, depth - 1) for item in cast(list[Any], value)]
        return None if all(item is None for item in items) else items
    if not isinstance(value, dict):
        return None
    members = cast(dict[str, Any], value)
    found: dict[str, Any] = {}
    for field in fields:
        _pick(members, [field] if field in members else field.split("."), found)
    return found or _inside(members, fields, depth)


def _inside(members: dict[str, Any], fields: tuple[str, ...], depth: int) -> Any:
    inner = {name: select_fields(item, fields, depth - 1) for name, item in members.items()}
    return {name: item for name, item in inner.items() if item is not None} or None


def _pick(members: dict[str, Any], path: list[str], found: dict[str, Any]) -> None:
    name, rest = path[0], path[1:]
    value = members.get(name)
    if not rest:
        if name in members:
            found[name] = value
    elif isinstance(value, dict):
        inner: dict[str, Any] = {}
        _pick(cast(dict[str, Any], value), rest, inner)
        if inner:
            found[name] = _merged(found.get(name), inner)
    elif isinstance(value, list):
        items = _picked(cast(list[Any], value), rest)
        if items is not None:
            found[name] = _merged(found.get(name), items)


def _picked(items: list[Any], path: list[str]) -> list[Any] | None:
    """Of each item what is at the path; nowhere else, or the work would double with each name of it."""
    found: list[Any] = []
    whole = ".".join(path)
    for item in items:
        inner: dict[str, Any] = {}
        if isinstance(item, list):
            found.append(_picked(cast(list[Any], item), path))
            continue
        if isinstance(item, dict):
            members = cast(dict[str, Any], item)
            _pick(members, [whole] if whole in members else path, inner)
        found.append(inner or None)
    return None if all(item is None for item in found) else found


def _merged(old: Any, new: Any) -> Any:
    """Two fields of one object, or of the objects of one list."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(dict[str, Any], old), cast(dict[str, Any], new)
        return {**before, **{name: _merged(before.get(name), item) for name, item in after.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return [_merged(a, b) for a, b in zip(cast(list[Any], old), cast(list[Any], new), strict=True)]
    return cast(Any, new if old is None else old)


T = TypeVar("T")

IN_A_THREAD = 256 * 1024
THREADS = 4
SECONDS = 20.0
"""So long may a result be looked at. Then it is kept as it came, and only its size is told."""
MOST_VALUES = 2_000_000
"""Of more than that no fields are picked: they would have to be decoded all at once."""
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
"""What a kept result is like, before the first one is kept."""


class ResultPolicy(Struct, frozen=True):
    """Whose result it is."""

    name: str
    """Its full name."""
    server: str
    limits: Limits | None
    """None: its results pass as they are."""
    bounded: int = 0
    """Its results pass up to so many bytes: its own word, as far as that is taken."""


class ShapeRequest(Struct, frozen=True):
    """For whom a result is, and what they asked of it."""

    caller: Caller
    tool: ResultPolicy
    hint: str = ""
    """How they read the rest of a stored result, with {id} for its id."""
    options: ResultOptions = NO_OPTIONS

    @property
    def limits(self) -> Limits | None:
        most = self.options.max_bytes
        return self.tool.limits if most is None else (self.tool.limits or Limits()).by_bytes_alone(most)


SizeRecorder = Callable[[Caller, ResultPolicy, int, int], None]
"""Told of every result: how many bytes came and how many went on, of the form that a model sees."""


class Shaper:
    def __init__(self, store: ArtifactStore, noted: SizeRecorder, seconds: float = SECONDS) -> None:
        self._store = store
        self._noted = noted
        self._like = _TYPICAL_STORED
        self._seconds = seconds
        # Its own threads: one that is left goes on to its end, and is in nobody else's way.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="toolyard-results")

    def passes(self, caller: Caller, tool: ResultPolicy, body: bytes) -> bool:
        """Whether it surely fits, and was counted as such: the short way, that nearly all of them take."""
        if tool.limits is not None and len(body) > tool.bounded and not surely_fits(body, tool.limits):
            return False
        size = estimate_visible_bytes(body, caller)
        self._noted(caller, tool, size, size)
        return True

    async def fit(self, result: Any, wanted: ShapeRequest) -> Any:
        """The result itself, or what takes its place."""
        if isinstance(result, Raw):
            fitting, came = await self._of_bytes(result, wanted)
        elif isinstance(result, StreamedResult):
            fitting, came = await self._of_file(result, wanted)
        else:
            return result
        went = came if fitting is result else estimate_visible_bytes(bytes(fitting), wanted.caller)
        self._noted(wanted.caller, wanted.tool, came, went)
        return fitting

    async def _of_bytes(self, result: Raw, wanted: ShapeRequest) -> tuple[Raw, int]:
        """And how many bytes came."""
        if wanted.limits is None and not wanted.options.fields:
            return result, estimate_visible_bytes(bytes(result), wanted.caller)
        body = bytes(result)
        try:
            fitting, came = await self._of_body(body, wanted)
        except TimeoutError:
            return await self._unread(pieces_of(body), len(body), wanted), len(body)
        return fitting or result, came

    async def _of_file(self, result: StreamedResult, wanted: ShapeRequest) -> tuple[Any, int]:
        """And how many bytes came. It is closed when it is not what goes on."""
        limits, fields, came = wanted.limits, wanted.options.fields, result.size
        if limits is None and not fields:
            return result, came
        try:
            fitting = None
            is_bounded = result.size <= wanted.tool.bounded * LONGEST_ESCAPE
            if limits is not None and not fields and not is_bounded and is_surely_big(result, limits):
                fitting = await self._streamed(result, wanted, limits)
            if fitting is None:
                fitting, came = await self._of_collected(result, wanted)
        except BaseException:
            result.close()
            raise
        if fitting is None:
            return result, came
        result.close()
        return fitting, came

    async def _of_collected(self, result: StreamedResult, wanted: ShapeRequest) -> tuple[Raw | None, int]:
        try:
            return await self._of_body(await _collected(result), wanted)
        except TimeoutError:
            return await self._unread(result.chunks(), result.size, wanted), result.size

    async def _streamed(self, result: StreamedResult, wanted: ShapeRequest, limits: Limits) -> Raw | None:
        """A long text, in constant memory: written to the store as it is read. None for what is no text."""
        streaming = TextStream(result)
        try:
            kept = await self._kept(TEXT_TYPE, streaming.pieces(), wanted)
        except NotTextError:
            return None
        beside = RemainingContent(streaming.blocks, streaming.meta, streaming.is_error)
        answer = _Answer(streaming.survey(), kept, wanted, limits)
        return _replace_all(answer, beside, wanted)

    async def _of_body(self, body: bytes | bytearray, wanted: ShapeRequest) -> tuple[Raw | None, int]:
        """None when it can go as it is; and how many bytes came."""
        size, came = len(body), estimate_visible_bytes(body, wanted.caller)
        payload = await self._worked(size, parse_payload, body)
        del body  # a long one need not be there while its parts are worked on
        return await self._of_payload(payload, wanted, size), came

    async def _of_payload(self, payload: Payload, wanted: ShapeRequest, size: int) -> Raw | None:
        """None when it can go as it is."""
        limits = wanted.limits
        if wanted.caller.era == "modern" and payload.kind in UNTOUCHED:
            return None
        if wanted.options.fields and not payload.is_error:
            found = await self._projected(payload, wanted)
            if found is not None:
                return found
        if limits is None or _is_bounded(payload, wanted, limits):
            return None
        # An error is there to be read: it is cut only when it is long.
        allowed = limits.by_bytes_alone() if payload.is_error else limits
        parts = await self._worked(size, find_oversized, payload, allowed)
        answers = {part.place: await self._shaped(part, payload, wanted, limits) for part in parts}
        return _replace_forms(answers, parts[0].beside, payload, wanted) if any(answers.values()) else None

    async def _shaped(
        self, measured: OversizedPart, payload: Payload, wanted: ShapeRequest, limits: Limits
    ) -> "_Answer | None":
        """None when it is not clearly smaller."""
        whole = measured.whole
        found = await self._worked(len(whole.body), summarize, whole)
        if payload.uri:
            found.summary["uri"] = payload.uri[:200]
        most = NO_LIMIT if limits.always else measured.came
        # Who asks for few bytes wants whatever is smaller.
        share = WORTHWHILE_SHARE if wanted.options.max_bytes is None else 1.0
        if _Answer(found, self._like, wanted, limits).cost > share * most:
            return None
        kept = await self._kept(JSON_TYPE if whole.is_json else TEXT_TYPE, pieces_of(whole.body), wanted)
        if kept.stored is not None:
            self._like = kept
        answer = _Answer(found, kept, wanted, limits)
        return answer if answer.cost <= most else None  # the links of some stores are long

    async def _projected(self, payload: Payload, wanted: ShapeRequest) -> Raw | None:
        """None where there is nothing of these fields."""
        whole = payload.structured or join_parts(payload)
        fields, limits = wanted.options.fields, wanted.limits
        value = await self._worked(len(whole.body), _selected_value, whole, fields)
        if value is None:
            return None
        part = PayloadPart(encode(value), True)
        beside = (*payload.links, *payload.media)
        answer = {"tool_name": wanted.tool.name, "truncated": False, "fields": fields, "result": value}
        if limits is not None and (is_big(part, limits) or size_of(answer) > limits.max_bytes):
            found = await self._shaped(
                OversizedPart(part, estimate_tokens_in(part.body)), payload, wanted, limits
            )
            if found is not None:
                return _replace_all(found, RemainingContent(beside, payload.meta), wanted)
        return as_tool_result(
            ContentForms.of(answer), RemainingContent(beside, payload.meta), None, wanted.caller.era
        )

    async def _unread(self, pieces: Any, size: int, wanted: ShapeRequest) -> Raw:
        """In the place of a result that takes too long to be looked at; kept as it came."""
        kept = await self._kept(JSON_TYPE, pieces, wanted)
        answer = _Answer(summarize_unread(size), kept, wanted, wanted.limits or Limits())
        return _replace_all(answer, RemainingContent(), wanted)

    async def _worked(self, size: int, work: Callable[..., T], *on: Any) -> T:
        """On what is long in a thread, so that others go on meanwhile. TimeoutError if it takes too long."""
        if size <= IN_A_THREAD:
            return work(*on)
        running = asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *on))
        return await asyncio.wait_for(running, self._seconds)

    async def _kept(self, kind: str, pieces: Any, wanted: ShapeRequest) -> StoredResult:
        return await store_result(self._store, wanted.caller.tenant, wanted.tool.name, kind, pieces)


def _is_bounded(payload: Payload, wanted: ShapeRequest, limits: Limits) -> bool:
    """Whether its tool says that a model should have all of it, and it is not too long for that. Who asks
    for so many bytes gets so many."""
    if wanted.options.max_bytes is not None or limits.always:
        return False
    most = max(wanted.tool.bounded, declared_bound(payload.meta, limits.bounded))
    texts = sum(len(text.body) for text in payload.texts)
    links = sum(len(memoryview(link)) for link in payload.links)
    structured = 0 if payload.structured is None else len(payload.structured.body)
    return max(texts, structured) + links <= most


class _Answer:
    """What takes the place of a result, or of one of its forms."""

    def __init__(
        self, found: ResultSummary, kept: StoredResult, wanted: ShapeRequest, limits: Limits
    ) -> None:
        self.body = preview_answer(wanted.tool.name, found, kept, limits, wanted.hint)
        self.link = kept.link(wanted.tool.name)
        self.size: int = found.summary["approx_size_bytes"]
        self.cost = token_cost(self.body, self.link)
        """In tokens."""


def _replace_all(answer: _Answer, beside: RemainingContent, wanted: ShapeRequest) -> Raw:
    is_suna = wanted.limits is not None and wanted.limits.always
    is_short = not beside.is_error and not is_suna and reads_structured(wanted.caller)
    forms = ContentForms.of(answer.body, pointer_text(answer.size, answer.body) if is_short else None)
    return as_tool_result(forms, beside, answer.link, wanted.caller.era)


def _replace_forms(
    answers: Mapping[str, _Answer | None], blocks: tuple[Raw, ...], payload: Payload, wanted: ShapeRequest
) -> Raw | None:
    beside = RemainingContent(blocks, payload.meta, payload.is_error)
    whole = answers.get("all")
    if whole is not None:
        return _replace_all(whole, beside, wanted)
    assert payload.as_sent is not None
    texts, structured = payload.as_sent.texts, payload.as_sent.structured
    if (answer := answers.get("text")) is not None:
        texts = ContentForms.of(answer.body).texts
    if (answer := answers.get("structured")) is not None:
        structured = ContentForms.of(answer.body).structured
    if not texts or not len(memoryview(structured)):
        return None
    # No link: beside the form that stays as it is, that would be more than came.
    return as_tool_result(ContentForms(texts, structured), beside, None, wanted.caller.era)


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
    def __init__(self, shaper: Shaper) -> None:
        self._shaper = shaper
        self._fitted: OrderedDict[tuple[str, str], Raw] = OrderedDict()

    async def fit(self, state: Any, id: str, wanted: ShapeRequest) -> Any:
        """A task's state as it came, or with what fits in the place of its result. `id`: its server's own."""
        if isinstance(state, StreamedResult):
            state = await _collect_state(state)
        if isinstance(state, TaskState):
            if state.result is UNSET:
                return state
            return msgspec.structs.replace(state, result=await self._once(state.result, id, wanted))
        members = _members(state)
        if "result" not in members:
            return state
        return Raw(encode({**members, "result": await self._once(members["result"], id, wanted)}))

    async def _once(self, result: Any, id: str, wanted: ShapeRequest) -> Raw:
        key = (wanted.tool.server, id)
        known = self._fitted.get(key)
        if known is not None:
            return known
        fitting: Raw = await self._shaper.fit(
            result if isinstance(result, Raw) else Raw(encode(result)), wanted
        )
        if len(memoryview(fitting)) <= LONGEST_REMEMBERED:
            self._fitted[key] = fitting
            while len(self._fitted) > REMEMBERED:
                self._fitted.popitem(last=False)
        return fitting


def _members(state: Any) -> dict[str, Any]:
    """Of a state that is JSON, decoded or not."""
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
