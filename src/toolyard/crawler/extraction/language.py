"""The language of a text, for pages that do not name it: by script, and by the most frequent small words."""

import re
import unicodedata
from collections import Counter

SAMPLE = 4000
_CODE = re.compile(r"^([a-z]{2,3})(?:[-_]|$)", re.IGNORECASE)
_SCRIPTS = {
    "HANGUL": "ko",
    "ARABIC": "ar",
    "HEBREW": "he",
    "GREEK": "el",
    "THAI": "th",
    "DEVANAGARI": "hi",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "TELUGU": "te",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
}
_WORDS = {
    "en": "the and of to in is that for with was are this not from you have be as on by which",
    "pt": "de que e do da em um para com não uma os no se na por mais dos das foi são ao muito",
    "es": "de la que el en y los se del las un por con no una para su es al lo como más pero",
    "fr": "de la le et les des en un du une que est pour qui dans par plus pas au sur avec ce",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch",
    "it": "di che e la il un a per in una sono con non del da si le della più come al nel",
    "nl": "de van het een en in is dat op te zijn met voor niet aan er om ook als maar bij",
    "sv": "och att det som en på är av för med den till inte om ett har de jag var",
    "pl": "w i na z do się nie że jest to o jak po za od przez tym ale co",
    "tr": "ve bir bu da de için ile olarak çok daha olan gibi en ne kadar",
    "ru": "и в не на что с по как это он но из для от его к все за",
    "uk": "і в не на що з як до та за це від або для про його є",
}
_SETS = {code: frozenset(words.split()) for code, words in _WORDS.items()}


def language_code(claim: str) -> str:
    """`pt` of `pt-BR`; empty if it is none."""
    found = _CODE.match(claim.strip())
    return found[1].lower() if found else ""


def language_of(text: str) -> str:
    """Empty if it cannot be told."""
    sample = text[:SAMPLE]
    scripts = Counter(
        unicodedata.name(c, "").partition(" ")[0] for c in sample if ord(c) > 0x2FF and c.isalpha()
    )
    letters = sum(1 for c in sample if c.isalpha())
    if scripts and scripts.total() > letters * 0.3:
        if scripts["HIRAGANA"] + scripts["KATAKANA"] > scripts.total() * 0.05:
            return "ja"
        script = scripts.most_common(1)[0][0]
        if script == "CJK":
            return "zh"
        if script in _SCRIPTS:
            return _SCRIPTS[script]
    words = re.findall(r"[^\W\d_]+", sample.lower())
    if len(words) < 10:
        return ""
    counts = {code: sum(1 for word in words if word in known) for code, known in _SETS.items()}
    code = max(counts, key=lambda one: counts[one])
    return code if counts[code] >= max(3, len(words) * 0.08) else ""
