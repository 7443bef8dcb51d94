"""A kit server inside a Claude Agent SDK application.

Owns the object that the SDK serves to Claude Code (`McpSdkServerConfig["instance"]`). The SDK carries only
requests and their answers: it drops notifications of a server and refuses its requests. The host application
runs in this process and owns the user interface, so progress, log lines and questions of a tool go to the
host's callbacks, whatever Claude Code supports. `edge.stdio.Duplex` handles the messages.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct

from ..edge.replies import CANCELLED
from ..edge.stdio import Duplex
from ..extras import install_command
from ..wire.call import Call, Caller, Service
from ..wire.errors import InvalidParams, McpError, MethodNotFound
from ..wire.messages import decode_params
from .calls.content import ToolError
from .calls.input_requests import call_and_await
from .enhanced import EnhancedTool, enhanced_server
from .server import Server

if TYPE_CHECKING:
    from claude_agent_sdk import McpSdkServerConfig
    from mcp.shared.message import SessionMessage

logger = logging.getLogger("toolyard.kit")

JsonObject = dict[str, Any]


class ToolUse(Struct, frozen=True):
    """The call of a callback. `id` is that of the `ToolUseBlock` in the SDK's message stream."""

    tool: str = ""
    """Empty for a resource or a prompt."""
    id: str | None = None


Ask = Callable[[JsonObject, ToolUse], Awaitable[JsonObject] | JsonObject]
"""Takes the params of a request and returns its result, both in their wire form."""
Tell = Callable[[JsonObject, ToolUse], Awaitable[None] | None]
"""Takes the params of a notification."""


def create_sdk_server(
    server: Server,
    *,
    on_elicit: Ask | None = None,
    on_sample: Ask | None = None,
    on_roots: Ask | None = None,
    on_progress: Tell | None = None,
    on_log: Tell | None = None,
) -> "McpSdkServerConfig":
    """For `ClaudeAgentOptions(mcp_servers={"name": create_sdk_server(server, …)})`, under asyncio.

    A question without a callback fails with an error for the tool. One config may serve several queries, also
    at once.
    """
    try:
        # 0.6 s of pydantic models, which an application with the SDK has loaded already.
        from claude_agent_sdk import McpSdkServerConfig
    except ImportError as error:
        raise ImportError(
            f"create_sdk_server needs the Claude Agent SDK; hint: {install_command('agent-sdk')}"
        ) from error
    host = Host(
        on_elicit=on_elicit, on_sample=on_sample, on_roots=on_roots, on_progress=on_progress, on_log=on_log
    )
    # The SDK only ever runs the instance; it need not be an `mcp.server.Server`.
    instance = cast(Any, SdkInstance(server.service, host))
    return McpSdkServerConfig(type="sdk", name=server.name, instance=instance)


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: Iterable[EnhancedTool] = (), **callbacks: "Ask | Tell | None"
) -> "McpSdkServerConfig":
    """As the SDK's own function of this name, for records of `enhanced_tool`."""
    return create_sdk_server(enhanced_server(name, version, tools), **cast(Any, callbacks))


_METHODS = {
    "on_elicit": "elicitation/create",
    "on_sample": "sampling/createMessage",
    "on_roots": "roots/list",
    "on_progress": "notifications/progress",
    "on_log": "notifications/message",
}
_CAPABILITIES: dict[str, JsonObject] = {
    "on_elicit": {"elicitation": {"form": {}, "url": {}}},
    "on_sample": {"sampling": {}},
    "on_roots": {"roots": {}},
}


class Host:
    """The callbacks of the host application, and the client capabilities they give."""

    def __init__(self, **callbacks: Ask | Tell | None) -> None:
        self._callbacks: dict[str, tuple[str, Ask | Tell]] = {}
        self.capabilities: JsonObject = {}
        for name, callback in callbacks.items():
            if callback is not None:
                self._callbacks[_METHODS[name]] = name, callback
                self.capabilities |= _CAPABILITIES.get(name, {})

    def can(self, method: str) -> bool:
        return method in self._callbacks

    async def call(self, method: str, params: Any, use: ToolUse) -> bytes:
        """The callback's result as JSON; raises ToolError if it fails, because a tool waits for it."""
        name, callback = self._callbacks[method]
        plain = msgspec.to_builtins(params)
        try:
            return msgspec.json.encode(await call_and_await(lambda: callback(plain, use)))
        except ToolError:
            raise
        except Exception as error:  # the host's code may raise anything
            logger.error("%s failed, called by tool %r", name, use.tool, exc_info=error)
            raise ToolError(f"The application's {name} callback failed; its log has the details") from None


class _HostChannel:
    """The `Channel` of one call; sends everything to the host."""

    def __init__(self, host: Host, use: ToolUse) -> None:
        self._host = host
        self._use = use

    async def notify(self, method: str, params: Any) -> None:
        if self._host.can(method):
            try:
                await self._host.call(method, params, self._use)
            except ToolError as error:  # a failed progress callback must not fail the tool
                logger.warning("%s", error)

    async def ask(self, method: str, params: Any) -> Raw:
        if not self._host.can(method):
            raise MethodNotFound(method)
        return Raw(await self._host.call(method, params, self._use))

    async def release(self, retry_ms: int | None) -> None:
        """There is no connection to close."""


class _HostedService:
    """A `Service` whose calls send to the host instead of Claude Code."""

    def __init__(self, service: Service, host: Host) -> None:
        self._service = service
        self._host = host

    async def handle(self, call: Call) -> Any:
        try:
            return await self._service.handle(self._hosted(call))
        except asyncio.CancelledError:
            # Without an answer the SDK keeps the id reserved until the query ends.
            raise McpError(CANCELLED.code, CANCELLED.message) from None

    def _hosted(self, call: Call) -> Call:
        caller = call.caller
        if caller.era == "modern":  # asks by its answer, so only for what the client declared
            return call
        # Claude Code declares nothing to SDK servers; the host has the capabilities.
        caller = Caller(caller.version, self._host.capabilities, caller.client, caller.identity)
        channel = _HostChannel(self._host, _tool_use(call))
        return msgspec.structs.replace(call, caller=caller, channel=channel)

    async def end_session(self, call: Call) -> None:
        await self._service.end_session(call)

    async def listen(self, call: Call) -> None:
        """The SDK carries no change notifications to Claude Code."""

    async def close(self) -> None:
        """The server outlives the query."""

    def health(self) -> JsonObject:
        return self._service.health()


class _UseMeta(Struct):
    id: str | None = msgspec.field(default=None, name="claudecode/toolUseId")


class _UseHead(Struct):
    name: str
    meta: _UseMeta = msgspec.field(default_factory=_UseMeta, name="_meta")


def _tool_use(call: Call) -> ToolUse:
    if call.method != "tools/call":
        return ToolUse()
    try:
        head = decode_params(call.params, _UseHead)
    except InvalidParams:  # the service answers with the error
        return ToolUse()
    return ToolUse(head.name, head.meta.id)


class _SendStream(Protocol):
    async def send(self, item: "SessionMessage", /) -> None: ...


class SdkInstance:
    """Takes the place of an `mcp.server.Server` in the SDK. Has no state: every query calls `run`."""

    def __init__(self, service: Service, host: Host) -> None:
        self._service = _HostedService(service, host)

    def create_initialization_options(self) -> None:
        """The SDK calls it; `run` needs no options."""

    async def run(
        self,
        read: AsyncIterable["SessionMessage | Exception"],
        write: _SendStream,
        options: None,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve one query. It must not raise: that would end the server for the rest of the query."""
        duplex = Duplex(self._service, _writer(write))
        try:
            async for item in read:
                if not isinstance(item, Exception):
                    body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await duplex.receive(body.encode())
        finally:
            await duplex.finish(grace=0)
            await duplex.close(grace=0)


def _writer(stream: _SendStream) -> Callable[[bytes], Awaitable[None]]:
    from anyio import BrokenResourceError, ClosedResourceError  # installed with the SDK

    async def write(body: bytes) -> None:
        try:
            message = _message_of(body)
        except ValueError:  # an error without an id, which mcp cannot represent
            return
        with contextlib.suppress(BrokenResourceError, ClosedResourceError):  # the query has ended
            await stream.send(message)

    return write


def _message_of(body: bytes) -> "SessionMessage":
    import mcp.types  # heavy; see create_sdk_server
    from mcp.shared.message import SessionMessage

    types: Any = mcp.types  # only one of the two major versions is installed
    if hasattr(types, "jsonrpc_message_adapter"):  # mcp 2
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(body, by_name=False))
    return SessionMessage(types.JSONRPCMessage.model_validate_json(body))
