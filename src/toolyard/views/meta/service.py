"""The service behind the meta tools of every dialect: search, describe, call, connect.

Owns the order of steps: conversation, lookup, checking arguments, the call, learning from its outcome. A
forwarded call is the client's own under another name: progress, input requests and cancellation work as for
a direct call. In a batch each call has its own outcome; one that asks the user for input has to be made
alone.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...catalogue.catalogue import conversation_of
from ...composio import own_form
from ...dispatch import CallTarget
from ...dispatch.remote import AppConnection
from ...kit.calls.content import ToolError
from ...kit.events import TOOLS_CHANGED, ChangeEvent
from ...languages import said
from ...search.documents import ToolQuery
from ...sessions.leases import Lease
from ...state.store import StateError
from ...upstream.base import Outcome
from ...upstream.connection import Params
from ...wire.call import (
    CAPABILITIES_KEY,
    SERVER_KEY,
    TASKS_EXTENSION,
    Call,
    Caller,
    Channel,
    StreamedResult,
    thread_of,
)
from ...wire.errors import INVALID_PARAMS, InvalidRequest, McpError
from ...wire.messages import decode_params, encode
from ..context import MetaToolContext
from ..forwarding import run_in_background
from .arguments import ArgumentChecks
from .connections import ConnectionAction, ConnectionManager, ConnectionRequest
from .conversation import (
    Conversations,
    FoundToolNames,
    FoundTools,
    ToolResolver,
    UnknownToolError,
    is_identified,
)
from .description import OwnTool, ToolDescriber, usage
from .search import ToolSearch
from .tools import BatchItem, BatchResult, DescribeAnswer, QueryMatches, SearchAnswer

LearntOutcome = Literal["success", "failure", "arguments"]
SendTool = Callable[[Call, CallTarget, Params], Awaitable[Outcome]]

_ROUND_TRIP = ("_meta", "requestState", "inputResponses")


class BadArgumentsError(ToolError):
    """The arguments do not fit the tool's input schema; nothing was sent."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(message)
        self.tool = tool


logger = logging.getLogger("toolyard.views")

PROGRESS = "notifications/progress"
CANCEL_SECONDS = 5.0


def _needs_input() -> str:
    return said(
        "it asks the user for input, which a batch cannot do; call it alone",
        "ela faz perguntas ao usuário, o que um lote não pode fazer; chame-a sozinha",
    )


def _is_task() -> str:
    return said(
        "it answers with a task, which a batch cannot follow; call it alone",
        "ela responde com uma tarefa, que um lote não pode acompanhar; chame-a sozinha",
    )


class _BatchChannel:
    """The channel of one call of a batch: drops its progress, and rejects questions to the user."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.asked = asyncio.Event()

    async def notify(self, method: str, params: Any) -> None:
        if method != PROGRESS:
            await self._channel.notify(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        if method == "roots/list":  # answered by the client without the user
            return await self._channel.ask(method, params)
        self.asked.set()
        raise InvalidRequest(
            said(
                "a batch of tool calls cannot ask the user",
                "um lote de chamadas não pode perguntar ao usuário",
            )
        )

    async def release(self, retry_ms: int | None) -> None:
        return None


class Batch:
    """One batch of tool calls."""

    def __init__(self, service: "MetaToolService", call: Call, many: int) -> None:
        self._service = service
        self._call = call
        self._one = _one_of_many(call)
        self._many = many
        self._finished = 0
        self._begun: set[int] = set()

    async def run(self, items: Sequence[BatchItem], parallel: int, seconds: float) -> list[BatchResult]:
        places = asyncio.Semaphore(parallel)
        tasks = [asyncio.create_task(self._take(at, item, places)) for at, item in enumerate(items)]
        try:
            await asyncio.wait(tasks, timeout=seconds)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:  # time for the servers to be notified, but not long
                await asyncio.wait(late, timeout=CANCEL_SECONDS)
        return [
            self._late(at, item, seconds) if task in late else task.result()
            for at, (item, task) in enumerate(zip(items, tasks, strict=True))
        ]

    async def _take(self, at: int, item: BatchItem, places: asyncio.Semaphore) -> BatchResult:
        async with places:
            self._begun.add(at)
            done = await self._attempt(item)
        self._finished += 1
        if self._call.progress_token is not None:
            how = said("done", "feito") if done.ok else said("failed", "falhou")
            told = {
                "progressToken": self._call.progress_token,
                "progress": self._finished,
                "total": self._many,
                "message": f"{item.tool[:80]}: {how}",
            }
            await self._call.channel.notify(PROGRESS, told)
        return done

    async def _attempt(self, item: BatchItem) -> BatchResult:
        channel = _BatchChannel(self._one.channel)
        call = replace(self._one, channel=channel)
        working = asyncio.ensure_future(self._service.call_tool(call, item.tool, item.arguments))
        asking = asyncio.ensure_future(channel.asked.wait())
        try:
            await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
            if channel.asked.is_set():
                return BatchResult(tool=item.tool, ok=False, error=_needs_input())
            return self._done(call, item.tool, working.result())
        except ToolError as error:
            return BatchResult(tool=item.tool, ok=False, error=str(error))
        except McpError as error:
            return BatchResult(tool=item.tool, ok=False, error=error.message)
        except Exception as error:
            logger.error("unexpected error in a batched call of %r", item.tool, exc_info=error)
            unexpected = said("unexpected error in the gateway", "erro inesperado no gateway")
            return BatchResult(tool=item.tool, ok=False, error=unexpected)
        finally:
            asking.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=CANCEL_SECONDS)
            elif not working.cancelled():
                working.exception()  # marks the exception as retrieved

    def _done(self, call: Call, tool: str, outcome: Outcome) -> BatchResult:
        if isinstance(outcome.body, StreamedResult):
            outcome.body.close()
            error = said(
                "its result is too big for a batch; call it alone",
                "o resultado é grande demais para um lote; chame-a sozinha",
            )
            return BatchResult(tool=tool, ok=False, error=error)
        plain: dict[str, Any] = msgspec.json.decode(outcome.body)
        if outcome.kind != "complete":
            self._abandon(call, tool, plain.get("requestState"))
            asks = outcome.kind == "input_required"
            return BatchResult(tool=tool, ok=False, error=_needs_input() if asks else _is_task())
        plain.pop("resultType", None)
        meta = plain.get("_meta")
        if isinstance(meta, dict) and set(cast(dict[str, Any], meta)) == {SERVER_KEY}:
            del plain["_meta"]
        if not _is_readable(plain.get("content")):
            error = said(
                "its result cannot be read: its content is not a list of blocks",
                "o resultado não pode ser lido: o conteúdo não é uma lista de blocos",
            )
            return BatchResult(tool=tool, ok=False, error=error)
        error = _words(plain) if outcome.is_error else None
        return BatchResult(tool=tool, ok=not outcome.is_error, result=plain, error=error)

    def _abandon(self, call: Call, tool: str, state: Any) -> None:
        """Notifies an upstream that waits for the user's answers that none will come."""
        target = self._service.known.target(call, tool)
        if target is not None and isinstance(state, str):
            target.mount.upstream.abandon(state)

    def _late(self, at: int, item: BatchItem, seconds: float) -> BatchResult:
        if at in self._begun:
            error = said(
                f"cancelled: timed out after {seconds:g} s", f"cancelada: o tempo acabou após {seconds:g} s"
            )
        else:
            error = said(
                f"not started: timed out after {seconds:g} s",
                f"não iniciada: o tempo acabou após {seconds:g} s",
            )
        return BatchResult(tool=item.tool, ok=False, error=error, late=True)


def _one_of_many(call: Call) -> Call:
    """Returns the call without the progress token, which is the batch's, and without support for tasks."""
    meta = decode_params(call.members().get("_meta", Raw(b"{}")), dict[str, Raw])
    meta.pop("progressToken", None)
    caller = call.caller
    if caller.era == "modern" and caller.supports(TASKS_EXTENSION):
        capabilities = dict(caller.capabilities)
        extensions = cast(dict[str, Any], capabilities["extensions"])
        capabilities["extensions"] = {key: extensions[key] for key in extensions if key != TASKS_EXTENSION}
        caller = Caller(caller.version, capabilities, caller.client, caller.identity, caller.log_level)
        if CAPABILITIES_KEY in meta:
            meta[CAPABILITIES_KEY] = Raw(encode(capabilities))
    params = Raw(encode({"_meta": meta} if meta else {}))
    return replace(call, params=params, caller=caller, progress_token=None)


def _is_readable(content: Any) -> bool:
    """Checks the content of a result: one invalid result must not fail the whole batch."""
    if content is None:
        return True
    return isinstance(content, list) and all(isinstance(block, dict) for block in cast(list[Any], content))


def _words(result: dict[str, Any]) -> str:
    texts = [block.get("text") for block in cast(list[dict[str, Any]], result.get("content") or [])]
    words = "\n".join(text for text in texts if isinstance(text, str))
    return words or said("it failed without an error message", "falhou sem mensagem de erro")


MAX_ITEMS = 50
MAX_QUERIES = 20
MAX_USE_CASE = 4_000


class MetaToolService:
    def __init__(
        self,
        context: MetaToolContext,
        send: SendTool,
        own: Mapping[str, OwnTool] = {},
        searches: Sequence[str] = (),
        *,
        finds_first: bool = False,
    ) -> None:
        """`send` forwards a call to its upstream; of the meta tools, `own`, `searches` find others.

        `finds_first`: whether a dialect asks which tools a conversation has found.
        """
        self.context = context
        self.own = own
        self.finds = FoundTools()
        self._names = FoundToolNames(context.state) if finds_first else None
        self.known = ToolResolver(context, own, searches)
        self._send = send
        self._checks = ArgumentChecks()
        self._threads = Conversations(context)
        self._searching = ToolSearch(context, self.known)
        self._describing = ToolDescriber(context, self.known, own)
        self._connecting = ConnectionManager(context)

    def lists_found(self, call: Call) -> bool:
        """Returns whether `tools/list` includes the tools found in this conversation."""
        return self.context.settings.list_found and is_identified(call, self.context.view_context)

    async def thread(self, call: Call, session: str | None) -> Call:
        """Returns the call in the thread that `session` names: by a session id, or by any other name."""
        return await self._threads.within(call, session)

    async def search(
        self, call: Call, queries: Sequence[ToolQuery], session: str | None = None
    ) -> SearchAnswer:
        """Raises ToolError if there is no query, or one without a use case."""
        _check(queries)
        own, call = call, await self.thread(call, session)
        searched = await self._searching.answer(call, queries)
        missing = dict(searched.missing)
        lease = searched.session or await self._own_session(call, missing)
        await self._threads.remember(call, lease)
        await self._keep_found((own, call), searched.findings, missing)
        whose = conversation_of(call)
        if self.finds.note(whose, searched.findings) and self.lists_found(call):
            self.context.view_context.catalogue.hub.publish(ChangeEvent(TOOLS_CHANGED, "", whose))
        return SearchAnswer(
            findings=searched.findings,
            session=lease,
            source=searched.source,
            missing=missing,
            guidance=searched.guidance,
        )

    async def _keep_found(
        self, calls: Sequence[Call], findings: Sequence[QueryMatches], missing: dict[str, str]
    ) -> None:
        """Keep what was found, for the session that was named and for the conversation that searched."""
        if self._names is None:
            return
        tools = [match.tool for finding in findings for match in finding.results]
        try:
            for call in calls:
                await self._names.add(call, tools)
        except StateError as error:
            logger.warning("what a search found was not stored: %s", error)
            missing["state"] = error.public_message

    async def has_found(self, call: Call, tool: str) -> bool:
        """Returns whether a search of this conversation returned a tool. Raises StateError."""
        if tool in self.finds.tools(conversation_of(call)):
            return True
        return self._names is not None and await self._names.has(call, tool)

    async def _own_session(self, call: Call, missing: dict[str, str]) -> Lease:
        try:
            return await self.context.leases.get(call.caller.owner, thread_of(call), "")
        except StateError as error:
            # The results are useful even if the session cannot be stored.
            logger.warning("the session of a search was not stored: %s", error)
            missing["state"] = error.public_message
            expires = (datetime.now(UTC) + timedelta(seconds=60)).isoformat(timespec="seconds")
            return Lease(f"local-{uuid.uuid4()}", 60.0, expires, True, "local")

    async def describe(self, call: Call, tools: Sequence[str], session: str | None = None) -> DescribeAnswer:
        return await self._describing.answer(await self.thread(call, session), tools)

    async def call_tool(
        self, call: Call, tool: str, arguments: dict[str, Any], session: str | None = None
    ) -> Outcome:
        """Finds the tool, checks the arguments, and sends the call.

        Raises UnknownToolError, BadArgumentsError, or the upstream's McpError.
        """
        if session:
            call = await self.thread(call, session)
        target = self.known.target(call, tool) or await self.known.find(call, tool)
        entry = target.entry
        assert entry is not None, "a tool that was found is in the catalogue"
        faults = self._checks.faults(entry.name, entry.item.rest, arguments)
        if faults and entry.server in self.context.remotes():
            arguments = own_form(entry.item.own, arguments)
            faults = self._checks.faults(entry.name, entry.item.rest, arguments)
        if faults:
            self._learn(call, entry.name, "arguments")
            lines = "\n".join(f"- {fault}" for fault in faults)
            takes = usage(entry)
            raise BadArgumentsError(
                tool,
                said(
                    f"The arguments do not fit {entry.name!r}; nothing was sent.\n{lines}\nIt takes: {takes}",
                    f"Os argumentos não servem para {entry.name!r}; nada foi enviado.\n{lines}\nUso: {takes}",
                ),
            )
        members = call.members()
        params = {"arguments": Raw(encode(arguments))}
        for key in _ROUND_TRIP:
            if key in members:
                params[key] = members[key]
        if call.param_headers is not None:  # they mirror the meta tool's arguments
            call = replace(call, param_headers=None)
        return await self.send(call, target, params)

    async def send(self, call: Call, target: CallTarget, params: Params) -> Outcome:
        """Sends a call whose target is known. Raises the upstream's McpError."""
        name = target.own if target.entry is None else target.entry.name
        try:
            outcome = await self._send(call, target, params)
        except McpError as error:
            self._learn(call, name, "arguments" if error.code == INVALID_PARAMS else "failure")
            raise
        if outcome.kind == "complete" and self.finds.conversations:  # else nobody has searched
            self._learn(call, name, "failure" if outcome.is_error else "success")
        return outcome

    def _learn(self, call: Call, tool: str, outcome: LearntOutcome) -> None:
        context = self.context
        if not context.settings.learn:
            return
        found = self.finds.conversations.get(conversation_of(call))
        if found is None:  # no search in this conversation
            return
        use_case = found.use_case(tool)
        if use_case is None and is_identified(call, context.view_context):
            # If conversations share a thread, the last search may belong to another one.
            use_case = found.last_use_case
        if use_case is not None:
            run_in_background(self._note(call.caller.owner, use_case, tool, outcome))

    async def _note(self, tenant: str, use_case: str, tool: str, outcome: LearntOutcome) -> None:
        with suppress(StateError):
            await self.context.feedback.note(tenant, use_case, tool, outcome)

    async def call_tools(
        self,
        call: Call,
        items: Sequence[BatchItem],
        *,
        parallel: int | None = None,
        seconds: float | None = None,
        session: str | None = None,
    ) -> list[BatchResult]:
        """Returns the results in the order of the items. Raises ToolError for none or more than MAX_ITEMS."""
        if not 1 <= len(items) <= MAX_ITEMS:
            raise ToolError(
                said(
                    f"{len(items)} calls were given; it takes 1 to {MAX_ITEMS}",
                    f"Foram dadas {len(items)} chamadas; aceita de 1 a {MAX_ITEMS}",
                )
            )
        settings = self.context.settings
        call = await self.thread(call, session)
        batch = Batch(self, call, len(items))
        side_by_side = max(1, min(parallel or settings.batch_concurrency, settings.batch_concurrency))
        time = settings.batch_seconds if seconds is None else max(0.0, min(seconds, settings.batch_seconds))
        return await batch.run(items, side_by_side, time)

    async def connections(
        self,
        call: Call,
        names: Sequence[str] = (),
        action: ConnectionAction = "status",
        *,
        seconds: float = 60.0,
        alias: str = "",
        fields: dict[str, Any] | None = None,
        every: bool = True,
        session: str | None = None,
    ) -> list[AppConnection]:
        """Returns the connections of the named servers and apps, or of all if no names are given."""
        wish = ConnectionRequest(action, seconds, alias, fields, every)
        return await self._connecting.answer(await self.thread(call, session), names, wish)


def _check(queries: Sequence[ToolQuery]) -> None:
    if not 1 <= len(queries) <= MAX_QUERIES:
        raise ToolError(
            said(
                f"{len(queries)} queries were given; it takes 1 to {MAX_QUERIES}",
                f"Foram dadas {len(queries)} consultas; aceita de 1 a {MAX_QUERIES}",
            )
        )
    for at, query in enumerate(queries):
        if not query.use_case.strip() or len(query.use_case) > MAX_USE_CASE:
            raise ToolError(
                said(
                    f"queries[{at}].use_case is empty, or longer than {MAX_USE_CASE} characters",
                    f"queries[{at}].use_case está vazio, ou tem mais de {MAX_USE_CASE} caracteres",
                )
            )


__all__ = ["BadArgumentsError", "MetaToolService", "UnknownToolError"]
