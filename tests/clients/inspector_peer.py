"""The MCP Inspector as a peer of the conversation: its command line `mcpdo`, from npm.

Each step is a command of its own, as a person or an agent in a shell types it; a daemon keeps the connection.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import MCPError

from tests.clients.conversation import Person, Result, soon
from tests.clients.yard import ROOT

NODE = Path(sys.executable).with_name("node")
MCPDO = ROOT / "build/npm/node_modules/@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js"


class InspectorPeer:
    def __init__(self, home: Path) -> None:
        self.person = Person()
        self.environment = os.environ | {"HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "memory"}

    async def type(self, *arguments: str) -> str:
        """Run one command; a tool that failed is no failure of the command's."""
        pipe = asyncio.subprocess.PIPE
        command = (str(NODE), str(MCPDO), "--format", "json", *arguments)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=self.environment
        )
        out, complaint = await soon(process.communicate())
        if not out:
            error = json.loads(complaint.splitlines()[-1])["error"]
            raise MCPError(0, error["message"])  # all that it shows
        return out.decode()

    async def ask(self, *arguments: str) -> Any:
        return json.loads(await self.type("--connection", "yard", *arguments))

    async def instructions(self) -> str:
        return (await self.ask("connections/show"))["instructions"]

    async def tools(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in (await self.ask("tools/list"))["tools"]}

    async def call(self, tool: str, /, **arguments: Any) -> Result:
        given = [f"{name}:={json.dumps(value)}" for name, value in arguments.items()]
        answer = await self.ask("tools/call", tool, *given)
        while (question := answer.get("elicitationPending")) is not None:
            self.person.asked.append(question)
            content = json.dumps(self.person.answer["content"])
            answer = await self.ask("elicitation/respond", question["elicitationId"], content)
        text = "".join(block["text"] for block in answer["content"])
        return Result(text, answer.get("structuredContent"), answer.get("isError", False))

    async def want_lines(self) -> None:
        """Only `logging/tail`, which never ends, shows any."""

    async def resources(self) -> list[str]:
        return [resource["uri"] for resource in (await self.ask("resources/list"))["resources"]]

    async def read(self, uri: str) -> str:
        (contents,) = (await self.ask("resources/read", uri))["contents"]
        return contents["text"]


@asynccontextmanager
async def inspector(home: Path, target: list[str], era: str) -> AsyncIterator[InspectorPeer]:
    """The Inspector with a server at an address, or one that it starts."""
    peer = InspectorPeer(home)
    exports = await peer.type("private")
    peer.environment |= dict(re.findall(r"export (\w+)='(.*)'", exports))
    try:
        await peer.ask("connect", "--era", era, "--", *target)
        yield peer
    finally:
        await peer.type("daemon", "stop")
