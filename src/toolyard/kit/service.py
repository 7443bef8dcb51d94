"""A server's answers to the protocol: one method per method, a table per era."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from ..wire.call import Call
from ..wire.eras import SERVER_KEY, SUBSCRIPTION_KEY, TASKS_EXTENSION, UI_EXTENSION
from ..wire.errors import InternalError, InvalidParams, McpError, MethodNotFound, MissingCapability
from ..wire.headers import check_params
from ..wire.messages import decode_params
from ..wire.types import (
    Cacheable,
    CallToolParams,
    CallToolResult,
    CompleteParams,
    CompleteResult,
    Completion,
    DiscoverResult,
    GetPromptParams,
    GetPromptResult,
    InitializeResult,
    ListenParams,
    ListParams,
    ListPromptsResult,
    ListResourcesResult,
    ListTemplatesResult,
    ListToolsResult,
    PromptRef,
    ReadResourceParams,
    ReadResourceResult,
    Result,
    RoundTrip,
    SetLevelParams,
    SubscriptionFilter,
    TaskParams,
    TaskState,
    TaskUpdateParams,
    UriParams,
)
from ..wire.versions import MODERN_VERSIONS
from .asks import Notes
from .content import ToolError
from .context import Context
from .direct import Direct
from .hub import Event
from .pages import page
from .resource import Resource
from .rounds import Detached, InputRequired, Rounds, fingerprint, settle
from .running import reraise_own_cancellation
from .schema import Mismatch
from .tasks import TaskAsker
from .tool import Long, Tool, logger

if TYPE_CHECKING:
    from .server import Server

T = TypeVar("T")

RESOURCE_NOT_FOUND = -32002  # legacy; the modern era uses invalid params
MAX_COMPLETIONS = 100
CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


class KitService:
    """Implements `wire.call.Service` for a `Server`."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._stamp = {SERVER_KEY: Raw(msgspec.json.encode(server.implementation))}
        shared: dict[str, Callable[[Call], Awaitable[Any]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }
        self._modern = shared | {
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "tasks/get": self._get_task,
            "tasks/update": self._update_task,
            "tasks/cancel": self._cancel_task,
        }
        self._legacy = shared | {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    async def handle(self, call: Call) -> Any:
        modern = call.caller.era == "modern"
        answer = (self._modern if modern else self._legacy).get(call.method)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        result = await answer(call)
        if modern:
            if result.result_type is UNSET:
                result.result_type = "complete"
            result.meta = self._stamp if result.meta is UNSET else {**result.meta, **self._stamp}
        return result

    async def listen(self, call: Call) -> None:
        session = call.session

        def wants(event: Event) -> bool:
            if event.method == "notifications/resources/updated":
                return session is not None and event.about in session.subscriptions
            return event.method != "notifications/tasks"

        with self._server.hub.listener(wants) as events:
            async for event in events:
                await call.channel.notify(event.method, event.params or {})

    async def close(self) -> None:
        self._server.hub.close()
        await self._server.tasks.close()

    def health(self) -> dict[str, Any]:
        server = self._server
        return {
            "status": "ok",
            "server": {"name": server.name, "version": server.version},
            "tools": len(server.tools),
            "resources": len(server.resources),
            "prompts": len(server.prompts),
        }

    # Who we are

    def _capabilities(self, modern: bool) -> dict[str, Any]:
        declared: dict[str, Any] = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
        }
        features = self._server.features
        found: dict[str, Any] = {"logging": {}}
        found |= {name: value for name, value in declared.items() if name in features}
        extensions: dict[str, Any] = {}
        if modern and "tasks" in features:
            extensions[TASKS_EXTENSION] = {}
        if "ui" in features:
            extensions[UI_EXTENSION] = {}
        if extensions:
            found["extensions"] = extensions
        return found

    def _cached(self, call: Call, result: T) -> T:
        if call.caller.era == "modern" and isinstance(result, Cacheable):
            result.ttl_ms = int(self._server.cache_ttl * 1000)
            result.cache_scope = self._server.cache_scope
        return result

    async def _discover(self, call: Call) -> DiscoverResult:
        result = DiscoverResult(
            supported_versions=list(MODERN_VERSIONS),
            capabilities=self._capabilities(modern=True),
            instructions=self._server.instructions,
        )
        return self._cached(call, result)

    async def _initialize(self, call: Call) -> InitializeResult:
        return InitializeResult(
            protocol_version=call.caller.version,
            capabilities=self._capabilities(modern=False),
            server_info=self._server.implementation,
            instructions=self._server.instructions,
        )

    async def _ping(self, call: Call) -> Result:
        return Result()

    async def _set_level(self, call: Call) -> Result:
        level = decode_params(call.params, SetLevelParams).level
        if call.session is not None:
            call.session.log_level = level
        return Result()

    # Tools

    def _need(self, call: Call, feature: str) -> None:
        """A feature that never had an item is one we did not declare, and so an unknown method."""
        if feature not in self._server.features:
            raise MethodNotFound(call.method)

    async def _list_tools(self, call: Call) -> ListToolsResult:
        self._need(call, "tools")
        tools, cursor = page(self._server.tools.values(), _cursor(call), self._server.page_size)
        return self._cached(call, ListToolsResult(tools=[tool.info for tool in tools], next_cursor=cursor))

    async def _call_tool(self, call: Call) -> Result:
        params = decode_params(call.params, CallToolParams)
        tool = self._server.tools.get(params.name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {params.name[:80]!r}")
        if tool.param_headers and call.param_headers is not None:
            arguments = decode_params(params.arguments, dict[str, Any])
            check_params(tool.param_headers, arguments, call.param_headers())
        long = tool.long
        as_task = False
        if long is not None and call.caller.era == "modern":
            as_task = call.caller.supports(TASKS_EXTENSION)
            if long.required and not as_task:
                raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        if long is not None and as_task and long.detach == "at_once":
            return self._start_task(call, tool, long, params.arguments, Notes())
        context = None
        if tool.wants_context or params.request_state is not UNSET:
            context = self._context(call, params, params.name, params.arguments, as_task)
        try:
            running = tool.run(params.arguments, context)
            return await (running if context is None else settle(running))
        except InputRequired as pending:
            return pending.result
        except Detached as detached:
            assert long is not None
            return self._start_task(call, tool, long, params.arguments, detached.notes)

    def _context(
        self, call: Call, trip: RoundTrip, name: str, arguments: Raw, may_detach: bool = False
    ) -> Context:
        if call.caller.era == "legacy":
            return Context(call, Direct(call))
        server = self._server
        rounds = Rounds(call, trip, fingerprint(name, arguments), server.sealer, server.state_ttl)
        rounds.may_detach = may_detach
        return Context(call, rounds)

    def _start_task(self, call: Call, tool: Tool, long: Long, arguments: Raw, notes: Notes) -> TaskState:
        async def run(asker: TaskAsker, say: Callable[[str], None]) -> CallToolResult:
            result = await tool.run(arguments, Context(call, asker, say))
            result.result_type = "complete"
            return result

        state = self._server.tasks.start(long, call.caller, notes, run).handle()
        state.result_type = "task"
        return state

    # Tasks

    def _need_tasks(self, call: Call) -> None:
        self._need(call, "tasks")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})

    async def _get_task(self, call: Call) -> TaskState:
        self._need_tasks(call)
        return self._server.tasks.find(decode_params(call.params, TaskParams).task_id, call.caller).state()

    async def _update_task(self, call: Call) -> Result:
        self._need_tasks(call)
        params = decode_params(call.params, TaskUpdateParams)
        self._server.tasks.update(
            self._server.tasks.find(params.task_id, call.caller), params.input_responses
        )
        return Result()

    async def _cancel_task(self, call: Call) -> Result:
        self._need_tasks(call)
        params = decode_params(call.params, TaskParams)
        self._server.tasks.cancel(self._server.tasks.find(params.task_id, call.caller))
        return Result()

    # Resources

    async def _list_resources(self, call: Call) -> ListResourcesResult:
        self._need(call, "resources")
        items = [item for item in self._server.resources.values() if not item.is_template]
        found, cursor = page(items, _cursor(call), self._server.page_size)
        infos: list[Any] = [item.info for item in found]
        return self._cached(call, ListResourcesResult(resources=infos, next_cursor=cursor))

    async def _list_templates(self, call: Call) -> ListTemplatesResult:
        self._need(call, "resources")
        items = [item for item in self._server.resources.values() if item.is_template]
        found, cursor = page(items, _cursor(call), self._server.page_size)
        infos: list[Any] = [item.info for item in found]
        return self._cached(call, ListTemplatesResult(resource_templates=infos, next_cursor=cursor))

    def _find_resource(self, call: Call, uri: str) -> tuple[Resource, dict[str, str]]:
        exact = self._server.resources.get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        for resource in self._server.resources.values():
            values = resource.match(uri) if resource.is_template else None
            if values is not None:
                return resource, values
        code = InvalidParams("").code if call.caller.era == "modern" else RESOURCE_NOT_FOUND
        raise McpError(code, f"Resource not found: {uri[:200]!r}", {"uri": uri})

    async def _read_resource(self, call: Call) -> Result:
        self._need(call, "resources")
        params = decode_params(call.params, ReadResourceParams)
        resource, values = self._find_resource(call, params.uri)
        context = self._context(call, params, params.uri, Raw(b"{}")) if resource.wants_context else None
        try:
            contents = await _guarded(resource.read(params.uri, values, context), f"resource {params.uri!r}")
        except InputRequired as pending:
            return pending.result
        return self._cached(call, ReadResourceResult(contents=contents))

    async def _subscribe(self, call: Call) -> Result:
        uri = decode_params(call.params, UriParams).uri
        self._find_resource(call, uri)
        if call.session is not None:
            if len(call.session.subscriptions) >= self._server.max_subscriptions:
                raise InvalidParams(f"A session may subscribe to {self._server.max_subscriptions} resources")
            call.session.subscriptions.add(uri)
        return Result()

    async def _unsubscribe(self, call: Call) -> Result:
        uri = decode_params(call.params, UriParams).uri
        if call.session is not None:
            call.session.subscriptions.discard(uri)
        return Result()

    # Prompts and completions

    async def _list_prompts(self, call: Call) -> ListPromptsResult:
        self._need(call, "prompts")
        found, cursor = page(self._server.prompts.values(), _cursor(call), self._server.page_size)
        return self._cached(
            call, ListPromptsResult(prompts=[item.info for item in found], next_cursor=cursor)
        )

    async def _get_prompt(self, call: Call) -> Result:
        self._need(call, "prompts")
        params = decode_params(call.params, GetPromptParams)
        prompt = self._server.prompts.get(params.name)
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {params.name[:80]!r}")
        context = self._context(call, params, params.name, params.arguments) if prompt.wants_context else None
        try:
            messages = await _guarded(prompt.render(params.arguments, context), f"prompt {params.name!r}")
        except InputRequired as pending:
            return pending.result
        return GetPromptResult(messages=messages, description=prompt.info.description)

    async def _complete(self, call: Call) -> CompleteResult:
        self._need(call, "completions")
        params = decode_params(call.params, CompleteParams)
        ref = params.ref
        kind, target = ("prompt", ref.name) if isinstance(ref, PromptRef) else ("resource", ref.uri)
        known = self._server.prompts if kind == "prompt" else self._server.resources
        if target not in known:
            raise InvalidParams(f"Unknown {kind}: {target[:80]!r}")
        complete = self._server.completions.get((kind, target, params.argument.name))
        if complete is None:
            return CompleteResult(completion=Completion([], 0, False))
        arguments = {"value": params.argument.value, "context": params.context.arguments}
        values: list[str] = await _guarded(
            complete(arguments, None), f"completion of {params.argument.name!r}"
        )
        shown = values[:MAX_COMPLETIONS]
        return CompleteResult(completion=Completion(shown, len(values), len(values) > len(shown)))

    # Subscriptions

    async def _listen(self, call: Call) -> Result:
        wanted = decode_params(call.params, ListenParams).notifications
        agreed = self._agree(call, wanted)
        mark = {SUBSCRIPTION_KEY: call.id}
        methods = {CHANGES[name] for name in CHANGES if _asked(agreed, name)}
        uris = set(agreed.resource_subscriptions or ())
        task_ids = set(agreed.task_ids or ())

        def wants(event: Event) -> bool:
            if event.method == "notifications/resources/updated":
                return event.about in uris
            return event.method in methods or (
                event.method == "notifications/tasks" and event.about in task_ids
            )

        with self._server.hub.listener(wants) as events:
            acknowledged = {"notifications": agreed, "_meta": mark}
            await call.channel.notify("notifications/subscriptions/acknowledged", acknowledged)
            for id in task_ids:
                state = self._server.tasks.find(id, call.caller).state()
                await call.channel.notify("notifications/tasks", _marked(state, mark))
            async for event in events:
                await call.channel.notify(event.method, _marked(event.params, mark))
        return Result(meta=dict(mark))

    def _agree(self, call: Call, wanted: SubscriptionFilter) -> SubscriptionFilter:
        """The part of a subscription that we can honour."""
        server = self._server
        agreed = SubscriptionFilter()
        if wanted.tools_list_changed is True and "tools" in server.features:
            agreed.tools_list_changed = True
        if wanted.prompts_list_changed is True and "prompts" in server.features:
            agreed.prompts_list_changed = True
        if "resources" in server.features:
            if wanted.resources_list_changed is True:
                agreed.resources_list_changed = True
            if wanted.resource_subscriptions is not UNSET:
                if len(wanted.resource_subscriptions) > server.max_subscriptions:
                    raise InvalidParams(f"A subscription may name {server.max_subscriptions} resources")
                agreed.resource_subscriptions = wanted.resource_subscriptions
        if wanted.task_ids is not UNSET:
            self._need_tasks(call)
            agreed.task_ids = [id for id in wanted.task_ids if server.tasks.owns(id, call.caller)]
        return agreed


def _cursor(call: Call) -> str | None:
    return decode_params(call.params, ListParams).cursor


def _asked(agreed: SubscriptionFilter, wire_name: str) -> bool:
    names = {
        "toolsListChanged": agreed.tools_list_changed,
        "promptsListChanged": agreed.prompts_list_changed,
        "resourcesListChanged": agreed.resources_list_changed,
    }
    return names[wire_name] is True


def _marked(params: Any, mark: dict[str, Any]) -> Any:
    if isinstance(params, TaskState):
        return msgspec.structs.replace(params, meta=mark)
    members: dict[str, Any] = params or {}
    return {**members, "_meta": mark}


async def _guarded(running: Awaitable[T], what: str) -> T:
    """Resources and prompts have no error result to put a failure in."""
    try:
        return await settle(running)
    except McpError:
        raise
    except Mismatch as error:
        raise InvalidParams(f"Invalid arguments for {what}: {error}") from None
    except ToolError as error:
        raise McpError(InternalError().code, str(error)) from None
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        reraise_own_cancellation(error)
        logger.error("%s failed", what, exc_info=error)
        raise InternalError() from None
