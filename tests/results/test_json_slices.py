"""JSON that is cut up without decoding it agrees with what `json.loads` makes of the same text."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.results.formats.json_parts import LARGE_PIECE, list_segments, object_of

spaces = st.text(" \t\r\n", max_size=3)
words = (
    st.text(max_size=8)
    | st.text('[]{},:"\\/\n é漢😀', max_size=8)
    | st.just(',{"id":')
    | st.just("-0.77E-31")
)
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
"""Texts hold brackets, quotes and separators, to mislead a guess."""


@st.composite
def written(draw: st.DrawFn, depth: int = 2) -> str:
    """One value as JSON, with white space and escapes as a server may write them."""
    kind = draw(st.sampled_from(["plain", "list", "object"])) if depth else "plain"
    if kind == "plain":
        literal = st.builds(json.dumps, plain, ensure_ascii=st.booleans())
        return draw(literal | st.just("-0.77E-31"))
    if kind == "list":
        return list_text(draw, draw(st.lists(written(depth - 1), max_size=3)))
    members = draw(st.lists(st.tuples(words, written(depth - 1)), max_size=3))
    return object_text(draw, members)


def list_text(draw: st.DrawFn, items: list[str]) -> str:
    return f"[{draw(spaces)}{f'{draw(spaces)},{draw(spaces)}'.join(items)}{draw(spaces)}]"


def object_text(draw: st.DrawFn, members: list[tuple[str, str]]) -> str:
    """A name may occur twice; the last one counts."""
    ascii_only = draw(st.booleans())
    pairs = [
        f"{json.dumps(name, ensure_ascii=ascii_only)}{draw(spaces)}:{draw(spaces)}{value}"
        for name, value in members
    ]
    return f"{{{draw(spaces)}{f'{draw(spaces)},{draw(spaces)}'.join(pairs)}{draw(spaces)}}}"


@st.composite
def similar_objects(draw: st.DrawFn) -> bytes:
    """A list of objects that begin alike, some with lists of such objects inside."""
    rows = st.lists(st.tuples(words, written()), max_size=2)
    inner = [f'{{"id":{draw(written(1))}}}' for _ in range(draw(st.integers(0, 3)))]
    nested = ("more", "[" + ",".join(inner) + "]")
    items = [
        object_text(draw, [("id", draw(written(1))), *draw(rows), *([nested] if draw(st.booleans()) else [])])
        for _ in range(draw(st.integers(1, 12)))
    ]
    gap = f"{draw(spaces)},{draw(spaces)}"
    return (draw(spaces) + "[" + gap.join(items) + draw(spaces) + "]" + draw(spaces)).encode()


@given(body=similar_objects() | written().map(str.encode), size=st.integers(1, 200))
def test_the_segments_of_a_list_are_the_list_together(body: bytes, size: int) -> None:
    segments = list_segments(body, size)

    if segments is not None:
        parts = [json.loads(b"[" + body[each.start : each.end] + b"]") for each in segments]
        assert [item for part in parts for item in part] == json.loads(body)
        assert [each.count for each in segments] == [len(part) for part in parts]
        assert all(each.end - each.start >= size for each in segments[:-1])


@given(
    ids=st.lists(st.integers(), min_size=3, max_size=30),
    value=written(),
    size=st.integers(1, 100),
)
def test_a_list_of_objects_that_begin_alike_is_cut(ids: list[int], value: str, size: int) -> None:
    items = [f'{{"id": {id}, "value": {value}}}' for id in ids]
    body = f"[{', '.join(items)}]".encode()

    segments = list_segments(body, size)

    assert segments is not None
    assert sum(each.count for each in segments) == len(ids)


@st.composite
def long_objects(draw: st.DrawFn) -> bytes:
    """An object over a megabyte: one long list or object, and members before and after it."""
    members = st.lists(st.tuples(words, written()), max_size=3)
    before, after = draw(members), draw(members)
    part = draw(written())
    gap = f"{draw(spaces)},{draw(spaces)}"
    times = LARGE_PIECE // (len(part) + len(gap)) + 1
    long = (
        "[" + gap.join([part] * times) + "]"
        if draw(st.booleans())
        else "{" + gap.join(f'"{at}":{part}' for at in range(times)) + "}"
    )
    return object_text(draw, [*before, (draw(words), long), *after]).encode()


@settings(max_examples=15, deadline=None)
@given(body=long_objects())
def test_the_members_of_a_long_object_are_what_the_object_has(body: bytes) -> None:
    expected: dict[str, Any] = json.loads(body)

    found = object_of(body)

    assert found is not None
    assert found.count == len(expected)
    assert {name: json.loads(bytes(raw)) for name, raw in found.parts.items()} == expected
    assert list(found.parts) == list(expected)
