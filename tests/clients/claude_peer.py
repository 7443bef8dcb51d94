"""Claude Code as a peer of the conversation: the real program, with a model that does what the test says.

A call of the conversation is a turn in which the scripted model asks for the tool; what came of it is what
the model is given back. Needs no network: the model is on loopback.
"""

import asyncio
import json
import shlex
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, McpServerConfig, UserMessage

from tests.clients.conversation import Person, Result
from tests.emulators.anthropic_messages import MessagesRequest, ScriptedClaude, ToolUse, Turn, scripted_claude

BUILT_IN = ["ListMcpResourcesTool", "ReadMcpResourceTool"]


class Turns:
    """A script that is written while it is played."""

    def __init__(self) -> None:
        self._left: deque[Turn] = deque()

    def add(self, *turns: Turn) -> None:
        self._left.extend(turns)

    def __iter__(self) -> "Turns":
        return self

    def __next__(self) -> Turn:
        if not self._left:
            raise StopIteration
        return self._left.popleft()


class Forms:
    """Answers what a server asks through Claude Code's "Elicitation" hook, a command that reads a file.

    It is the only supported way for an application on the Python SDK, which has no callback for it.
    """

    def __init__(self, folder: Path) -> None:
        self._answer = folder / "answer.json"
        self._asked = folder / "asked.jsonl"
        self._asked.touch()

    @property
    def settings(self) -> str:
        asked, answer = shlex.quote(str(self._asked)), shlex.quote(str(self._answer))
        command = f"{{ cat; echo; }} >> {asked}; cat {answer}"
        return json.dumps({"hooks": {"Elicitation": [{"hooks": [{"type": "command", "command": command}]}]}})

    def prepare(self, answer: dict[str, Any]) -> None:
        output = {"hookSpecificOutput": {"hookEventName": "Elicitation", **answer}}
        self._answer.write_text(json.dumps(output))

    def asked(self) -> list[dict[str, Any]]:
        """The questions so far, with the protocol's names for what Claude Code calls otherwise."""
        questions = [json.loads(line) for line in self._asked.read_text().splitlines() if line]
        return [{**question, "requestedSchema": question.get("requested_schema")} for question in questions]


class ClaudePeer:
    """One session of Claude Code, whose only server is called "yard"."""

    def __init__(
        self, client: ClaudeSDKClient, model: ScriptedClaude, turns: Turns, person: Person, forms: Forms,
        started: Callable[[], Awaitable[Any]]
    ) -> None:
        self.client = client
        self.model = model
        self.person = person
        self._turns = turns
        self._forms = forms
        self._started = started

    async def say(self, prompt: str, *turns: Turn) -> list[Any]:
        """Let the model take these turns; the messages that the application sees come back."""
        self._turns.add(*turns)
        await self.client.query(prompt)
        return [message async for message in self.client.receive_response()]

    @property
    def last_request(self) -> MessagesRequest:
        return self.model.requests[-1]

    async def use(self, name: str, **arguments: Any) -> Result:
        """Let the model call a tool by its full name."""
        self._forms.prepare(self.person.answer)
        messages = await self.say("Go on.", ToolUse(name, arguments), "Done.")
        self.person.asked.extend(self._forms.asked()[len(self.person.asked) :])
        seen = [m.tool_use_result for m in messages if isinstance(m, UserMessage)]
        given = self.last_request.tool_results[-1]
        structured = seen[-1].get("structuredContent") if isinstance(seen[-1], dict) else None
        return Result(given.text, structured, given.is_error)

    async def call(self, tool: str, **arguments: Any) -> Result:
        return await self.use(f"mcp__yard__{tool}", **arguments)

    async def tools(self) -> dict[str, dict[str, Any]]:
        await self.say("What can you do?", "A lot.")
        status = await self.client.get_mcp_status()
        (yard,) = [server for server in status["mcpServers"] if server["name"] == "yard"]
        hints = {tool["name"]: _hints(tool.get("annotations") or {}) for tool in yard["tools"]}
        return {
            (name := full.removeprefix("mcp__yard__")): {
                "description": tool["description"],
                "inputSchema": tool["input_schema"],
                "annotations": hints[name],
            }
            for full, tool in self.last_request.tools.items()
            if full.startswith("mcp__yard__")
        }

    async def resources(self) -> list[str]:
        listed = await self.use("ListMcpResourcesTool", server="yard")
        return [resource["uri"] for resource in json.loads(listed.text)]

    async def read(self, uri: str) -> str:
        read = await self.use("ReadMcpResourceTool", server="yard", uri=uri)
        (contents,) = json.loads(read.text)["contents"]
        return contents["text"]

    async def prompts(self) -> list[str]:
        info = await self.client.get_server_info()
        assert info is not None
        return [command["name"] for command in info["commands"]]

    async def prompt(self, name: str, **arguments: str) -> str:
        await self.say(f"/mcp__yard__{name} {' '.join(arguments.values())}", "Yes.")
        return json.dumps(self.last_request.messages[-1])

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        raise NotImplementedError

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        async def changed() -> None:
            while "late" not in await self.tools():
                pass

        yield changed

    async def cancel_a_call(self, tool: str) -> None:
        call = asyncio.create_task(self.call(tool))
        await self._started()
        await self.client.interrupt()
        await call


def _hints(annotations: dict[str, bool]) -> dict[str, bool]:
    """Claude Code's own names, in the protocol's."""
    return {f"{name}Hint": value for name, value in annotations.items()}


@asynccontextmanager
async def claude_code(
    home: Path, server: McpServerConfig, started: Callable[[], Awaitable[Any]], person: Person | None = None, **env: str
) -> AsyncIterator[ClaudePeer]:
    turns, forms = Turns(), Forms(home)
    async with scripted_claude(turns) as model:
        options = ClaudeAgentOptions(
            env=model.env(home) | env,
            cwd=home,
            settings=forms.settings,
            setting_sources=[],
            tools=BUILT_IN,
            allowed_tools=["mcp__yard", *BUILT_IN],
            mcp_servers={"yard": server},
        )
        async with ClaudeSDKClient(options) as client:
            yield ClaudePeer(client, model, turns, person or Person(), forms, started)
