"""The words of a query and where they occur in a text. Ignores case and accents; a query has no syntax."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ...wire.text import normalized

MAX_WORDS = 16
_LONGEST = 100
_WORD = re.compile(r"[^\W_]+")


class _Plain(dict[int, int]):
    """For `str.translate`: maps every character to exactly one, so that positions stay the same."""

    def __missing__(self, code: int) -> int:
        lowered = unicodedata.normalize("NFKD", chr(code))[:1].lower()
        self[code] = ord(lowered) if len(lowered) == 1 else code
        return self[code]


_PLAIN = _Plain()


def plain(text: str) -> str:
    """Removes case and accents, character by character."""
    return text.lower() if text.isascii() else text.translate(_PLAIN)


def words(text: str) -> list[str]:
    """The words of a query, each once, in order."""
    folded = plain(normalized("NFC", text))
    found = [word[:_LONGEST] for word in _WORD.findall(folded)]
    return list(dict.fromkeys(found))[:MAX_WORDS]


def all_words(text: str) -> list[str]:
    """Every word of a text to index, each once."""
    return list({word for word in _WORD.findall(plain(text)) if len(word) <= _LONGEST})


def finders(wanted: Sequence[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Two patterns for a plain text: one for these words, one for words with these prefixes."""
    choices = "|".join(re.escape(word) for word in sorted(wanted, key=len, reverse=True))
    begun = rf"(?<![^\W_])(?:{choices})"
    return re.compile(rf"{begun}(?![^\W_])"), re.compile(rf"{begun}[^\W_]*")
