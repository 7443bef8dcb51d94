"""Sentences in English and Portuguese, beside each other where they are said, and the language of an answer.

Whoever answers a call (a gateway, a server of the kit, an edge) does so within `answering(locale)`; whatever
is said there, however deep, is `said` in that language. Words between programs (the protocol's own errors,
logs) are English.
"""

from contextvars import ContextVar, Token
from typing import Literal

Locale = Literal["en", "pt"]

_locale: ContextVar[Locale] = ContextVar("toolyard.locale", default="en")


def said(en: str, pt: str) -> str:
    """Return the sentence in the language in which we answer now."""
    return en if _locale.get() == "en" else pt


def current_locale() -> Locale:
    """Return the language in which we answer now, for texts that do not stand beside each other."""
    return _locale.get()


class answering:
    """Answers in this language until the block ends: `with answering("pt"):`."""

    __slots__ = ("_locale", "_token")

    def __init__(self, locale: Locale) -> None:
        self._locale: Locale = locale

    def __enter__(self) -> None:
        self._token: Token[Locale] = _locale.set(self._locale)

    def __exit__(self, *_: object) -> None:
        _locale.reset(self._token)


def locale_named(name: str) -> Locale | None:
    """Read `en`, `pt`, or one with a region, such as `pt-BR`; None for another language."""
    language = name.replace("_", "-").partition("-")[0].lower()
    return "en" if language == "en" else "pt" if language == "pt" else None
