"""The protocol of a Composio client, its records and errors. Two groups of endpoints implement it.

UpstreamRefusedError     in `upstream.errors`
└── ComposioRefusedError an HTTP error with the API's body: `detail` is its message, `hint` its suggestion
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from ...composio import ExecutedTool
from ...wire.errors import McpError
from ..errors import (
    HttpRpcError,
    StaleSessionError,
    UpstreamError,
    UpstreamRefusedError,
    is_refusal,
    says_expired,
)


class ComposioQuery(Struct, frozen=True):
    """One task to search tools for."""

    use_case: str
    known_fields: str = ""
    category: str = ""


class ComposioSession(Struct, frozen=True):
    id: str
    mcp_url: str = ""
    """Empty if the session has no MCP endpoint."""
    api: str = "v3.1"
    ttl: float | None = None


class ToolRecord(Struct, frozen=True):
    """A tool in a list or in the result of a search. The tool router's search has no name, auth and tags."""

    slug: str
    toolkit: str
    name: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    no_auth: bool = False
    tags: tuple[str, ...] = ()
    primary: bool = False
    """Whether a search recommends it."""


class AppAccount(Struct, frozen=True):
    """The state of a user's account with an app."""

    toolkit: str
    status: str
    """`active`, `initiated`, `requires_parameters`, `failed` or `none`."""
    id: str = ""
    link: str = ""
    message: str = ""
    required: tuple[str, ...] = ()
    needs_none: bool = False
    """The app works without an account."""


class ComposioAnswer(Struct, frozen=True):
    """The result of a search: the tools for each query, best first."""

    tools: tuple[tuple[ToolRecord, ...], ...]
    accounts: dict[str, AppAccount] = {}
    """Keyed by app."""
    guidance: tuple[str, ...] = ()


class Toolkit(Struct, frozen=True):
    """An app and its tools. `connected` is None where nobody looked."""

    slug: str
    name: str
    description: str = ""
    logo: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    auth_schemes: tuple[str, ...] = ()
    managed_auth_schemes: tuple[str, ...] = ()
    connected: bool | None = None


class ComposioClient(Protocol):
    @property
    def needs_session(self) -> bool:
        """Whether tools can be executed only in a session."""
        ...

    async def begin(self, user: str) -> ComposioSession: ...

    async def search(
        self, session: ComposioSession | None, user: str, queries: Sequence[ComposioQuery], limit: int
    ) -> ComposioAnswer: ...

    async def execute(
        self, session: ComposioSession | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> ExecutedTool: ...

    async def tools(self, slugs: Sequence[str]) -> list[ToolRecord]:
        """Return the tools with these names, without unknown ones."""
        ...

    async def tools_of(self, toolkit: str, limit: int) -> list[ToolRecord]: ...

    async def toolkits(self, text: str, category: str, limit: int) -> list[Toolkit]: ...

    async def toolkit(self, slug: str) -> Toolkit | None: ...

    async def accounts(
        self, session: ComposioSession | None, user: str, toolkits: Sequence[str]
    ) -> list[AppAccount]:
        """Return one account for each of these apps; without any, the connected ones."""
        ...

    async def link(
        self,
        session: ComposioSession | None,
        user: str,
        toolkit: str,
        callback_url: str,
        alias: str,
        fields: dict[str, Any] | None,
    ) -> AppAccount: ...


class ComposioRefusedError(UpstreamRefusedError):
    def __init__(self, server: str, status: int, detail: str, hint: str = "") -> None:
        how = "it says" if status == 200 else f"it answered HTTP {status}"
        super().__init__(server, f"{how}: {detail}", status, says_expired(detail))
        self.detail = detail
        self.hint = hint

    @property
    def is_about_tool(self) -> bool:
        """Whether it concerns a tool: 410 also means that a tool was removed."""
        return not self.expired and "tool" in self.detail.lower().replace("tool router", "")


def is_session_expired(error: McpError) -> bool:
    """Whether a call was refused because its session has expired, and so has not run.

    401 may also mean a wrong key; a new session fails with the same error then. 404 is the status of an
    expired session's address.
    """
    if isinstance(error, ComposioRefusedError):
        return error.expired or error.status == 401 or (error.status == 410 and not error.is_about_tool)
    if isinstance(error, UpstreamRefusedError):
        return error.expired or error.status in (401, 404, 410)
    if isinstance(error, UpstreamError):
        return isinstance(error, StaleSessionError) and error.expired
    if isinstance(error, HttpRpcError) and error.status in (401, 410):
        return True
    return is_refusal(error.message)
