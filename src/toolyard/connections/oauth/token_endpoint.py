"""Requests to a token endpoint: client authentication, every grant type, and what the answer means.

Sends each request once: a refresh token that is used twice may end the whole connection. The exception is
an answer that asks for a DPoP nonce, which says that nothing was done.
"""

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

from .errors import (
    AuthorityUnavailableError,
    GrantRefusedError,
    UnknownClientError,
    UntrustedAuthorityError,
    shown_code,
)
from .fetching import FetchedReply, GuardedFetcher, shown_url
from .metadata import scopes_of
from .proofs import DpopKey, client_assertion

JWT_BEARER_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
ID_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
ID_JAG_TYPE = "urn:ietf:params:oauth:token-type:id-jag"

NO_ACCESS = "N_A"
"""The type of a token that is no access token (RFC 8693)."""
MAX_TOKEN = 32 * 1024
LONGEST_LIFE = 10 * 365 * 86400.0
_TYPES = {"bearer": "Bearer", "dpop": "DPoP", "n_a": NO_ACCESS}
_LATER = ("temporarily_unavailable", "server_error", "slow_down")


class SigningKey(Struct, frozen=True):
    pem: str
    algorithm: str = "ES256"
    key_id: str = ""

    def __repr__(self) -> str:
        return f"SigningKey({self.algorithm})"


class ClientIdentity(Struct, frozen=True, kw_only=True):
    """A client id at one issuer, and how the client shows that it is that client."""

    id: str
    issuer: str
    secret: str = ""
    method: str = "none"
    source: Literal["configured", "metadata", "registered"] = "configured"
    redirect: str = ""
    """The redirect URI that was registered with it."""

    def __repr__(self) -> str:
        return f"ClientIdentity({self.id[:80]!r} at {self.issuer!r})"


class TokenReply(Struct, frozen=True, kw_only=True):
    access_token: str
    token_type: str = "Bearer"
    lifetime: float | None = None
    refresh_token: str = ""
    scopes: tuple[str, ...] | None = None
    """None: as they were asked for."""
    id_token: str = ""
    issued_type: str = ""

    def __repr__(self) -> str:
        return f"TokenReply({self.token_type}, lifetime={self.lifetime})"


class TokenEndpoint:
    def __init__(
        self,
        fetcher: GuardedFetcher,
        url: str,
        client: ClientIdentity | None,
        *,
        key: SigningKey | None = None,
        dpop: DpopKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetcher = fetcher
        self.url = url
        self._client = client
        self._key = key
        self._dpop = dpop
        self._clock = clock

    async def request(self, form: Mapping[str, str]) -> TokenReply:
        """Raises GrantRefusedError, UnknownClientError, AuthorityUnavailableError; UntrustedAuthorityError if
        the answer is another kind of token than was asked for.
        """
        reply = await self._post(form)
        if self._dpop is not None:
            said = (reply.json() or {}).get("error")
            is_new = self._dpop.note_nonce(self.url, reply.headers.get("dpop-nonce", ""))
            if reply.status in (400, 401) and said == "use_dpop_nonce" and is_new:
                reply = await self._post(form)
                self._dpop.note_nonce(self.url, reply.headers.get("dpop-nonce", ""))
        found = read_token_reply(reply, self.url)
        _check_type(found, form.get("requested_token_type", ""), self.url)
        wanted = "Bearer" if self._dpop is None else "DPoP"
        if found.token_type not in (wanted, NO_ACCESS):
            raise UntrustedAuthorityError(
                f"{shown_url(self.url)} issued a token of the type {found.token_type}, not {wanted}",
                "set 'dpop' in the server's auth to what its issuer supports",
            )
        return found

    async def _post(self, form: Mapping[str, str]) -> FetchedReply:
        members, headers = self.authenticated(form)
        if self._dpop is not None:
            headers["DPoP"] = self._dpop.proof("POST", self.url)
        return await self._fetcher.post_form(self.url, members, headers)

    def authenticated(self, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers with the client's authentication."""
        members, headers = dict(form), {"Accept": "application/json"}
        client = self._client
        if client is None:
            return members, headers
        if client.method == "client_secret_basic":
            pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            return members, headers
        members["client_id"] = client.id
        if client.method == "client_secret_post":
            members["client_secret"] = client.secret
        elif client.method == "private_key_jwt" and self._key is not None:
            key = self._key
            members["client_assertion_type"] = JWT_BEARER_ASSERTION
            members["client_assertion"] = client_assertion(
                key.pem, key.algorithm, key.key_id, client.id, client.issuer or self.url, self._clock
            )
        return members, headers


def read_token_reply(reply: FetchedReply, url: str) -> TokenReply:
    place = shown_url(url)
    members = reply.json()
    if reply.status >= 500 or reply.status in (408, 425, 429):
        raise AuthorityUnavailableError(f"{place} answered {reply.status}")
    if members is None:
        raise AuthorityUnavailableError(f"{place} answered {reply.status}, and not with JSON")
    if reply.status >= 300 or "error" in members:
        raise _refusal(reply.status, members, place)
    token = members.get("access_token")
    if not isinstance(token, str) or not is_sendable(token):
        raise AuthorityUnavailableError(f"{place} answered without a usable access_token")
    kind = members.get("token_type", "Bearer")
    known = _TYPES.get(kind.lower()) if isinstance(kind, str) else None
    if known is None:
        raise AuthorityUnavailableError(f"{place} issued a token of an unknown type")
    refresh, identity = members.get("refresh_token"), members.get("id_token")
    issued = members.get("issued_token_type")
    return TokenReply(
        access_token=token,
        token_type=known,
        lifetime=_lifetime(members.get("expires_in")),
        refresh_token=refresh if isinstance(refresh, str) and _is_plain(refresh) else "",
        scopes=scopes_of(members["scope"]) if isinstance(members.get("scope"), str) else None,
        id_token=identity if isinstance(identity, str) and _is_plain(identity) else "",
        issued_type=issued if isinstance(issued, str) else "",
    )


def _check_type(reply: TokenReply, wanted: str, url: str) -> None:
    """An exchange can end in any kind of token, and only an access token is sent to a server."""
    if wanted == ID_JAG_TYPE:
        fits = reply.issued_type == ID_JAG_TYPE
    else:
        issued = (wanted, JWT_TYPE, "") if wanted == ACCESS_TOKEN_TYPE else (wanted, "")
        fits = reply.token_type != NO_ACCESS and (not wanted or reply.issued_type in issued)
    if not fits:
        what = "an ID-JAG" if wanted == ID_JAG_TYPE else "an access token"
        raise UntrustedAuthorityError(
            f"{shown_url(url)} gave another kind of token than {what}",
            "its operator has to say what may be exchanged for what",
        )


def _refusal(status: int, members: Mapping[str, Any], place: str) -> Exception:
    code = shown_code(members.get("error"))
    if code in _LATER:
        return AuthorityUnavailableError(f"{place} answered {code}")
    if code in ("invalid_client", "unauthorized_client") or (status == 401 and code == "an unknown error"):
        return UnknownClientError(f"{place} does not accept our client ({code})", code)
    return GrantRefusedError(f"{place} refused ({code})", code)


def is_sendable(token: str) -> bool:
    """Whether a header can carry it, and nothing else with it."""
    return 0 < len(token) <= MAX_TOKEN and token.isascii() and all("\x21" <= sign <= "\x7e" for sign in token)


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= MAX_TOKEN and text.isascii() and text.isprintable()


def _lifetime(value: Any) -> float | None:
    """In seconds; None if the answer does not say it, or says nonsense."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:18])
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    return float(min(value, LONGEST_LIFE))
