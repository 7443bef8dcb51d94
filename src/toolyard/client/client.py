"""`Client`: everything that an MCP client can ask of a server, whichever way and in whichever era."""

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from .._version import __version__
from ..upstream.connection import UpstreamConnection, UpstreamInfo
from ..wire.call import TASKS_EXTENSION, ClientInfo, Identity, Level, Service
from ..wire.errors import HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CAPABILITY, McpError
from ..wire.headers import encode_value, param_headers
from ..wire.types import PromptInfo, ResourceInfo, ResourceTemplateInfo, ToolInfo
from ..wire.versions import LATEST_LEGACY, LEGACY_VERSIONS, MODERN_VERSIONS, Era, era_of
from .conversation import ClientConversation, Handlers, OnProgress, OutgoingRequest, OwnProfile
from .errors import ClientError, ProtocolError, TargetError, ToolCallError, UnsupportedError
from .subscriptions import Changes, open_subscription
from .targets import Opened, TargetOptions, name_of, open_target
from .tasks import Finished, RemoteTask
from .types import (
    CallResult,
    Completions,
    Elicitation,
    ElicitResult,
    Json,
    ListPage,
    LogMessage,
    PromptResult,
    ResourceResult,
    Root,
    SampleRequest,
    SampleResult,
    ServerInfo,
    Timeout,
    elicitation,
    list_of,
    number,
    object_of,
    prompt_result,
    read_as,
    read_item,
    resource_result,
    root_of,
    sample_request,
    tool_result,
)

if TYPE_CHECKING:
    from ..kit.server import Server
    from .auth import OAuth

logger = logging.getLogger("toolyard.client")

T = TypeVar("T")

OnElicit = Callable[
    [Elicitation], ElicitResult | Mapping[str, Any] | Awaitable[ElicitResult | Mapping[str, Any]]
]
OnSample = Callable[
    [SampleRequest], SampleResult | Mapping[str, Any] | Awaitable[SampleResult | Mapping[str, Any]]
]

MAX_PAGES = 1000
LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "resources"),
    "prompts/list": ("prompts", "prompts"),
}
"""The member of the result that each list is in, and the capability that promises it."""


class Client:
    """`async with Client("https://example.com/mcp") as client: await client.call_tool("add", {"a": 1})`

    The target is a `Server` in this process, an http(s) URL, a command as a list (`["python", "server.py"]`,
    with `env` and `cwd`), or the path of a configuration file, whose servers are all mounted.

    `era` and `version` (a revision such as "2025-06-18") insist on one; without them the modern era is tried
    first and the legacy one where the server knows no better. `timeout` is how many seconds the server may
    give no sign during a request; progress and pings are signs, and time in which a handler answers does
    not count. `open_timeout` is how long connecting may take, a program's start included.

    Handlers are plain or async functions; a plain one holds the event loop while it runs. What the client
    declares to be able to do follows from the handlers that it has; `capabilities` is added to that.

    `auth` (`toolyard.client.OAuth`) logs in where a server at an address wants that.

    `identity` and `keys` (by header) are for a server in this process: who calls, and what they would bring
    over HTTP.
    """

    def __init__(
        self,
        target: "Server | Service | str | Path | Sequence[str]",
        *,
        headers: Mapping[str, str] | None = None,
        auth: "OAuth | None" = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        era: Era | None = None,
        version: str | None = None,
        timeout: float | None = 60.0,
        open_timeout: float | None = None,
        info: ClientInfo = ClientInfo("toolyard", __version__),  # noqa: B008 (frozen)
        capabilities: Mapping[str, Any] | None = None,
        identity: Identity | None = None,
        keys: Mapping[str, str] | None = None,
        log_level: Level | None = None,
        on_elicit: OnElicit | None = None,
        on_sample: OnSample | None = None,
        roots: Sequence[Root] | Callable[[], Any] | None = None,
        on_log: Callable[[LogMessage], Any] | None = None,
        on_progress: OnProgress | None = None,
        on_notification: Callable[[str, Json], Any] | None = None,
    ) -> None:
        self._target = target
        self._timeout = timeout
        self._roots = roots
        self._version = _checked(version, era)
        wanted = era_of(version) if version is not None else era
        self._options = TargetOptions(
            headers or {},
            env or {},
            None if cwd is None else str(cwd),
            wanted,
            open_timeout,
            identity,
            keys or {},
            auth,
        )
        answers: dict[str, Any] = {}
        if on_elicit is not None:
            answers["elicitation/create"] = _elicits(on_elicit)
        if on_sample is not None:
            answers["sampling/createMessage"] = _samples(on_sample)
        if roots is not None:
            answers["roots/list"] = self._answer_roots
        self._handlers = Handlers(answers, on_log, on_progress, on_notification)
        able: Json = {"elicitation": {"form": {}, "url": {}}} if on_elicit is not None else {}
        able |= {"sampling": {}} if on_sample is not None else {}
        able |= {"roots": {"listChanged": True}} if roots is not None else {}
        able |= dict(capabilities or {})
        requested = version if version is not None and wanted == "legacy" else LATEST_LEGACY
        self._manner = OwnProfile(msgspec.to_builtins(info), able, requested, log_level)
        self._opened: Opened | None = None
        self._open: ClientConversation | None = None
        self._schemas: dict[str, Json] = {}

    # Opening and closing

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ClientError("the client is open already", "make another one for a second connection")
        opened = self._opened = await open_target(self._target, self._options)
        patient = None if self._options.auth is None else self._options.auth.seconds
        waited = self._options.open_timeout or patient or self._timeout
        conversation = ClientConversation(opened.name, opened.connector, self._manner, self._handlers, waited)
        try:
            await conversation.open()
            self._open = conversation
            self._check_version()
            if self._manner.log_level is not None and self.era == "legacy" and "logging" in self.capabilities:
                await self.request("logging/setLevel", {"level": self._manner.log_level})
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session, and what was started for it.

        A server object that was given can be used again: of it, only what opens again is closed.
        """
        conversation, self._open = self._open, None
        opened, self._opened = self._opened, None
        try:
            if conversation is not None:
                await conversation.close()
        finally:
            if opened is not None:
                await opened.close()

    def _check_version(self) -> None:
        wanted, found = self._options.era, self._about.version
        if self._version is not None and found != self._version:
            raise UnsupportedError(f"{self._name} speaks {found}, not {self._version}", "leave out `version`")
        if wanted is not None and self.era != wanted:
            raise UnsupportedError(f"{self._name} speaks {found}, which is not {wanted}", "leave out `era`")

    # The server

    @property
    def _conversation(self) -> ClientConversation:
        if self._open is None:
            raise ClientError(f"the client of {name_of(self._target)} is not open", "use `async with`")
        return self._open

    @property
    def _about(self) -> UpstreamInfo:
        return self._conversation.connection.about

    @property
    def _name(self) -> str:
        return self._conversation.name

    @property
    def version(self) -> str:
        """The revision that is spoken."""
        return self._about.version

    @property
    def era(self) -> Era:
        return self._about.era

    @property
    def server(self) -> ServerInfo:
        """The server's name and version, as it says them."""
        return read_as(ServerInfo, self.server_raw) or ServerInfo()

    @property
    def server_raw(self) -> Json:
        return msgspec.json.decode(self._about.info, type=dict[str, Any])

    @property
    def capabilities(self) -> Json:
        """What the server declares to be able to do."""
        return self._about.capabilities

    @property
    def instructions(self) -> str | None:
        return self._about.instructions

    @property
    def connection(self) -> UpstreamConnection:
        """The open connection, for what has no method here."""
        return self._conversation.connection

    # Any request

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        tasks: bool = False,
        on_message: Callable[[str, Json], None] | None = None,
    ) -> Json:
        """Any request to its result, as plain data; the server's questions are answered on the way.

        `tasks` declares for this request that we can follow a task; `on_message` is called with what the
        server says meanwhile.
        """
        limit = self._timeout if isinstance(timeout, EllipsisType) else timeout
        ask = OutgoingRequest(method, dict(params or {}), limit, on_progress, headers, tasks, on_message)
        return await self._conversation.request(ask)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Any notification. The modern era has none from a client over HTTP."""
        await self._conversation.notify(method, dict(params or {}))

    async def answer(self, result: Json) -> Json:
        """The handlers' answers to the `inputRequests` of a result, as a retry brings them back."""
        return await self._conversation.answers(result)

    async def ping(self) -> None:
        """See that the server answers: by `ping`, or in the modern era, which has none, `server/discover`."""
        await self.request("ping" if self.era == "legacy" else "server/discover")

    # Lists

    async def list_tools(self) -> list[ToolInfo]:
        """All of them, however many pages they take."""
        return self._usable(await self.list_all("tools/list"))

    async def list_resources(self) -> list[ResourceInfo]:
        return _read(ResourceInfo, await self.list_all("resources/list"))

    async def list_templates(self) -> list[ResourceTemplateInfo]:
        return _read(ResourceTemplateInfo, await self.list_all("resources/templates/list"))

    async def list_prompts(self) -> list[PromptInfo]:
        return _read(PromptInfo, await self.list_all("prompts/list"))

    async def tools_page(self, cursor: str | None = None) -> ListPage[ToolInfo]:
        """One page; its `next_cursor` asks for the next."""
        items, after = await self._page("tools/list", cursor)
        return ListPage(self._usable(items), after)

    async def resources_page(self, cursor: str | None = None) -> ListPage[ResourceInfo]:
        items, after = await self._page("resources/list", cursor)
        return ListPage(_read(ResourceInfo, items), after)

    async def templates_page(self, cursor: str | None = None) -> ListPage[ResourceTemplateInfo]:
        items, after = await self._page("resources/templates/list", cursor)
        return ListPage(_read(ResourceTemplateInfo, items), after)

    async def prompts_page(self, cursor: str | None = None) -> ListPage[PromptInfo]:
        items, after = await self._page("prompts/list", cursor)
        return ListPage(_read(PromptInfo, items), after)

    async def list_all(self, method: str) -> list[Json]:
        """The items of a list (`tools/list` and its siblings) as the server wrote them.

        Empty where the server has no such list.
        """
        items: list[Json] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                found, cursor = await self._page(method, cursor)
            except McpError as error:
                if error.code == METHOD_NOT_FOUND:
                    return items
                raise
            items += found
            if cursor is None:
                return items
        raise ProtocolError(
            f"the server's answer to {method!r} has no end", f"it was left after {MAX_PAGES} pages"
        )

    async def _page(self, method: str, cursor: str | None) -> tuple[list[Json], str | None]:
        result = await self.request(method, {} if cursor is None else {"cursor": cursor})
        member, _ = LISTS[method]
        found = result.get(member)
        if not isinstance(found, list):
            raise ProtocolError(f"the server's answer to {method!r} is not a list")
        items = [object_of(item) for item in list_of(found)]
        if method == "tools/list":
            self._schemas |= {str(tool.get("name")): object_of(tool.get("inputSchema")) for tool in items}
        after = result.get("nextCursor")
        return items, after if isinstance(after, str) else None

    def _usable(self, items: list[Json]) -> list[ToolInfo]:
        """Without tools whose arguments no header can carry, where the transport wants them there."""
        tools = _read(ToolInfo, items)
        if not self._mirrors:
            return tools
        usable: list[ToolInfo] = []
        for tool in tools:
            try:
                param_headers(tool.input_schema)
            except ValueError as error:
                logger.warning("tool %r of %s is left out: %s", tool.name, self._name, error)
            else:
                usable.append(tool)
        return usable

    # Calling

    async def call_tool(
        self,
        tool: str | ToolInfo | Mapping[str, Any],
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = ...,
        on_progress: OnProgress | None = None,
        raise_on_error: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult:
        """Call a tool, by its name or its definition, and wait for what it returns.

        A tool that failed says so in `is_error`, or by ToolCallError with `raise_on_error`. Cancelling the
        task that awaits this cancels the call at the server.
        """
        name, schema = _named(tool)
        params = {"name": name, "arguments": dict(arguments or {})} | ({"_meta": dict(meta)} if meta else {})
        try:
            raw = await self._call(name, schema, params, timeout, on_progress)
        except McpError as error:
            if not _needs_tasks(error):
                raise
            result = await (await self.start_task(tool, arguments, meta=meta)).result()
        else:
            result = tool_result(raw)
        if raise_on_error and result.is_error:
            raise ToolCallError(name, result)
        return result

    async def start_task(
        self,
        tool: str | ToolInfo | Mapping[str, Any],
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RemoteTask:
        """Call a tool as a task, which goes on without its request.

        `ttl` is how many seconds the server should keep it (legacy; a modern server decides that itself). A
        modern server may answer at once all the same: then the task is over already.
        """
        name, schema = _named(tool)
        params = {"name": name, "arguments": dict(arguments or {})} | ({"_meta": dict(meta)} if meta else {})
        if self.era == "modern":
            result = await self._call(name, schema, params, ..., None, tasks=True)
            return RemoteTask(self, result) if result.get("resultType") == "task" else Finished(self, result)
        self._need_tasks("requests")
        params["task"] = {} if ttl is None else {"ttl": int(ttl * 1000)}
        result = await self._call(name, schema, params, ..., None)
        task = object_of(result.get("task"))
        return RemoteTask(self, task) if "taskId" in task else Finished(self, result)

    async def get_task(self, id: str) -> RemoteTask:
        """A task that was started earlier, by its id."""
        return await RemoteTask(self, {"taskId": id}).refresh()

    async def list_tasks(self) -> list[RemoteTask]:
        """All tasks that the server has of us. The modern era has no such list: keep the ids."""
        if self.era == "modern":
            raise UnsupportedError(
                "the modern era has no list of tasks", "keep the ids that `start_task` gave"
            )
        self._need_tasks("list")
        tasks: list[RemoteTask] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self.request("tasks/list", {} if cursor is None else {"cursor": cursor})
            tasks += [RemoteTask(self, object_of(state)) for state in list_of(page.get("tasks"))]
            cursor = read_as(str, page.get("nextCursor"))
            if cursor is None:
                return tasks
        raise ProtocolError("the server's answer to 'tasks/list' has no end")

    def _need_tasks(self, part: str) -> None:
        if part not in object_of(self.capabilities.get("tasks")):
            raise UnsupportedError(f"{self._name} offers no tasks", "`call_tool` waits for the result")

    async def _call(
        self,
        name: str,
        schema: Json | None,
        params: Json,
        timeout: Timeout,
        on_progress: OnProgress | None,
        tasks: bool = False,
    ) -> Json:
        headers = self._headers(name, schema, params["arguments"])
        options: Any = {"timeout": timeout, "on_progress": on_progress, "tasks": tasks}
        try:
            return await self.request("tools/call", params, headers=headers, **options)
        except McpError as error:
            if error.code != HEADER_MISMATCH or not self._mirrors or headers is not None:
                raise
            # It wants arguments in headers too, and which is in a schema that we have not seen.
            await self.list_all("tools/list")
            headers = self._headers(name, None, params["arguments"])
            if not headers:
                raise
            return await self.request("tools/call", params, headers=headers, **options)

    @property
    def _mirrors(self) -> bool:
        """Whether arguments can be wanted in headers."""
        return self._opened is not None and self._opened.is_http and self.era == "modern"

    def _headers(self, name: str, schema: Json | None, arguments: Json) -> dict[str, str] | None:
        """The arguments that the tool wants to see in headers too; None where its schema is not known."""
        schema = self._schemas.get(name) if schema is None else schema
        if schema is None or not self._mirrors:
            return None
        try:
            wanted = param_headers(schema)
        except ValueError as error:
            raise UnsupportedError(f"tool {name!r} cannot be called over HTTP: {error}") from None
        found: dict[str, str] = {}
        for item in wanted:
            value: Any = arguments
            for key in item.path:
                value = object_of(value).get(key)
            if value is not None:
                found[item.header] = encode_value(value)
        return found

    # Reading and completing

    async def read_resource(self, uri: str, *, timeout: Timeout = ...) -> ResourceResult:
        return resource_result(await self.request("resources/read", {"uri": uri}, timeout=timeout))

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: Timeout = ...
    ) -> PromptResult:
        params = {"name": name, "arguments": dict(arguments or {})}
        return prompt_result(await self.request("prompts/get", params, timeout=timeout))

    async def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> Completions:
        """Values for an argument of a prompt, or of a resource template, that begin with `value`.

        `context` are the arguments that are known already.
        """
        if (prompt is None) == (resource is None):
            raise ValueError("name either the prompt or the resource template whose argument is completed")
        ref = (
            {"type": "ref/prompt", "name": prompt}
            if prompt is not None
            else {"type": "ref/resource", "uri": resource}
        )
        params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        found = object_of((await self.request("completion/complete", params)).get("completion"))
        total = number(found.get("total"))
        values = [str(item) for item in list_of(found.get("values"))]
        return Completions(values, None if total is None else int(total), found.get("hasMore") is True)

    # Listening

    @asynccontextmanager
    async def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> AsyncGenerator[Changes]:
        """Hear of changes: of these lists, of the resources at `uris`, of the tasks with these ids.

        `async with client.listen(tools=True) as changes: async for change in changes: …`
        """
        wanted = {
            "toolsListChanged": tools,
            "promptsListChanged": prompts,
            "resourcesListChanged": resources,
        }
        filter: Json = {name: True for name, is_wanted in wanted.items() if is_wanted}
        filter |= {"resourceSubscriptions": list(uris)} if uris else {}
        filter |= {"taskIds": list(tasks)} if tasks else {}
        async with open_subscription(self, filter) as listener:
            yield listener

    async def set_log_level(self, level: Level) -> None:
        """From here on, lines of this level and above go to `on_log`."""
        self._manner.log_level = level
        if self.era == "legacy":
            await self.request("logging/setLevel", {"level": level})

    async def set_roots(self, roots: Sequence[Root]) -> None:
        """Other folders are open now; a legacy server is told so."""
        if self._roots is None:
            raise ClientError("the client did not declare roots", "give `roots` when you make it")
        self._roots = list(roots)
        if self.era == "legacy":
            await self.notify("notifications/roots/list_changed")

    async def _answer_roots(self, params: Json) -> Json:
        found: Any = self._roots() if callable(self._roots) else self._roots
        roots: Any = await found if inspect.isawaitable(found) else found
        return {"roots": [root_of(root) for root in roots or ()]}


def _checked(version: str | None, era: Era | None) -> str | None:
    if version is None:
        return None
    if version not in (*LEGACY_VERSIONS, *MODERN_VERSIONS):
        known = ", ".join((*LEGACY_VERSIONS, *MODERN_VERSIONS))
        raise TargetError(f"{version!r} is not a revision of MCP that we know", f"known: {known}")
    if era is not None and era_of(version) != era:
        raise TargetError(f"revision {version} is not of the {era} era", "leave out one of the two")
    return version


def _named(tool: str | ToolInfo | Mapping[str, Any]) -> tuple[str, Json | None]:
    if isinstance(tool, str):
        return tool, None
    if isinstance(tool, ToolInfo):
        return tool.name, tool.input_schema
    return str(tool["name"]), object_of(tool.get("inputSchema"))


def _needs_tasks(error: McpError) -> bool:
    required = object_of(object_of(error.data).get("requiredCapabilities"))
    return error.code == MISSING_CAPABILITY and TASKS_EXTENSION in object_of(required.get("extensions"))


def _read(kind: type[T], items: list[Json]) -> list[T]:
    found: list[T] = []
    for item in items:
        read = read_item(kind, item)
        if read is None:
            logger.warning("an item that is no %s is left out: %.200r", kind.__name__, item)
        else:
            found.append(read)
    return found


def _elicits(handler: OnElicit) -> Callable[[Json], Awaitable[Any]]:
    async def answer(params: Json) -> Any:
        found: Any = handler(elicitation(params))
        result: Any = await found if inspect.isawaitable(found) else found
        return msgspec.to_builtins(result) if isinstance(result, ElicitResult) else result

    return answer


def _samples(handler: OnSample) -> Callable[[Json], Awaitable[Any]]:
    async def answer(params: Json) -> Any:
        found: Any = handler(sample_request(params))
        result: Any = await found if inspect.isawaitable(found) else found
        return result.to_wire() if isinstance(result, SampleResult) else result

    return answer
