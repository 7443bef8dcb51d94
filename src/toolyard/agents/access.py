"""An agent's way to the gateway: a connection for each agent, with rights of its own.

The rights are a grant that carries the agent's name, made from its parent's and narrowed by the `tools` of
its definition. So the rules of `[access]` for this name hold at the gateway, and a tool that is forbidden is
unknown there. `LocalGateway` is one in this process, `RemoteGateway` one at an address.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import Client
from ..kit.calls.content import COUNTS
from ..wire.call import Identity, Principal, Service
from ..wire.errors import McpError
from ..workspace import adopt_folder
from .backends.base import ToolSpec
from .definition import AgentDefinition
from .messages import ImagePart, TextPart
from .runs import KEPT

MAKE_GRANT = "make_grant"
GRANT_PREFIX = "tyg_"
THREAD_HEADER = "X-Toolyard-Thread"
REMOTE_SECONDS = 600.0
"""How long a gateway elsewhere may give no sign during a call."""
MAX_RESULT_CHARS = 150_000
"""A gateway shapes results well below this; another server may not."""
_COUNTED = re.compile(r"[a-z_]{1,40}")
_MAX_COUNTS = 8
_SHAPED = re.compile(r'"truncated":true.{0,40}"approx_size_bytes":(\d{1,15})(?!\d)', re.DOTALL)


class GatewayAccessError(Exception):
    """The gateway cannot be used by agents; the hint says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class GrantLender(Protocol):
    """Makes a grant of a caller's rights and returns the caller that holds it."""

    async def lend(
        self, parent: Principal, name: str, allow: Sequence[str] | None, deny: Sequence[str]
    ) -> Principal: ...


class NarrowGrant(Protocol):
    """`toolyard.narrow_grant`."""

    def __call__(
        self, token: str, *, name: str = "", allow: Sequence[str] | None = None, deny: Sequence[str] = ()
    ) -> str: ...


class ToolAnswer(Struct, frozen=True):
    """What a tool answered, as a model is told of it."""

    parts: tuple[TextPart | ImagePart, ...]
    is_error: bool = False
    saved: int = 0
    """Bytes that the gateway kept out of it."""
    counts: str = ""
    """What the server says that it counted: numbers only, which a trace may show."""

    @property
    def chars(self) -> int:
        return sum(len(part.text if isinstance(part, TextPart) else part.data) for part in self.parts)


class AgentConnection:
    """One agent's open connection. `credential` is what its sub-agents' rights are made from."""

    def __init__(self, client: Client, credential: Principal | str | None) -> None:
        self.credential = credential
        self._client = client

    @property
    def instructions(self) -> str:
        return self._client.instructions or ""

    async def list_tools(self) -> list[ToolSpec]:
        """Without the tool that makes grants: its answer is a secret, and the runner's business.

        Raises GatewayAccessError.
        """
        with _explained("the gateway lists no tools"):
            tools = await self._client.list_tools()
        return [
            ToolSpec(tool.name, tool.description or tool.title or "", tool.input_schema)
            for tool in tools
            if tool.name != MAKE_GRANT
        ]

    async def call(self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, str]) -> ToolAnswer:
        """Whatever goes wrong is an answer that says so, for the model to read."""
        if name == MAKE_GRANT:
            return _failed(f"Tool {name!r} not found.")
        try:
            result = await self._client.call_tool(name, arguments, meta=meta or None)
        except McpError as error:
            return _failed(error.message)
        except Exception as error:  # the client's own errors: a lost connection, an answer that is no MCP
            return _failed(f"The tool {name!r} could not be called: {error}")
        parts = tuple(_parts(result.raw))
        text = next((part.text for part in parts if isinstance(part, TextPart)), "")
        shaped = _SHAPED.search(text[:2000])
        saved = 0 if shaped is None else max(0, int(shaped[1]) - len(text))
        counts = _counts(result.raw)
        return ToolAnswer(parts or (TextPart("(no content)"),), result.is_error, saved, counts)

    async def close(self) -> None:
        await self._client.close()


class AgentGateway(Protocol):
    """A gateway as the runner needs it."""

    async def connect(
        self, agent: AgentDefinition, parent: AgentConnection | None, thread: str
    ) -> AgentConnection:
        """Opens a connection for an agent in the conversation `thread`. Raises GatewayAccessError."""
        ...

    def adopt(self, thread: str, folder: Path) -> AbstractContextManager[None]:
        """Makes a folder the workspace of the conversation, if the gateway has the same disk."""
        ...


class LocalGateway:
    """A gateway in this process. `principal` is whose rights the main agent gets.

    `by_name`: each agent has the rights that rules give to its name, and not those of its parent. It is for
    the owner of the rules: a grant never has more than its maker, and the maker here is the agent itself.
    """

    def __init__(
        self,
        service: Service,
        lender: GrantLender,
        principal: Principal = Principal(),  # noqa: B008 (frozen)
        *,
        by_name: bool = False,
        **client_options: Any,
    ) -> None:
        self._service = service
        self._lender = lender
        self._principal = principal
        self._by_name = by_name
        self._client_options = client_options

    async def connect(
        self, agent: AgentDefinition, parent: AgentConnection | None, thread: str
    ) -> AgentConnection:
        above = self._principal if parent is None else parent.credential
        assert isinstance(above, Principal)
        if self._by_name:
            above = replace(self._principal, agent=agent.name)
        with _explained(f"no grant for the agent {agent.name!r}"):
            lent = await self._lender.lend(above, agent.name, agent.tools, agent.denied_tools)
            own = lent
            if agent.delegated_tools:
                own = await self._lender.lend(lent, agent.name, None, agent.delegated_tools)
        # The servers behind the gateway have time limits of their own.
        client = Client(self._service, identity=Identity(own, thread), timeout=None, **self._client_options)
        return await _opened(client, lent)

    def adopt(self, thread: str, folder: Path) -> AbstractContextManager[None]:
        return adopt_folder(self._principal.owner, thread, folder, KEPT)


class RemoteGateway:
    """A gateway at an address. `key` is an API key or a grant; without either it must not need one.

    `without_grants` lets all agents have the rights of the key itself.
    """

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        narrow: NarrowGrant,
        headers: Mapping[str, str] | None = None,
        without_grants: bool = False,
        **client_options: Any,
    ) -> None:
        self._url = url
        self._key = key
        self._narrow = narrow
        self._headers = dict(headers or {})
        self._without_grants = without_grants
        self._client_options = client_options

    async def connect(
        self, agent: AgentDefinition, parent: AgentConnection | None, thread: str
    ) -> AgentConnection:
        lent = own = await self._token(agent, parent)
        if agent.delegated_tools and not self._without_grants:
            own = self._narrowed(lent, agent, None, agent.delegated_tools)
        return await _opened(self._client(own, {THREAD_HEADER: thread}), lent)

    def adopt(self, thread: str, folder: Path) -> AbstractContextManager[None]:
        return nullcontext()  # its files are on its own machine

    async def _token(self, agent: AgentDefinition, parent: AgentConnection | None) -> str:
        if self._without_grants:
            return self._key
        above = self._key if parent is None else parent.credential
        if isinstance(above, str) and above.startswith(GRANT_PREFIX):
            return self._narrowed(above, agent, agent.tools, agent.denied_tools)
        return await self._ask_for_grant(agent)

    def _narrowed(
        self, grant: str, agent: AgentDefinition, allow: Sequence[str] | None, deny: Sequence[str]
    ) -> str:
        with _explained(f"no grant for the agent {agent.name!r}"):
            return self._narrow(grant, name=agent.name, allow=allow, deny=deny)

    async def _ask_for_grant(self, agent: AgentDefinition) -> str:
        arguments: dict[str, Any] = {"name": agent.name, "deny": list(agent.denied_tools)}
        if agent.tools is not None:
            arguments["allow"] = list(agent.tools)
        with _explained(f"no grant for the agent {agent.name!r}"):
            result = await self._make_grant(arguments)
        token: Any = result.get("structuredContent", {}).get("token")
        if not isinstance(token, str):
            raise GatewayAccessError(f"no grant for the agent {agent.name!r}: {_said(result)}")
        return token

    async def _make_grant(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        async with self._client(self._key, {}) as client:
            if MAKE_GRANT not in {tool.name for tool in await client.list_tools()}:
                raise GatewayAccessError(
                    f"the gateway at {self._url} makes no grants, so it cannot tell the agents apart",
                    "it needs [auth] and view = 'search'; or set TOOLYARD_API_KEY to a grant of `toolyard "
                    "grant NAME`; or give all agents the same rights with --without-grants",
                )
            return (await client.call_tool(MAKE_GRANT, arguments)).raw

    def _client(self, token: str, headers: Mapping[str, str]) -> Client:
        sent = {**self._headers, **headers}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        return Client(self._url, headers=sent, timeout=REMOTE_SECONDS, **self._client_options)


async def _opened(client: Client, credential: Principal | str) -> AgentConnection:
    with _explained("the gateway cannot be reached"):
        await client.__aenter__()
    return AgentConnection(client, credential)


@contextmanager
def _explained(what: str) -> Generator[None]:
    """Makes an error of any part of the way one of ours: what failed, why, and what to do."""
    try:
        yield
    except GatewayAccessError:
        raise
    except Exception as error:  # of the client, of grants, of the state: none of them is below us
        message: str = getattr(error, "message", "") or str(error) or type(error).__name__
        raise GatewayAccessError(f"{what}: {message}", getattr(error, "hint", None) or "") from error


def _failed(text: str) -> ToolAnswer:
    return ToolAnswer((TextPart(text),), is_error=True)


def _parts(result: Mapping[str, Any]) -> Iterator[TextPart | ImagePart]:
    """The content of a result; its structured content only if there is no text."""
    has_text = False
    blocks: list[Any] = result.get("content") or []
    for block in blocks:
        part = _part(block)
        has_text = has_text or isinstance(part, TextPart)
        yield part
    if not has_text and result.get("structuredContent") is not None:
        yield TextPart(_cut(msgspec.json.encode(result["structuredContent"]).decode()))


def _counts(result: Mapping[str, Any]) -> str:
    """`total 30, successful 10`; names and numbers of any other form are left out."""
    pairs = list(_members(_members(result.get("_meta")).get(COUNTS)).items())[:_MAX_COUNTS]
    return ", ".join(
        f"{name} {count:,}" for name, count in pairs if type(count) is int and _COUNTED.fullmatch(name)
    )


def _members(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _said(result: Mapping[str, Any]) -> str:
    return " ".join(part.text for part in _parts(result) if isinstance(part, TextPart))[:300]


def _part(block: Any) -> TextPart | ImagePart:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(_cut(text))
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return ImagePart(kind, data)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextPart(_cut(text))
        case {"type": "resource", "resource": {"uri": str(uri)}} | {"type": "resource_link", "uri": str(uri)}:
            return TextPart(f"[resource {uri}]")
        case {"type": str(kind)}:
            return TextPart(f"[content of kind {kind!r}, which cannot be shown here]")
        case _:
            return TextPart("[content that cannot be read]")


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n[{len(text) - MAX_RESULT_CHARS:,} more characters were cut off]"
