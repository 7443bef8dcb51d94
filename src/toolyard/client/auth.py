"""`OAuth`: how a `Client` gets a token for a server that wants one."""

import asyncio
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import convert
from msgspec.structs import replace

from ..config.server_auth import AuthMode, IdentityProvider, OAuthAuth
from ..connections.oauth.authorization import CodeFlow, Discovery
from ..connections.oauth.fetching import GuardedFetcher
from ..connections.oauth.grants import MachineSource, UserSource
from ..connections.oauth.loopback import LoopbackRedirect
from ..connections.oauth.session import OAuthSession, TokenSource
from ..connections.oauth.tokens import ProcessSecrets, TokenStore
from ..state.memory import MemoryState
from ..vault.base import SecretAddress, SecretStore

LOGIN_SECONDS = 600.0


class OAuth:
    """`Client(url, auth=OAuth())` opens the browser where the server wants a login.

    `authorize` takes the user's part instead: it gets the address to open, and returns the one that the
    browser was sent to. `redirect` is then where the browser is sent. `secrets` keep tokens beyond this
    process; without them, each process logs in anew. The other options are those of `auth` in a server's
    entry: `mode`, `client_id`, `client_secret`, `scopes`, `private_key`, `dpop` and so on.
    """

    def __init__(
        self,
        mode: AuthMode = "oauth",
        *,
        authorize: Callable[[str], Awaitable[str]] | None = None,
        redirect: str = "http://127.0.0.1:8765/callback",
        secrets: SecretStore | None = None,
        settings: OAuthAuth | None = None,
        **options: Any,
    ) -> None:
        if isinstance(options.get("identity_provider"), dict):
            options["identity_provider"] = convert(options["identity_provider"], IdentityProvider)
        if "scopes" in options:
            options["scopes"] = tuple(options["scopes"])
        self.settings = replace(settings or OAuthAuth(), mode=mode, **options)
        if self.settings.acts_for_caller:
            raise ValueError("subject='caller' is for gateways; a client has no callers: use subject_token")
        self._authorize = authorize
        self._redirect = redirect
        self._secrets: SecretStore = secrets if secrets is not None else ProcessSecrets()
        self._state = MemoryState()
        self._fetcher: GuardedFetcher | None = None
        self._session: OAuthSession | None = None

    @property
    def seconds(self) -> float | None:
        """How long opening a connection may take: a person needs longer than a program."""
        return LOGIN_SECONDS if self.settings.mode == "oauth" else None

    def session(self, server: str, url: str) -> OAuthSession:
        """The credential for one server, for `HttpConnector`."""
        settings = self.settings
        provider = settings.identity_provider
        trusted = [url, settings.issuer, *([provider.token_endpoint] if provider else [])]
        fetcher = self._fetcher = GuardedFetcher(trusted)
        tokens = TokenStore(self._secrets, self._state)
        source: TokenSource
        if settings.mode == "oauth":
            flow = CodeFlow(
                fetcher,
                settings,
                self._secrets,
                server=server,
                server_url=url,
                tenant="local",
                redirect=self._redirect,
            )
            source = UserSource(
                Discovery(fetcher, url, settings), flow, self._authorize or self._open_browser
            )
        else:
            source = MachineSource(fetcher, settings, url, tokens)
        address = SecretAddress(tenant="local", kind="token", upstream=server, principal="local")
        self._session = OAuthSession(server, url, settings, address, tokens, fetcher, source)
        return self._session

    async def _open_browser(self, url: str) -> str:
        state = parse_qs(urlsplit(url).query)["state"][0]
        async with LoopbackRedirect(self._redirect, state) as waiting:
            await asyncio.to_thread(webbrowser.open, url)
            return await waiting.answer()

    async def close(self) -> None:
        session, self._session = self._session, None
        fetcher, self._fetcher = self._fetcher, None
        if session is not None:
            await session.close()
        if fetcher is not None:
            await fetcher.close()
