"""The key of a request: whose it is, how the request carries it, and its redaction elsewhere."""

import os
from string import ascii_lowercase, ascii_uppercase
from urllib.parse import quote

from ...kit import Context, Secret, ToolError
from ...kit.loader import SettingsError
from ...wire.secrets import KnownSecrets
from ..definition.model import Auth
from ..http.connection import RestResponse
from ..texts import RestTexts
from .builder import RequestDraft

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


def without_key(reply: RestResponse, key: Secret | None) -> RestResponse:
    """The response as everybody may see it, whatever it repeats of the key that the request carried."""
    if key is None:
        return reply
    known = KnownSecrets((key.reveal(),))
    headers = {
        name: _without_pairs(value, key) if name == "link" else known.clean_text(value)
        for name, value in reply.headers.items()
    }
    return RestResponse(reply.status, headers, known.clean(reply.body))


def _without_pairs(link: str, key: Secret) -> str:
    """Mark the key in the query of a link, which is requested again."""
    value = key.reveal()
    if len(value) < MIN_KEY_LENGTH:
        return link
    link = link.replace(value, HIDDEN_IN_LINK)
    if "%" in link:
        for form in dict.fromkeys((quote(value, safe=""), quote(value))):
            link = _replaced(link, form, HIDDEN_IN_LINK)
    return link


def _replaced(text: str, form: str, hidden: str) -> str:
    """Replace without case. No pattern is made of a key, because `re` caches patterns."""
    lower, key, replaced, end = text.translate(_LOWER_ASCII), form.translate(_LOWER_ASCII), "", 0
    while (found := lower.find(key, end)) >= 0:
        replaced += text[end:found] + hidden
        end = found + len(key)
    return replaced + text[end:]
