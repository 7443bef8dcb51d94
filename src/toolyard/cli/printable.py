"""What strangers wrote, made safe for a terminal.

Descriptions, results and errors come from servers that nobody vouches for; an escape sequence in
them could rewrite the screen, and a direction mark could reorder what is read.
"""

from typing import TextIO

_HARMLESS = "\n\t"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SEPARATORS = [0x2028, 0x2029]  # a line ends there for some terminals and for no others
_TAGS = [*range(0xE0000, 0xE0080)]  # letters that nobody sees
_VISIBLE = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*_CONTROLS, *_DIRECTIONS, *_SEPARATORS, *_TAGS)
    if chr(code) not in _HARMLESS
}


def is_terminal(stream: TextIO | None) -> bool:
    """A stream that was closed before we started is None."""
    return stream is not None and stream.isatty()


def printable(text: str) -> str:
    """The text with control characters spelt out (`\\x1b`)."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def one_line(text: str) -> str:
    """Its first paragraph on one line, for tables."""
    return " ".join(printable(text).strip().split("\n\n")[0].split())
