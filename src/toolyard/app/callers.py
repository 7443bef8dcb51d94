"""Who may call the gateway: builds the authenticator from `[auth]`, and again when the file changes.

Owns the choice of methods, where API keys and logins are kept, and the grants of the gateway. How each method
works is in `callers`, and how people log in is in `authserver`.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..callers.authenticator import (
    Authenticator,
    Challenges,
    InsufficientScope,
    OnRefused,
    TokenVerifier,
    requested_resource,
)
from ..callers.grant_token import GrantError
from ..callers.grants import Grants, IssuedGrant, open_grants
from ..callers.keys import ApiKeys, lasting_state, open_keys
from ..callers.resource import ProtectedResource, check_address
from ..callers.tokens import IssuerVerifier, token_verifiers
from ..config import Config, ConfigError
from ..config.callers import AuthConfig, LoginServerConfig
from ..edge.request import AuthenticatorSetting, Receive, Scope, Send
from ..state.store import State, kind_of
from ..wire.call import Principal
from ..wire.errors import McpError
from ..wire.seal import Sealer

if TYPE_CHECKING:
    from ..authserver.logins import Logins
    from ..authserver.server import AuthorizationServer

logger = logging.getLogger("toolyard.app")


class GatewayCallers:
    """Until `enforce` is called nobody is asked who they are, as in a process of the caller's own."""

    def __init__(
        self,
        config: Config,
        folder: Path | None,
        state: State,
        sealer: Sealer,
        *,
        has_key: bool,
        on_refused: OnRefused | None = None,
    ) -> None:
        """`has_key`: the sealer's key is known to other processes too, and not made up for this one."""
        self.setting = AuthenticatorSetting()
        self.base = config.gateway.public_url
        """The gateway's URL for clients; if empty, `agent_url` gives paths."""
        self._config = config
        self._folder = folder
        self._state = state
        self._sealer = sealer
        self._has_key = has_key
        self._on_refused = on_refused
        self._keys: ApiKeys | None = None
        self._grants: Grants | None = None
        self._is_enforced = False
        self._is_exposed = False
        self._is_open = False
        self._hosts: Sequence[str] = ()
        self._endpoint = "/mcp"
        self._resource = ProtectedResource(AuthConfig())
        self._server: AuthorizationServer | None = None
        self._logins: Logins | None = None
        self._own_state: State | None = None
        self._issuers: list[IssuerVerifier] = []
        """Those of earlier configurations too: requests may still be with them."""

    def enforce(
        self,
        *,
        exposed: bool = False,
        open_to_all: bool = False,
        hosts: Sequence[str] = (),
        endpoint: str = "/mcp",
    ) -> None:
        """Ask callers who they are, as `[auth]` says. Raises ConfigError if that cannot be done.

        `exposed`: other machines reach it, so it never goes without asking unless it is `open_to_all`.
        `hosts` are the names by which clients may call it, `endpoint` the path of its main endpoint.
        """
        self._is_enforced, self._is_exposed, self._is_open = True, exposed, open_to_all
        self._hosts, self._endpoint = hosts, endpoint
        if self._config.auth.server is not None:
            self._server = self._open_server(self._config, self._config.auth.server)
        self.configure(self._config)

    def configure(self, config: Config) -> None:
        before, self._config = self._config, config
        if not self._is_enforced:
            return
        is_same = (
            before.auth == config.auth
            and before.gateway.public_url == config.gateway.public_url
            and before.access.agents == config.access.agents
        )
        if is_same and self.setting.authenticator is not None:
            return  # which remembers whom it has seen
        needed = self._is_exposed and not self._is_open
        if not config.auth.knows_callers and not needed:
            self.setting.authenticator = None
            self._resource = ProtectedResource(config.auth)
            return
        if not config.auth.knows_callers:
            logger.error("[auth] has no way to know callers any more: only this machine is let in")
        self.setting.authenticator = self.authenticator(config)

    def authenticator(self, config: Config) -> Authenticator:
        auth, public_url = config.auth, config.gateway.public_url
        check_address(auth, public_url, self._hosts, self._is_exposed)
        resource = ProtectedResource(auth, public_url=public_url, hosts=self._hosts, endpoint=self._endpoint)
        verifiers = self._verifiers(config)
        self._resource = resource
        return Authenticator(
            verifiers,
            challenges=(
                Challenges(resource.metadata_url, auth.scopes) if auth.has_authorization_server else None
            ),
            locate=resource.url if auth.has_authorization_server else None,
            on_refused=self._on_refused,
            proxy=auth.proxy,
            # Behind a public address there is a proxy, and through it everybody comes from this machine.
            required=auth.required or bool(config.gateway.public_url),
            is_open=self._is_open,
            ignores_foreign=not auth.keys and not auth.has_authorization_server,
        )

    def _verifiers(self, config: Config) -> list[TokenVerifier]:
        """In the order in which they are asked: grants, keys, logins, issuers."""
        found: list[TokenVerifier] = []
        if self.makes_grants(config):
            found.append(self.grants(config))
        if config.auth.keys:
            found.append(self.keys(config))
        if self._logins is not None:
            found.append(self._logins)
        issuers = token_verifiers(config.auth, self._endpoint)
        self._issuers += issuers
        return [*found, *issuers]

    def makes_grants(self, config: Config) -> bool:
        """Whether callers are known, may lend their rights, and there is a key and a place that last."""
        auth = config.auth
        lasts = self._folder is not None or kind_of(config.state.url) != "memory"
        return auth.grants and auth.knows_callers and self._has_key and lasts

    async def make_grant(
        self,
        parent: Principal,
        name: str,
        allow: Sequence[str] | None,
        deny: Sequence[str],
        ttl: float | None,
        calls: int | None,
    ) -> IssuedGrant:
        """Raises GrantError and StateError."""
        if not self.makes_grants(self._config):
            raise GrantError("this gateway makes no grants")
        return await self.grants(self._config).make(parent, name, allow, deny, ttl, calls)

    async def lend(
        self, parent: Principal, name: str, allow: Sequence[str] | None, deny: Sequence[str]
    ) -> Principal:
        """The holder of a new grant, for an agent in this process: its token goes nowhere.

        Raises GrantError, StateError and CallerError.
        """
        issued = await self.make_grant(parent, name, allow, deny, None, None)
        return await self.grants(self._config).verify(issued.token, "")

    def agent_url(self, name: str) -> str:
        return f"{self.base.rstrip('/')}/agents/{quote(name, safe='')}/mcp"

    async def admit(self, principal: Principal) -> None:
        """Count a call of a principal with a grant; McpError if the grant permits none any more."""
        if self._grants is not None:
            await self._grants.admit(principal)

    def grants(self, config: Config) -> Grants:
        """Configured anew. Needs a key of the gateway that lasts."""
        auth = config.auth
        if self._grants is None:
            name = config.gateway.name
            self._grants = open_grants(config.state.url, self._folder, name, self._sealer, auth, self._state)
        self._grants.configure(
            auth,
            keys=self.keys(config) if auth.keys else None,
            agents=config.access.agents,
            admits_local=self._is_open or not (auth.required or config.gateway.public_url),
        )
        return self._grants

    def lacking_scopes(self, principal: Principal, scopes: tuple[str, ...]) -> McpError:
        """The error for a call that needs these scopes; it also names those that every token needs."""
        auth = self._config.auth
        needed = tuple(dict.fromkeys((*auth.scopes, *scopes)))
        has_metadata = auth.has_authorization_server
        challenges = Challenges(self._resource.metadata_url if has_metadata else None, needed)
        return InsufficientScope(needed, challenges.insufficient(requested_resource.get(), needed))

    async def serve_metadata(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers with the metadata of OAuth, as the configuration is now."""
        await self._resource(scope, receive, send)

    def keys(self, config: Config) -> ApiKeys:
        if not self._has_key:
            raise ConfigError(
                "API keys need a key of the gateway that lasts", "set TOOLYARD_KEY, or give a key file"
            )
        if self._keys is None:
            # The store stays the one that it started with: a change of [state] needs a restart.
            name = config.gateway.name
            self._keys = open_keys(config.state.url, self._folder, name, self._sealer, self._state)
        return self._keys

    @property
    def login_paths(self) -> "Mapping[str, AuthorizationServer]":
        """Our own authorization server, by how the paths begin that it answers; empty if there is none.

        It is there if it was configured when callers were first asked who they are.
        """
        return {} if self._server is None else dict.fromkeys(self._server.paths, self._server)

    def _open_server(self, config: Config, server: LoginServerConfig) -> "AuthorizationServer":
        # 20 ms of CPU, and only where people log in.
        from ..authserver.logins import Logins
        from ..authserver.server import AskedScopes, AuthorizationServer
        from ..authserver.users import LocalUsers

        if not self._has_key:
            raise ConfigError(
                "[auth.server] needs a key of the gateway that lasts", "set TOOLYARD_KEY, or give a key file"
            )
        state, is_own = lasting_state(config.state.url, self._folder, self._state, "logins")
        self._own_state = state if is_own else None
        name, sealer, auth = config.gateway.name, self._sealer, config.auth
        self._logins = Logins(state, name, sealer, server, endpoint=self._endpoint, required=auth.scopes)
        by_rules = (scope for rule in config.access.rules for scope in rule.scopes)
        return AuthorizationServer(
            server,
            name=name,
            addresses=lambda: self._resource,
            endpoint=self._endpoint,
            scopes=AskedScopes(auth.scopes, tuple(dict.fromkeys((*server.scopes, *by_rules)))),
            logins=self._logins,
            users=LocalUsers(state, name),
            sealer=sealer,
        )

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        if self._own_state is not None:
            await self._own_state.close()
        if self._grants is not None:
            await self._grants.close()
        for issuer in self._issuers:
            await issuer.close()
        if self._keys is not None:
            await self._keys.close()
