"""The clients' conversation held through `call_tool`, as a model in front of the search view holds it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client

from tests.clients.conversation import Person, Result
from tests.clients.mcp_peer import Callbacks, McpPeer, as_result

LACKS = {
    "reads_the_instructions": "a server's own are told when its tools are described",
    "lists_tools": "they are found, not listed",
    "lists_annotations": "they are found, not listed",
    "lists_output_schemas": "they are found, not listed",
    "reads_why_arguments_are_wrong": "the gateway says it, before the server could",
    "notices_a_new_tool": "it would not be listed",
}


class MetaPeer(McpPeer):
    async def call(self, tool: str, **arguments: Any) -> Result:
        given = {"tool": f"mcp__up__{tool}", "arguments": arguments}
        on_progress = self._callbacks.on_progress
        return as_result(await self.client.call_tool("call_tool", given, progress_callback=on_progress))

    async def meta(self, tool: str, **arguments: Any) -> Result:
        return as_result(await self.client.call_tool(tool, arguments))

    async def prompts(self) -> list[str]:
        return [name.removeprefix("mcp__up__") for name in await super().prompts()]

    async def prompt(self, name: str, **arguments: str) -> str:
        return await super().prompt(f"mcp__up__{name}", **arguments)

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        return await super().complete(f"mcp__up__{prompt}", argument, value)

    async def cancel_a_call(self, tool: str) -> None:
        call = asyncio.create_task(self.call(tool))
        await self.call("until_started")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()


@asynccontextmanager
async def connect(server: Any, mode: str, version: str) -> AsyncIterator[MetaPeer]:
    """`version`: which revision the upstream should see."""
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
        yield MetaPeer(client, version, person, callbacks)
