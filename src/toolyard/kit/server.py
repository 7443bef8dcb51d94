"""`Server`: the tools, resources and prompts of one MCP server, and the ways to serve it.

Owns declaration, the protocol methods of each era, and the start of HTTP, stdio and in-process clients.
`kit.features` implements the methods.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, get_args, overload

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..edge.request import CallerKeys
from ..languages import Locale, answering
from ..telemetry.events import LOG_ALONE, EventRecorder
from ..wire.call import SERVER_KEY, TASKS_EXTENSION, UI_EXTENSION, Call, Caller
from ..wire.errors import InternalError, MethodNotFound
from ..wire.messages import decode_params
from ..wire.seal import KEY_VARIABLE, Sealer
from ..wire.types import DiscoverResult, Icon, Implementation, InitializeResult, Result, SetLevelParams
from ..wire.versions import MODERN_VERSIONS
from .calls.tasks import TaskRegistry
from .components import Component, Components, Kind, Rule, selected
from .events import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED, ChangeEvent, EventHub
from .features.base import Feature, FeatureMethod, PromptOptions, ResourceOptions, ToolOptions
from .features.prompts import Completer, Prompt, PromptFeature
from .features.resources import Resource, ResourceFeature
from .features.subscriptions import SubscriptionFeature
from .features.tools import Tool, ToolFeature

if TYPE_CHECKING:
    from ..edge.http.app import HttpEdge
    from ..edge.request import Identify, Pace
    from ..wire.call import Service
    from .middleware import Middleware


class KitService:
    """Implements `wire.call.Service` for a `Server`."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._stamp = {SERVER_KEY: Raw(msgspec.json.encode(server.implementation))}
        self._subscriptions = SubscriptionFeature(server)
        features = [
            _Identity(server),
            ToolFeature(server),
            ResourceFeature(server),
            PromptFeature(server),
            self._subscriptions,
        ]
        self._plain = {
            "modern": {k: v for feature in features for k, v in (feature.shared | feature.modern).items()},
            "legacy": {k: v for feature in features for k, v in (feature.shared | feature.legacy).items()},
        }
        self._modern, self._legacy = self._plain["modern"], self._plain["legacy"]

    def fold(self) -> None:
        """Put around the methods what the server has for them; what it has not, no call comes through."""
        self._modern, self._legacy = (
            {method: self._folded(method, answer) for method, answer in self._plain[era].items()}
            for era in ("modern", "legacy")
        )

    def _folded(self, method: str, answer: FeatureMethod) -> FeatureMethod:
        server = self._server
        if server.middleware:
            from .middleware import around  # for servers with any

            answer = around(server.middleware, method, answer, server)
        return answer if server.lifespan_entered else self._within_lifespan(answer)

    def _within_lifespan(self, answer: FeatureMethod) -> FeatureMethod:
        async def enter_first(call: Call) -> Any:
            await self._server.enter_lifespan()
            return await answer(call)

        return enter_first

    async def handle(self, call: Call) -> Any:
        modern = call.caller.era == "modern"
        answer = (self._modern if modern else self._legacy).get(call.method)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        with answering(self._server.locale):
            result = await answer(call)
        if modern:
            if result.result_type is UNSET:
                result.result_type = "complete"
            result.meta = self._stamp if result.meta is UNSET else {**result.meta, **self._stamp}
        return result

    def forward(self, call: Call, member: str, key: str) -> Awaitable[Any]:
        """Answer a request that came to a server in which this one is mounted."""
        members = {**call.members(), member: Raw(msgspec.json.encode(key))}
        answers = self._modern if call.caller.era == "modern" else self._legacy
        return answers[call.method](replace(call, params=Raw(msgspec.json.encode(members))))

    async def listen(self, call: Call) -> None:
        await self._subscriptions.listen_legacy(call)

    async def end_session(self, call: Call) -> None:
        """The edge holds the state of a session; there is none here."""

    async def close(self) -> None:
        self._server.hub.close()
        await self._server.tasks.close()
        await self._server.run_close_functions()
        await self._server.leave_lifespan()

    def health(self) -> dict[str, Any]:
        server = self._server
        return {
            "status": "ok",
            "server": {"name": server.name, "version": server.version},
            "tools": server.count_tools(),
            "resources": len(server.resources),
            "prompts": len(server.prompts),
        }


class _Identity(Feature["Server"]):
    """Name, version and capabilities of the server."""

    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self.modern = {"server/discover": self._discover}
        self.legacy = {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
        }

    def _capabilities(self, modern: bool) -> dict[str, Any]:
        declared: dict[str, Any] = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
        }
        features = self._host.features
        capabilities: dict[str, Any] = {"logging": {}}
        capabilities |= {name: value for name, value in declared.items() if name in features}
        extensions: dict[str, Any] = {}
        if modern and "tasks" in features:
            extensions[TASKS_EXTENSION] = {}
        if "ui" in features:
            extensions[UI_EXTENSION] = {}
        if extensions:
            capabilities["extensions"] = extensions
        return capabilities

    async def _discover(self, call: Call) -> DiscoverResult:
        result = DiscoverResult(
            supported_versions=list(MODERN_VERSIONS),
            capabilities=self._capabilities(modern=True),
            instructions=self._host.instructions,
        )
        return self._cached(call, result)

    async def _initialize(self, call: Call) -> InitializeResult:
        return InitializeResult(
            protocol_version=call.caller.version,
            capabilities=self._capabilities(modern=False),
            server_info=self._host.implementation,
            instructions=self._host.instructions,
        )

    async def _ping(self, call: Call) -> Result:
        return Result()

    async def _set_level(self, call: Call) -> Result:
        level = decode_params(call.params, SetLevelParams).level
        if call.session is not None:
            call.session.log_level = level
        return Result()


F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=Component)
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
CloseFunction = Callable[[], Awaitable[None]]

logger = logging.getLogger("toolyard.kit")

Visible = Callable[[Call], Awaitable[Callable[[Tool], bool] | None]]
"""Returns, for a request, a test whether its caller has a tool; None if it has all."""

MAX_SECONDS = 10 * 365 * 24 * 3600.0


class Server:
    """A set of tools, resources and prompts under one name.

    `key` signs legacy session ids and the state of multi round trips. Processes that serve the same clients
    need the same key (or TOOLYARD_KEY); without it each process makes its own.
    """

    def __init__(
        self,
        name: str = "server",
        *,
        version: str = "0",
        title: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[Icon] | None = None,
        key: bytes | None = None,
        page_size: int = 100,
        cache_ttl: float = 60.0,
        cache_scope: Literal["public", "private"] = "private",
        state_ttl: float = 3600.0,
        max_subscriptions: int = 1000,
        caller_keys: CallerKeys | None = None,
        locale: Locale = "en",
        lifespan: Lifespan | None = None,
        middleware: Iterable["Middleware"] = (),
        lax: bool = False,
        bare_values: bool = False,
    ) -> None:
        """`caller_keys`: the headers with callers' own keys over HTTP, for `Context.secret`.

        `lifespan(server)` is entered before the first request and left when the server closes; what it gives
        is `Context.lifespan_context`. `lax`: tools take "5" for an integer. `bare_values`: tools send a value
        that is no object as it is in their text (`5`, not `{"result": 5}`), and a `str` also as structured
        content.

        `locale`: the language of what is said of wrong arguments, unknown names, missing keys and the like.
        """
        _check_options(page_size, cache_ttl, cache_scope, state_ttl, max_subscriptions, locale)
        self.name = name
        self.locale: Locale = locale
        self.version = version
        self.instructions = instructions
        self.implementation = Implementation(name, version, title, None, website_url, icons)
        self.page_size = page_size
        self.cache_ttl = cache_ttl
        self.cache_scope: Literal["public", "private"] = cache_scope
        self.state_ttl = state_ttl
        self.max_subscriptions = max_subscriptions
        self.caller_keys = caller_keys
        configured = key or os.environ.get(KEY_VARIABLE, "").encode()
        self.has_own_key = bool(configured)
        """Whether a key was configured, so that sessions and state outlive this process."""
        self.sealer = Sealer(configured or None, name)
        self._tools: Components[Tool] = Components()
        self._resources: Components[Resource] = Components()
        self._prompts: Components[Prompt] = Components()
        self.tools: Mapping[str, Tool] = self._tools.offered
        self.resources: Mapping[str, Resource] = self._resources.offered
        self.prompts: Mapping[str, Prompt] = self._prompts.offered
        self.completions: dict[tuple[str, str, str], Completer] = {}
        self.features: set[str] = set()
        """Features declared at least once; a list may become empty later."""
        self._lax, self._bare_values = lax, bare_values
        self.middleware: list[Middleware] = list(middleware)
        self._lifespan = lifespan
        self._living: _Living | None = None
        self.lifespan_result: Any = {}
        """What `lifespan` gave."""
        self._mounted: list[Server] = []
        self._parents: list[Server] = []
        self._close_functions: list[CloseFunction] = []
        self._reopening: list[CloseFunction] = []
        self._clients = 0
        self._before_resources: list[Callable[[], Awaitable[None]]] = []
        self._on_subscribe: list[Callable[[str, Caller], object]] = []
        self._visible: Visible | None = None
        self.events: EventRecorder = LOG_ALONE
        """Where it tells operators what it did: the log; a gateway that mounts it as a module counts too."""
        self.hub = EventHub()
        self.tasks = TaskRegistry(self.hub)
        self.service = KitService(self)
        if lifespan is not None:
            self.on_close(self.leave_lifespan, reopens=True)
        if self.middleware or lifespan is not None:
            self.service.fold()

    @overload
    def tool(self, function: F, /, **options: Unpack[ToolOptions]) -> F: ...
    @overload
    def tool(self, named: str | None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(
        self, function: F | str | None = None, /, **options: Unpack[ToolOptions]
    ) -> F | Callable[[F], F]:
        """Declare a tool: `@server.tool`, `@server.tool("name", title=…)` or `server.tool(function, …)`."""

        def declare(target: F) -> F:
            self.add_tool(target, **options)
            return target

        if isinstance(function, str):
            options["name"] = _one_name(function, options)
            return declare
        return declare if function is None else declare(function)

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        """As `tool`, for functions made at run time. Call `notify_tools_changed` afterwards."""
        tool = Tool(function, lax=self._lax, bare_values=self._bare_values, **options)
        self._register(self._tools, tool, "tools", options.get("enabled", True))
        if tool.long is not None:
            self.features.add("tasks")
        return tool

    def show_tools(self, visible: "Visible") -> None:
        """Set the function that decides which tools a caller has; other tools are unknown to that caller."""
        self._visible = visible

    async def visible_tools(self, call: Call) -> Callable[[Tool], bool] | None:
        return None if self._visible is None else await self._visible(call)

    def count_tools(self) -> int:
        """How many tools are listed."""
        return sum(tool.listed for tool in self.tools.values())

    def remove_tool(self, name: str) -> None:
        self._remove(self._tools, name, "tool")

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Declare a resource; with `{variables}` in the URI, a template of resources."""

        def declare(function: F) -> F:
            self.add_resource(function, uri, **options)
            return function

        return declare

    def add_resource(
        self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
    ) -> Resource:
        """As `resource`, at run time. Call `notify_resources_changed` afterwards."""
        resource = Resource(function, uri, **options)
        self._register(self._resources, resource, "resources", options.get("enabled", True))
        if uri.startswith("ui://"):
            self.features.add("ui")
        return resource

    def remove_resource(self, uri: str) -> None:
        self._remove(self._resources, uri, "resource")

    def on_list_resources(self, function: Callable[[], Awaitable[None]]) -> None:
        """Await this before resources are listed, so that it can add and remove some."""
        self._before_resources.append(function)

    async def renew_resources(self) -> None:
        """Run the functions of `on_list_resources`. A failure is logged and does not fail the list."""
        for function in self._before_resources:
            try:
                await function()
            except Exception:
                logger.exception("server %r could not renew its resources", self.name)

    @overload
    def prompt(self, function: F, /, **options: Unpack[PromptOptions]) -> F: ...
    @overload
    def prompt(self, named: str | None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(
        self, function: F | str | None = None, /, **options: Unpack[PromptOptions]
    ) -> F | Callable[[F], F]:
        """Declare a prompt: the function's parameters are its arguments, its result the messages."""

        def declare(target: F) -> F:
            self.add_prompt(target, **options)
            return target

        if isinstance(function, str):
            options["name"] = _one_name(function, options)
            return declare
        return declare if function is None else declare(function)

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> Prompt:
        """As `prompt`, at run time. Call `notify_prompts_changed` afterwards."""
        prompt = Prompt(function, **options)
        self._register(self._prompts, prompt, "prompts", options.get("enabled", True))
        return prompt

    def remove_prompt(self, name: str) -> None:
        self._remove(self._prompts, name, "prompt")

    def completion(
        self, *, argument: str, prompt: str | None = None, resource: str | None = None
    ) -> Callable[[F], F]:
        """Declare `def complete(value, context) -> list[str]` for an argument of a prompt or template.

        A parameter annotated `Caller` gets the caller.
        """
        if (prompt is None) == (resource is None):
            raise ValueError("name either the prompt or the resource template whose argument this completes")

        def declare(function: F) -> F:
            kind, target = ("prompt", prompt) if prompt is not None else ("resource", resource or "")
            completer = Completer(function)
            if (kind, target, argument) in self.completions:
                raise ValueError(f"{kind} {target!r} already has a completion for {argument!r}")
            self.completions[kind, target, argument] = completer
            self.features.add("completions")
            return function

        return declare

    def _register(self, known: Components[C], item: C, feature: str, enabled: bool) -> None:
        if item.key in known:
            raise ValueError(f"server {self.name!r} already has a {feature.removesuffix('s')} {item.key!r}")
        known.add(item)
        if not enabled:
            known.rule(selected(False, {item.key}, None, None))
        self._has(feature)

    def _has(self, feature: str) -> None:
        self.features.add(feature)
        for parent in self._parents:
            parent._has(feature)

    def _remove(self, known: Components[Any], name: str, kind: str) -> None:
        if name not in known:
            raise ValueError(f"server {self.name!r} has no {kind} {name!r}")
        known.remove(name)

    def enable(
        self,
        *,
        names: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        components: Collection[Kind] | None = None,
        only: bool = False,
    ) -> None:
        """Offer what has one of these names (or URIs) and tags and is of these kinds, and tell the clients.

        `only` also disables everything else. What is disabled is neither listed nor found. The last call
        that concerns a component decides, also for what is declared later.
        """
        if only:
            self._rule(Rule(False))
        self._rule(selected(True, names, tags, components))

    def disable(
        self,
        *,
        names: Collection[str] | None = None,
        tags: Collection[str] | None = None,
        components: Collection[Kind] | None = None,
    ) -> None:
        """The opposite of `enable`."""
        self._rule(selected(False, names, tags, components))

    def _rule(self, rule: Rule) -> None:
        for known in self._components():
            known.rule(rule)
        self.notify_tools_changed()
        self.notify_resources_changed()
        self.notify_prompts_changed()

    def mount(self, server: "Server", namespace: str | None = None) -> None:
        """Offer what another server offers, now and later: tools and prompts as `namespace_name`, resources
        as `scheme://namespace/path`. Requests go through its own middleware; its lifespan is entered with
        this one's. What is here goes before what is mounted, and what was mounted earlier before the rest.
        """
        if self in server.mounted():
            raise ValueError(f"server {self.name!r} cannot be mounted in itself")
        for mine, theirs in zip(self._components(), server._components(), strict=True):
            mine.mount(theirs, namespace or "", server.service)
        self._mounted.append(server)
        for one in server.mounted():
            one.tasks = self.tasks  # clients ask for their tasks here
        server._parents.append(self)
        for feature in server.features:
            self._has(feature)
        self.on_close(server.run_close_functions)
        self.on_close(self.leave_lifespan, reopens=True)

    def mounted(self) -> "Iterator[Server]":
        """This server and all that are mounted in it."""
        yield self
        for server in self._mounted:
            yield from server.mounted()

    def _components(self) -> tuple[Components[Any], ...]:
        return self._tools, self._resources, self._prompts

    def add_middleware(self, middleware: "Middleware") -> None:
        """Put it around the requests from now on, inside of what was added before."""
        self.middleware.append(middleware)
        self.service.fold()

    @property
    def lifespan_entered(self) -> bool:
        return self._lifespan is None or self._living is not None

    async def enter_lifespan(self) -> None:
        """Enter the lifespans of this server and of those mounted in it, once."""
        for server in self.mounted():
            if not server.lifespan_entered:
                server._living = _Living(server, server._lifespan)
            if server._living is not None:
                await server._living.ready()

    async def leave_lifespan(self) -> None:
        for server in reversed(list(self.mounted())):
            living, server._living = server._living, None
            if living is not None:
                server.service.fold()
                await living.end()

    def notify_tools_changed(self) -> None:
        self._publish(ChangeEvent(TOOLS_CHANGED))

    def notify_prompts_changed(self) -> None:
        self._publish(ChangeEvent(PROMPTS_CHANGED))

    def notify_resources_changed(self) -> None:
        self._publish(ChangeEvent(RESOURCES_CHANGED))

    def _publish(self, event: ChangeEvent) -> None:
        self.hub.publish(event)
        for parent in self._parents:
            parent._publish(event)

    def notify_resource_updated(self, uri: str, concerns: Callable[[Caller], bool] | None = None) -> None:
        """Notify subscribers of a resource.

        Where callers see different things under one URI, `concerns` says which of them may hear of it.
        """
        self.hub.publish(ChangeEvent(RESOURCE_UPDATED, uri, {"uri": uri}, concerns))

    def on_subscribe(self, function: Callable[[str, Caller], object]) -> None:
        """Call this on the event loop when a caller subscribes to a resource, before it is acknowledged."""
        self._on_subscribe.append(function)

    def subscribed(self, uri: str, caller: Caller) -> None:
        """Run the functions of `on_subscribe`. A failure is logged and does not fail the subscription."""
        for function in self._on_subscribe:
            try:
                function(uri, caller)
            except Exception:
                logger.exception("server %r could not follow %r", self.name, uri)

    # Running

    def asgi(
        self,
        *,
        path: str = "/mcp",
        allowed_hosts: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        identify: "Identify | None" = None,
        max_body: int = 4 * 1024 * 1024,
        pace: "Pace | None" = None,
    ) -> "HttpEdge":
        """An ASGI app that serves both eras at `path`, and its health at /health."""
        from ..edge.http.app import HttpEdge  # the transports load only when used
        from ..edge.request import CallerKeySetting

        self.begin_client()  # its own end closes everything
        return HttpEdge(
            self._traced(),
            self.sealer,
            path=path,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            identify=identify,
            keys=CallerKeySetting(self.caller_keys),
            max_body=max_body,
            pace=pace,
            locale=self.locale,
        )

    def run_http(
        self,
        host: str = "127.0.0.1",
        port: int = 8321,
        *,
        keep_alive: float = 150.0,
        max_idle: int = 500,
        **options: Any,
    ) -> None:
        """Serve over HTTP until interrupted. `options` are those of `asgi`.

        A connection is closed after `keep_alive` idle seconds, or as the oldest of more than `max_idle`.
        """
        if keep_alive <= 0 or max_idle < 1:
            raise ValueError(f"keep_alive and max_idle must be more than 0, not {keep_alive} and {max_idle}")
        from ..edge.http.server import run

        run(self.asgi(**options), host, port, keep_alive, max_idle)

    def run_stdio(self) -> None:
        """Serve over stdin and stdout until stdin is closed."""
        from ..edge.stdio import run

        run(self._traced())

    def _traced(self) -> "Service":
        """The service, with spans around its requests if TOOLYARD_TRACES says where they go."""
        if not os.environ.get("TOOLYARD_TRACES"):
            return self.service
        from ..telemetry.serving import TracedService  # loaded only where it is wanted
        from ..telemetry.tracing import server_tracing

        tracer = server_tracing(self.name)
        return self.service if tracer is None else TracedService(self.service, tracer, self.name)

    def on_close(self, function: CloseFunction, *, reopens: bool = False) -> None:
        """Await this when the server closes; functions run in reverse order.

        `reopens` says that what is closed opens again when it is needed: then the end of the last client in
        this process closes it too, since nobody else may do so before the event loop ends.
        """
        self._close_functions.append(function)
        if reopens:
            self._reopening.append(function)

    def begin_client(self) -> None:
        """A client in this process has come; for each, `end_client` once."""
        self._clients += 1

    async def end_client(self) -> None:
        self._clients -= 1
        for function in reversed(self._reopening) if not self._clients else ():
            await self._run_close_function(function)

    async def run_close_functions(self) -> None:
        """Run the functions of `on_close`, once each. A failure is logged; the others still run."""
        while self._close_functions:
            await self._run_close_function(self._close_functions.pop())

    async def _run_close_function(self, function: CloseFunction) -> None:
        try:
            await function()
        except Exception:
            logger.exception("server %r did not close cleanly", self.name)

    async def close(self) -> None:
        """End tasks and listeners. The transports call it; call it yourself after in-process use."""
        await self.service.close()

    def disable_tasks(self) -> None:
        """Run long tools within their calls, for a host that is stopped after each response."""
        for tool in self._tools.declared():
            tool.disable_tasks()
        self.features.discard("tasks")

    def require_caller_keys(self) -> None:
        """Refuse callers without a key of their own, if the server takes such keys at all."""
        if self.caller_keys is not None:
            self.caller_keys = msgspec.structs.replace(self.caller_keys, required=True)


class _Living:
    """A lifespan in a task of its own, since what is entered in one task must be left in it."""

    def __init__(self, server: Server, lifespan: Lifespan | None) -> None:
        self._server = server
        self._lifespan = lifespan
        self._entered = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._task = asyncio.create_task(self._live())

    async def ready(self) -> None:
        await asyncio.shield(self._entered)

    async def end(self) -> None:
        self._ended.set()
        await self._task

    async def _live(self) -> None:
        assert self._lifespan is not None
        try:
            async with self._lifespan(self._server) as given:
                self._server.lifespan_result = {} if given is None else given
                self._entered.set_result(None)
                self._server.service.fold()
                await self._ended.wait()
        except Exception:
            if not self._entered.done():
                logger.exception("server %r could not enter its lifespan", self._server.name)
                self._entered.set_exception(InternalError())
            else:
                logger.exception("server %r did not close cleanly", self._server.name)


def _one_name(name: str, options: Mapping[str, Any]) -> str:
    if options.get("name") is not None:
        raise TypeError(f"two names: {name!r} and {options['name']!r}")
    return name


def _check_options(
    page_size: int,
    cache_ttl: float,
    cache_scope: str,
    state_ttl: float,
    max_subscriptions: int,
    locale: str,
) -> None:
    if page_size < 1:
        raise ValueError(f"page_size must be at least 1, not {page_size}")
    if not 0 <= cache_ttl < MAX_SECONDS:
        raise ValueError(f"cache_ttl must be 0 seconds or more, not {cache_ttl}")
    if cache_scope not in ("public", "private"):
        raise ValueError(f"cache_scope must be 'public' or 'private', not {cache_scope!r}")
    if not 0 < state_ttl < MAX_SECONDS:
        raise ValueError(f"state_ttl must be more than 0 seconds, not {state_ttl}")
    if max_subscriptions < 0:
        raise ValueError(f"max_subscriptions must be 0 or more, not {max_subscriptions}")
    if locale not in get_args(Locale):
        raise ValueError(f"locale must be 'en' or 'pt', not {locale!r}")
