"""Looks into JSON without decoding it: the items of a list, the members of an object, the lines of NDJSON.

Each part stays bytes. Parts are counted before they are created, because a server may send millions; of
too many, only the first are created. Also finds the data inside an envelope such as `{"data":
{"items": [...]}}`.
"""

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, cast, overload

import msgspec
from msgspec import Raw, Struct

from .tables import COLUMNS, ROWS, columns_of

Buffer = bytes | bytearray | memoryview

HEAD = 64 * 1024
LARGE_PIECE = 2**20
PIECE = 256 * 1024
"""Bytes scanned at once; that takes a few milliseconds."""
MOST_ITEMS, MOST_MEMBERS = 1_000_000, 300_000
"""Beyond these, only the first parts are cut out. A member takes three times the memory of an item."""
FIRST_ITEMS = 2_000
MOST_STEPS = 2_000_000
"""Counting stops here. Only maliciously nested JSON has more."""
LONGEST_NUMBER = 4_000
LIST, OBJECT, STRING = b'[{"'

_NONE = Raw(b"")
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_checked = msgspec.json.Decoder(Raw).decode
# Also matches an unterminated string; otherwise the search would start again at every quote in it.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_FILLED = re.compile(rb"[^ \t\r\n]")
_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b"[]{},")
_OBJECT_START = re.compile(rb',\s*+\{\s*+"[^"\\]*+"\s*+:')
_PLACEHOLDER = b"-0.77E-31"
MOST_GUESSES = 16
_FLAT = re.compile(rb"\[,*+\]")
_RUNS = re.compile(rb"\[++|\]++|,++")


class JsonItems(Struct, frozen=True):
    """A list."""

    parts: Sequence[Raw]
    """All items, or the first if there are too many."""
    count: int
    exact: bool = True
    """False if `count` is an estimate from the average size of the parts."""

    @property
    def are_all(self) -> bool:
        return len(self.parts) == self.count


class JsonMembers(Struct, frozen=True):
    """An object; the fields are like those of `JsonItems`."""

    parts: Mapping[str, Raw]
    count: int
    exact: bool = True


def first_byte(body: Buffer) -> int:
    """Returns the first byte that is not white space; 0 if there is none."""
    found = _FILLED.search(body, 0, HEAD)
    return found[0][0] if found else 0


def items_of(body: Buffer) -> JsonItems | None:
    """Returns the items of a list; None if the body is not a JSON list."""
    if first_byte(body) != LIST:
        return None
    try:
        count = _count(body, MOST_ITEMS)
        if count is not None and count <= MOST_ITEMS:
            parts = _decode_items(body)
            return JsonItems(parts, len(parts))
        first = _first_items(body)
    except _FAULTS:
        return None
    return JsonItems(first, *_count_or_estimate(count, first, body))


def all_items_of(body: Buffer) -> list[Raw]:
    """Returns all items without a limit: for a process with limited memory."""
    return _decode_items(body)


def object_of(body: Buffer) -> JsonMembers | None:
    """Returns the members of an object; None if the body is not a JSON object."""
    if first_byte(body) != OBJECT:
        return None
    try:
        around = _members_around_value(body) if len(body) > LARGE_PIECE else None
        if around is not None:
            return JsonMembers(around, len(around))
        count = _count(body, MOST_MEMBERS)
        if count is not None and count <= MOST_MEMBERS:
            parts = _decode_members(body)
            return JsonMembers(parts, len(parts))
        _checked(body)
        first = _first_members(body)
    except _FAULTS:
        return None
    return JsonMembers(first, *_count_or_estimate(count, first.values(), body))


def members_of(body: Buffer) -> dict[str, Raw] | None:
    """Returns all members of an object; None if the body is not a JSON object or has too many."""
    found = object_of(body)
    return dict(found.parts) if found is not None and len(found.parts) == found.count else None


def is_json(body: Buffer) -> bool:
    """Returns whether the body is a JSON list or object. Numbers and strings are treated as texts."""
    if first_byte(body) not in (LIST, OBJECT):
        return False
    try:
        _checked(body)
    except _FAULTS:
        return False
    return True


def values_in(body: bytes | bytearray) -> int:
    """Returns an upper bound of the values that decoding would create."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def _pieces(body: Buffer, size: int = LARGE_PIECE) -> Iterator[bytes]:
    for at in range(0, len(body), size):
        yield bytes(body[at : at + size])


def _count(body: Buffer, most: int) -> int | None:
    """Counts the parts, or returns an upper bound if it is at most `most`; None if it takes too long."""
    if len(body) // 2 < most:  # each part takes at least two bytes
        return most
    commas = sum(piece.count(b",") for piece in _pieces(body))
    if commas < most:
        return commas + 1
    segments = list_segments(body, LARGE_PIECE)
    return _counted(body) if segments is None else sum(segment.count for segment in segments)


def _members_around_value(body: Buffer) -> dict[str, Raw] | None:
    """Returns the members of an object with one long list or object and little around it, without counting;
    None for other objects.

    Guesses where the long value ends. If that value is JSON by itself, and the object is JSON with another
    value in its place, then the guess was right.
    """
    head, tail = bytes(body[:HEAD]), bytes(body[-HEAD:])
    start = _long_value_start(head)
    if start is None:
        return None
    close = b"]" if head[start] == LIST else b"}"
    at = len(tail)
    for _ in range(MOST_GUESSES):
        at = tail.rfind(close, 0, at)
        if at < 0:
            return None
        try:
            members = _decode_members(head[:start] + _PLACEHOLDER + tail[at + 1 :])
            names = [name for name, raw in members.items() if bytes(raw) == _PLACEHOLDER]
            if len(names) == 1:
                members[names[0]] = _checked(memoryview(body)[start : len(body) - len(tail) + at + 1])
                return members
        except _FAULTS:
            continue
    return None


class ListSegment(Struct, frozen=True, gc=False):
    """Some items of a list that follow each other: `body[start:end]` is these items with their commas."""

    start: int
    end: int
    count: int


def list_segments(body: Buffer, size: int) -> list[ListSegment] | None:
    """Cuts a long list of similar objects into segments of at least `size` bytes, three times as fast as
    `_counted`; None for other lists.

    Looks for the bytes between the first two items, such as `,{"id":`, and checks the guess: if every
    segment is a valid list by itself, together they are the whole list.
    """
    separator = _separator(body)
    if separator is None:
        return None
    last = len(body) - len(bytes(body[-HEAD:])) + bytes(body[-HEAD:]).rstrip().rfind(b"]")
    at = bytes(body[:HEAD]).find(b"[") + 1
    segments: list[ListSegment] = []
    while True:
        segment = _next_segment(body, at, last, size, separator)
        if segment is None:
            return None
        segments.append(segment)
        if segment.end == last:
            return segments
        at = segment.end + len(",")


def _separator(body: Buffer) -> re.Pattern[bytes] | None:
    """Matches the comma between two items and the beginning of the second up to its first value."""
    head = bytes(body[:HEAD])
    cuts = _cuts(head)
    found = _OBJECT_START.match(head, cuts[0]) if len(cuts) > 1 else None
    return None if found is None else re.compile(re.escape(found[0]))


def _next_segment(
    body: Buffer, at: int, last: int, size: int, separator: re.Pattern[bytes]
) -> ListSegment | None:
    start = at + size
    for _ in range(MOST_GUESSES):
        found = separator.search(body, min(start, last), last)
        end = last if found is None else found.start()
        try:
            return ListSegment(at, end, len(_decode_items(b"[" + body[at:end] + b"]")))
        except _FAULTS:
            if found is None:
                return None
            start = found.end()  # the guess was inside an item
    return None


def _counted(body: Buffer) -> int | None:
    """Counts the commas between parts; None if that takes too many steps."""
    depth = steps = commas = 0
    for marks in _marks_in(body):
        # A list within one piece is nested: the outermost list is longer than a piece.
        for run in _RUNS.finditer(_FLAT.sub(b"", _FLAT.sub(b"", marks))):
            length = run.end() - run.start()
            match run[0][0]:
                case 0x5B:
                    depth += length
                case 0x5D:
                    depth -= length
                case _:
                    commas += length * (depth == 1)
            steps += 1
        if steps > MOST_STEPS:
            return None
    return commas + 1


def _marks_in(body: Buffer) -> Iterator[bytes]:
    """Yields the commas and brackets outside of strings, piece by piece; braces as brackets."""
    is_quoted = False
    carry = b""
    for piece in _pieces(body, PIECE):
        piece = carry + piece
        # The end of a piece may split an escape.
        carry = b"\\" * ((len(piece) - len(piece.rstrip(b"\\"))) % 2)
        whole = piece[: len(piece) - len(carry)]
        parts = whole.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[is_quoted::2])
        is_quoted ^= len(parts) % 2 == 0
        yield outside.translate(_AS_BRACKETS, _NO_MARKS)


def _first_items(body: Buffer) -> tuple[Raw, ...]:
    """Returns the first items; validates the others without creating them."""
    found = cast(tuple[Raw, ...], msgspec.structs.astuple(_head_decoder().decode(body)))
    return tuple(part for part in found if part is not _NONE)


@cache
def _head_decoder() -> msgspec.json.Decoder[Any]:
    fields = [(f"item_{at}", Raw, _NONE) for at in range(FIRST_ITEMS)]
    return msgspec.json.Decoder(msgspec.defstruct("FirstItems", fields, array_like=True, gc=False))


def _first_members(body: Buffer) -> dict[str, Raw]:
    head = bytes(body[:HEAD])
    cuts = _cuts(head)
    return _decode_members(head[: cuts[-1]] + b"}") if cuts else {}


def _count_or_estimate(count: int | None, first: Iterable[Raw], body: Buffer) -> tuple[int, bool]:
    """Returns the count and True, or an estimate from the average size of the first parts and False."""
    if count is not None:
        return count, True
    sizes = [len(memoryview(part)) + len(",") for part in first]
    return max(len(body) * len(sizes) // max(1, sum(sizes)), len(sizes) + 1), False


def value_of(body: Buffer | Raw) -> Any:
    """Decodes a value; numbers out of range stay texts. Raises ValueError for invalid or too deep JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return _leniently(bytes(body))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _leniently(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8", "replace"), parse_int=_whole, parse_float=_real)
        msgspec.json.encode(value)  # `json` accepts lone surrogates, which cannot be sent
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return value


def _whole(digits: str) -> int | str:
    return digits if len(digits) > LONGEST_NUMBER else int(digits)


def _real(digits: str) -> float | str:
    value = float(digits)
    return digits if value in (float("inf"), float("-inf")) else value


def _cuts(head: bytes) -> list[int]:
    """Returns where the commas between the outermost items or members are."""
    return _scan_head(head)[0]


def _long_value_start(head: bytes) -> int | None:
    """Returns where the member's value begins that does not end within the head of an object."""
    return _scan_head(head)[1]


def _scan_head(head: bytes) -> tuple[list[int], int | None]:
    # One loop without calls: the head may hold tens of thousands of marks.
    depth = 0
    commas: list[int] = []
    start = None
    for token in _TOKENS.finditer(head):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
            start = token.start() if depth == 2 else start
        elif mark in (b"]", b"}"):
            depth -= 1
        elif mark == b"," and depth == 1:
            commas.append(token.start())
    return commas, start if depth >= 2 else None


def spread_positions(count: int, most: int) -> list[int]:
    """Returns up to `most` positions, evenly spread from the first to the last."""
    if count <= most:
        return list(range(count))
    return [at * (count - 1) // (most - 1) for at in range(most)]


LINES_CHECKED = 50
MOST_LINES = 2_000_000
BROKEN_SHARE = 0.1
"""The share of lines that may be broken: a truncated log is still a log."""
_LINES = re.compile(rb"[^\n]++")


class NdjsonLines(Sequence[Raw]):
    """Keeps only the positions of the lines, and cuts a line out on access."""

    def __init__(self, body: Buffer) -> None:
        self._body = memoryview(body)
        self._places: array[int] = array("Q")
        """Start and end of each line, alternating."""
        for line in islice(_LINES.finditer(body), MOST_LINES + 1):
            if not line[0].isspace():
                self._places.extend(line.span())

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yields the start and the length of each line."""
        for at in range(0, len(self._places), 2):
            yield self._places[at], self._places[at + 1] - self._places[at]

    def __len__(self) -> int:
        return len(self._places) // 2

    @overload
    def __getitem__(self, at: int) -> Raw: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Raw]: ...
    def __getitem__(self, at: int | slice) -> Raw | Sequence[Raw]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        start, end = self._places[at * 2 : at * 2 + 2]
        return Raw(bytes(self._body[start:end]).strip())


def json_lines(body: Buffer) -> JsonItems | None:
    """Returns the lines of NDJSON; None for any other text."""
    lines = find_json_lines(body)
    return None if lines is None else JsonItems(lines, len(lines))


def find_json_lines(body: Buffer) -> NdjsonLines | None:
    """Finds the lines of NDJSON; None for any other text. Checks only a sample of many lines."""
    first = _LINES.search(body) if first_byte(body) == OBJECT else None
    if first is None or not (first[0].isspace() or _is_object(first[0])):
        return None
    lines = NdjsonLines(body)
    if not 2 <= len(lines) <= MOST_LINES:
        return None
    looked_at = spread_positions(len(lines), LINES_CHECKED)
    broken = sum(not _is_object(lines[at]) for at in looked_at)
    return lines if broken <= BROKEN_SHARE * len(looked_at) else None


def decode_line(line: Raw | bytes) -> Any:
    """Decodes a line; returns a broken line as text."""
    return _decode_or_text(line, len(memoryview(line)))


def _is_object(line: Raw | bytes) -> bool:
    body = bytes(line)
    return first_byte(body) == OBJECT and is_json(body)


DEEPEST_ENVELOPE = 4
MOST_AROUND = 12
LONGEST_EXCERPT = 100
LONGEST_AROUND = 1_000
"""Bytes of a list or object of plain values beside the data, such as column names or page numbers."""


_NAME = re.compile(rb'[ \t\r\n{,]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)


class DataEnvelope(Struct, frozen=True):
    path: tuple[str, ...]
    """The names of the members that lead to the data."""
    inner: Buffer
    around: dict[str, Any]
    """The plain values beside the data."""
    columns: tuple[str, ...] = ()
    """The column names, if the data is the rows of a table."""


def open_envelope(body: Buffer) -> DataEnvelope:
    """Opens objects that mainly wrap one list or object, and returns that one."""
    path: list[str] = []
    around: dict[str, Raw] = {}
    columns: tuple[str, ...] = ()
    inner = body
    while len(path) < DEEPEST_ENVELOPE and (members := members_of(inner)):
        name, raw = max(members.items(), key=lambda member: len(memoryview(member[1])))
        value = memoryview(raw)
        named = columns_of(members) if name == ROWS else ()
        del members[name]
        if named:
            del members[COLUMNS]
        if not _is_nested(value) or not _are_metadata(members) or len(value) * 2 < len(inner):
            break
        around |= members
        path.append(name)
        inner, columns = value, named
    shown = list(around.items())[:MOST_AROUND]
    return DataEnvelope(tuple(path), inner, {name: decode_or_excerpt(raw) for name, raw in shown}, columns)


def data_offset(body: Buffer, inside: DataEnvelope) -> int | None:
    """Returns where the data begins; None if an object on the path has duplicate names."""
    place = 0
    inner = memoryview(body)
    for name in inside.path:
        members = members_of(inner) or {}
        at = _member_offset(inner, members, name)
        if at is None:
            return None
        place += at
        inner = memoryview(members[name])
    return place


def _member_offset(body: memoryview, members: dict[str, Raw], wanted: str) -> int | None:
    """Returns where a member's value begins, from the sizes of the members before it."""
    at = 0
    for _ in range(len(members)):
        found = _NAME.match(body, at)
        name = None if found is None else value_of(found[1])
        if found is None or name not in members:
            return None
        at = found.end()
        value = memoryview(members[name])
        if bytes(body[at : at + len(value)]) != bytes(value):
            return None
        if name == wanted:
            return at
        at += len(value)
    return None


def _is_nested(body: Buffer) -> bool:
    return first_byte(body) in (LIST, OBJECT)


def _are_metadata(members: dict[str, Raw]) -> bool:
    """Returns whether these are few and plain values, so that the object is only an envelope."""
    return len(members) <= MOST_AROUND and all(_is_plain(memoryview(raw)) for raw in members.values())


def _is_plain(body: memoryview) -> bool:
    """A short list or object of plain values counts as plain too."""
    if not _is_nested(body):
        return True
    return len(body) <= LONGEST_AROUND and not any(mark in (LIST, OBJECT) for mark in bytes(body)[1:])


def decode_or_excerpt(raw: Raw) -> Any:
    """Decodes a value; returns the beginning of its text if it cannot be decoded."""
    return _decode_or_text(raw, LONGEST_EXCERPT)


def _decode_or_text(body: Raw | bytes, most: int) -> Any:
    try:
        return value_of(body)
    except ValueError:
        return bytes(memoryview(body)[:most]).decode("utf-8", "replace")
