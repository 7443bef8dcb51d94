"""Clients of the authorization server: which redirects they may name, and how they register and show up.

A client that registers itself (RFC 7591) gets an id that contains its registration, sealed with the gateway's
key. Nothing is stored, so nobody can fill a store, every replica knows every client, and no registration is
forgotten. Its secret, if it wants one, is derived from the id. Documents of clients are in `documents`.
"""

import hmac
import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ..config.callers import LoginClientConfig
from ..wire.seal import BrokenSeal, Sealer

CLIENT_PREFIX = "tyc_"
SECRET_PREFIX = "tycs_"
MAX_REDIRECT = 1024
MAX_REDIRECTS = 20
MAX_NAME = 80
MAX_CLIENT_ID = 4096
AUTH_METHODS = ("none", "client_secret_post", "client_secret_basic")
LOOPBACK_HOSTS = ("127.0.0.1", "[::1]", "localhost")
"""Applications listen there on any free port, so the port of such a redirect does not count."""
_PURPOSE = "oauth-client"
_SECRET_PURPOSE = "client-secret"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_ALLOWED = re.compile(r"[\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+")
"""ASCII without blanks, quotes, angle brackets, backslashes and what else browsers read in several ways."""
_HOST_AND_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(\d{1,5}))?", re.IGNORECASE)
# Schemes that run, show or open something themselves instead of handing a code to an application.
# fmt: off
_CLOSED_SCHEMES = frozenset((
    "about", "blob", "chrome", "chrome-extension", "content", "data", "file", "filesystem", "ftp", "ftps",
    "intent", "jar", "javascript", "ldap", "mailto", "mhtml", "moz-extension", "ms-appinstaller", "ms-msdt",
    "ms-officecmd", "resource", "search", "search-ms", "sftp", "shell", "sms", "smb", "ssh", "tel",
    "telnet", "urn", "vbscript", "view-source", "ws", "wss",
))
# fmt: on

AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]


class RegistrationError(Exception):
    """`code` is that of RFC 7591."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description


class OAuthClient(Struct, frozen=True, kw_only=True):
    """A client, however it became known."""

    id: str
    label: str
    """Names it in logs, rules and lists: a short text that stays the same."""
    name: str = ""
    """What it calls itself, made fit to be shown. Nobody has checked it, unless `host` is set."""
    redirect_uris: tuple[str, ...]
    method: AuthMethod = "none"
    host: str = ""
    """The host that vouches for it, because its metadata are there."""
    is_configured: bool = False
    """Whether an operator wrote it into the configuration."""

    def redirect(self, given: str) -> str | None:
        """The redirect to use for this request; None if it is not one of the client's."""
        if not given:
            return self.redirect_uris[0] if len(self.redirect_uris) == 1 else None
        known = any(same_redirect(uri, given) for uri in self.redirect_uris)
        return given if known and is_redirect(given) else None


def is_redirect(uri: str) -> bool:
    """Whether a code may be sent there at all: https, this machine, or an application's own scheme."""
    scheme = _SCHEME.match(uri)
    if scheme is None or len(uri) > MAX_REDIRECT or not _ALLOWED.fullmatch(uri) or "#" in uri:
        return False
    name = scheme[1].lower()
    if name not in ("http", "https"):
        return name not in _CLOSED_SCHEMES and len(uri) > len(name) + 1
    found = _HOST_AND_PORT.fullmatch(_authority(uri))
    if found is None or not uri[len(name) :].startswith("://"):
        return False
    return name == "https" or found[1].lower() in LOOPBACK_HOSTS


def _authority(uri: str) -> str:
    return re.split(r"[/?#]", uri.partition("://")[2], maxsplit=1)[0]


def same_redirect(registered: str, given: str) -> bool:
    """The same text; at a loopback address, the same but for the port (RFC 8252)."""
    return registered == given or (
        (plain := _without_port(registered)) is not None and plain == _without_port(given)
    )


def _without_port(uri: str) -> str | None:
    if not uri.startswith("http://"):
        return None
    authority = _authority(uri)
    found = _HOST_AND_PORT.fullmatch(authority)
    if found is None or found[1] not in LOOPBACK_HOSTS:
        return None
    return f"http://{found[1]}{uri.removeprefix(f'http://{authority}')}"


def redirect_target(uri: str) -> tuple[Literal["web", "machine", "application"], str]:
    """Where a redirect leads, for people: a host, this machine, or the scheme of an application."""
    scheme = uri.partition(":")[0].lower()
    if scheme not in ("http", "https"):
        return "application", f"{scheme}:"
    host = (urlsplit(uri).hostname or "").lower()
    is_local = scheme == "http" or host in ("127.0.0.1", "::1", "localhost")
    return ("machine", host) if is_local else ("web", host)


def shown_name(text: object) -> str:
    """A name from outside, fit for a page: one line, no invisible or reordering characters, not long."""
    if not isinstance(text, str):
        return ""
    plain = "".join(
        " " if character.isspace() else character
        for character in unicodedata.normalize("NFKC", text[: MAX_NAME * 4])
        if character.isspace() or unicodedata.category(character)[0] not in "CZ"
    )
    plain = " ".join(plain.split())
    return plain if len(plain) <= MAX_NAME else f"{plain[: MAX_NAME - 1]}…"


class _Sealed(Struct, frozen=True, array_like=True):
    """What is in the id of a registered client."""

    redirect_uris: tuple[str, ...]
    name: str
    method: AuthMethod
    issued: int


class Registration(Struct, frozen=True):
    """A registered client, with the secret that it is told now and never again."""

    client: OAuthClient
    secret: str
    issued: int
    asked: dict[str, Any]
    """What it sent; known parts are repeated in the answer."""

    def answer(self) -> dict[str, object]:
        repeated = {
            name: self.asked[name]
            for name in ("client_uri", "scope", "application_type", "software_id", "software_version")
            if isinstance(self.asked.get(name), str)
        }
        answer: dict[str, object] = {
            **repeated,
            "client_id": self.client.id,
            "client_id_issued_at": self.issued,
            "client_name": self.client.name,
            "redirect_uris": list(self.client.redirect_uris),
            "token_endpoint_auth_method": self.client.method,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
        if self.secret:
            answer |= {"client_secret": self.secret, "client_secret_expires_at": 0}
        return answer


class ClientDocuments(Protocol):
    async def find(self, url: str, asker: str = "") -> OAuthClient | None: ...


class OAuthClients:
    """Finds clients by their ids: those of the configuration, registered ones, and documents."""

    def __init__(
        self,
        configured: Sequence[LoginClientConfig],
        sealer: Sealer,
        documents: ClientDocuments,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._configured = {client.id: client for client in configured}
        self._sealer = sealer
        self._documents = documents
        self._now = now

    async def find(self, id: str, asker: str = "") -> OAuthClient | None:
        """None for a client that is not known (any more). `asker` is the address for which it is looked for.

        Raises BusyError.
        """
        known = self._configured.get(id)
        if known is not None:
            return OAuthClient(
                id=id,
                label=id,
                name=shown_name(known.name or id),
                redirect_uris=known.redirect_uris,
                method="client_secret_basic" if known.secret else "none",
                is_configured=True,
            )
        if id.startswith(CLIENT_PREFIX):
            return self._open(id)
        if id.startswith(("https://", "http://")):
            return await self._documents.find(id, asker)
        return None

    def register(self, asked: object) -> Registration:
        """Raises RegistrationError. Redirects that are not possible are left out, if others remain."""
        if not isinstance(asked, dict):
            raise RegistrationError("invalid_client_metadata", "the body must be a JSON object")
        values = cast("dict[str, Any]", asked)
        given: Any = values.get("redirect_uris")
        uris: list[Any] = cast("list[Any]", given) if isinstance(given, list) else []
        usable = [uri for uri in uris[:MAX_REDIRECTS] if isinstance(uri, str) and is_redirect(uri)]
        if not usable:
            raise RegistrationError(
                "invalid_redirect_uri",
                "redirect_uris needs an https address, a loopback address, or the scheme of an application",
            )
        wanted = values.get("token_endpoint_auth_method", "client_secret_basic")
        method = wanted if wanted in AUTH_METHODS else "none"
        issued = int(self._now())
        sealed = _Sealed(tuple(dict.fromkeys(usable)), shown_name(values.get("client_name")), method, issued)
        id = CLIENT_PREFIX + self._sealer.seal(msgspec.json.encode(sealed), _PURPOSE)
        if len(id) > MAX_CLIENT_ID:
            raise RegistrationError("invalid_client_metadata", "the redirect_uris are too long")
        client = self._open(id)
        assert client is not None
        secret = "" if method == "none" else self._secret(id)
        return Registration(client, secret, issued, values)

    def is_secret(self, client: OAuthClient, given: str) -> bool:
        """Whether this is the client's secret. A client without one needs none."""
        if client.method == "none":
            return True
        known = self._configured.get(client.id)
        secret = self._secret(client.id) if known is None else known.secret
        return hmac.compare_digest(secret.encode(), given.encode())

    def _open(self, id: str) -> OAuthClient | None:
        if len(id) > MAX_CLIENT_ID:
            return None
        try:
            raw = self._sealer.open(id.removeprefix(CLIENT_PREFIX), _PURPOSE)
            sealed = msgspec.json.decode(raw, type=_Sealed)
        except (BrokenSeal, msgspec.DecodeError):
            return None
        return OAuthClient(
            id=id,
            label=f"registered:{self._sealer.fingerprint(id, _PURPOSE)[:12]}",
            name=sealed.name,
            redirect_uris=sealed.redirect_uris,
            method=sealed.method,
        )

    def _secret(self, id: str) -> str:
        return SECRET_PREFIX + self._sealer.fingerprint(id, _SECRET_PURPOSE)
