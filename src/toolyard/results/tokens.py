"""How many tokens a text costs a model, estimated: what a tokeniser of a current model would count.

A word of up to ten letters costs a token, and so does a run of marks with the line breaks behind it, three
digits, an indentation, and the space before a number. Against o200k on JSON, CSV, prose and code this is
within a tenth (`python -m bench.tokens --estimate`). Lines drawn with marks cost very little.
"""

import re

from .json_parts import Buffer

_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[^\W\d_a-zA-Z]+|\d+|[^\w\s]+[\r\n]*|\s*\n\s*| {2,}| (?=\d)")
LOOKED_AT = 16_384
LONGEST_WORD = 10
LONGEST_MARKS = 4
LONGEST_LINE = 64
"""Tokenisers have tokens for lines of `=` and the like, up to so long."""


def estimated(text: str) -> int:
    """Of a long text the beginning is counted, and the rest taken to be like it."""
    looked = text[:LOOKED_AT]
    found = sum(map(_cost, _PIECES.findall(looked)))
    return found if len(text) == len(looked) else round(found * len(text) / len(looked))


def estimated_in(body: Buffer) -> int:
    """Of UTF-8, of which no more is decoded than is looked at."""
    looked = str(bytes(body[:LOOKED_AT]), "utf-8", "replace")
    found = estimated(looked)
    return found if len(body) <= LOOKED_AT else round(found * len(body) / LOOKED_AT)


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isalpha():
        if first < "\x80":
            return -(-len(piece) // LONGEST_WORD)
        # Of other alphabets three letters cost a token, of scripts without spaces two.
        return -(-len(piece) // 3) if first < "\u2e80" else -(-len(piece) * 2 // 3)
    if first.isdigit():
        return -(-len(piece) // 3)
    if first.isspace():
        return 1
    if first < " " or first > "~":  # control characters, signs and pictures
        return -(-len(piece) // 2) if first < " " else len(piece)
    is_line = len(piece) > 2 * LONGEST_MARKS and len(set(piece)) <= 2
    return -(-len(piece) // (LONGEST_LINE if is_line else LONGEST_MARKS))
