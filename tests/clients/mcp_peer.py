"""The `mcp` SDK's `Client` as a peer of the conversation; FastMCP's stands on the same session."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import FileUrl

from tests.clients.conversation import Person, Result


def as_wire(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def as_result(result: types.CallToolResult) -> Result:
    text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
    return Result(text, result.structured_content, result.is_error or False)


class Callbacks:
    """A person's side of a client, in the types of `mcp`."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self.tools_changed = asyncio.Event()

    async def on_elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        self._person.asked.append(as_wire(params))
        return types.ElicitResult(**self._person.answer)

    async def on_sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self._person.asked.append(as_wire(params))
        content = types.TextContent(text=self._person.thought)
        return types.CreateMessageResult(role="assistant", content=content, model="scripted")

    async def on_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(self._person.folder))])

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._person.progress.put_nowait((progress, total, message))

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self._person.lines.put_nowait((params.level, params.logger, params.data))

    async def on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.tools_changed.set()


class McpPeer:
    def __init__(self, client: Client, version: str, person: Person, callbacks: Callbacks) -> None:
        self.client = client
        self._callbacks = callbacks
        self.version = version
        self.person = person

    @property
    def _is_modern(self) -> bool:
        return self.client.protocol_version == "2026-07-28"

    async def instructions(self) -> str:
        return self.client.instructions or ""

    async def tools(self) -> dict[str, dict[str, Any]]:
        return {tool.name: as_wire(tool) for tool in (await self.client.list_tools()).tools}

    async def call(self, tool: str, **arguments: Any) -> Result:
        on_progress = self._callbacks.on_progress
        return as_result(await self.client.call_tool(tool, arguments, progress_callback=on_progress))

    async def want_lines(self) -> None:
        if not self._is_modern:  # where it is, every request says so (`log_level`)
            with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
                await self.client.set_logging_level("info")

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        (contents,) = (await self.client.read_resource(uri)).contents
        assert isinstance(contents, types.TextResourceContents)
        return contents.text

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name: str, **arguments: str) -> str:
        (message,) = (await self.client.get_prompt(name, arguments)).messages
        assert isinstance(message.content, types.TextContent)
        return message.content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = types.PromptReference(name=prompt)
        return (await self.client.complete(ref, {"name": argument, "value": value})).completion.values

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        if not self._is_modern:
            yield self._wait_for_change
            return
        async with self.client.listen(tools_list_changed=True) as events:

            async def changed() -> None:
                await anext(aiter(events))

            yield changed

    async def _wait_for_change(self) -> None:
        await self._callbacks.tools_changed.wait()

    async def cancel_a_call(self, tool: str) -> None:
        call = asyncio.create_task(self.client.call_tool(tool))
        await self.client.call_tool("until_started")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()


@asynccontextmanager
async def connect(server: Any, mode: str, version: str) -> AsyncIterator[McpPeer]:
    person = Person()
    callbacks = Callbacks(person)
    client = Client(
        server,
        mode=mode,
        elicitation_callback=callbacks.on_elicit,
        sampling_callback=callbacks.on_sample,
        list_roots_callback=callbacks.on_roots,
        logging_callback=callbacks.on_log,
        log_level="info",
        message_handler=callbacks.on_message,
    )
    async with client:
        yield McpPeer(client, version, person, callbacks)
