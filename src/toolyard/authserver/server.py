"""The authorization server as an ASGI app: metadata, authorization, tokens, registration, revocation.

Owns the order of things: who may be sent where before anybody has decided, what binds a form to a browser,
and which answer of OAuth an error becomes. What a client may name is in `clients`, what tokens are in
`logins`, who signs in is in `users` or `issuer`, what people see is in `pages`.
"""

import base64
import binascii
import hmac
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from importlib.util import find_spec
from typing import Literal, Protocol
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import msgspec
from msgspec import Struct

from ..config.callers import LoginServerConfig
from ..config.errors import ConfigError
from ..edge.proxies import proxy_of
from ..edge.request import (
    JSON_HEADERS,
    NO_SNIFF,
    NO_STORE,
    PUBLIC_JSON_HEADERS,
    BodyTooLargeError,
    ClientDisconnectedError,
    Headers,
    Receive,
    Scope,
    Send,
    read_body,
    send_empty,
    send_json,
)
from ..extras import install_command
from ..state.store import StateError
from ..wire.seal import BrokenSeal, Sealer
from .brakes import BUSY_SECONDS, BusyError, TooManyTriesError
from .clients import (
    AUTH_METHODS,
    OAuthClient,
    OAuthClients,
    RegistrationError,
    redirect_target,
    shown_name,
)
from .documents import FetchedDocuments
from .issuer import IssuerLoginError, IssuerSignIn
from .logins import CodeRequest, Logins, SignedIn, TokenRequestError, is_challenge
from .pages import PASSKEY_SCRIPT, Language, Pages, language_of, page_headers
from .passkeys import (
    PasskeyError,
    RelyingParty,
    creation_options,
    origin_of,
    read_assertion,
    relying_party,
    request_options,
    verify_registration,
)
from .users import LocalUser, LocalUsers, LoginUserError

logger = logging.getLogger("toolyard.authserver")

PATHS = "/oauth/"
METADATA_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
DEFAULT_SCOPE = "mcp"
MAX_BODY = 64 * 1024
MAX_FIELDS = 60
FLOW_SECONDS = 15 * 60.0
_CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
    (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
    (b"access-control-max-age", b"600"),
]
_FORMS_HERE = "'self'"
_FORMS_AND_ON = "'self' https: http:"
"""After consent the browser goes on to the client, and from there where the client sends it."""
_LATER: tuple[bytes, bytes] = (b"retry-after", b"%d" % BUSY_SECONDS)

Purpose = Literal["login", "consent", "idp", "enrol"]


class Addresses(Protocol):
    """Which URLs are the gateway's own."""

    def url(self, path: str, host: str, scheme: str = "http") -> str: ...

    def accepts(self, resource: str, base: str) -> bool: ...


class AskedScopes(Struct, frozen=True):
    """`required` are what every token needs, `offered` what else any user may give to a client."""

    required: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()

    @property
    def default(self) -> tuple[str, ...]:
        return self.required or (DEFAULT_SCOPE,)

    @property
    def everybody(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.default, *self.offered)))

    def granted(self, asked: str, person: SignedIn) -> tuple[str, ...]:
        """Unknown ones are left out; a request that names none gets the default."""
        allowed = {*self.everybody, *person.scopes}
        known = [scope for scope in asked.split() if scope in allowed]
        return tuple(dict.fromkeys((*self.required, *known))) or self.default


class _Flow(Struct, frozen=True, array_like=True):
    """A request for authorization, in a form or at the issuer, until its person comes back."""

    purpose: Purpose
    query: str
    browser: str
    """A digest of the browser's cookie: a form counts in the browser that it was made for."""
    id: str
    expires: int


class _Session(Struct, frozen=True, array_like=True):
    """A browser that is signed in."""

    person: SignedIn
    expires: int


class _Asked(Struct, frozen=True, kw_only=True):
    """A request for authorization that may be shown to a person."""

    client: OAuthClient
    redirect: str
    is_redirect_given: bool
    challenge: str
    scope: str
    resource: str
    state: str
    prompt: str
    query: str
    """The same request again, without `prompt`."""


class _PageError(Exception):
    """Told to the person, because the client that it concerns is not to be trusted with it."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class _RedirectError(Exception):
    """Told to the client."""

    def __init__(self, redirect: str, state: str, code: str, description: str) -> None:
        super().__init__(description)
        self.redirect = redirect
        self.values = {"error": code, "error_description": description} | ({"state": state} if state else {})


class _WebRequest(Struct, frozen=True):
    """A request to a page or an endpoint, as far as it is used here."""

    method: str
    base: str
    """Our issuer identifier, by which this client knows us."""
    headers: Mapping[bytes, bytes]
    query: str
    form: Mapping[str, str]
    body: bytes
    peer: str

    @property
    def language(self) -> Language:
        return language_of(self.headers.get(b"accept-language", b"").decode("latin-1"))

    @property
    def is_secure(self) -> bool:
        return self.base.startswith("https:")

    def cookie(self, name: str) -> str:
        try:
            found = SimpleCookie(self.headers.get(b"cookie", b"").decode("latin-1")).get(
                self.cookie_name(name)
            )
        except CookieError:
            return ""
        return "" if found is None else found.value

    def cookie_name(self, name: str) -> str:
        return f"__Host-toolyard-{name}" if self.is_secure else f"toolyard-{name}"

    def set_cookie(self, name: str, value: str, seconds: float | None) -> tuple[bytes, bytes]:
        life = "" if seconds is None else f"; Max-Age={int(seconds)}"
        secure = "; Secure" if self.is_secure else ""
        text = f"{self.cookie_name(name)}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{life}"
        return b"set-cookie", text.encode("latin-1")

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether another site's page sent this form."""
        origin = self.headers.get(b"origin", b"").decode("latin-1")
        site = self.headers.get(b"sec-fetch-site", b"same-origin")
        return bool(origin and origin != origin_of(self.base)) or site not in (b"same-origin", b"none")

    @property
    def relying_party(self) -> RelyingParty | None:
        return relying_party(self.base)

    @property
    def localhost(self) -> str:
        """Where there are passkeys if this is the machine's own address as a number; else empty."""
        parts = urlsplit(self.base)
        is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1")
        port = f":{parts.port}" if parts.port else ""
        return f"http://localhost{port}{parts.path}" if is_local else ""


class AuthorizationServer:
    """Serves the paths that begin with one of `paths`."""

    paths = (PATHS, *METADATA_PATHS)

    def __init__(
        self,
        config: LoginServerConfig,
        *,
        name: str,
        addresses: Callable[[], Addresses],
        endpoint: str,
        scopes: AskedScopes,
        logins: Logins,
        users: LocalUsers,
        sealer: Sealer,
        documents: FetchedDocuments | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Raises ConfigError if the extra that signing in needs is not installed."""
        if find_spec("cryptography") is None:
            raise ConfigError("[auth.server] needs packages that are not installed", install_command("auth"))
        self._config = config
        self._addresses = addresses
        self._endpoint = endpoint
        self._scopes = scopes
        self._logins = logins
        self._users = users
        self._sealer = sealer
        self._documents = documents or FetchedDocuments(config.client_hosts)
        self._clients = OAuthClients(config.clients, sealer, self._documents, now)
        self._issuer = IssuerSignIn(config, sealer, now=now) if config.issuer else None
        self._name = name
        self._pages = Pages(name)
        self._now = now
        self._warned_of_proxy = False

    async def close(self) -> None:
        await self._documents.close()
        if self._issuer is not None:
            await self._issuer.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        try:
            request = await self._read(scope, receive)
        except ClientDisconnectedError:
            return
        except BodyTooLargeError:
            await _send_error(send, 413, "invalid_request", f"the body is over {MAX_BODY} bytes")
            return
        except ValueError as error:
            await _send_error(send, 400, "invalid_request", str(error))
            return
        if path.startswith(METADATA_PATHS):
            await self._serve_metadata(request, path, send)
        else:
            await self._serve(request, path.removeprefix(PATHS), send)

    async def _read(self, scope: Scope, receive: Receive) -> _WebRequest:
        """Raises ValueError for a request that nothing can be made of."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        base = self._addresses().url("", host, scope.get("scheme", "http"))
        if not base:
            raise ValueError("this server is not known by that host")
        method: str = scope["method"]
        body = b""
        form: dict[str, str] = {}
        if method == "POST":
            body = await read_body(await receive(), receive, MAX_BODY)
            if headers.get(b"content-type", b"").startswith(b"application/x-www-form-urlencoded"):
                form = _fields(body.decode("utf-8", "strict"))
        query = scope.get("query_string", b"").decode("latin-1")
        client: Sequence[str] = scope.get("client") or ("",)
        if b"x-forwarded-for" in headers and not proxy_of(scope) and not self._warned_of_proxy:
            self._warned_of_proxy = True
            logger.warning(
                "%s passes on requests and is not in 'proxies' of [gateway]: "
                "wrong passwords of all its clients are counted together",
                client[0],
            )
        return _WebRequest(method, base, headers, query, form, body, client[0])

    async def _serve(self, request: _WebRequest, name: str, send: Send) -> None:
        pages = {
            ("GET", "authorize"): self._authorize,
            ("POST", "login"): self._sign_in,
            ("POST", "passkey"): self._sign_in_by_passkey,
            ("GET", "enrol"): self._show_enrolment,
            ("POST", "enrol"): self._enrol,
            ("POST", "consent"): self._consent,
            ("GET", "idp"): self._return_from_issuer,
        }
        endpoints = {"token": self._token, "register": self._register, "revoke": self._revoke}
        page = pages.get((request.method, name))
        if page is not None:
            await self._serve_page(page, request, send)
        elif name in endpoints and request.method == "OPTIONS":
            await send_empty(send, 204, _CORS)
        elif name in endpoints and request.method == "POST":
            await endpoints[name](request, send)
        elif name == "keys" and request.method in ("GET", "HEAD"):
            await send_json(send, 200, b'{"keys":[]}', _CORS, PUBLIC_JSON_HEADERS)
        elif name in endpoints or any(name == known for _, known in pages):
            await _send_error(send, 405, "invalid_request", f"{request.method[:20]} is not allowed here")
        else:
            await _send_error(send, 404, "invalid_request", "there is nothing of that name")

    # Metadata

    async def _serve_metadata(self, request: _WebRequest, path: str, send: Send) -> None:
        if request.method == "OPTIONS":
            await send_empty(send, 204, _CORS)
            return
        known = next(start for start in METADATA_PATHS if path.startswith(start))
        rest = path.removeprefix(known).rstrip("/")
        if request.method not in ("GET", "HEAD") or rest not in ("", urlsplit(request.base).path):
            await _send_error(send, 404, "invalid_request", "there is no authorization server of that name")
            return
        body = msgspec.json.encode(self.metadata(request.base))
        await send_json(send, 200, body, [*_CORS, (b"vary", b"host")], PUBLIC_JSON_HEADERS)

    def metadata(self, base: str) -> dict[str, object]:
        """RFC 8414. In the form of OpenID Connect too, whose ID tokens nobody gets here."""
        return {
            "issuer": base,
            "authorization_endpoint": f"{base}{PATHS}authorize",
            "token_endpoint": f"{base}{PATHS}token",
            "registration_endpoint": f"{base}{PATHS}register",
            "revocation_endpoint": f"{base}{PATHS}revoke",
            "jwks_uri": f"{base}{PATHS}keys",
            "scopes_supported": list(self._scopes.everybody),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": list(AUTH_METHODS),
            "revocation_endpoint_auth_methods_supported": list(AUTH_METHODS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
            "ui_locales_supported": ["en", "pt-BR"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [],
        }

    # Pages

    async def _serve_page(self, page: "_Page", request: _WebRequest, send: Send) -> None:
        try:
            if request.method == "POST" and request.is_from_elsewhere:
                raise _PageError("cross_site", 403)
            await page(request, send)
        except _PageError as error:
            await self._send_problem(request, send, error.text, error.status)
        except BusyError:
            await self._send_problem(request, send, "unavailable", 503, [_LATER])
        except _RedirectError as error:
            await _redirect(send, error.redirect, {**error.values, "iss": request.base})
        except IssuerLoginError as error:
            logger.warning("a login at the issuer failed: %s", error)
            await self._send_problem(request, send, "issuer_failed", 502)
        except (StateError, LoginUserError) as error:
            logger.error("a login was not possible: %s", error)
            await self._send_problem(request, send, "unavailable", 503)

    async def _send_problem(
        self, request: _WebRequest, send: Send, text: str, status: int, more: Headers | None = None
    ) -> None:
        page = self._pages.problem(request.language, text)
        await _send_page(send, status, page, [*page_headers(), *(more or [])])

    async def _authorize(self, request: _WebRequest, send: Send) -> None:
        asked = await self._asked(request.query, request)
        browser = request.cookie("browser") or secrets.token_urlsafe(18)
        cookies = [request.set_cookie("browser", browser, None)]
        person = None if asked.prompt in ("login", "select_account") else await self._signed_in(request)
        if person is not None and asked.prompt != "none":
            await self._show_consent(request, asked, person, browser, cookies, send)
            return
        if asked.prompt == "none":
            raise _RedirectError(
                asked.redirect, asked.state, "interaction_required", "a person has to decide"
            )
        if self._issuer is not None:
            flow = self._flow("idp", asked.query, browser)
            secret = f"{browser} {flow.id}"
            back = f"{request.base}{PATHS}idp"
            url = await self._issuer.address(self._seal(flow), secret, back, asked.prompt)
            await _redirect(send, url, {}, cookies)
            return
        flow = self._seal(self._flow("login", asked.query, browser))
        await self._show_sign_in(request, send, 200, asked.client, flow, cookies)

    async def _show_sign_in(
        self,
        request: _WebRequest,
        send: Send,
        status: int,
        client: OAuthClient,
        flow: str,
        cookies: Headers,
        *,
        user: str = "",
        problem: str = "",
    ) -> None:
        """Offers both ways to everybody: what a user has is not for others to know."""
        party = request.relying_party
        page = self._pages.sign_in(
            request.language,
            client,
            flow,
            passkey=None if party is None else request_options(party, self._challenge(flow)),
            local=request.localhost,
            user=user,
            problem=problem,
        )
        headers = page_headers(_FORMS_HERE, "" if party is None else PASSKEY_SCRIPT)
        await _send_page(send, status, page, [*headers, *cookies])

    async def _show_consent(
        self,
        request: _WebRequest,
        asked: _Asked,
        person: SignedIn,
        browser: str,
        cookies: Headers,
        send: Send,
    ) -> None:
        flow = self._flow("consent", asked.query, f"{browser} {_person_key(person)}")
        page = self._pages.consent(
            request.language,
            asked.client,
            user=person.subject,
            redirect=asked.redirect,
            resource=asked.resource,
            scopes=self._scopes.granted(asked.scope, person),
            flow=self._seal(flow),
        )
        scheme = asked.redirect.partition(":")[0]
        forms = _FORMS_AND_ON if scheme in ("http", "https") else f"{_FORMS_AND_ON} {scheme}:"
        await _send_page(send, 200, page, [*page_headers(forms), *cookies])

    async def _sign_in(self, request: _WebRequest, send: Send) -> None:
        if self._issuer is not None:
            raise _PageError("bad_request", 404)
        flow = self._open(request.form.get("flow", ""), "login", request.cookie("browser"))
        asked = await self._asked(flow.query, request)
        name, password = request.form.get("user", "").strip(), request.form.get("password", "")
        language = request.language
        try:
            user = await self._users.sign_in(name, password, request.peer)
            problem, status = self._pages.wrong(language), 401
        except TooManyTriesError as error:
            user, problem, status = None, self._pages.waiting(language, error.wait), 429
        if user is None:
            logger.info("a login of %r from %s failed", name[:80], request.peer)
            await self._show_sign_in(
                request, send, status, asked.client, request.form["flow"], [], user=name, problem=problem
            )
            return
        await self._go_on(request, _person_of(user), flow.query, send)

    async def _sign_in_by_passkey(self, request: _WebRequest, send: Send) -> None:
        party, text = request.relying_party, request.form.get("flow", "")
        if self._issuer is not None or party is None:
            raise _PageError("bad_request", 404)
        browser = request.cookie("browser")
        flow = self._open(text, "login", browser)
        asked = await self._asked(flow.query, request)
        try:
            await self._users.brake.count(request.peer)
            assertion = read_assertion(request.form.get("credential", ""))
            user = await self._users.sign_in_by_passkey(assertion, party, self._challenge(text))
        except PasskeyError as error:
            logger.info("a passkey from %s was not accepted: %s", request.peer, error)
            problem, status = self._pages.wrong_passkey(request.language), 401
        except TooManyTriesError as error:
            problem, status = self._pages.waiting(request.language, error.wait), 429
        else:
            await self._users.brake.forgive(request.peer)
            await self._go_on(request, _person_of(user), flow.query, send)
            return
        again = self._seal(self._flow("login", flow.query, browser))
        await self._show_sign_in(request, send, status, asked.client, again, [], problem=problem)

    async def _show_enrolment(self, request: _WebRequest, send: Send) -> None:
        """Show the page of a link that `toolyard logins` made. Nothing is used up by looking at it."""
        party = self._enrolment_party(request)
        ticket = _fields_or_page_error(request.query).get("ticket", "")
        user = await self._users.find_enrolment(ticket)
        if user is None:
            raise _PageError("link_gone", 404)
        browser = request.cookie("browser") or secrets.token_urlsafe(18)
        await self._send_enrolment(request, send, 200, user, party, ticket, browser)

    async def _enrol(self, request: _WebRequest, send: Send) -> None:
        party = self._enrolment_party(request)
        text, browser = request.form.get("flow", ""), request.cookie("browser")
        ticket = self._open(text, "enrol", browser).query
        user = await self._users.find_enrolment(ticket)
        if user is None:
            raise _PageError("link_gone", 404)
        try:
            await self._users.brake.count(request.peer)
            made = verify_registration(request.form.get("credential", ""), party, self._challenge(text))
        except PasskeyError as error:
            logger.info("a new passkey of %r was not accepted: %s", user.name, error)
            await self._send_enrolment(request, send, 400, user, party, ticket, browser, "enrol_wrong")
            return
        except TooManyTriesError:
            raise _PageError("unavailable", 429) from None
        await self._users.brake.forgive(request.peer)
        named = msgspec.structs.replace(made, name=shown_name(request.form.get("name", "")))
        if await self._users.enrol(ticket, named) is None:
            raise _PageError("link_gone", 404)
        logger.info("%r has the new passkey %r", user.name, made.id)
        await _send_page(send, 200, self._pages.enrolled(request.language, user.name), page_headers())

    def _enrolment_party(self, request: _WebRequest) -> RelyingParty:
        if self._issuer is not None:
            raise _PageError("bad_request", 404)
        party = request.relying_party
        if party is None:
            raise _PageError("link_localhost" if request.localhost else "link_insecure")
        return party

    async def _send_enrolment(
        self,
        request: _WebRequest,
        send: Send,
        status: int,
        user: LocalUser,
        party: RelyingParty,
        ticket: str,
        browser: str,
        problem: str = "",
    ) -> None:
        flow = self._seal(self._flow("enrol", ticket, browser))
        options = creation_options(
            party,
            self._challenge(flow),
            gateway=self._name,
            user=user.name,
            handle=user.handle,
            known=user.passkeys,
        )
        page = self._pages.enrol(
            request.language, user=user.name, host=party.id, flow=flow, options=options, problem=problem
        )
        cookie = request.set_cookie("browser", browser, None)
        await _send_page(send, status, page, [*page_headers(_FORMS_HERE, PASSKEY_SCRIPT), cookie])

    async def _go_on(self, request: _WebRequest, person: SignedIn, query: str, send: Send) -> None:
        """Remember who is signed in, and ask for consent."""
        seconds = self._config.session_ttl
        session = msgspec.json.encode(_Session(person, int(self._now() + seconds)))
        cookie = request.set_cookie("login", self._sealer.seal(session, "login-session"), seconds)
        await _redirect(send, f"{request.base}{PATHS}authorize?{query}", {}, [cookie])

    async def _return_from_issuer(self, request: _WebRequest, send: Send) -> None:
        if self._issuer is None:
            raise _PageError("bad_request", 404)
        values = _fields_or_page_error(request.query)
        browser = request.cookie("browser")
        flow = self._open(values.get("state", ""), "idp", browser)
        await self._issuer.check_issuer(values.get("iss", ""))
        if "error" in values:
            logger.info("the issuer refused a login: %s", values["error"][:100])
            asked = await self._asked(flow.query, request)
            if values["error"] == "access_denied":
                raise _RedirectError(asked.redirect, asked.state, "access_denied", "the user has declined")
            raise _PageError("issuer_failed", 502)
        back = f"{request.base}{PATHS}idp"
        person = await self._issuer.finish(values.get("code", ""), f"{browser} {flow.id}", back)
        if self._config.groups and not set(self._config.groups) & set(person.groups):
            logger.info("%r of %s is in none of the groups that may sign in", person.subject, person.issuer)
            raise _PageError("not_member", 403)
        await self._go_on(request, person, flow.query, send)

    async def _consent(self, request: _WebRequest, send: Send) -> None:
        person = await self._signed_in(request)
        if person is None:
            raise _PageError("expired")
        bound = f"{request.cookie('browser')} {_person_key(person)}"
        flow = self._open(request.form.get("flow", ""), "consent", bound)
        asked = await self._asked(flow.query, request)
        decision = request.form.get("decision")
        if decision == "switch":
            gone = request.set_cookie("login", "", 0)
            url = f"{request.base}{PATHS}authorize?{flow.query}&prompt=login"
            await _redirect(send, url, {}, [gone])
            return
        if decision != "allow":
            raise _RedirectError(asked.redirect, asked.state, "access_denied", "the user has declined")
        code = await self._logins.issue_code(
            CodeRequest(
                client_id=asked.client.id,
                client=asked.client.label,
                client_name=asked.client.name,
                redirect_uri=asked.redirect,
                is_redirect_given=asked.is_redirect_given,
                challenge=asked.challenge,
                scopes=self._scopes.granted(asked.scope, person),
                resource=asked.resource,
            ),
            person,
        )
        values = {"code": code} | ({"state": asked.state} if asked.state else {}) | {"iss": request.base}
        await _redirect(send, asked.redirect, values)

    async def _asked(self, query: str, request: _WebRequest) -> _Asked:
        """Raises _PageError, _RedirectError or BusyError.

        Nobody is sent to a website before a person has decided: anyone can register one, and would have us
        send people there from an address that they trust.
        """
        values = _fields_or_page_error(query)
        base = request.base
        client = await self._clients.find(values.get("client_id", ""), request.peer)
        if client is None:
            raise _PageError("unknown_client")
        given = values.get("redirect_uri", "")
        redirect = client.redirect(given)
        if redirect is None:
            raise _PageError("wrong_redirect")
        problem = self._problem(values, base)
        if problem is not None:
            if redirect_target(redirect)[0] == "web":
                logger.info("the request of the client %r cannot be used: %s", client.label, problem[1])
                raise _PageError("bad_request")
            raise _RedirectError(redirect, values.get("state", ""), *problem)
        prompt = values.pop("prompt", "")
        resource = values.get("resource", "").rstrip("/") or f"{base}{self._endpoint}"
        return _Asked(
            client=client,
            redirect=redirect,
            is_redirect_given=bool(given),
            challenge=values["code_challenge"],
            scope=values.get("scope", ""),
            resource=resource,
            state=values.get("state", ""),
            prompt=prompt if redirect_target(redirect)[0] != "web" or prompt != "none" else "",
            query=urlencode(values),
        )

    def _problem(self, values: Mapping[str, str], base: str) -> tuple[str, str] | None:
        """What is wrong with a request, as error and description of OAuth."""
        if "request" in values or "request_uri" in values:
            return "request_not_supported", "send the parameters themselves"
        if values.get("response_type") != "code":
            return "unsupported_response_type", "response_type must be 'code'"
        if values.get("response_mode", "query") != "query":
            return "invalid_request", "response_mode must be 'query'"
        if values.get("code_challenge_method") != "S256" or not is_challenge(
            values.get("code_challenge", "")
        ):
            return "invalid_request", "PKCE is needed: code_challenge with code_challenge_method=S256"
        resource = values.get("resource", "")
        if resource and not self._addresses().accepts(resource, base):
            return "invalid_target", "resource is not an endpoint of this server"
        return None

    # Tokens

    async def _token(self, request: _WebRequest, send: Send) -> None:
        try:
            client = await self._authenticate(request)
            answer = await self._grant(request.form, client)
        except _TOKEN_ERRORS as error:
            await self._send_token_error(request, error, send)
        else:
            await send_json(send, 200, msgspec.json.encode(answer), [*_CORS, (b"pragma", b"no-cache")])

    async def _grant(self, form: Mapping[str, str], client: OAuthClient) -> dict[str, object]:
        kind = form.get("grant_type")
        if kind == "authorization_code":
            tokens = await self._logins.redeem(
                form.get("code", ""),
                client.id,
                form.get("redirect_uri", ""),
                form.get("code_verifier", ""),
                form.get("resource", ""),
            )
        elif kind == "refresh_token":
            token = form.get("refresh_token", "")
            await self._look_again(token)
            scopes = form.get("scope", "").split()
            tokens = await self._logins.refresh(token, client.id, scopes, form.get("resource", ""))
        else:
            raise TokenRequestError("unsupported_grant_type", "use authorization_code or refresh_token")
        return tokens.answer()

    async def _look_again(self, token: str) -> None:
        """Whether the local user of a login is still there, and what it may now."""
        login = await self._logins.of_refresh_token(token)
        if login is None or login.person.issuer:
            return
        user = await self._users.find(login.person.subject)
        if user is None:
            await self._logins.end(login.id, "revoked")
            return
        person = _person_of(user)
        if person != login.person:
            kept = self._scopes.granted(" ".join(login.scopes), person)
            await self._logins.update(login, person, tuple(s for s in login.scopes if s in kept))

    async def _authenticate(self, request: _WebRequest) -> OAuthClient:
        """The client that sends this form. Raises TokenRequestError with `invalid_client`."""
        if not request.form:
            raise TokenRequestError("invalid_request", "send a form: application/x-www-form-urlencoded")
        id, secret = request.form.get("client_id", ""), request.form.get("client_secret", "")
        header = request.headers.get(b"authorization", b"")
        if header:
            shown = _basic(header)
            if shown is None or (id and id != shown[0]):
                raise _unknown_client()
            id, secret = shown
        client = await self._clients.find(id, request.peer)
        if client is None:
            raise _unknown_client()
        if client.method == "none":
            return client
        await self._users.brake.count(request.peer, client.label, "client")
        if not self._clients.is_secret(client, secret):
            logger.info("a secret of the client %r from %s was wrong", client.label, request.peer)
            raise _unknown_client()
        await self._users.brake.forgive(request.peer, client.label, "client")
        return client

    async def _send_token_error(self, request: _WebRequest, error: Exception, send: Send) -> None:
        """Answer with one of `_TOKEN_ERRORS`."""
        if not isinstance(error, TokenRequestError):
            status, text, retry = 503, "the gateway cannot do this now; try again", [_LATER]
            if isinstance(error, TooManyTriesError):
                status, text, retry = 429, str(error), [(b"retry-after", b"%d" % math.ceil(error.wait))]
            elif isinstance(error, StateError):
                logger.error("the token endpoint could not do its work: %s", error.message)
                text, retry = error.public_message, []
            await _send_error(send, status, "temporarily_unavailable", text, retry)
            return
        used_header = error.status == 401 and b"authorization" in request.headers
        challenge = [(b"www-authenticate", b'Basic realm="toolyard"')] if used_header else []
        await _send_error(send, error.status, error.code, error.description, challenge)

    async def _revoke(self, request: _WebRequest, send: Send) -> None:
        """RFC 7009: a token that is not valid (any more) is no error."""
        try:
            client = await self._authenticate(request)
            await self._logins.revoke(request.form.get("token", ""), client.id)
        except _TOKEN_ERRORS as error:
            await self._send_token_error(request, error, send)
        else:
            await send_empty(send, 200, _CORS)

    async def _register(self, request: _WebRequest, send: Send) -> None:
        try:
            asked = msgspec.json.decode(request.body)
            registration = self._clients.register(asked)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            await _send_error(send, 400, "invalid_client_metadata", "the body must be a JSON object")
        except RegistrationError as error:
            await _send_error(send, 400, error.code, error.description)
        else:
            await send_json(send, 201, msgspec.json.encode(registration.answer()), _CORS)

    # Browsers

    async def _signed_in(self, request: _WebRequest) -> SignedIn | None:
        """Who is signed in with this browser; of a local user, as the record is now."""
        try:
            raw = self._sealer.open(request.cookie("login"), "login-session")
            session = msgspec.json.decode(raw, type=_Session)
        except (BrokenSeal, msgspec.DecodeError):
            return None
        left = session.expires - self._now()
        if not 0 < left <= self._config.session_ttl + 60:  # also after a clock that was ahead
            return None
        person = session.person
        if person.issuer != self._config.issuer:
            return None
        if person.issuer:
            return person
        user = await self._users.find(person.subject)
        return None if user is None or user.version != person.version else _person_of(user)

    def _flow(self, purpose: Purpose, query: str, bound: str) -> _Flow:
        expires = int(self._now() + FLOW_SECONDS)
        return _Flow(purpose, query, self._bind(bound), secrets.token_hex(8), expires)

    def _bind(self, bound: str) -> str:
        return self._sealer.fingerprint(bound, "login-flow")

    def _challenge(self, flow: str) -> str:
        """What a passkey has to sign in this flow. Nobody can know it before us, and nothing is stored."""
        return self._sealer.fingerprint(flow, "passkey")

    def _seal(self, flow: _Flow) -> str:
        return self._sealer.seal(msgspec.json.encode(flow), "login-flow")

    def _open(self, text: str, purpose: Purpose, bound: str) -> _Flow:
        """Raises _PageError if a form is not ours, too old, or of another browser or person."""
        expired = _PageError("enrol_expired" if purpose == "enrol" else "expired")
        try:
            flow = msgspec.json.decode(self._sealer.open(text, "login-flow"), type=_Flow)
        except (BrokenSeal, msgspec.DecodeError):
            raise expired from None
        in_time = 0 < flow.expires - self._now() <= FLOW_SECONDS + 60
        is_bound = bool(bound.strip()) and hmac.compare_digest(flow.browser, self._bind(bound))
        if flow.purpose != purpose or not in_time or not is_bound:
            raise expired
        return flow


_TOKEN_ERRORS = (TokenRequestError, TooManyTriesError, BusyError, StateError)


class _Page(Protocol):
    async def __call__(self, request: _WebRequest, send: Send) -> None: ...


def _person_of(user: LocalUser) -> SignedIn:
    return SignedIn(
        subject=user.name, tenant=user.tenant, groups=user.groups, scopes=user.scopes, version=user.version
    )


def _person_key(person: SignedIn) -> str:
    return f"{person.issuer} {person.tenant} {person.subject}"


def _unknown_client() -> TokenRequestError:
    return TokenRequestError("invalid_client", "the client is not known, or its secret is wrong", 401)


def _basic(header: bytes) -> tuple[str, str] | None:
    """Id and secret of `Authorization: Basic`, each encoded as in a form (RFC 6749)."""
    scheme, _, rest = header.strip().partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        pair = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    id, colon, secret = pair.partition(":")
    return (unquote_plus(id), unquote_plus(secret)) if colon else None


def _fields(text: str) -> dict[str, str]:
    """The parameters of a form or query. Raises ValueError if one comes twice: whose would count?"""
    pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a parameter was sent more than once")
    return found


def _fields_or_page_error(query: str) -> dict[str, str]:
    try:
        return _fields(query)
    except ValueError:
        raise _PageError("bad_request") from None


async def _send_page(send: Send, status: int, page: bytes, headers: Headers) -> None:
    head = [*headers, (b"content-length", b"%d" % len(page))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": page})


async def _redirect(send: Send, url: str, values: Mapping[str, str], headers: Headers | None = None) -> None:
    mark = "&" if "?" in url else "?"
    target = f"{url}{mark}{urlencode(values)}" if values else url
    head: Headers = [
        (b"location", target.encode("latin-1")),
        (b"referrer-policy", b"no-referrer"),
        (b"content-length", b"0"),
        NO_STORE,
        NO_SNIFF,
        *(headers or []),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def _send_error(
    send: Send, status: int, code: str, description: str, headers: Headers | None = None
) -> None:
    body = msgspec.json.encode({"error": code, "error_description": description})
    await send_json(send, status, body, [*_CORS, *(headers or [])], JSON_HEADERS)
