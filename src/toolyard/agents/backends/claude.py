"""The Claude Agent SDK as a backend: Claude Code leads the conversation, the session runs the tools.

Claude Code sees one MCP server, inside this process, with the tools of the session, and none of its own.
Its calls go through `AgentSession.call_tool`, so that grants, limits, traces and the transcript are the
runner's. No settings of the user are loaded. Where a key is in the environment, Claude Code gets a home of
its own that is removed; a login of the user is used from where it is.
"""

import asyncio
import base64
import importlib.util
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from ..._version import __version__
from ...extras import install_command
from ...kit.agent_sdk import Host, SdkInstance
from ...telemetry.run_spans import RunSpan
from ...wire.call import Call
from ...wire.errors import MethodNotFound
from ...wire.messages import decode_params
from ...wire.types import (
    CallToolResult,
    Image,
    Implementation,
    InitializeResult,
    ListToolsResult,
    Result,
    Text,
    ToolAnnotations,
    ToolInfo,
)
from ..limits import RunStoppedError
from ..messages import (
    ChatMessage,
    Part,
    ReasoningPart,
    TextPart,
    TokenUsage,
    ToolResultPart,
    ToolUsePart,
)
from ..session import AgentEnding, AgentSession
from .base import ModelError
from .prices import Prices
from .tools import fit_name, fit_schema
from .usage import count_of

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, McpSdkServerConfig, ResultMessage

JsonObject = dict[str, Any]

SERVER = "yard"
PREFIX = f"mcp__{SERVER}__"
KEY_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
)
SETTINGS = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_TOOL_SEARCH": "false",
    # The gateway keeps results small, and limits of time are the run's: a sub-agent may take an hour.
    "MAX_MCP_OUTPUT_TOKENS": "1000000",
    "MCP_TOOL_TIMEOUT": "86400000",
}
MAX_WORDS = 400


class ClaudeBackend:
    """Drives sessions with Claude Code. Each run starts a process and ends it."""

    name = "claude"

    def __init__(
        self, model: str = "", *, environ: Mapping[str, str] | None = None, prices: Prices | None = None
    ) -> None:
        """`model` is for sessions that name none; empty: Claude Code's own choice. Raises ModelError."""
        if importlib.util.find_spec("claude_agent_sdk") is None:
            raise ModelError(
                "invalid", "the Claude Agent SDK is not installed", f"{install_command('agent-sdk')}"
            )
        self._model = model
        self._environ = dict(os.environ if environ is None else environ)
        self._prices = (prices or Prices()) + Prices.parse([self._environ.get("TOOLYARD_PRICES", "")])

    async def run(self, session: AgentSession) -> AgentEnding:
        from claude_agent_sdk import ClaudeSDKClient, ClaudeSDKError  # 0.6 s of pydantic models

        with tempfile.TemporaryDirectory(prefix="toolyard-claude-", ignore_cleanup_errors=True) as folder:
            conversation = _Conversation(session, self._prices)
            options = self._options(session, conversation, Path(folder))
            client = ClaudeSDKClient(options)
            try:
                await client.connect()
                return await conversation.lead(client)
            except ClaudeSDKError as error:
                words = conversation.last_stderr or str(error)
                raise RunStoppedError("model_error", f"Claude Code failed: {words[:MAX_WORDS]}") from error
            finally:
                await client.disconnect()

    async def close(self) -> None:
        """Nothing outlives a run."""

    def _options(
        self, session: AgentSession, conversation: "_Conversation", folder: Path
    ) -> "ClaudeAgentOptions":
        from claude_agent_sdk import ClaudeAgentOptions

        env = {**self._environ, **SETTINGS}
        if any(self._environ.get(variable) for variable in KEY_VARIABLES):
            env |= {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(folder / ".claude")}
        limits, spent = session.spending.limits, session.spending.cost
        work = folder / "work"
        work.mkdir()
        return ClaudeAgentOptions(
            model=session.model or self._model or None,
            system_prompt=session.system,
            tools=[],
            skills=[],
            mcp_servers={SERVER: conversation.server()},
            strict_mcp_config=True,
            allowed_tools=[f"mcp__{SERVER}"],
            permission_mode="dontAsk",
            setting_sources=[],
            cwd=work,
            env=env,
            include_partial_messages=True,
            # Tasks and earlier turns are not typed at its prompt: `@/path` in them must not read a file.
            verbatim_prompts=True,
            max_budget_usd=None if limits.cost is None else max(0.0, limits.cost - spent),
            extra_args={"no-session-persistence": None},
            stderr=conversation.note_stderr,
            max_buffer_size=64 * 1024 * 1024,
        )


class _Called:
    """A call of Claude Code, which waits for its answer in a task of the SDK's."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.answer: asyncio.Future[ToolResultPart] = asyncio.get_running_loop().create_future()


class _Finished(Struct, frozen=True):
    result: ToolResultPart


class _Conversation:
    """One session led by Claude Code. Everything happens in the task of `lead`, in the order of its queue."""

    def __init__(self, session: AgentSession, prices: Prices) -> None:
        self._session = session
        self._prices = prices
        self._names = {fit_name(tool.name, 64 - len(PREFIX)): tool.name for tool in session.tools}
        self._queue: asyncio.Queue[object] = asyncio.Queue()
        self._spans = _TurnSpans(session)
        self._is_open = False
        """Whether a turn has begun that no reply has ended."""
        self._parts: list[Part] = []
        self._usage: JsonObject = {}
        self._model = session.model
        self._priced: float | None = 0.0
        """The cost by the user's prices; None if they lack one."""
        self._started = 0.0
        self._uses: dict[str, ToolUsePart] = {}
        """The calls of the last reply that have no result yet."""
        self._results: list[ToolResultPart] = []
        self._given: dict[str, ToolResultPart] = {}
        """What Claude Code answered by itself; that may come before the reply is whole."""
        self._called: dict[str, _Called] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stop: RunStoppedError | None = None
        self.last_stderr = ""

    def note_stderr(self, line: str) -> None:
        self.last_stderr = line.strip() or self.last_stderr

    def server(self) -> "McpSdkServerConfig":
        from claude_agent_sdk import McpSdkServerConfig

        service = _SessionTools(self._session, self._call)
        # The SDK only ever runs the instance; it need not be an `mcp.server.Server`.
        return McpSdkServerConfig(type="sdk", name=SERVER, instance=cast(Any, SdkInstance(service, Host())))

    async def lead(self, client: "ClaudeSDKClient") -> AgentEnding:
        pump = asyncio.create_task(self._pump(client))
        try:
            self._begin_turn()
            await client.query(prompt_of(self._session.messages))
            while True:
                ending = self._take(await self._queue.get())
                if ending is not None:
                    return ending
                if self._stop is not None:
                    # Claude Code waits for a result, or has just begun a request.
                    await client.interrupt()
                    raise self._stop
        finally:
            self._spans.close()
            tasks = [pump, *self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for called in self._called.values():
                called.answer.cancel()

    async def _pump(self, client: "ClaudeSDKClient") -> None:
        try:
            async for message in client.receive_messages():
                self._queue.put_nowait(message)
            self._queue.put_nowait(RunStoppedError("model_error", "Claude Code ended without a result"))
        except Exception as error:  # of the SDK; `lead` raises it in its own task
            self._queue.put_nowait(error)

    def _take(self, item: object) -> AgentEnding | None:
        from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, UserMessage

        match item:
            case Exception():
                raise item
            case _Called():
                self._called[item.id] = item
                self._run_calls()
            case _Finished():
                self._finish(item.result)
            case StreamEvent():
                self._take_event(item.event)
            case AssistantMessage():
                self._parts += [part for block in item.content if (part := self._part(block)) is not None]
                self._model = item.model
            case UserMessage():
                self._take_results(item.content)
            case ResultMessage():
                return self._ended(item)
            case _:  # what Claude Code says about itself
                pass
        return None

    # Turns

    def _begin_turn(self) -> None:
        """Counts a turn before its request, unless that has happened. Notes it if there may be none."""
        if self._is_open:
            return
        try:
            turn = self._session.begin_turn()
        except RunStoppedError as error:
            self._stop = error
            return
        self._is_open = True
        self._started = time.monotonic()
        self._spans.begin(turn)

    def _take_event(self, event: JsonObject) -> None:
        match event.get("type"):
            case "message_start":  # a second one in a turn is another attempt
                self._given.clear()
                self._parts, self._usage = [], dict(event["message"].get("usage") or {})
                self._begin_turn()
            case "content_block_delta" if event["delta"].get("type") == "text_delta":
                self._session.show_text(event["delta"]["text"])
            case "message_delta":
                self._usage |= event.get("usage") or {}
            case "message_stop":
                self._reply()
            case _:
                pass

    def _part(self, block: object) -> Part | None:
        from claude_agent_sdk import TextBlock, ThinkingBlock, ToolUseBlock

        match block:
            case TextBlock():
                return TextPart(block.text)
            case ThinkingBlock():
                return ReasoningPart(block.thinking, block.signature)
            case ToolUseBlock():
                name = block.name.removeprefix(PREFIX)
                return ToolUsePart(block.id, self._names.get(name, name), block.input)
            case _:
                return None

    def _reply(self) -> None:
        """The reply is whole: it goes into the transcript, then its calls may run."""
        session, usage = self._session, _usage(self._usage)
        message = ChatMessage("assistant", tuple(self._parts))
        cost = self._prices.cost(self._model, usage)
        self._priced = None if cost is None or self._priced is None else self._priced + cost
        self._spans.end_chat(self._model, usage, cost)
        self._is_open, self._parts = False, []
        self._uses = {part.id: part for part in message.parts if isinstance(part, ToolUsePart)}
        self._results = []
        # Without a price of the user's the SDK names one at the end, for all turns at once.
        seconds = time.monotonic() - self._started
        session.reply(message, usage, cost or 0.0, model=self._model, seconds=seconds)
        self._run_calls()
        self._finish_given()

    def _ended(self, message: "ResultMessage") -> AgentEnding:
        session, total = self._session, message.total_cost_usd
        if self._priced is None and total is not None:
            session.spending.charge(TokenUsage(), total)
            session.node.cost += total
        text = (message.result or "").strip()
        if message.subtype == "error_max_budget_usd":
            limit = session.spending.limits.cost or 0.0
            raise RunStoppedError(
                "limit", f"limit of cost: ${limit:g}", "go on with --resume, or raise --max-cost"
            )
        if message.is_error:
            words = text or "; ".join(message.errors or ()) or message.subtype
            raise RunStoppedError("model_error", f"Claude Code failed: {words[:MAX_WORDS]}", _hint(message))
        if message.stop_reason == "refusal":
            return AgentEnding("refusal", text, "the model declined to go on")
        return AgentEnding("done", text) if text else AgentEnding("empty", "", "the model answered nothing")

    # Tools

    async def _call(self, id: str) -> ToolResultPart:
        called = _Called(id)
        self._queue.put_nowait(called)
        return await called.answer

    def _run_calls(self) -> None:
        """Claude Code may call before its reply is whole."""
        for id in self._called.keys() & self._uses.keys() - self._running.keys():
            self._running[id] = asyncio.create_task(self._run(self._uses[id]))

    async def _run(self, use: ToolUsePart) -> None:
        try:
            self._queue.put_nowait(_Finished(await self._session.call_tool(use)))
        except RunStoppedError as error:  # the transcript cannot be written
            self._queue.put_nowait(error)

    def _finish(self, result: ToolResultPart) -> None:
        """Passes a result on. Before the last one of a turn it is asked whether there may be another turn."""
        self._uses.pop(result.id, None)
        self._running.pop(result.id, None)
        self._results.append(result)
        if not self._uses:
            self._session.messages.append(ChatMessage("user", tuple(self._results)))
            self._begin_turn()
        called = self._called.get(result.id)
        if called is not None and self._stop is None and not called.answer.done():
            del self._called[result.id]
            called.answer.set_result(result)

    def _take_results(self, content: object) -> None:
        """Results that Claude Code gave by itself: for a tool that does not exist, or unfit arguments."""
        from claude_agent_sdk import ToolResultBlock

        for block in cast("list[object]", content) if isinstance(content, list) else ():
            if isinstance(block, ToolResultBlock) and block.tool_use_id not in self._running:
                said = block.content
                texts = (
                    [said] if isinstance(said, str) else [str(part.get("text", "")) for part in said or ()]
                )
                text = TextPart("\n".join(texts))
                self._given[block.tool_use_id] = ToolResultPart(
                    block.tool_use_id, (text,), bool(block.is_error)
                )
        self._finish_given()

    def _finish_given(self) -> None:
        for id in [id for id in self._given if id in self._uses and id not in self._running]:
            result = self._given[id]
            self._session.note_result(result)
            self._finish(result)


class _TurnSpans:
    """The spans of one turn and of its request, one after the other."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._turn = ExitStack()
        self._request = ExitStack()
        self._chat: RunSpan | None = None

    def begin(self, turn: int) -> None:
        self.close()
        spans, model = self._session.spans, self._session.model
        self._turn.enter_context(spans.open("turn", str(turn), {"toolyard.turn": turn}))
        attributes = {"gen_ai.request.model": model, "gen_ai.provider.name": "anthropic"}
        self._chat = self._request.enter_context(spans.open("chat", model, attributes))

    def end_chat(self, model: str, usage: TokenUsage, cost: float | None) -> None:
        if self._chat is None:
            return
        self._chat.set("gen_ai.response.model", model)
        self._chat.set("gen_ai.usage.input_tokens", usage.input)
        self._chat.set("gen_ai.usage.output_tokens", usage.output)
        self._chat.set("gen_ai.usage.cache_read.input_tokens", usage.cache_read)
        if cost is not None:
            self._chat.set("toolyard.cost", cost)
        self._chat = None
        self._request.close()

    def close(self) -> None:
        self._chat = None
        self._request.close()
        self._turn.close()


class _UseMeta(Struct):
    id: str = msgspec.field(default="", name="claudecode/toolUseId")


class _UseParams(Struct):
    meta: _UseMeta = msgspec.field(default_factory=_UseMeta, name="_meta")


class _SessionTools:
    """The MCP server that Claude Code sees: the tools of a session."""

    def __init__(self, session: AgentSession, call: Callable[[str], Awaitable[ToolResultPart]]) -> None:
        self._call = call
        # Claude Code runs calls at once only if they are said to be harmless; the gateway decides on them.
        harmless = ToolAnnotations(read_only_hint=True)
        self._tools = [
            ToolInfo(
                fit_name(tool.name, 64 - len(PREFIX)),
                fit_schema(tool.input_schema),
                description=tool.description,
                annotations=harmless,
            )
            for tool in session.tools
        ]

    async def handle(self, call: Call) -> Result | None:
        match call.method:
            case "initialize":
                return InitializeResult(
                    protocol_version=call.caller.version,
                    capabilities={"tools": {}},
                    server_info=Implementation("toolyard", __version__),
                )
            case "ping":
                return Result()
            case "tools/list":
                return ListToolsResult(tools=self._tools)
            case "tools/call":
                use = decode_params(call.params, _UseParams)
                return _wire_result(await self._call(use.meta.id))
            case _ if call.id is None:
                return None
            case _:
                raise MethodNotFound(call.method[:80])

    async def listen(self, call: Call) -> None:
        """The tools of a session do not change."""

    async def end_session(self, call: Call) -> None:
        """There is nothing to end."""

    async def close(self) -> None:
        """The session outlives it."""

    def health(self) -> JsonObject:
        return {"status": "ok"}


def _wire_result(result: ToolResultPart) -> CallToolResult:
    content = [
        Text(part.text) if isinstance(part, TextPart) else Image(base64.b64decode(part.data), part.mime_type)
        for part in result.parts
    ]
    return CallToolResult(content=[*content], is_error=result.is_error)


def _usage(usage: JsonObject) -> TokenUsage:
    fields = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    fresh, output, read, written = (count_of(usage.get(name)) or 0 for name in fields)
    return TokenUsage(fresh + read + written, output, read, written)


def _hint(message: "ResultMessage") -> str:
    if message.api_error_status in (401, 403):
        return "ANTHROPIC_API_KEY should hold a valid key; without one, run `claude` once and log in"
    return ""


def prompt_of(messages: Sequence[ChatMessage]) -> str:
    """The last message; if there were others, after the conversation so far as a text."""
    *earlier, last = messages or (ChatMessage("user", ()),)
    said = "\n\n".join(part.text for part in last.parts if isinstance(part, TextPart))
    if not said:  # results of tools, after which a run was interrupted
        earlier, said = [*earlier, last], "Go on with the task."
    if not earlier:
        return said
    told = "\n".join(line for message in earlier for line in _told(message))
    return f"This conversation was interrupted. So far:\n\n<conversation>\n{told}\n</conversation>\n\n{said}"


def _told(message: ChatMessage) -> Iterator[str]:
    who = "User" if message.role == "user" else "You"
    for part in message.parts:
        match part:
            case TextPart():
                yield f"{who}: {part.text}"
            case ToolUsePart():
                yield f"You called {part.name} with {msgspec.json.encode(part.arguments).decode()}"
            case ToolResultPart():
                texts = [one.text for one in part.parts if isinstance(one, TextPart)]
                yield f"{'It failed' if part.is_error else 'It returned'}: {' '.join(texts)}"
            case _:
                pass
