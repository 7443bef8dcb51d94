"""The shared dependencies of all views, and those of the meta tools. The app builds both."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ..catalogue.catalogue import Catalogue
from ..catalogue.items import TOOLS, ItemKind, prefix_of
from ..catalogue.scope import VisibleCatalogue
from ..config import GatewayConfig, SearchConfig
from ..dispatch import Mount
from ..dispatch.remote import AppConnection, RemoteTool
from ..languages import Locale, said
from ..pipeline import Handler
from ..telemetry.serving import RequestTracing
from ..upstream.errors import CredentialError
from ..wire.call import Call, Principal
from ..wire.seal import Sealer
from .forwarding import FitTask, SealedTaskIds
from .stored_results import StoredResults

if TYPE_CHECKING:
    from ..dispatch.remote import Remote
    from ..search.feedback import SearchFeedback
    from ..search.index import ToolIndex
    from ..sessions.leases import Leases
    from ..sessions.profiles import ProfileStore
    from ..state.store import State
    from ..telemetry.events import EventRecorder
    from ..upstream.accounts import Accounts
    from .dialects.definitions import MetaTool


Count = Callable[[Call, str, bool, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Does what a meta tool does by itself, within limits. Takes the tool's name, and whether it only reads."""

Discover = Callable[[Call, str, Sequence[str]], Awaitable[Sequence[RemoteTool]]]
"""Asks the remotes among these servers for a tool by its name; the conversation may call what they have."""
CONNECT_TOOL = "COMPOSIO_MANAGE_CONNECTIONS"
"""Composio's own tool that connects apps. Rules for it are those for connecting by any dialect."""


class ViewHost(Protocol):
    """The gateway, as the views see it."""

    def lists_wanted(self) -> None:
        """A client requests lists; the gateway may refresh old ones."""
        ...

    async def read_lists(self, servers: Sequence[str]) -> None:
        """Read lists of these servers that may have changed, and wait for that a little."""
        ...

    def client_seen(self, call: Call) -> None:
        """A client has initialized. Raises InvalidRequest if it must not be served."""
        ...

    def health(self) -> dict[str, Any]: ...


class ViewContext:
    """The shared dependencies of all views.

    `stored` holds whole results; None if results pass unchanged. `one_client` means that a single client is
    served, as over stdio: all its calls are one conversation, named or not. `scope_of` gives the catalogue as
    a caller sees it; None if everybody sees everything.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        mounts: Mapping[str, Mount],
        forward: Handler,
        sealer: Sealer,
        host: ViewHost,
        settings: GatewayConfig,
        *,
        stored: StoredResults | None = None,
        fit_task: FitTask | None = None,
        one_client: bool = False,
        scope_of: "Callable[[Principal], VisibleCatalogue] | None" = None,
        on_unknown: "Callable[[Call, ItemKind, str], Awaitable[None]] | None" = None,
        on_answered: "Callable[[Call, str, bool], Awaitable[None]] | None" = None,
        on_session_end: "Callable[[Call], Awaitable[None]] | None" = None,
        count: Count | None = None,
        tracing: RequestTracing | None = None,
        discover: Discover | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.mounts = mounts
        self.forward = forward
        self.task_ids = SealedTaskIds(sealer)
        self.host = host
        self.locale: Locale = settings.locale
        """The language in which the gateway answers; a new configuration does not change it."""
        self.settings = settings
        """The current ones: a new configuration replaces them."""
        self.stored = stored
        self.fit_task = fit_task
        self.one_client = one_client
        self.tracing = tracing
        """Puts a span around each request; None if traces are off."""
        self.touch = host.lists_wanted
        self.asks_servers = True
        """Whether lists of one server alone are its own; a recording has those that the gateway read."""
        self._scope_of = scope_of
        self._on_unknown = on_unknown
        self._on_answered = on_answered
        self._on_session_end = on_session_end
        self._count = count
        self._discover = discover

    async def discover(self, call: Call, name: str, servers: Sequence[str]) -> Sequence[RemoteTool]:
        """Ask those of the servers that do not list all of their tools for one by its name."""
        return () if self._discover is None else await self._discover(call, name, servers)

    async def note_session_end(self, call: Call) -> None:
        """A client has ended its legacy session."""
        if self._on_session_end is not None:
            await self._on_session_end(call)

    async def counted(self, call: Call, tool: "MetaTool", work: Callable[[], Awaitable[Any]]) -> Any:
        """What a meta tool does by itself, within the caller's limits."""
        reads = tool.annotations.get("readOnlyHint") is True
        return await (work() if self._count is None else self._count(call, tool.name, reads, work))

    async def note_answered(self, call: Call, name: str, failed: bool) -> None:
        """The gateway answered a call of a meta tool by itself."""
        if self._on_answered is not None:
            await self._on_answered(call, name, failed)

    async def note_unknown(self, call: Call, kind: ItemKind, name: str) -> None:
        """A caller asked for a name that leads nowhere."""
        if self._on_unknown is not None:
            await self._on_unknown(call, kind, name)

    @property
    def is_guarded(self) -> bool:
        """Whether calls may be refused or confirmed."""
        return self._scope_of is not None

    def visible(self, call: Call) -> VisibleCatalogue:
        """The catalogue as the caller sees it."""
        return self.catalogue if self._scope_of is None else self._scope_of(call.caller.identity.principal)

    def may_read_result(self, call: Call, tool: str) -> bool:
        """Whether the caller may still have what this tool returned. `tool` is a full name."""
        if self._scope_of is None:
            return True
        visible, entry = self.visible(call), self.catalogue.find(TOOLS, tool)
        if entry is not None:
            return visible.find(TOOLS, tool) is not None
        # Not listed, or not any more. Of two servers that it may belong to, both have to permit it.
        servers = [name for name in self.catalogue.servers if tool.startswith(prefix_of(name))]
        return bool(servers) and all(
            visible.permits(name, self.catalogue.servers[name].own_name(tool.removeprefix(prefix_of(name))))
            for name in servers
        )

    @property
    def list_wait(self) -> float:
        """How long a list waits for servers whose lists are not known yet."""
        return self.settings.list_wait


class MissingAccount(Struct, frozen=True):
    """The caller has no account at a server that wants one."""

    auth: str
    """How it is connected: `oauth` or `api_key`."""
    reason: str


class MetaToolContext(Struct, kw_only=True):
    view_context: ViewContext
    index: "Callable[[], Awaitable[ToolIndex]]"
    """Returns the index with everything that is in the catalogue now."""
    leases: "Leases"
    events: "EventRecorder"
    state: "State"
    """Maps session ids to threads, for all replicas."""
    remotes: "Callable[[], Mapping[str, Remote]]"
    """The remotes by server name; they may change with the configuration."""
    settings: SearchConfig
    """The current ones: a new configuration replaces them."""
    feedback: "SearchFeedback"
    profiles: "ProfileStore | None" = None
    accounts: "Callable[[], Mapping[str, Accounts]]" = dict
    """The accounts of callers at servers that want a login, by server name."""

    async def unconnected(self, call: Call, servers: "Iterable[str]") -> "dict[str, MissingAccount]":
        """Which of these servers the caller has no account at, and why."""
        accounts = self.accounts()
        found: dict[str, MissingAccount] = {}
        for server in dict.fromkeys(servers):
            if server not in accounts:
                continue
            try:
                state = await accounts[server].state(call.caller.identity.principal)
            except CredentialError as error:
                found[server] = MissingAccount(accounts[server].kind, error.reason)
            else:
                if not state.connected:
                    found[server] = MissingAccount(accounts[server].kind, state.reason)
        return found

    def remotes_of(self, call: Call) -> "Mapping[str, Remote]":
        """The remotes that the caller may know of."""
        remotes = self.remotes()
        if not remotes:
            return remotes
        visible = self.view_context.visible(call).servers
        return {name: remote for name, remote in remotes.items() if name in visible}

    async def link(
        self, call: Call, remote: "Remote", app: str, alias: str = "", fields: dict[str, Any] | None = None
    ) -> AppConnection:
        """Begin to connect an app, for callers who may use the remote's own tool for it."""
        if not self.view_context.visible(call).admits(remote.server, CONNECT_TOOL):
            refusal = said(
                "connecting apps is not allowed here; ask whoever runs the gateway",
                "aqui não é permitido conectar aplicativos; fale com quem opera o gateway",
            )
            return AppConnection(remote.server, app, "failed", message=refusal)
        return await remote.link(call, app, alias=alias, fields=fields)
