"""FastMCP's `Client` as a peer of the conversation."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.clients.conversation import Person, Result
from tests.clients.mcp_peer import as_result, as_wire


class FastMcpPeer:
    def __init__(self, transport: Any, mode: str, version: str) -> None:
        self.person = Person()
        self.version = version
        self._tools_changed = asyncio.Event()
        self.client = Client(
            transport,
            mode=mode,
            roots=[self.person.folder],
            sampling_handler=self._on_sample,
            elicitation_handler=self._on_elicit,
            log_handler=self._on_log,
            progress_handler=self._on_progress,
            message_handler=self._on_message,
        )

    async def _on_elicit(self, message: str, kind: Any, params: Any, context: Any) -> ElicitResult[Any]:
        self.person.asked.append(as_wire(params))
        return ElicitResult(**self.person.answer)

    async def _on_sample(self, messages: Any, params: Any, context: Any) -> str:
        self.person.asked.append(as_wire(params))
        return self.person.thought

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        # In modern requests it asks for every level there is, and leaves the choice to this function.
        if params.level != "debug":
            self.person.lines.put_nowait((params.level, params.logger, params.data))

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.person.progress.put_nowait((progress, total, message))

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._tools_changed.set()

    async def instructions(self) -> str:
        return self.client.instructions or ""

    async def tools(self) -> dict[str, dict[str, Any]]:
        return {tool.name: as_wire(tool) for tool in await self.client.list_tools()}

    async def call(self, tool: str, **arguments: Any) -> Result:
        return as_result(await self.client.call_tool_mcp(tool, arguments))

    async def want_lines(self) -> None:
        if self.client.protocol_version != "2026-07-28":
            with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
                await self.client.set_logging_level("info")

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in await self.client.list_resources()]

    async def read(self, uri: str) -> str:
        (contents,) = await self.client.read_resource(uri)
        assert isinstance(contents, types.TextResourceContents)
        return contents.text

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in await self.client.list_prompts()]

    async def prompt(self, name: str, **arguments: str) -> str:
        (message,) = (await self.client.get_prompt(name, arguments)).messages
        assert isinstance(message.content, types.TextContent)
        return message.content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = types.PromptReference(name=prompt)
        return (await self.client.complete(ref, {"name": argument, "value": value})).values

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        async def changed() -> None:
            await self._tools_changed.wait()

        yield changed

    async def cancel_a_call(self, tool: str) -> None:
        call = asyncio.create_task(self.client.call_tool_mcp(tool, {}))
        await self.client.call_tool_mcp("until_started", {})
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()


@asynccontextmanager
async def connect(transport: Any, mode: str, version: str) -> AsyncIterator[FastMcpPeer]:
    peer = FastMcpPeer(transport, mode, version)
    async with peer.client:
        yield peer
