"""The key of a request: whose it is, how the request carries it, and its redaction elsewhere."""

import os
from string import ascii_lowercase, ascii_uppercase
from typing import Any, cast
from urllib.parse import quote

import msgspec

from ...kit import Context, Secret, ToolError
from ...kit.loader import SettingsError
from ..definition.model import Auth
from ..texts import RestTexts
from .builder import RequestDraft

HIDDEN = "[key]"
HIDDEN_IN_LINK = "\0"
"""A character that no query contains by itself."""
_LOWER_ASCII = str.maketrans(ascii_uppercase, ascii_lowercase)
MIN_KEY_LENGTH = 4
"""A shorter text is not a key, and would be found in any text."""


class Keyring:
    """Chooses the key of a call: the caller's, or else the server's own."""

    def __init__(self, auth: Auth, own: str, callers_only: bool, texts: RestTexts) -> None:
        self._auth = auth
        value = (own or (os.environ.get(auth.variable, "") if auth.variable else "")).strip()
        if not value.isascii() or not value.isprintable():
            raise SettingsError(
                "the key for the API has characters that a header cannot contain; was it copied completely?"
            )
        self.own = Secret(value, "") if value else None
        self._callers_only = callers_only
        self._texts = texts

    def key(self, ctx: Context) -> Secret | None:
        if self._auth.kind == "none":
            return None
        found = ctx.secret(*self._auth.caller)
        if found is None and not self._callers_only:
            found = self.own
        if found is None:
            raise ToolError(self._texts.missing_key.format(ways=self._sources()))
        return found

    def _sources(self) -> str:
        sources = [f"header {name!r}" for name in self._auth.caller]
        if self._auth.variable and not self._callers_only:
            sources.append(f"environment {self._auth.variable}")
        return ", ".join(sources) or "api_key"


def authenticated(draft: RequestDraft, auth: Auth, key: Secret | None) -> RequestDraft:
    """The draft with the key in it; do not store it."""
    if key is None or auth.kind == "none":
        return draft
    if auth.kind == "query":
        if draft.raw_query:
            draft.raw_query += f"&{quote(auth.name, safe='')}={quote(key.reveal(), safe='')}"
        else:
            draft.query = [*draft.query, (auth.name, key.reveal())]
    elif auth.kind == "bearer":
        draft.headers = {**draft.headers, "Authorization": f"Bearer {key.reveal()}"}
    else:
        draft.headers = {**draft.headers, auth.name: auth.prefix + key.reveal()}
    return draft


def redacted(text: str, key: Secret | None, hidden: str = HIDDEN) -> str:
    """The text without the key, also where it is percent-encoded."""
    if key is None or len(value := key.reveal()) < MIN_KEY_LENGTH:
        return text
    text = text.replace(value, hidden)
    if "%" in text:
        for form in dict.fromkeys((quote(value, safe=""), quote(value))):
            text = _replaced(text, form, hidden)
    return text


def _replaced(text: str, form: str, hidden: str) -> str:
    """Replace without case. No pattern is made of a key, because `re` caches patterns."""
    lower, key, replaced, end = text.translate(_LOWER_ASCII), form.translate(_LOWER_ASCII), "", 0
    while (found := lower.find(key, end)) >= 0:
        replaced += text[end:found] + hidden
        end = found + len(key)
    return replaced + text[end:]


def redacted_links(headers: dict[str, str], key: Secret | None) -> dict[str, str]:
    """Redact the Link header, the only header that reaches the model."""
    link = headers.get("link")
    return headers if link is None else {**headers, "link": redacted(link, key, HIDDEN_IN_LINK)}


def redacted_value(value: Any, key: Secret | None, body: bytes) -> Any:
    """Redact a decoded response; returns the same object if it does not contain the key."""
    if key is None or not _contains_key(key.reveal(), value, body):
        return value
    return _redacted_parts(value, key)


def _contains_key(key: str, value: Any, body: bytes) -> bool:
    if len(key) < MIN_KEY_LENGTH:
        return False
    if key.encode() in body:
        return True
    if key.replace("-", "").replace("_", "").replace(".", "").isalnum():
        # JSON may escape any character; encoded again, such a key has only one form.
        return b"\\" in body and key.encode() in msgspec.json.encode(value)
    # Other keys may be escaped with a backslash or a percent sign: only decoding each part can tell.
    return b"\\" in body or b"%" in body


def _redacted_parts(value: Any, key: Secret) -> Any:
    if isinstance(value, str):
        return redacted(value, key)
    if isinstance(value, list):
        return [_redacted_parts(item, key) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        items = cast(dict[str, Any], value)
        return {redacted(name, key): _redacted_parts(item, key) for name, item in items.items()}
    return value
