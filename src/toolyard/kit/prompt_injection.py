"""Finds text that addresses the model instead of the reader, and marks it where it is shown.

A warning, not a filter: patterns can be wrong. Puts suspect words in brackets, and removes the brackets
from text that comes back, so that a text can be written as it was read.
"""

import re
import unicodedata

from ..wire.text import SUSPECT_CLOSE as CLOSE
from ..wire.text import SUSPECT_OPEN as OPEN
from ..wire.text import without_marks

MAX_MARKS = 50

_BEFORE = (
    r"(?:previous|prior|above|earlier|preceding|existing|all|any|your|system|the|these|those|my|of|other)"
)
_ORDERS = r"(?:instructions?|prompts?|rules?|guidelines?|directives?|context|messages?)"
_ANTES = (
    r"(?:anterior(?:es)?|previas?|acima|todas?|todos?|as|os|suas?|seus?|do|da|dos|das|de|sistema|qualquer)"
)
_ORDENS = (
    r"(?:instruc(?:ao|oes)|regras?|ordens|orientac(?:ao|oes)|diretrizes|prompts?|mensage(?:m|ns)|contexto)"
)
# A space means some white space, ~ some or none.
_PATTERNS = (
    rf"(?:ignore|disregard|forget|override|bypass) (?:{_BEFORE} ){{1,4}}{_ORDERS}",
    rf"(?:ignor[ae]r?|desconsider[ae]r?|esquec[ae]r?|desobedec[ae]r?) (?:{_ANTES} ){{0,4}}{_ORDENS}"
    rf"(?: (?:anteriores|previas|acima|do sistema))?",
    r"(?:you are|act as|pretend to be) (?:now )?(?:a|an|in)?~"
    r"(?:jailbroken|unrestricted|dan\b|developer mode|root\b)",
    r"you are now (?:a|an|the|my|in) \w+",
    r"(?:voce|tu) (?:agora e|e agora|es agora) \w+",
    r"(?:new|updated|real) (?:system )?(?:instructions?|prompt)~:",
    r"(?:novas?|verdadeiras?) (?:instrucoes|instrucao|ordens)~:",
    r"(?:reveal|print|show|repeat|leak) (?:me )?(?:your|the) (?:system prompt|hidden instructions)",
    r"(?:revele|mostre|imprima|repita) (?:o seu|seu|o|teu|o teu) prompt(?: d[eo] sistema)?",
    r"(?:do not|don't|never) (?:tell|inform|mention (?:this|it) to) the user",
    r"nao (?:conte|diga|informe|mencione) (?:isso |isto |nada )?ao (?:usuario|utilizador)",
    r"<~/?~(?:system|assistant|user|instructions?|tool_result|function_calls?)\b[^>\n]{0,80}>",
    r"<\|~(?:im_start|im_end|system|endoftext|user|assistant)[^>\n]{0,40}>",
    r"\[/?(?:inst|system)\]",
    r"(?:^|\n)~(?:system|sistema)~:",
)
# Bounded repetitions: otherwise a page of blanks would take hours.
_SUSPECT = re.compile(
    "|".join(f"(?:{pattern})" for pattern in _PATTERNS).replace(" ", r"\s{1,9}").replace("~", r"\s{0,9}")
)
_MARK = re.compile(re.escape(OPEN) + f"([^{CLOSE}]{{0,500}})" + re.escape(CLOSE))


def is_suspect(text: str) -> bool:
    return _SUSPECT.search(_plain(text)) is not None


def count_suspect(text: str) -> int:
    return len(_spans(text))


def marked(text: str) -> str:
    """The text with its suspect parts in brackets."""
    parts: list[str] = []
    end = 0
    for start, stop in _spans(text):
        parts += [text[end:start], OPEN, text[start:stop], CLOSE]
        end = stop
    return "".join([*parts, text[end:]]) if parts else text


def unmarked(text: str) -> str:
    return _MARK.sub(r"\1", text) if OPEN in text else text


def _spans(text: str) -> list[tuple[int, int]]:
    if not is_suspect(text):
        return []
    # Slow, so only now: map each character to its place in the text.
    plain: list[str] = []
    places: list[int] = []
    for index, character in enumerate(text):
        folded = _plain(character)
        plain.append(folded)
        places += [index] * len(folded)
    found = list(_SUSPECT.finditer("".join(plain)))[:MAX_MARKS]
    return [(places[match.start()], places[match.end() - 1] + 1) for match in found]


def _plain(text: str) -> str:
    """The text without case, accents and invisible characters."""
    if text.isascii():
        return text.lower()
    bare = without_marks(text).casefold()
    return "".join(c for c in bare if not unicodedata.combining(c) and unicodedata.category(c) != "Cf")
