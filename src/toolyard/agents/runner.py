"""Runs agents: the main one and those it delegates to, in one folder and within one set of limits.

Owns the life of an agent: its connection with rights of its own, its session, what its tool calls become,
and its place in the tree. `run_agent` does one task; `AgentRunner.ask` goes on turn by turn.
"""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from ..telemetry.run_spans import NO_SPANS, RunSpan, RunSpans
from .access import AgentConnection, AgentGateway, GatewayAccessError, ToolAnswer
from .backends.base import ModelError, ToolSpec
from .definition import DELEGATE, AgentDefinition, AgentLibrary
from .events import (
    AgentEnded,
    AgentStarted,
    ModelReplied,
    OnEvent,
    RunEvent,
    RunWarning,
    ToolBegan,
    ToolEnded,
    ignore_event,
)
from .limits import EndKind, RunLimits, RunStoppedError, Spending, over_time
from .messages import ChatMessage, TextPart, ToolResultPart, ToolUsePart
from .runs import AgentNode, RunFolder, RunRecord
from .session import AgentEnding, AgentSession, Backend

OpenBackend = Callable[[str], Backend]
"""Opens the backend of a specification such as "openai:gpt-4o-mini". Raises ModelError."""

CLAUDE_ALIASES = ("sonnet", "opus", "haiku", "fable")
"""Names of models that only Claude Code knows."""
REPEATS_WARNED, REPEATS_STOPPED = 3, 6
GO_ON = "The run was interrupted. Go on with the task."


class AgentOutcome(Struct, frozen=True):
    """How a run ended, or one turn of a conversation."""

    status: EndKind
    answer: str
    reason: str
    hint: str
    record: RunRecord

    @property
    def is_done(self) -> bool:
        return self.status == "done"


class _Repeats:
    """Counts calls that bring the same answer again, since the last one that brought something new."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, bytes, int]] = set()
        self._counts: dict[tuple[str, bytes, int], int] = {}

    def note(self, use: ToolUsePart, answer: ToolAnswer) -> int:
        key = (use.name, msgspec.json.encode(use.arguments, order="sorted"), hash(answer.parts))
        if key not in self._seen:
            self._seen.add(key)
            self._counts.clear()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count


class _LiveAgent:
    """One agent while it lives: its session and its connection."""

    def __init__(
        self, node: AgentNode, definition: AgentDefinition, model: str, above: tuple[str, ...] = ()
    ) -> None:
        self.node = node
        self.definition = definition
        self.model = model
        """The whole specification, which its sub-agents inherit."""
        self.above = above
        """The names of the agents that delegated to it, the main one first."""
        self.connection: AgentConnection | None = None
        self.session: AgentSession | None = None
        self.repeats = _Repeats()
        self.children = 0


class AgentRunner:
    """Leads one run. A context manager, which closes connections and backends; the folder stays the caller's.

    `model` is a specification such as "openai:gpt-4o-mini" and is inherited by sub-agents.
    """

    def __init__(
        self,
        gateway: AgentGateway,
        open_backend: OpenBackend,
        folder: RunFolder,
        *,
        library: AgentLibrary,
        model: str,
        agent: str = "main",
        limits: RunLimits = RunLimits(),  # noqa: B008 (frozen)
        spans: RunSpans = NO_SPANS,
        on_event: OnEvent = ignore_event,
        today: date | None = None,
        workspace: str = ".",
    ) -> None:
        """`workspace` is what agents are told to be their folder: tools take paths relative to it."""
        self._gateway = gateway
        self._open_backend = open_backend
        self.folder = folder
        self._library = library
        self._definition = library.get(agent)
        self._model = model
        self._limits = limits
        self._spans = spans
        self._emit = on_event
        self._today = today or date.today()
        self._workspace = workspace
        self._backends: dict[str, Backend] = {}
        self._connections: list[AgentConnection] = []
        self._workspaces = ExitStack()
        self._main_connection: AgentConnection | None = None
        self._spending = Spending(limits)

    async def __aenter__(self) -> "AgentRunner":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        connections, self._connections = self._connections, []
        backends, self._backends = self._backends, {}
        self._main_connection = None
        try:
            for one in (*connections, *backends.values()):
                await one.close()
        finally:
            self._workspaces.close()

    # The run

    async def ask(self, task: str = "") -> AgentOutcome:
        """Gives the main agent a task, or lets it go on, and waits for its end.

        Always leaves `run.json` as things stand. Cancelling it stops everything that runs, and raises
        CancelledError after the record is written.
        """
        task = task.encode(errors="replace").decode()  # bytes of a terminal that are not UTF-8
        record = self.folder.record
        spent = self._spending = Spending(self._limits, started=time.monotonic())
        record.status, record.reason, record.hint, record.answer = "running", "", "", ""
        record.agent, record.model, record.limits = self._definition.name, self._model, self._limits
        record.task = record.task or task
        record.starts += 1
        node = AgentNode(id=self._definition.name, name=self._definition.name, model=self._model)
        record.agents.append(node)
        ending = AgentEnding("interrupted", reason="it was stopped")
        try:
            self.folder.save()
            ending = await self._within_time(self._lead(node, task))
        except RunStoppedError as error:
            ending = AgentEnding(error.kind, "", error.reason, error.hint)
        except (GatewayAccessError, ModelError) as error:
            kind = "model_error" if isinstance(error, ModelError) else "gateway_error"
            ending = AgentEnding(kind, "", error.message, error.hint)
        finally:
            ending = self._finish(node, ending, spent)
        return AgentOutcome(ending.kind, ending.text, ending.reason, ending.hint, record)

    async def _within_time(self, work: Any) -> AgentEnding:
        seconds = self._limits.seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if seconds is None or not limit.expired():
                raise
            raise over_time(seconds) from None

    def _finish(self, node: AgentNode, ending: AgentEnding, spent: Spending) -> AgentEnding:
        record = self.folder.record
        record.add(spent)
        try:
            _close_tree(node, ending)
            node.status, node.reason = ending.kind, ending.reason  # also if time cut it off
            record.status, record.answer = ending.kind, ending.text
            record.reason, record.hint = ending.reason, ending.hint
            record.files = self.folder.list_files()
            self.folder.save()
        except RunStoppedError as error:
            if ending.kind == "done":
                ending = AgentEnding(error.kind, ending.text, error.reason, error.hint)
            record.status, record.reason, record.hint = ending.kind, ending.reason, ending.hint
        return ending

    async def _lead(self, node: AgentNode, task: str) -> AgentEnding:
        attributes = {"toolyard.run.id": self.folder.record.run}
        agent = _LiveAgent(node, self._definition, self._model)
        agent.children = self.folder.children(node.id)
        history = self.folder.conversation(node.id)
        text = task or ("" if history and history[-1].role == "user" else GO_ON)
        return await self._live(agent, history, text, None, attributes)

    # One agent

    async def _live(
        self,
        agent: _LiveAgent,
        history: list[ChatMessage],
        task: str,
        parent: _LiveAgent | None,
        attributes: dict[str, str],
    ) -> AgentEnding:
        """Runs an agent to its end. Endings of any kind are returned, and only cancellation is raised."""
        node, started = agent.node, time.monotonic()
        above = "" if parent is None else parent.node.id
        known = {
            "gen_ai.agent.name": node.name,
            "gen_ai.provider.name": _split_model(node.model)[0],
            "gen_ai.request.model": _split_model(node.model)[1],
            "toolyard.task": task,
            **attributes,
        }
        ending = AgentEnding("interrupted", reason="it was stopped")
        with self._spans.open("invoke_agent", node.name, known) as span:
            if parent is None:
                self.folder.record.trace = self._spans.trace_id
            self._emit(AgentStarted(node.id, node.name, above, node.model, task))
            try:
                self.folder.begin(node.id, node.name, above, task)
                ending = await self._drive(agent, history, task, parent)
            except RunStoppedError as error:
                ending = AgentEnding(error.kind, "", error.reason, error.hint)
            except (GatewayAccessError, ModelError) as error:
                kind = "model_error" if isinstance(error, ModelError) else "gateway_error"
                ending = AgentEnding(kind, "", error.message, error.hint)
            finally:
                node.status, node.reason = ending.kind, ending.reason
                node.seconds = round(time.monotonic() - started, 3)
                self._leave(agent, ending, span)
        return ending

    def _leave(self, agent: _LiveAgent, ending: AgentEnding, span: RunSpan) -> None:
        node, session = agent.node, agent.session
        if not ending.is_done:
            span.fail(ending.kind, ending.reason)
        self._emit(AgentEnded(node.id, ending.kind, ending.reason, node.seconds))
        # A disk that does not take this is reported by the last `save`; a cancellation must not be lost.
        with suppress(RunStoppedError):
            self.folder.end(node.id, 0 if session is None else session.turn, ending.kind, ending.reason)

    async def _drive(
        self, agent: _LiveAgent, history: list[ChatMessage], task: str, parent: _LiveAgent | None
    ) -> AgentEnding:
        backend = self._backend(agent.model)
        connection = await self._connected(agent, parent)
        session = agent.session = AgentSession(
            id=agent.node.id,
            definition=agent.definition,
            system=self._system_prompt(agent.definition, connection),
            tools=(*await connection.list_tools(), *self._delegation(agent)),
            model=_split_model(agent.model)[1],
            messages=history,
            execute=lambda use: self._execute(agent, use),
            spending=self._spending,
            log=self.folder,
            on_event=self._on_event,
            spans=self._spans,
            turn=self.folder.last_turn(agent.node.id) if history else 0,
            node=agent.node,
        )
        if agent.definition.ignored:
            session.warn(f"{agent.node.name}: ignored: {', '.join(agent.definition.ignored)}")
        if task:
            session.add(ChatMessage("user", (TextPart(task),)))
        try:
            return await backend.run(session)
        finally:
            if parent is not None:
                await self._disconnect(connection)

    def _backend(self, spec: str) -> Backend:
        if spec not in self._backends:
            self._backends[spec] = self._open_backend(spec)
        return self._backends[spec]

    async def _connected(self, agent: _LiveAgent, parent: _LiveAgent | None) -> AgentConnection:
        if parent is None and self._main_connection is not None:
            connection = self._main_connection
        else:
            above = None if parent is None else parent.connection
            thread = self.folder.record.run
            if parent is None:
                self._workspaces.enter_context(self._gateway.adopt(thread, self.folder.path))
            connection = await self._gateway.connect(agent.definition, above, thread)
            self._connections.append(connection)
        if parent is None:
            self._main_connection = connection
        agent.connection = connection
        return connection

    async def _disconnect(self, connection: AgentConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            await connection.close()

    def _system_prompt(self, definition: AgentDefinition, connection: AgentConnection) -> str:
        own = definition.system_prompt(self._workspace, self._today)
        return f"{own}\n\n# This gateway\n\n{connection.instructions}" if connection.instructions else own

    def _on_event(self, event: RunEvent) -> None:
        """Keeps `run.json` up to date turn by turn, in case the process is killed."""
        if isinstance(event, ModelReplied):
            self.folder.save(self._spending)
        self._emit(event)

    def _below(self, agent: _LiveAgent) -> list[AgentDefinition]:
        """The agents it may delegate to. None above it: a sub-agent must not get their rights by asking."""
        if len(agent.above) >= self._limits.depth:
            return []
        return [one for one in self._library.below(agent.definition) if one.name not in agent.above]

    def _delegation(self, agent: _LiveAgent) -> tuple[ToolSpec, ...]:
        """The tool for sub-agents, if there are any that the agent may use."""
        below = self._below(agent)
        if not below:
            return ()
        listed = "\n".join(f"- {one.name}: {one.description}" for one in below)
        schema = {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": [one.name for one in below]},
                "task": {
                    "type": "string",
                    "description": "Everything it needs to know: it does not see this conversation",
                },
            },
            "required": ["agent", "task"],
            "additionalProperties": False,
        }
        text = "Give a task to another agent and wait for its answer. It shares the workspace.\n"
        return (ToolSpec(DELEGATE, text + listed, schema),)

    # Tools

    async def _execute(self, agent: _LiveAgent, use: ToolUsePart) -> ToolResultPart:
        shown, detail = _shown(use)
        self._emit(ToolBegan(agent.node.id, use.id, shown, detail))
        started = time.monotonic()
        attributes = {"gen_ai.tool.name": shown, "gen_ai.tool.call.id": use.id}
        with self._spans.open("execute_tool", shown, attributes) as span:
            span.set("gen_ai.tool.call.arguments", msgspec.json.encode(use.arguments).decode())
            answer = self._checked(agent, use, await self._answer(agent, use))
            span.set("toolyard.response.size", answer.chars)
            if answer.is_error:
                span.fail("tool_error", _first_line(answer))
            else:
                span.set("gen_ai.tool.call.result", _text(answer))
                if answer.counts:
                    span.set("toolyard.result.counts", answer.counts)
        spent = self._spending
        spent.result_chars += answer.chars
        spent.saved_bytes += answer.saved
        seconds = time.monotonic() - started
        detail = _first_line(answer) if answer.is_error else answer.counts
        self._emit(
            ToolEnded(
                agent.node.id, use.id, shown, seconds, answer.is_error, answer.chars, answer.saved, detail
            )
        )
        return ToolResultPart(use.id, answer.parts, answer.is_error)

    async def _answer(self, agent: _LiveAgent, use: ToolUsePart) -> ToolAnswer:
        assert agent.connection is not None
        if not self._spending.take_tool_call():
            return _error(f"Not called: the run may call {self._limits.tool_calls} tools, and has.")
        agent.node.tool_calls += 1
        if use.malformed:
            sent = use.malformed[:200]
            return _error(f"The arguments of {use.name!r} are not a JSON object: {sent!r}. Send one.")
        if use.name == DELEGATE and self._delegation(agent):
            return await self._delegate(agent, use)
        return await agent.connection.call(use.name, use.arguments, self._spans.meta())

    def _checked(self, agent: _LiveAgent, use: ToolUsePart, answer: ToolAnswer) -> ToolAnswer:
        """Recognises a model that turns in circles."""
        count = agent.repeats.note(use, answer)
        if count < REPEATS_WARNED:
            return answer
        session = agent.session
        if count >= REPEATS_STOPPED and session is not None:
            session.is_stopping = RunStoppedError(
                "loop",
                f"the agent called {_shown(use)[0]!r} {count} times, with the same answer each time",
            )
        warning = f"[You have made this call {count} times, with the same answer. Do something else.]"
        return ToolAnswer((*answer.parts, TextPart(warning)), answer.is_error, answer.saved, answer.counts)

    async def _delegate(self, agent: _LiveAgent, use: ToolUsePart) -> ToolAnswer:
        name, task = use.arguments.get("agent"), use.arguments.get("task")
        below = {one.name: one for one in self._below(agent)}
        if not isinstance(name, str) or name not in below:
            return _error(f"There is no agent {name!r}. There are: {', '.join(below)}.")
        if not isinstance(task, str) or not task.strip():
            return _error("The task is missing: write what the agent should do.")
        definition = below[name]
        agent.children += 1
        model = self._model_of(definition, agent)
        node = AgentNode(id=f"{agent.node.id}/{name}.{agent.children}", name=name, model=model)
        agent.node.agents.append(node)
        ending = await self._live(
            _LiveAgent(node, definition, model, (*agent.above, agent.definition.name)), [], task, agent, {}
        )
        if ending.is_done:
            return ToolAnswer((TextPart(ending.text),))
        said = f" Its last words: {ending.text}" if ending.text else ""
        return _error(f"The agent {name!r} did not finish: {ending.reason}.{said}")

    def _model_of(self, definition: AgentDefinition, parent: _LiveAgent) -> str:
        """Its own model if the backend knows it, else its parent's."""
        wanted = definition.model
        if not wanted:
            return parent.model
        if ":" in wanted:
            return wanted
        backend = _split_model(parent.model)[0]
        if wanted in CLAUDE_ALIASES and backend != "claude":
            text = f"{definition.name}: only Claude Code knows the model {wanted!r}; using {parent.model}"
            self._emit(RunWarning(parent.node.id, text))
            return parent.model
        return f"{backend}:{wanted}"


async def run_agent(task: str, runner: AgentRunner) -> AgentOutcome:
    """Does one task and closes the runner."""
    async with runner:
        return await runner.ask(task)


def _close_tree(node: AgentNode, ending: AgentEnding) -> None:
    """Agents that were cut off by a limit of time or by a stop did not end themselves."""
    if node.status == "running":
        node.status, node.reason = ending.kind, ending.reason
    for child in node.agents:
        _close_tree(child, ending)


def _split_model(spec: str) -> tuple[str, str]:
    backend, colon, name = spec.partition(":")
    return (backend, name) if colon else ("", spec)


def _shown(use: ToolUsePart) -> tuple[str, str]:
    """The tool that runs, and its arguments in a few words; behind `call_tool` that is another one."""
    name, arguments = use.name, use.arguments
    inner = arguments.get("tool")
    if name == "call_tool" and isinstance(inner, str):
        name, arguments = inner, arguments.get("arguments", {})
    elif name == "call_tools":
        names: list[str] = re.findall(r'"tool":"([^"]{1,100})"', msgspec.json.encode(arguments).decode())
        return "call_tools", ", ".join(names)[:200]
    return name, msgspec.json.encode(arguments).decode()[:200]


def _error(text: str) -> ToolAnswer:
    return ToolAnswer((TextPart(text),), is_error=True)


def _text(answer: ToolAnswer) -> str:
    return "\n".join(part.text for part in answer.parts if isinstance(part, TextPart))


def _first_line(answer: ToolAnswer) -> str:
    return _text(answer).strip().split("\n")[0][:200]
