"""The words of a text as full-text search sees them: no case, no accents, plurals like singulars.

Both databases are given these words and nothing else, in plain ASCII, so that both find the same.
"""

import re
import unicodedata

MOST_WORDS = 20_000
"""Of one memory; what follows is found by its meaning only."""
MOST_ASKED = 10
_LONGEST = 40

# Scripts that put no spaces between words: each character stands for itself.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
# So frequent that looking for them costs most and tells nothing; a question of nothing else keeps them.
_IDLE_WORDS = """
a about all an and any are as at be by can did do doe for from had has have how i if in is it its me my
no not of on or our so that the their them they thi to up was we were what when where which who why will
with you your ao ate com como da das de do dos e ela ele em entre era esta este eu foi ha isso isto ja
mai mas me meu minha na nao nas no nos num numa o os ou para pela pelo por qual quando que quem se sem
ser seu sua so tambem te tem um uma voce
"""
_IDLE = frozenset(_IDLE_WORDS.split())
_EXCERPT = 280
_LOOKED_AT = 20_000


def words_of(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(_folded(text))[:MOST_WORDS]]


def asked_words(query: str) -> list[str]:
    """The different words of a question that tell something, in its order."""
    words = list(dict.fromkeys(words_of(query)))
    return ([word for word in words if word not in _IDLE] or words)[:MOST_ASKED]


def excerpt(text: str, asked: list[str]) -> str:
    """The part of a text around the first of these words; its beginning where there is none."""
    wanted = set(asked)
    at = 0
    for found in _WORD.finditer(text, 0, _LOOKED_AT):
        if _stem(_folded(found[0])) in wanted:
            at = found.start()
            break
    start = max(0, at - _EXCERPT // 3)
    part = text[start : start + _EXCERPT]
    before, after = "…" if start else "", "…" if start + _EXCERPT < len(text) else ""
    return before + " ".join(part.split()) + after


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in apart if not unicodedata.combining(character))


def _stem(word: str) -> str:
    if not word.isascii():
        return "u" + word.encode()[: _LONGEST // 2].hex()
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        if len(word) > 5 and word.endswith(("coes", "soes", "ioes")):
            word = word[:-3] + "ao"
        elif len(word) > 4 and word.endswith("ies"):
            word = word[:-3] + "y"
        else:
            word = word[:-1]
    return word[:_LONGEST]
