"""The words of a query and where they occur in a text. Ignores case and accents; a query has no syntax."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MOST_WORDS = 16
_LONGEST = 100
_WORD = re.compile(r"[^\W_]+")


class _Plain(dict[int, int]):
    """For `str.translate`: every character becomes exactly one, so that places in the text stay the same."""

    def __missing__(self, code: int) -> int:
        lowered = unicodedata.normalize("NFKD", chr(code))[:1].lower()
        self[code] = ord(lowered) if len(lowered) == 1 else code
        return self[code]


_PLAIN = _Plain()


def plain(text: str) -> str:
    """In lower case and without accents, character by character."""
    return text.lower() if text.isascii() else text.translate(_PLAIN)


def words(text: str) -> list[str]:
    """The words of a query, each once, in order."""
    folded = plain(unicodedata.normalize("NFC", text))
    found = [word[:_LONGEST] for word in _WORD.findall(folded)]
    return list(dict.fromkeys(found))[:MOST_WORDS]


def all_words(text: str) -> list[str]:
    """Every word of a text that is to be found again, each once."""
    return list({word for word in _WORD.findall(plain(text)) if len(word) <= _LONGEST})


def finders(wanted: Sequence[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Two that look in a text made plain: for these words, and for words that begin like one of them."""
    choices = "|".join(re.escape(word) for word in sorted(wanted, key=len, reverse=True))
    begun = rf"(?<![^\W_])(?:{choices})"
    return re.compile(rf"{begun}(?![^\W_])"), re.compile(rf"{begun}[^\W_]*")
