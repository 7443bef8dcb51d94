"""JSON texts, and ways to cut bytes into pieces, for tests that must not depend on how bytes come in."""

import json
from typing import Any

from hypothesis import strategies as st

# Strings of what could confuse somebody who counts brackets: quotes, backslashes, brackets, other alphabets.
tricky = st.text(alphabet=st.sampled_from('"\\[]{}:, ab\n\té€😀\x00\x7f'), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | tricky
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(tricky, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(tricky, values, max_size=4)
styles: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"ensure_ascii": st.booleans(), "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")])}
)


@st.composite
def texts(draw: st.DrawFn, of: Any = values) -> bytes:
    return json.dumps(draw(of), **draw(styles)).encode()


@st.composite
def cut(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    """The bytes in pieces, of which some may be empty."""
    marks = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[a:b] for a, b in zip([0, *marks], [*marks, len(whole)], strict=True)]


def each_byte(whole: bytes) -> list[bytes]:
    return [whole[at : at + 1] for at in range(len(whole))]
