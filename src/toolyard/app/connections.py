"""Callers' connections to servers that want a login: their accounts, and the login pages."""

import json
import logging
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from ..config import Http, InProcess, ServerConfig
from ..config.server_auth import KeyAuth
from ..connections.flows import FLOW_SECONDS, FlowPage, cookie_name
from ..connections.keys import KeyAccounts, KeyPages
from ..connections.oauth.accounts import LoginPages, OAuthAccounts
from ..connections.oauth.client_document import DOCUMENT_PATH, client_document, document_url
from ..connections.oauth.tokens import TokenStore
from ..connections.pages import language_of, page, policy
from ..edge.request import (
    NO_SNIFF,
    NO_STORE,
    BodyTooLargeError,
    ClientDisconnectedError,
    Headers,
    Receive,
    Scope,
    Send,
    read_body,
)
from ..state.store import State, StateError
from ..upstream.accounts import Accounts
from ..upstream.http.client import HttpClient
from ..upstream.inprocess import InProcessUpstream
from ..vault.base import SecretStore, VaultError
from ..vault.vault import Vault
from .key_trial import key_trial
from .login_paths import CALLBACK_PATH, CONNECT_PATH, KEY_PATH

logger = logging.getLogger("toolyard.app")

MAX_QUERY = 16 * 1024
MAX_FORM = 32 * 1024
"""Bytes of a form: a key of the longest kind, each character of it escaped."""
_STATUS = {
    "connected": 200,
    "confirm": 200,
    "key": 200,
    "denied": 200,
    "expired": 410,
    "failed": 502,
    "elsewhere": 403,
}


class GatewayConnections:
    """`base_url` is where browsers reach the gateway; empty until it is served over HTTP."""

    def __init__(self, vault: Vault, http: HttpClient) -> None:
        self.base_url = ""
        self.tokens = TokenStore(vault, vault.store)
        self._vault = vault
        self._http = http
        self.open_accounts: dict[str, Accounts] = {}
        self.logins = LoginPages(vault.store, self._oauth)
        self.keys = KeyPages(vault.store, self._keyed)

    def open(
        self,
        server: ServerConfig,
        on_connected: Callable[[], None],
        mounted: InProcessUpstream | None = None,
    ) -> Accounts:
        """The accounts at a server whose configuration has `auth`; `mounted` if it is in this process."""
        assert server.auth is not None
        accounts: Accounts
        if isinstance(server.auth, KeyAuth):
            accounts = key_accounts(
                server,
                server.auth,
                self._vault,
                self._vault.store,
                self._http,
                lambda: self.base_url,
                on_connected,
                mounted,
            )
        else:
            assert isinstance(server.where, Http), "the configuration was checked"
            accounts = OAuthAccounts(
                server.name,
                server.where.url,
                server.auth,
                self.tokens,
                self._vault.store,
                lambda: self.base_url,
                on_connected,
            )
        self.open_accounts[server.name] = accounts
        return accounts

    def forget(self, server: str) -> None:
        """The server is not in the configuration any more, or is about to be opened anew.

        Logins that were begun with it cannot be finished.
        """
        self.open_accounts.pop(server, None)

    def _oauth(self, server: str) -> OAuthAccounts | None:
        found = self.open_accounts.get(server)
        return found if isinstance(found, OAuthAccounts) else None

    def _keyed(self, server: str) -> KeyAccounts | None:
        found = self.open_accounts.get(server)
        return found if isinstance(found, KeyAccounts) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the paths below `/oauth/` and `/connections/key/`."""
        if scope["path"] == DOCUMENT_PATH:
            await self._describe_client(scope["method"], send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        language = language_of(headers.get("accept-language", ""))
        try:
            shown = await self._answer(scope, headers, receive)
        except (StateError, VaultError) as error:
            logger.warning("a page of a connection cannot be shown: %s", error)
            shown = FlowPage("failed")
        except BodyTooLargeError:
            await _respond(send, 413, [(b"connection", b"close")], b"")
            return
        except ClientDisconnectedError:
            return
        if shown is None:
            await _respond(send, 404, [], b"")
        elif shown.location:
            await _respond(send, 303, [_location(shown.location), self._cookie(scope, shown.cookie)], b"")
        else:
            body = page(shown.kind, language, shown.server, shown.details, shown.form)
            cookies = [self._cookie(scope, shown.cookie)] if shown.cookie else []
            await _respond(send, _STATUS[shown.kind], cookies, body, shown.form_targets)

    async def _describe_client(self, method: str, send: Send) -> None:
        """Our client metadata document, which issuers read."""
        if method not in ("GET", "HEAD") or not document_url(self.base_url):
            await _respond(send, 404, [], b"")
            return
        body = json.dumps(client_document(self.base_url)).encode()
        head: Headers = [
            (b"content-type", b"application/json"),
            (b"cache-control", b"public, max-age=3600"),
            NO_SNIFF,
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})

    async def _answer(self, scope: Scope, headers: dict[str, str], receive: Receive) -> FlowPage | None:
        method, path = scope["method"], scope["path"]
        cookies = _cookies(headers.get("cookie", ""))
        if path.startswith(KEY_PATH) and method == "GET":
            return await self.keys.show(_id_of(scope), cookies)
        if path.startswith(KEY_PATH) and method == "POST":
            if not self._is_ours(headers):
                return FlowPage("elsewhere")
            form = _fields(await read_body(await receive(), receive, MAX_FORM))
            return await self.keys.submit(_id_of(scope), cookies, form)
        if path == CALLBACK_PATH and method == "GET":
            query: bytes = scope["query_string"]
            pairs = parse_qsl(query[:MAX_QUERY].decode("latin-1"), keep_blank_values=True)
            answer = dict(pairs)
            if len(answer) != len(pairs):  # one parameter twice: which of them counts would be a guess
                return FlowPage("expired")
            return await self.logins.end(answer, cookies)
        if path.startswith(CONNECT_PATH) and method == "GET":
            return await self.logins.show(_id_of(scope))
        if path.startswith(CONNECT_PATH) and method == "POST":
            # Only our own page has the button.
            if not self._is_ours(headers):
                return FlowPage("elsewhere")
            return await self.logins.begin(_id_of(scope))
        return None

    def _is_ours(self, headers: dict[str, str]) -> bool:
        """Whether a form was sent from our own page; other sites cannot choose these headers."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        parts = urlsplit(self.base_url)
        return headers.get("origin") == f"{parts.scheme}://{parts.netloc}"

    def _cookie(self, scope: Scope, value: str) -> tuple[bytes, bytes]:
        secure = "; Secure" if self.base_url.startswith("https:") else ""
        id, below = _id_of(scope), KEY_PATH if scope["path"].startswith(KEY_PATH) else "/oauth/"
        limits = f"Path={below}; Max-Age={FLOW_SECONDS:.0f}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", f"{cookie_name(id)}={value}; {limits}".encode()


def _id_of(scope: Scope) -> str:
    return scope["path"].removeprefix(CONNECT_PATH).removeprefix(KEY_PATH)


def _fields(body: bytes) -> dict[str, str]:
    """The fields of a form; none if it is no form of ours."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=10)
    except ValueError:
        return {}
    return dict(pairs) if len(dict(pairs)) == len(pairs) else {}


def _cookies(header: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in header.split(";")[:100])
    return {name: value for name, _, value in pairs}


def _location(url: str) -> tuple[bytes, bytes]:
    return b"location", url.encode("ascii", "ignore")


def key_accounts(
    server: ServerConfig,
    auth: KeyAuth,
    secrets: SecretStore,
    state: State,
    http: HttpClient,
    base_url: Callable[[], str],
    on_connected: Callable[[], None] = lambda: None,
    mounted: InProcessUpstream | None = None,
) -> KeyAccounts:
    """The keys of callers at a server of any kind; `http` is what they are tried with."""
    place, shown = "program", server.name
    if isinstance(server.where, Http):
        place, shown = server.where.url, urlsplit(server.where.url).netloc.rpartition("@")[2]
    elif isinstance(server.where, InProcess):
        place = server.where.module
    trial = key_trial(server, auth, http, mounted)
    return KeyAccounts(server.name, place, shown, auth, secrets, state, base_url, trial, on_connected)


async def _respond(send: Send, status: int, headers: Headers, body: bytes, forms: str = "'none'") -> None:
    head: Headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        NO_STORE,
        NO_SNIFF,
        (b"content-security-policy", policy(forms).encode()),
        (b"referrer-policy", b"same-origin"),
        (b"x-frame-options", b"DENY"),
        *headers,
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
