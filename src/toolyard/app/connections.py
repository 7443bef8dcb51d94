"""Callers' connections to servers that want a login: their accounts, and the login pages."""

from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from ..config import Http, ServerConfig
from ..connections.oauth.accounts import FlowPage, LoginPages, OAuthAccounts, cookie_name
from ..connections.oauth.authorization import FLOW_SECONDS
from ..connections.oauth.tokens import TokenStore
from ..connections.pages import language_of, page, policy
from ..edge.request import NO_SNIFF, NO_STORE, Headers, Receive, Scope, Send
from ..state.store import StateError
from ..vault.base import VaultError
from ..vault.vault import Vault
from .login_paths import CALLBACK_PATH, CONNECT_PATH

MAX_QUERY = 16 * 1024
_STATUS = {"connected": 200, "confirm": 200, "denied": 200, "expired": 410, "failed": 502, "elsewhere": 403}


class GatewayConnections:
    """`base_url` is where browsers reach the gateway; empty until it is served over HTTP."""

    def __init__(self, vault: Vault, base_url: Callable[[], str]) -> None:
        self._base_url = base_url
        self.tokens = TokenStore(vault, vault.store)
        self._vault = vault
        self.open_accounts: dict[str, OAuthAccounts] = {}
        self.pages = LoginPages(vault.store, self.open_accounts.get)

    @property
    def base_url(self) -> str:
        return self._base_url()

    def open(self, server: ServerConfig, on_connected: Callable[[], None]) -> OAuthAccounts:
        """The accounts at a server whose configuration has `auth`."""
        assert server.auth is not None
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the paths that begin with `/oauth/connect/` and `/oauth/callback`."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        language = language_of(headers.get("accept-language", ""))
        try:
            shown = await self._answer(scope, headers)
        except (StateError, VaultError):
            shown = FlowPage("failed")
        if shown is None:
            await _respond(send, 404, [], b"")
        elif shown.location:
            id = _id_of(scope)
            await _respond(send, 303, [_location(shown.location), self._cookie(id, shown.cookie)], b"")
        else:
            body = page(shown.kind, language, shown.server, shown.details)
            await _respond(send, _STATUS[shown.kind], [], body, shown.form_targets)

    async def _answer(self, scope: Scope, headers: dict[str, str]) -> FlowPage | None:
        method, path = scope["method"], scope["path"]
        if path == CALLBACK_PATH and method == "GET":
            query: bytes = scope["query_string"]
            pairs = parse_qsl(query[:MAX_QUERY].decode("latin-1"), keep_blank_values=True)
            answer = dict(pairs)
            if len(answer) != len(pairs):  # one parameter twice: which of them counts would be a guess
                return FlowPage("expired")
            return await self.pages.end(answer, _cookies(headers.get("cookie", "")))
        if path.startswith(CONNECT_PATH) and method == "GET":
            return await self.pages.show(_id_of(scope))
        if path.startswith(CONNECT_PATH) and method == "POST":
            # Only our own page has the button.
            if not self._is_ours(headers):
                return FlowPage("elsewhere")
            return await self.pages.begin(_id_of(scope))
        return None

    def _is_ours(self, headers: dict[str, str]) -> bool:
        """Whether a form was sent from our own page; other sites cannot choose these headers."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        parts = urlsplit(self.base_url)
        return headers.get("origin") == f"{parts.scheme}://{parts.netloc}"

    def _cookie(self, id: str, value: str) -> tuple[bytes, bytes]:
        secure = "; Secure" if self.base_url.startswith("https:") else ""
        limits = f"Path=/oauth/; Max-Age={FLOW_SECONDS:.0f}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", f"{cookie_name(id)}={value}; {limits}".encode()


def _id_of(scope: Scope) -> str:
    return scope["path"].removeprefix(CONNECT_PATH)


def _cookies(header: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in header.split(";")[:100])
    return {name: value for name, _, value in pairs}


def _location(url: str) -> tuple[bytes, bytes]:
    return b"location", url.encode("ascii", "ignore")


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
