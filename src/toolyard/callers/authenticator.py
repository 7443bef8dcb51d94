"""The authenticator: finds out who makes a request, or refuses it.

Owns the order of the methods, the cache of credentials, the challenges, a trusted proxy's headers, the local
user, and the brake on guessing. Each kind of token has a `TokenVerifier` elsewhere: API keys in `keys`, those
of issuers in `tokens` and `introspection`.

Order: a token in `Authorization`, by the first verifier that recognizes it; a trusted proxy's headers; the
local user. A token that is sent and not valid ends the request: no weaker method is tried after it.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from hashlib import blake2b
from typing import Protocol
from urllib.parse import parse_qsl

from msgspec import Struct

from ..config.callers import ProxyConfig
from ..edge.proxies import AddressSet, block_of, read_address
from ..edge.request import Headers, Refused
from ..languages import said
from ..wire.call import Identity, Principal
from ..wire.errors import INSUFFICIENT_SCOPE, McpError
from ..wire.headers import RequestHeaders
from .errors import (
    CallerError,
    InsufficientScopeError,
    InvalidTokenError,
    IssuerUnavailableError,
    VerifierUnavailableError,
)

logger = logging.getLogger("toolyard.callers")

MAX_CREDENTIAL = 16 * 1024
"""Bytes of an Authorization header. A longer one is refused before anything is computed from it."""
MAX_CACHED = 10_000
MAX_LOCATED = 256
RECHECK_SECONDS = 5.0
"""How long a token is believed before it is verified again: a revocation takes effect within this time."""
RECHECK_GRANT_SECONDS = 2.0
"""The same for grants: they are short-lived, and what they name is remembered elsewhere."""
RECHECKING_SECONDS = 1.0
"""While one request verifies a token again, others with it go on as before for this long."""
OUTAGE_SECONDS = 300.0
"""How long a verified token is believed while it cannot be verified again."""
RETRY_AFTER_SECONDS = 5
WARN_SECONDS = 60.0
"""An outage is in the log this often, however many requests it concerns."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""As in RFC 6750. Has no comma: two headers that somebody joined are no token."""
_FORWARDED = (b"x-forwarded-for", b"forwarded", b"x-real-ip", b"x-forwarded-host", b"via")
"""Whoever sends one of these comes through a proxy, and so is not known to be on this machine."""

_fingerprint = partial(blake2b, digest_size=32)
"""Stands for a token in memory. OpenSSL's SHA-256 takes longer to begin than to hash so few bytes."""
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Locate = Callable[[str, str], str]
"""The URL of an endpoint for a client, from its path and the Host header; tokens of issuers must name it."""


class TokenVerifier(Protocol):
    """Verifies tokens of one kind."""

    def recognizes(self, token: str) -> bool:
        """Whether it looks like one of this kind. Cheap, and asked of every verifier in order."""
        ...

    async def verify(self, token: str, resource: str) -> Principal:
        """Who has it. Raises CallerError. Called again every few seconds while the token is used."""
        ...


requested_resource: ContextVar[str] = ContextVar("toolyard_requested_resource", default="")
"""The URL of the endpoint that the current request came to, where tokens are for one."""


OnRefused = Callable[[str, str], Awaitable[None]]
"""Called with the peer and the reason when a token is refused. The reason never has the token in it."""


class InsufficientScope(McpError):
    """A tool needs scopes that the caller's token lacks; the challenge names all of them."""

    def __init__(self, scopes: Sequence[str], challenge: Headers) -> None:
        super().__init__(
            INSUFFICIENT_SCOPE,
            lacks_scope(scopes),
            {"scopes": list(scopes)},
        )
        self._challenge = challenge

    @property
    def http_status(self) -> int:
        return 403

    @property
    def http_headers(self) -> Headers:
        return self._challenge


class Challenges:
    """The values of WWW-Authenticate, by RFC 6750 and RFC 9728."""

    def __init__(self, metadata_url: Callable[[str], str] | None = None, scopes: Sequence[str] = ()) -> None:
        """`metadata_url` gives the absolute URL of the metadata of a resource, where there are issuers."""
        self._metadata_url = metadata_url
        self._scopes = tuple(scopes)

    def missing(self, resource: str) -> Headers:
        """For a request without credentials: no error, but where to get a token."""
        return self._challenge(resource, self._scopes)

    def invalid(self, resource: str, description: str = "") -> Headers:
        return self._challenge(resource, self._scopes, "invalid_token", description)

    def insufficient(self, resource: str, scopes: Sequence[str]) -> Headers:
        return self._challenge(resource, scopes, "insufficient_scope")

    def _challenge(
        self, resource: str, scopes: Sequence[str], error: str = "", description: str = ""
    ) -> Headers:
        parts: dict[str, str] = {}
        if error:
            parts["error"] = error
        if description:
            parts["error_description"] = description
        if self._metadata_url is not None and (found := self._metadata_url(resource)):
            parts["resource_metadata"] = found
        if scopes and (error == "insufficient_scope" or self._metadata_url is not None):
            parts["scope"] = " ".join(scopes)
        written = ", ".join(f'{name}="{_quotable(value)}"' for name, value in parts.items())
        return [(b"www-authenticate", f"Bearer {written}".strip().encode())]


def _quotable(text: str) -> str:
    """What may stand between the quotes of a challenge."""
    return "".join(character for character in text if character not in '"\\' and " " <= character <= "~")


class _Verified(Struct):
    identity: Identity
    fresh_until: float
    verified_at: float
    is_in_outage: bool = False
    """Whether it could not be verified again when that was tried last."""
    checking: asyncio.Task[None] | None = None
    """Verifies it again while requests go on."""


class Authenticator:
    """Makes principals of requests.

    `required`: a request of this machine needs a credential too. `is_open`: no request needs one.
    `ignores_foreign`: a token that no verifier recognizes is not for us, as where only a proxy names callers.
    """

    def __init__(
        self,
        verifiers: Sequence[TokenVerifier] = (),
        *,
        proxy: ProxyConfig | None = None,
        required: bool = False,
        is_open: bool = False,
        ignores_foreign: bool = False,
        challenges: Challenges | None = None,
        locate: Locate | None = None,
        on_refused: OnRefused | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._verifiers = tuple(verifiers)
        self._proxy = None if proxy is None else _TrustedProxy(proxy)
        self._admits_local = is_open or not required
        self._is_open = is_open
        self._ignores_foreign = ignores_foreign
        self._challenges = challenges or Challenges()
        self._locate = locate
        self._on_refused = on_refused
        self._clock = clock
        self._brake = _Brake(clock, sleep)
        self._verified: dict[tuple[str, bytes], _Verified] = {}
        self._warned: dict[str, float] = {}
        self._loopback: dict[str, bool] = {}
        self._located_at: dict[tuple[str, bytes], str] = {}

    async def authenticate(
        self,
        headers: RequestHeaders,
        peer: str,
        *,
        resource: str,
        query: bytes = b"",
        agent: str = "",
        proxy: str = "",
    ) -> Principal:
        """Who makes this request.

        `peer` is the client's address, `proxy` that of the configured proxy that it came through, `resource`
        the path of the endpoint. If the path names an `agent`, only a grant of this name is accepted.
        Raises `Refused` with a status and, for 401 and 403, a challenge.
        """
        if agent:
            return await self._authenticate_agent(headers, peer, resource, query, agent, proxy)
        if query:
            _check_query(query)
        raw = headers.raw
        if self._locate is not None:
            resource = self._located(resource, headers)
            requested_resource.set(resource)
        value = raw.get(b"authorization")
        if value is None:
            return self._without_token(headers, peer, resource, proxy)
        if len(value) > MAX_CREDENTIAL:
            message = said(
                f"The Authorization header is over the limit of {MAX_CREDENTIAL} bytes",
                f"O cabeçalho Authorization passa do limite de {MAX_CREDENTIAL} bytes",
            )
            raise Refused(431, message)
        if len(raw) != len(headers.pairs):
            _check_once(headers, b"authorization")
        known = self._verified.get((resource, _fingerprint(value).digest()))
        if known is not None and self._clock() < known.fresh_until:
            return known.identity.principal
        scheme, _, rest = value.strip().partition(b" ")
        if scheme.lower() != b"bearer":
            # Not even from the proxy: nginx takes $remote_user from a password that it has not checked.
            sent = scheme[:20].decode("ascii", "replace")
            message = said(f"{_how()}, not {sent!r}", f"{_how()}, não {sent!r}")
            raise Refused(401, message, self._challenges.missing(resource))
        if not self._verifiers or (self._ignores_foreign and not self._is_ours(rest)):
            # The token is not for us: it is the proxy's, or of no use.
            return self._without_token(headers, peer, resource, proxy)
        return await self._with_token(value, rest, peer, resource)

    def _is_ours(self, token: bytes) -> bool:
        text = token.strip().decode("latin-1")
        return any(verifier.recognizes(text) for verifier in self._verifiers)

    async def _authenticate_agent(
        self, headers: RequestHeaders, peer: str, resource: str, query: bytes, agent: str, proxy: str
    ) -> Principal:
        located = self._located(resource, headers)
        if b"authorization" not in headers.raw:
            raise Refused(401, _how(), self._challenges.missing(located))
        started = self._clock()
        principal = await self.authenticate(headers, peer, resource=resource, query=query, proxy=proxy)
        if principal.kind != "grant" or principal.agent != agent:
            # In the words and the time of a token that is not valid.
            await self._brake.wait(peer, started)
            raise Refused(401, _invalid(), self._challenges.invalid(located))
        return principal

    def _located(self, resource: str, headers: RequestHeaders) -> str:
        """The address of the endpoint, where it is known."""
        if self._locate is None:
            return resource
        key = (resource, headers.raw.get(b"host", b""))
        known = self._located_at.get(key)
        if known is None:
            known = self._locate(resource, key[1].decode("latin-1"))
            if len(self._located_at) < MAX_LOCATED:
                self._located_at[key] = known
        return known

    def recall(self, headers: RequestHeaders, resource: str, query: bytes = b"") -> Identity | None:
        """Who makes this request, if its token was verified a moment ago; None to ask `authenticate`."""
        raw = headers.raw
        value = raw.get(b"authorization")
        is_plain = len(raw) == len(headers.pairs) and b"transfer-encoding" not in raw
        if value is None or query or not is_plain or len(value) > MAX_CREDENTIAL:
            return None
        if self._locate is not None:
            resource = self._located(resource, headers)
            requested_resource.set(resource)
        known = self._verified.get((resource, _fingerprint(value).digest()))
        return known.identity if known is not None and self._clock() < known.fresh_until else None

    async def verify(self, token: str, resource: str) -> Principal:
        """Who has this token, where it did not come in a header. Raises CallerError."""
        verifier = next((each for each in self._verifiers if each.recognizes(token)), None)
        if verifier is None:
            raise InvalidTokenError("no verifier recognizes the token")
        return await verifier.verify(token, resource)

    async def _with_token(self, value: bytes, rest: bytes, peer: str, resource: str) -> Principal:
        token = rest.strip().decode("latin-1")
        if _TOKEN.fullmatch(token) is None:
            message = said(
                "The Authorization header must carry one token: 'Bearer TOKEN'",
                "O cabeçalho Authorization deve ter um só token: 'Bearer TOKEN'",
            )
            raise Refused(400, message)
        key = (resource, _fingerprint(value).digest())
        known = self._verified.get(key)
        started = self._clock()
        if known is not None:
            known.fresh_until = started + RECHECKING_SECONDS
            if known.is_in_outage and started - known.verified_at < OUTAGE_SECONDS:
                # A store that hangs takes seconds to fail, and this caller has waited for it before.
                if known.checking is None:
                    known.checking = asyncio.create_task(self._check_again(key, known, token, resource))
                return known.identity.principal
        try:
            principal = await self.verify(token, resource)
        except InvalidTokenError as error:
            self._verified.pop(key, None)
            logger.debug("a token was refused: %s", error.reason)
            await self._brake.wait(peer, started)
            if self._on_refused is not None:
                await self._on_refused(peer, error.reason)
            challenge = self._challenges.invalid(resource, error.description)
            raise Refused(401, _invalid(), challenge) from None
        except InsufficientScopeError as error:
            self._verified.pop(key, None)
            if self._on_refused is not None:
                await self._on_refused(peer, error.reason)
            needed = " ".join(error.scopes)
            message = said(
                f"The token lacks a scope; needed: {needed}",
                f"Falta um escopo ao token; são necessários: {needed}",
            )
            raise Refused(403, message, self._challenges.insufficient(resource, error.scopes)) from None
        except IssuerUnavailableError as error:  # its verifier has bridged what can be bridged
            self._warn(logging.WARNING, "a token of an issuer cannot be verified", error)
            raise _unavailable(error.retry_after) from None
        except VerifierUnavailableError as error:
            return self._during_outage(known, error)
        return self._remember(key, known, principal)

    async def _check_again(self, key: tuple[str, bytes], known: _Verified, token: str, resource: str) -> None:
        try:
            principal = await self.verify(token, resource)
        except VerifierUnavailableError as error:
            self._warn(logging.WARNING, "a token cannot be verified again for now", error)
        except CallerError:
            self._verified.pop(key, None)  # the next request with it is refused
        else:
            self._remember(key, known, principal)
        finally:
            known.checking = None

    def _warn(self, level: int, text: str, error: CallerError) -> None:
        now = self._clock()
        if now - self._warned.get(text, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[text] = now
            logger.log(level, "%s: %s", text, error.reason)

    def _remember(self, key: tuple[str, bytes], known: _Verified | None, principal: Principal) -> Principal:
        now = self._clock()
        fresh_until = now + (RECHECK_SECONDS if principal.grant is None else RECHECK_GRANT_SECONDS)
        if known is not None and known.identity.principal == principal:
            # The same object again: what others keep by it need not compare it.
            known.fresh_until, known.verified_at = fresh_until, now
            known.is_in_outage = False
            self._verified.setdefault(key, known)
            return known.identity.principal
        if len(self._verified) >= MAX_CACHED:
            del self._verified[next(iter(self._verified))]
        self._verified[key] = _Verified(Identity(principal), fresh_until, now)
        return principal

    def _during_outage(self, known: _Verified | None, error: VerifierUnavailableError) -> Principal:
        now = self._clock()
        if known is not None and now - known.verified_at < OUTAGE_SECONDS:
            known.fresh_until, known.is_in_outage = now + RECHECKING_SECONDS, True
            self._warn(logging.WARNING, "a token cannot be verified again for now", error)
            return known.identity.principal
        self._warn(logging.ERROR, "a token cannot be verified", error)
        raise _unavailable(RETRY_AFTER_SECONDS) from None

    # Without a token

    def _without_token(self, headers: RequestHeaders, peer: str, resource: str, proxy: str) -> Principal:
        proxied = None if self._proxy is None else self._proxy.identify(headers, proxy or peer)
        if proxied is not None:
            return proxied
        if self._is_open or (self._admits_local and not proxy and self._is_local(headers, peer)):
            return _LOCAL
        raise Refused(401, _how(), self._challenges.missing(resource))

    def _is_local(self, headers: RequestHeaders, peer: str) -> bool:
        """Whether it comes from this machine, and not through a proxy on it."""
        if self._proxy is not None and self._proxy.trusts(peer):
            return False
        known = self._loopback.get(peer)
        if known is None:
            known = _is_loopback(peer)
            if known:
                self._loopback[peer] = known
        return known and not any(name in headers.raw for name in _FORWARDED)


def is_from_this_machine(headers: RequestHeaders, peer: str, proxy: str) -> bool:
    """Whether a request comes from this machine, as far as it says, and not through a proxy on it."""
    return not proxy and _is_loopback(peer) and not any(name in headers.raw for name in _FORWARDED)


def _is_loopback(peer: str) -> bool:
    address = read_address(peer)
    return address is not None and address.is_loopback


def _unavailable(seconds: int) -> Refused:
    retry = (b"retry-after", b"%d" % seconds)
    message = said(
        "Keys and tokens cannot be checked just now; try again",
        "Agora não é possível verificar chaves e tokens; tente de novo",
    )
    return Refused(503, message, [retry])


_LOCAL = Principal()


def _invalid() -> str:
    return said("The key or token is not valid", "A chave ou o token não vale")


def _how() -> str:
    return said(
        "Show who you are: send a key or a token as 'Authorization: Bearer …'",
        "Identifique-se: envie uma chave ou um token como 'Authorization: Bearer …'",
    )


def lacks_scope(scopes: Sequence[str]) -> str:
    needed = " ".join(scopes)
    return said(
        f"The token lacks a scope: this needs {needed}", f"Falta um escopo ao token: isto exige {needed}"
    )


def _check_query(query: bytes) -> None:
    """Addresses end up in logs, so a token in one is refused even if it is valid."""
    if b"access_token" not in query and b"%" not in query:
        return
    names = {name.lower() for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
    if "access_token" in names:
        message = said(
            "Send the token in the header 'Authorization: Bearer …', not in the address",
            "Envie o token no cabeçalho 'Authorization: Bearer …', não no endereço",
        )
        raise Refused(400, message)


def _check_once(headers: RequestHeaders, name: bytes) -> None:
    if sum(1 for known, _ in headers.pairs if known == name) > 1:
        shown = name.decode("latin-1")
        message = said(
            f"The header {shown!r} came more than once", f"O cabeçalho {shown!r} veio mais de uma vez"
        )
        raise Refused(400, message)


MAX_PROXIED = 1024
MAX_IDENTITY = 1024
"""Characters of a proxy's header."""


class _TrustedProxy:
    """Reads the headers of a proxy that has identified the caller. From elsewhere they say nothing."""

    def __init__(self, config: ProxyConfig) -> None:
        self._addresses = AddressSet(config.addresses)
        self._names = tuple(
            name.lower().encode() for name in (config.user, config.groups, config.tenant, config.agent)
        )
        self._known: dict[tuple[bytes | None, ...], Principal] = {}

    def trusts(self, peer: str) -> bool:
        return self._addresses.has(peer)

    def identify(self, headers: RequestHeaders, peer: str) -> Principal | None:
        """Whom the proxy names; None if it names nobody, or if this is not the proxy."""
        if not self.trusts(peer):
            return None
        if len(headers.raw) != len(headers.pairs):
            for name in self._names:
                _check_once(headers, name)
        values = tuple(headers.raw.get(name) for name in self._names)
        if not values[0]:
            return None
        known = self._known.get(values)
        if known is None:
            known = _proxied_principal(*(_text(value) for value in values))
            if len(self._known) >= MAX_PROXIED:
                self._known.clear()
            self._known[values] = known
        return known


def _text(value: bytes | None) -> str:
    try:
        text = (value or b"").decode().strip()
    except UnicodeDecodeError:
        raise Refused(400, "A header of the proxy is not UTF-8") from None
    if len(text) > MAX_IDENTITY or not text.isprintable():
        raise Refused(400, "A header of the proxy is too long, or has characters that no name has")
    return text


def _proxied_principal(user: str, groups: str, tenant: str, agent: str) -> Principal:
    return Principal(
        tenant=tenant or _LOCAL.tenant,
        agent=agent,
        subject=user,
        groups=frozenset(name.strip() for name in groups.split(",") if name.strip()),
        kind="proxy",
        credential=user,
    )


REFUSAL_SECONDS = 0.05
"""A token is refused after this time, whatever was wrong with it and however soon that was known."""
FREE_REFUSALS = 10
LONGEST_REFUSAL = 5.0
FORGIVEN_EVERY = 10.0
"""Seconds after which one refusal of a peer is forgotten."""
MAX_WAITING = 32
MAX_PEERS = 10_000


class _Peer(Struct):
    refusals: float = 0.0
    since: float = 0.0
    waiting: int = 0


class _Brake:
    """Slows down whoever guesses: after some refusals each one takes longer, by peer.

    It never delays a valid token, so nobody can lock out others that share the address.
    """

    def __init__(self, clock: Clock, sleep: Sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._peers: dict[str, _Peer] = {}

    async def wait(self, peer: str, started: float) -> None:
        """Count a refusal, and wait for its time. Too many that wait at once get 429 without waiting."""
        now = self._clock()
        peer = block_of(peer)
        known = self._peers.get(peer)
        if known is None:
            if len(self._peers) >= MAX_PEERS:
                del self._peers[next(iter(self._peers))]
            known = self._peers[peer] = _Peer(since=now)
        known.refusals = max(0.0, known.refusals - (now - known.since) / FORGIVEN_EVERY) + 1
        known.since = now
        if int(known.refusals) == FREE_REFUSALS + 1:
            logger.warning("many keys or tokens from %s were not valid; its refusals are slowed down", peer)
        over = min(16, max(0, int(known.refusals) - FREE_REFUSALS))
        delay = min(LONGEST_REFUSAL, REFUSAL_SECONDS * 2**over)
        if known.waiting >= MAX_WAITING:
            retry = (b"retry-after", b"%d" % max(1, round(delay)))
            message = said(
                "Too many requests with keys or tokens that are not valid",
                "Requisições demais com chaves ou tokens que não valem",
            )
            raise Refused(429, message, [retry])
        known.waiting += 1
        try:
            await self._sleep(max(0.0, started + delay - now))
        finally:
            known.waiting -= 1
