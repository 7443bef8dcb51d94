"""The Accept header: what a client takes, and which of it rather.

The protocol has clients name both JSON and streams, and leaves the choice to the server. Nearly all name
JSON first, which is cheaper. One that names streams first is answered with a stream where JSON would do.
"""

from msgspec import Struct

JSON, STREAM = b"application/json", b"text/event-stream"
MAX_KNOWN = 64


class Accepted(Struct, frozen=True):
    json: bool
    streams: bool
    rather_streams: bool


class Acceptance:
    """Reads each header once: a client says the same every time."""

    def __init__(self) -> None:
        self._known: dict[bytes | None, Accepted] = {}

    def of(self, header: bytes | None) -> Accepted:
        known = self._known.get(header)
        if known is None:
            known = _read(header)
            if len(self._known) < MAX_KNOWN:
                self._known[header] = known
        return known


def _read(header: bytes | None) -> Accepted:
    if header is None:
        return Accepted(True, True, False)
    ranges = [_range(part) for part in header.split(b",")]
    json, stream = _weight(ranges, JSON), _weight(ranges, STREAM)
    return Accepted(json is not None, stream is not None, _is_first(stream, json))


_Range = tuple[bytes, float]
_Weight = tuple[float, int]


def _range(part: bytes) -> _Range:
    name, *parameters = (piece.strip().lower() for piece in part.split(b";"))
    for parameter in parameters:
        if parameter.startswith(b"q="):
            return name, _quality(parameter[2:])
    return name, 1.0


def _quality(text: bytes) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 1.0


def _weight(ranges: list[_Range], media_type: bytes) -> _Weight | None:
    """How much it is wanted: by its quality, then by its place; None when it is not taken.

    What is meant by a wildcard has no place of its own, and comes after what is named.
    """
    for wanted in (media_type, media_type.split(b"/")[0] + b"/*", b"*/*"):
        for place, (name, quality) in enumerate(ranges):
            if name == wanted:
                behind = place if name == media_type else len(ranges)
                return (quality, -behind) if quality else None
    return None


def _is_first(one: _Weight | None, other: _Weight | None) -> bool:
    return one is not None and (other is None or one > other)
