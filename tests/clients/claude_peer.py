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

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, SystemMessage, UserMessage

from tests.clients.conversation import Person, Result
from tests.emulators.anthropic_messages import MessagesRequest, ScriptedClaude, ToolUse, Turn, scripted_claude

PREFIX = "mcp__yard__"
RESOURCE_TOOLS = ["ListMcpResourcesTool", "ReadMcpResourceTool"]


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
    """Answers what a server asks by Claude Code's "Elicitation" hook, a command that prints a file.

    An application on the Python SDK has no other supported way: the SDK has no callback for it.
    """

    def __init__(self, folder: Path) -> None:
        self._answer = folder / "answer.json"
        self._asked = folder / "asked.jsonl"

    @property
    def settings(self) -> str:
        asked, answer = shlex.quote(str(self._asked)), shlex.quote(str(self._answer))
        command = f"{{ cat; echo; }} >> {asked}; cat {answer}"
        return json.dumps({"hooks": {"Elicitation": [{"hooks": [{"type": "command", "command": command}]}]}})

    def answer_with(self, answer: dict[str, Any]) -> None:
        output = {"hookSpecificOutput": {"hookEventName": "Elicitation", **answer}}
        self._answer.write_text(json.dumps(output))

    def take_asked(self) -> list[dict[str, Any]]:
        """The questions since the last time, with the protocol's names for what Claude Code renames."""
        if not self._asked.exists():
            return []
        questions = [json.loads(line) for line in self._asked.read_text().splitlines() if line]
        self._asked.unlink()
        return [{**question, "requestedSchema": question.get("requested_schema")} for question in questions]


class ClaudePeer:
    """One session of Claude Code, which knows its server as "yard"."""

    def __init__(
        self,
        client: ClaudeSDKClient,
        model: ScriptedClaude,
        turns: Turns,
        forms: Forms,
        version: str,
        person: Person,
        started: Callable[[], Awaitable[Any]],
    ) -> None:
        self.client = client
        self.model = model
        self.version = version
        self.person = person
        self._turns = turns
        self._forms = forms
        self._started = started
        self._commands: list[str] = []

    async def say(self, prompt: str, *turns: Turn) -> list[Any]:
        """Let the model take these turns; the messages that the application gets come back."""
        self._turns.add(*turns)
        await self.client.query(prompt)
        messages = [message async for message in self.client.receive_response()]
        for message in messages:
            if isinstance(message, SystemMessage) and message.subtype == "init":
                self._commands = message.data["slash_commands"]
        return messages

    @property
    def last_request(self) -> MessagesRequest:
        return self.model.requests[-1]

    async def use(self, name: str, /, **arguments: Any) -> Result:
        """Let the model call a tool by its full name."""
        self._forms.answer_with(self.person.answer)
        messages = await self.say("Go on.", ToolUse(name, arguments), "Done.")
        self.person.asked += self._forms.take_asked()
        given = self.last_request.tool_results[-1]
        results = [message.tool_use_result for message in messages if isinstance(message, UserMessage)]
        structured = results[-1].get("structuredContent") if isinstance(results[-1], dict) else None
        return Result(given.text, structured, given.is_error)

    async def call(self, tool: str, /, **arguments: Any) -> Result:
        return await self.use(PREFIX + tool, **arguments)

    async def instructions(self) -> str:
        """Everything that the model is told at first."""
        await self.say("Hello.", "Hello.")
        return json.dumps(self.last_request.body)

    async def tools(self) -> dict[str, dict[str, Any]]:
        """What the model is offered, with the annotations that the application is shown."""
        await self.say("What can you do?", "A lot.")
        (status,) = (await self.client.get_mcp_status())["mcpServers"]
        hints = {tool["name"]: tool.get("annotations") or {} for tool in status.get("tools", [])}
        return {
            (name := full.removeprefix(PREFIX)): {
                "description": tool["description"],
                "inputSchema": tool["input_schema"],
                "annotations": {f"{hint}Hint": value for hint, value in hints[name].items()},
            }
            for full, tool in self.last_request.tools.items()
            if full.startswith(PREFIX)
        }

    async def want_lines(self) -> None:
        """Nothing to ask for."""

    async def resources(self) -> list[str]:
        listed = await self.use("ListMcpResourcesTool", server="yard")
        return [resource["uri"] for resource in json.loads(listed.text)]

    async def read(self, uri: str) -> str:
        read = await self.use("ReadMcpResourceTool", server="yard", uri=uri)
        (contents,) = json.loads(read.text)["contents"]
        return contents["text"]

    async def prompts(self) -> list[str]:
        await self.say("What can I command?", "A lot.")
        return [name.removeprefix(PREFIX) for name in self._commands if name.startswith(PREFIX)]

    async def prompt(self, name: str, **arguments: str) -> str:
        """A prompt is a command of the person's; the model gets its text."""
        await self.say(f"/{PREFIX}{name} {' '.join(arguments.values())}", "Gladly.")
        return self.last_request.messages[-1]["content"][-1]["text"]

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        raise NotImplementedError("Claude Code completes arguments in its terminal only")

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        before = await self.tools()

        async def changed() -> None:
            # It lists again when it hears of the change, and some turn after that offers the new tool.
            while await self.tools() == before:
                pass

        yield changed

    async def cancel_a_call(self, tool: str) -> None:
        call = asyncio.create_task(self.say("Go on.", ToolUse(PREFIX + tool)))
        await self._started()
        await self.client.interrupt()
        await call


@asynccontextmanager
async def claude_code(
    home: Path,
    server: Any,
    version: str,
    started: Callable[[], Awaitable[Any]],
    person: Person | None = None,
    environment: dict[str, str] | None = None,
) -> AsyncIterator[ClaudePeer]:
    """Claude Code with one server. `started` returns when the tool `wait` of that server runs."""
    turns, forms = Turns(), Forms(home)
    person = person or Person()
    person.folder = home.as_uri()
    async with scripted_claude(turns) as model:
        options = ClaudeAgentOptions(
            env=model.env(home) | (environment or {}),
            cwd=home,
            settings=forms.settings,
            setting_sources=[],
            tools=RESOURCE_TOOLS,
            allowed_tools=["mcp__yard", *RESOURCE_TOOLS],
            mcp_servers={"yard": server},
        )
        async with ClaudeSDKClient(options) as client:
            yield ClaudePeer(client, model, turns, forms, version, person, started)
