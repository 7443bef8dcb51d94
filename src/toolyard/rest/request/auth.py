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
"""No query has this one by itself, as it may have the other."""
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
SHORTEST = 4
"""What is shorter is no key, and would be found in any text."""


class Keyring:
    """Says which key a call is made with: the caller's, or else our own."""

    def __init__(self, auth: Auth, own: str, callers_only: bool, words: RestTexts) -> None:
        self._auth = auth
        value = (own or (os.environ.get(auth.variable, "") if auth.variable else "")).strip()
        if not value.isascii() or not value.isprintable():
            raise SettingsError(
                "the key for the API has characters that no header takes; was it copied whole?"
            )
        self.own = Secret(value, "") if value else None
        self._callers_only = callers_only
        self._words = words

    def key(self, ctx: Context) -> Secret | None:
        if self._auth.kind == "none":
            return None
        found = ctx.secret(*self._auth.caller)
        if found is None and not self._callers_only:
            found = self.own
        if found is None:
            raise ToolError(self._words.missing_key.format(ways=self._ways()))
        return found

    def _ways(self) -> str:
        ways = [f"header {name!r}" for name in self._auth.caller]
        if self._auth.variable and not self._callers_only:
            ways.append(f"environment {self._auth.variable}")
        return ", ".join(ways) or "api_key"


def authenticated(draft: RequestDraft, auth: Auth, key: Secret | None) -> RequestDraft:
    """The draft with the key in it. Send it and let go of it."""
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
    """A text of the API without the key, in whatever way it was written into it."""
    if key is None or len(value := key.reveal()) < SHORTEST:
        return text
    text = text.replace(value, hidden)
    if "%" in text:
        for form in dict.fromkeys((quote(value, safe=""), quote(value))):
            text = _replaced(text, form, hidden)
    return text


def _replaced(text: str, form: str, hidden: str) -> str:
    """In whatever case its digits are. No pattern is made of a key: `re` would keep it."""
    small, wanted, kept, at = text.translate(_SMALL), form.translate(_SMALL), "", 0
    while (found := small.find(wanted, at)) >= 0:
        kept += text[at:found] + hidden
        at = found + len(wanted)
    return kept + text[at:]


def redacted_links(headers: dict[str, str], key: Secret | None) -> dict[str, str]:
    """The same for the one header of a reply whose words go to the model: where a list goes on."""
    link = headers.get("link")
    return headers if link is None else {**headers, "link": redacted(link, key, HIDDEN_IN_LINK)}


def redacted_value(value: Any, key: Secret | None, body: bytes) -> Any:
    """The same for a decoded reply; one that does not have the key is handed back as it is."""
    if key is None or not _contains_key(key.reveal(), value, body):
        return value
    return _redacted_parts(value, key)


def _contains_key(key: str, value: Any, body: bytes) -> bool:
    if len(key) < SHORTEST:
        return False
    if key.encode() in body:
        return True
    if key.replace("-", "").replace("_", "").replace(".", "").isalnum():
        # Nothing has to write such a key in another way, but JSON can: written anew, it has one spelling.
        return b"\\" in body and key.encode() in msgspec.json.encode(value)
    # Some of the others have spellings with a backslash in JSON or a percent sign: only the walk can tell.
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
