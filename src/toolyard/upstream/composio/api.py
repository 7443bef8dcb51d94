"""What can be asked of Composio, whichever endpoints answer: the protocol, its records and errors.

UpstreamRefusedError     of `upstream.errors`
└── ComposioRefusedError an HTTP error with the API's body: `words` is its message, `hint` its suggestion
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote

from msgspec import Raw, Struct

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
    """One thing to search tools for."""

    use_case: str
    known_fields: str = ""
    category: str = ""


class ComposioSession(Struct, frozen=True):
    id: str
    mcp_url: str = ""
    """Empty when it has none."""
    api: str = "v3.1"
    ttl: float | None = None


class FoundToolRecord(Struct, frozen=True):
    """A tool that its search found."""

    slug: str
    toolkit: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    primary: bool = False


class AppAccount(Struct, frozen=True):
    """How it stands with a user's account of an app."""

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
    """To a search: the tools for each question, best first, or the apps where it knows nothing finer."""

    tools: tuple[tuple[FoundToolRecord, ...], ...]
    accounts: dict[str, AppAccount] = {}
    """By app."""
    guidance: tuple[str, ...] = ()


class ToolRecord(Struct, frozen=True):
    """A tool as the list of all tools has it."""

    slug: str
    toolkit: str
    name: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    no_auth: bool = False
    tags: tuple[str, ...] = ()


class ToolkitRecord(Struct, frozen=True):
    slug: str
    name: str
    description: str = ""
    logo: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    auth_schemes: tuple[str, ...] = ()
    managed_auth_schemes: tuple[str, ...] = ()


class ExecutedTool(Struct, frozen=True):
    """What became of a tool: what it gave, and why it failed, if it did."""

    data: Raw = Raw(b"null")
    failure: str | None = None


class ComposioClient(Protocol):
    @property
    def needs_session(self) -> bool:
        """Whether a tool can be executed in a session only."""
        ...

    async def begin(self, user: str) -> ComposioSession: ...

    async def search(
        self, session: ComposioSession | None, user: str, questions: Sequence[ComposioQuery], limit: int
    ) -> ComposioAnswer: ...

    async def execute(
        self, session: ComposioSession | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> ExecutedTool: ...

    async def tools(self, slugs: Sequence[str]) -> list[ToolRecord]:
        """By their names; the unknown are left out."""
        ...

    async def tools_of(self, toolkit: str, limit: int) -> list[ToolRecord]: ...

    async def toolkits(self, text: str, category: str, limit: int) -> list[ToolkitRecord]: ...

    async def toolkit(self, slug: str) -> ToolkitRecord | None: ...

    async def accounts(
        self, session: ComposioSession | None, user: str, toolkits: Sequence[str]
    ) -> list[AppAccount]:
        """Of these apps, one each; without any, those that are connected."""
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
    def __init__(self, server: str, status: int, words: str, hint: str = "") -> None:
        how = "it says" if status == 200 else f"it answered HTTP {status}"
        super().__init__(server, f"{how}: {words}", status, says_expired(words))
        self.words = words
        self.hint = hint

    @property
    def is_about_tool(self) -> bool:
        """410 also stands for a tool that was taken out of service."""
        return not self.expired and "tool" in self.words.lower().replace("tool router", "")


def is_over(error: McpError) -> bool:
    """Whether a call was refused because its session is over, and so has not been made.

    401 may just as well mean that the key is wrong; then no session can be begun either, and that is said.
    404 is what the address of a session that is gone answers.
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


_NAMES = re.compile(r"\{(tenant|agent|thread)\}")
_APART = re.compile(r"[^A-Za-z0-9%]")
_UNSAFE = re.compile(r"[-._~]")


class UserIds:
    def __init__(self, template: str) -> None:
        pieces = _NAMES.split(template)
        self._texts = pieces[::2]
        self._names = pieces[1::2]
        for number in range(1, len(self._names)):
            if not _APART.search(self._texts[number]):
                self._texts[number] += "."

    def of(self, tenant: str, agent: str, thread: str) -> str:
        given = {"tenant": tenant, "agent": agent, "thread": thread}
        values = [given[name] for name in self._names]
        if len(values) > 1:  # `a-b` and `c` must not become what `a` and `b-c` become
            values = [_escaped(value) for value in values]
        filled = [text + value for text, value in zip(self._texts, [*values, ""], strict=True)]
        return "".join(filled) or "default"


def _escaped(value: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", quote(value, safe=""))
