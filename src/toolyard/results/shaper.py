"""Passes results that fit; replaces others, if what takes their place is clearly smaller.

What is over a limit is looked at. It is replaced only when that costs a model clearly fewer tokens: a small
result of many lines passes as it is. Also passes what a tool has bounded for a model itself.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw, Struct

from ..artifacts.store import Artifact, Store, Stored
from ..wire.call import Caller, Streamed
from ..wire.messages import encode
from .cutting import size_of
from .glance import surely_fits
from .grids import as_records
from .json_parts import value_of, values_in
from .limits import NO_LIMIT, Limits
from .measuring import Measured, is_big, measure, whole_of
from .options import NONE, Options
from .payload import Payload, Said, payload_of
from .projection import projected
from .seen import about_seen_of, bound_in, reads_structured, short_text
from .shaping import CLEARLY, Beside, Forms, as_result, cost_of, shaped
from .storing import JSON, TEXT, Kept, keep, pieces_of
from .streaming import LONGEST_ESCAPE, NotText, Streaming, is_surely_big
from .survey import Survey, survey, unread
from .tokens import estimated_in

T = TypeVar("T")

IN_A_THREAD = 256 * 1024
THREADS = 4
SECONDS = 20.0
"""So long may a result be looked at. Then it is kept as it came, and only its size is told."""
MOST_VALUES = 2_000_000
"""Of more than that no fields are picked: they would have to be decoded all at once."""
UNTOUCHED = ("input_required", "task")
_SOME_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_LIKE = Kept(
    "local",
    Stored(
        Artifact(_SOME_ID, "", 10_000, JSON, "", 0.0, 0.0),
        "local",
        f"mcp/{_SOME_ID}.json",
        f"https://gateway.example.com/results/{_SOME_ID * 4}",
        expires_at="2026-01-01T00:00:00Z",
    ),
)
"""What a kept result is like, before the first one is kept."""


class Tool(Struct, frozen=True):
    """Whose result it is."""

    name: str
    """Its full name."""
    server: str
    limits: Limits | None
    """None: its results pass as they are."""
    bounded: int = 0
    """Its results pass up to so many bytes: its own word, as far as that is taken."""


class Wanted(Struct, frozen=True):
    """For whom a result is, and what they asked of it."""

    caller: Caller
    tool: Tool
    hint: str = ""
    """How they read the rest of a stored result, with {id} for its id."""
    options: Options = NONE

    @property
    def limits(self) -> Limits | None:
        most = self.options.max_bytes
        return self.tool.limits if most is None else (self.tool.limits or Limits()).by_bytes_alone(most)


Noted = Callable[[Caller, Tool, int, int], None]
"""Told of every result: how many bytes came and how many went on, of the form that a model sees."""


class Shaper:
    def __init__(self, store: Store, noted: Noted, seconds: float = SECONDS) -> None:
        self._store = store
        self._noted = noted
        self._like = _LIKE
        self._seconds = seconds
        # Its own threads: one that is left goes on to its end, and is in nobody else's way.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="toolyard-results")

    def passes(self, caller: Caller, tool: Tool, body: bytes) -> bool:
        """Whether it surely fits, and was counted as such: the short way, that nearly all of them take."""
        if tool.limits is not None and len(body) > tool.bounded and not surely_fits(body, tool.limits):
            return False
        size = about_seen_of(body, caller)
        self._noted(caller, tool, size, size)
        return True

    async def fit(self, result: Any, wanted: Wanted) -> Any:
        """The result itself, or what takes its place."""
        if isinstance(result, Raw):
            fitting, came = await self._of_bytes(result, wanted)
        elif isinstance(result, Streamed):
            fitting, came = await self._of_file(result, wanted)
        else:
            return result
        went = came if fitting is result else about_seen_of(bytes(fitting), wanted.caller)
        self._noted(wanted.caller, wanted.tool, came, went)
        return fitting

    async def _of_bytes(self, result: Raw, wanted: Wanted) -> tuple[Raw, int]:
        """And how many bytes came."""
        if wanted.limits is None and not wanted.options.fields:
            return result, about_seen_of(bytes(result), wanted.caller)
        body = bytes(result)
        try:
            fitting, came = await self._of_body(body, wanted)
        except TimeoutError:
            return await self._unread(pieces_of(body), len(body), wanted), len(body)
        return fitting or result, came

    async def _of_file(self, result: Streamed, wanted: Wanted) -> tuple[Any, int]:
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

    async def _of_collected(self, result: Streamed, wanted: Wanted) -> tuple[Raw | None, int]:
        try:
            return await self._of_body(await _collected(result), wanted)
        except TimeoutError:
            return await self._unread(result.chunks(), result.size, wanted), result.size

    async def _streamed(self, result: Streamed, wanted: Wanted, limits: Limits) -> Raw | None:
        """A long text, in constant memory: written to the store as it is read. None for what is no text."""
        streaming = Streaming(result)
        try:
            kept = await self._kept(TEXT, streaming.pieces(), wanted)
        except NotText:
            return None
        beside = Beside(streaming.blocks, streaming.meta, streaming.is_error)
        answer = _Answer(streaming.survey(), kept, wanted, limits)
        return _in_place_of_all(answer, beside, wanted)

    async def _of_body(self, body: bytes | bytearray, wanted: Wanted) -> tuple[Raw | None, int]:
        """None when it can go as it is; and how many bytes came."""
        size, came = len(body), about_seen_of(body, wanted.caller)
        payload = await self._worked(size, payload_of, body)
        del body  # a long one need not be there while its parts are worked on
        return await self._of_payload(payload, wanted, size), came

    async def _of_payload(self, payload: Payload, wanted: Wanted, size: int) -> Raw | None:
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
        parts = await self._worked(size, measure, payload, allowed)
        answers = {part.place: await self._shaped(part, payload, wanted, limits) for part in parts}
        return _composed(answers, parts[0].beside, payload, wanted) if any(answers.values()) else None

    async def _shaped(
        self, measured: Measured, payload: Payload, wanted: Wanted, limits: Limits
    ) -> "_Answer | None":
        """None when it is not clearly smaller."""
        whole = measured.whole
        found = await self._worked(len(whole.body), survey, whole)
        if payload.uri:
            found.summary["uri"] = payload.uri[:200]
        most = NO_LIMIT if limits.always else measured.came
        # Who asks for few bytes wants whatever is smaller.
        share = CLEARLY if wanted.options.max_bytes is None else 1.0
        if _Answer(found, self._like, wanted, limits).cost > share * most:
            return None
        kept = await self._kept(JSON if whole.is_json else TEXT, pieces_of(whole.body), wanted)
        if kept.stored is not None:
            self._like = kept
        answer = _Answer(found, kept, wanted, limits)
        return answer if answer.cost <= most else None  # the links of some stores are long

    async def _projected(self, payload: Payload, wanted: Wanted) -> Raw | None:
        """None where there is nothing of these fields."""
        whole = payload.structured or whole_of(payload)
        fields, limits = wanted.options.fields, wanted.limits
        value = await self._worked(len(whole.body), _fields_of, whole, fields)
        if value is None:
            return None
        part = Said(encode(value), True)
        beside = (*payload.links, *payload.media)
        answer = {"tool_name": wanted.tool.name, "truncated": False, "fields": fields, "result": value}
        if limits is not None and (is_big(part, limits) or size_of(answer) > limits.max_bytes):
            found = await self._shaped(Measured(part, estimated_in(part.body)), payload, wanted, limits)
            if found is not None:
                return _in_place_of_all(found, Beside(beside, payload.meta), wanted)
        return as_result(Forms.of(answer), Beside(beside, payload.meta), None, wanted.caller.era)

    async def _unread(self, pieces: Any, size: int, wanted: Wanted) -> Raw:
        """In the place of a result that takes too long to be looked at; kept as it came."""
        kept = await self._kept(JSON, pieces, wanted)
        answer = _Answer(unread(size), kept, wanted, wanted.limits or Limits())
        return _in_place_of_all(answer, Beside(), wanted)

    async def _worked(self, size: int, work: Callable[..., T], *on: Any) -> T:
        """On what is long in a thread, so that others go on meanwhile. TimeoutError if it takes too long."""
        if size <= IN_A_THREAD:
            return work(*on)
        running = asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *on))
        return await asyncio.wait_for(running, self._seconds)

    async def _kept(self, kind: str, pieces: Any, wanted: Wanted) -> Kept:
        return await keep(self._store, wanted.caller.tenant, wanted.tool.name, kind, pieces)


def _is_bounded(payload: Payload, wanted: Wanted, limits: Limits) -> bool:
    """Whether its tool says that a model should have all of it, and it is not too long for that. Who asks
    for so many bytes gets so many."""
    if wanted.options.max_bytes is not None or limits.always:
        return False
    most = max(wanted.tool.bounded, bound_in(payload.meta, limits.bounded))
    texts = sum(len(text.body) for text in payload.texts)
    links = sum(len(memoryview(link)) for link in payload.links)
    structured = 0 if payload.structured is None else len(payload.structured.body)
    return max(texts, structured) + links <= most


class _Answer:
    """What takes the place of a result, or of one of its forms."""

    def __init__(self, found: Survey, kept: Kept, wanted: Wanted, limits: Limits) -> None:
        self.body = shaped(wanted.tool.name, found, kept, limits, wanted.hint)
        self.link = kept.link(wanted.tool.name)
        self.size: int = found.summary["approx_size_bytes"]
        self.cost = cost_of(self.body, self.link)
        """In tokens."""


def _in_place_of_all(answer: _Answer, beside: Beside, wanted: Wanted) -> Raw:
    is_suna = wanted.limits is not None and wanted.limits.always
    is_short = not beside.is_error and not is_suna and reads_structured(wanted.caller)
    forms = Forms.of(answer.body, short_text(answer.size, answer.body) if is_short else None)
    return as_result(forms, beside, answer.link, wanted.caller.era)


def _composed(
    answers: Mapping[str, _Answer | None], blocks: tuple[Raw, ...], payload: Payload, wanted: Wanted
) -> Raw | None:
    beside = Beside(blocks, payload.meta, payload.is_error)
    whole = answers.get("all")
    if whole is not None:
        return _in_place_of_all(whole, beside, wanted)
    assert payload.as_sent is not None
    texts, structured = payload.as_sent.texts, payload.as_sent.structured
    if (answer := answers.get("text")) is not None:
        texts = Forms.of(answer.body).texts
    if (answer := answers.get("structured")) is not None:
        structured = Forms.of(answer.body).structured
    if not texts or not len(memoryview(structured)):
        return None
    # No link: beside the form that stays as it is, that would be more than came.
    return as_result(Forms(texts, structured), beside, None, wanted.caller.era)


def _fields_of(whole: Said, fields: tuple[str, ...]) -> Any:
    if not whole.is_json or values_in(bytes(whole.body)) > MOST_VALUES:
        return None
    try:
        return projected(as_records(value_of(whole.body)), fields)
    except ValueError:
        return None


async def _collected(result: Streamed) -> bytearray:
    pieces = bytearray()
    async for chunk in result.chunks():
        pieces += chunk
    return pieces
