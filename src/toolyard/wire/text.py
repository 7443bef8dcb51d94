"""Text that can be sent, shown and compared: no lone surrogates, nothing invisible, suspect parts marked."""

import re
from typing import Literal

SUSPECT_OPEN, SUSPECT_CLOSE = "⟦suspect: ", "⟧"
"""Around words that talk to the model instead of to the reader (`kit/prompt_injection.py`)."""


def clean(text: str) -> str:
    """Halves of characters, as in file names that are not UTF-8, become `?`; all other text stays."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


# `unicodedata.normalize` takes quadratic time for a long run of combining marks, and nothing else runs
# meanwhile: half a minute for 100 KB.
_PIECE = 256
_MOST_MARKS = 30
"""In a run. No language has more than a few."""


def normalized(form: Literal["NFC", "NFKC"], text: str) -> str:
    """The text in a form of Unicode. The rest of a run of very many combining marks is left out."""
    import unicodedata  # 1 ms, and few texts need it

    if len(text) > _PIECE and not text.isascii():
        kept: list[str] = []
        run = 0
        for character in text:
            run = run + 1 if unicodedata.category(character) == "Mn" else 0
            if run <= _MOST_MARKS:
                kept.append(character)
        text = "".join(kept)
    return unicodedata.normalize(form, text)


def without_marks(text: str) -> str:
    """The compatible forms of all characters (NFKD), without accents and other combining marks."""
    if text.isascii():
        return text
    import unicodedata

    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    apart = (unicodedata.normalize("NFKD", piece) for piece in pieces)
    return "".join("".join(mark for mark in piece if not unicodedata.combining(mark)) for piece in apart)


_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # but for tabs and line feeds
_SEPARATORS = r"\u2028\u2029"  # a line ends there for some terminals and for no others
# The default ignorable characters of Unicode, which are not drawn, and the marks around annotations.
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{_CONTROLS}{_SEPARATORS}{_INVISIBLE}]")
_JOINERS = "\u200c\u200d"
_SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def printable(text: str) -> str:
    """Spell out characters that control a terminal or are invisible (`\\x1b`, `\\ufeff`)."""
    return _HIDDEN.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character in _JOINERS or _SELECTORS.match(character):
        before = found.string[found.start() - 1 : found.start()]
        if _changes_display(before, character, found.string[found.end() : found.end() + 1]):
            return character
    return character.encode("unicode_escape").decode()


def _changes_display(before: str, character: str, after: str) -> bool:
    """Whether it changes the display, as between emoji and in some scripts, never among Latin letters."""
    from unicodedata import category  # 1 ms, and few texts have any of these

    def drawn(other: str) -> bool:
        return bool(other) and category(other)[0] in "LMS" and category(other) not in ("Lu", "Ll", "Lt")

    if character in _JOINERS:
        return drawn(before) and drawn(after) and after not in _JOINERS
    # A digit with a selector is the first part of a keycap. A second selector in a row has no effect.
    if not before or _SELECTORS.match(before):
        return False
    return drawn(before) or category(before) in ("Nd", "Po")
