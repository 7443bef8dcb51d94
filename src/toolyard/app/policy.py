"""What callers may do: builds access, limits and audit from the configuration, and again when it changes.

Owns which catalogue a principal sees (`scope_of`) and the life of the guard's parts. Each part works in its
own package: `policy`, `limits`, `audit`; their order in a call is in `guard`.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from .._version import __version__
from ..audit import AuditLog, open_audit
from ..catalogue.catalogue import Catalogue
from ..catalogue.items import KINDS, TOOLS, ItemKind
from ..catalogue.scope import CatalogueScope, VisibleCatalogue
from ..config import Config
from ..guard import CallCounter, Guard, ScopeChallenge, Subject
from ..kit.events import ChangeEvent
from ..limits import Limiter
from ..policy.access import AccessPolicy, Rights
from ..policy.approvals import Approvals
from ..state.store import State
from ..wire.call import Call, Principal
from ..wire.seal import Sealer
from ..wire.types import Implementation

logger = logging.getLogger("toolyard.app")

MAX_SCOPES = 1024
MAX_PRINCIPALS = 8192


def is_guarded(config: Config) -> bool:
    """Whether there is anything to ask or to record about calls."""
    return config.access.is_on or bool(config.limits.rules) or config.audit.is_on or config.auth.knows_callers


class _ScopeByPrincipal(dict[Principal, VisibleCatalogue]):
    """Remembers whose catalogue is which: every call asks for it."""

    def __init__(self, scope_of: Callable[[Principal], VisibleCatalogue]) -> None:
        super().__init__()
        self._scope_of = scope_of

    def __missing__(self, principal: Principal) -> VisibleCatalogue:
        if len(self) >= MAX_PRINCIPALS:
            self.clear()
        found = self[principal] = self._scope_of(principal)
        return found


class GatewayPolicy:
    """Raises ConfigError for rules that cannot be."""

    def __init__(
        self,
        config: Config,
        catalogue: Catalogue,
        folder: Path | None,
        state: State,
        key: bytes | None,
        sealer: Sealer,
        *,
        grants: CallCounter | None = None,
        challenge: ScopeChallenge | None = None,
        one_client: bool = False,
    ) -> None:
        self._config = config
        self._catalogue = catalogue
        self._state = state
        self._scopes: dict[Rights, CatalogueScope] = {}
        self._by_principal = _ScopeByPrincipal(self._scope_of)
        self.scope_of: Callable[[Principal], VisibleCatalogue] = self._by_principal.__getitem__
        """Gives the catalogue as a principal sees it. Those with the same rights share one."""
        self.access = AccessPolicy(config.access)
        self.audit: AuditLog | None = open_audit(config.audit, folder, key) if config.audit.is_on else None
        implementation = Implementation(config.gateway.name, __version__, "Toolyard")
        self.approvals = Approvals(
            state, sealer, implementation, config.access.confirm_seconds, one_client=one_client
        )
        self.guard = Guard(
            access=self.access,
            limiter=self._limiter(config),
            approvals=self.approvals,
            audit=self.audit,
            grants=grants,
            challenge=challenge,
            implementation=implementation,
        )
        self._warn()

    def _limiter(self, config: Config) -> Limiter | None:
        return Limiter(config.limits, self._state, config.access.groups) if config.limits.rules else None

    def _warn(self) -> None:
        for warning in self.access.warnings:
            logger.warning("%s", warning)

    def _scope_of(self, principal: Principal) -> VisibleCatalogue:
        rights = self.access.rights(principal)
        if rights.everything:
            return self._catalogue
        scope = self._scopes.get(rights)
        if scope is None:
            if len(self._scopes) >= MAX_SCOPES:
                self._scopes.clear()
            scope = self._scopes[rights] = CatalogueScope(self._catalogue, rights)
        return scope

    def is_unrestricted(self, principal: Principal) -> bool:
        """Whether nothing is hidden from a principal, as from the local user: it may see whole pages."""
        return self.access.rights(principal).everything or principal.kind == "local"

    async def on_unknown(self, call: Call, kind: ItemKind, name: str) -> None:
        """Record that a caller asked for a name that leads nowhere, or nowhere for this caller."""
        entry = self._catalogue.find(kind, name)
        subject = None
        if entry is not None:
            subject = Subject(kind, entry.server, entry.item.own, entry.item.reads)
        await self.guard.note_unknown(call, name, subject)

    async def on_stored_read(self, call: Call, tool: str, size: int | None) -> None:
        """Record that a caller read of a stored result of this tool, by its full name; None: nothing."""
        entry = self._catalogue.find(TOOLS, tool)
        server, own = ("", tool) if entry is None else (entry.server, entry.item.own)
        await self.guard.note_stored(call, server, own, size)

    async def start(self) -> None:
        if self.audit is not None:
            await self.audit.start()

    async def reload(self, config: Config) -> None:
        """Take over changed rules; what they hide or show is told to clients as changed lists.

        Raises ConfigError for rules that cannot be, and changes nothing then.
        """
        before = self._config
        access, limiter = self.access, self.guard.limiter
        if before.access != config.access:
            access = AccessPolicy(config.access)
        if before.limits != config.limits or before.access.groups != config.access.groups:
            if limiter is not None and config.limits.rules:
                limiter.reconfigure(config.limits, config.access.groups)  # calls under way keep their slots
            else:
                limiter = self._limiter(config)
        self._config = config
        old, changed = self.guard.limiter, access is not self.access
        self.access = access
        self.guard.reconfigure(access, limiter)
        self.approvals.seconds = config.access.confirm_seconds
        if old is not None and old is not limiter:
            await old.close()
        if changed:
            self._scopes.clear()
            self._by_principal.clear()
            self._warn()
            for method in dict.fromkeys(kind.changed for kind in KINDS):
                self._catalogue.hub.publish(ChangeEvent(method, ""))

    async def close(self) -> None:
        await self.approvals.close()
        if self.guard.limiter is not None:
            await self.guard.limiter.close()
        if self.audit is not None:
            await self.audit.close()
