"""How much of a known text an extraction has: precision, recall and F1 over words, in any script."""

import re
from collections import Counter
from dataclasses import dataclass

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")
_MARKUP = re.compile(r"^\s*(?:#{1,6}\s|>+\s?|[-*+]\s|\|[\s|:-]+\|$|```\w*$)", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s[^)]*)?\)")


@dataclass(frozen=True)
class Score:
    f1: float
    precision: float
    recall: float


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def plain(markdown: str, title: str = "") -> str:
    """The words of Markdown, without the title: some readers give it apart."""
    text = _MARKUP.sub("", _LINK.sub(r"\1", markdown).replace("\\|", "|"))
    lines = text.splitlines()
    wanted = words(title)
    return "\n".join(line for line in lines if not wanted or words(line) != wanted)


def score(found: str, known: str) -> Score:
    got, wanted = Counter(words(found)), Counter(words(known))
    both = sum((got & wanted).values())
    precision = both / max(1, sum(got.values()))
    recall = both / max(1, sum(wanted.values()))
    f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    return Score(f1, precision, recall)
