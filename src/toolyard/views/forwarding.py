"""Forwards a request to the upstream that a name, address or task id belongs to.

URIs stay as their upstreams gave them, since results mention them. If two upstreams have the same URI, the
one mounted first keeps it; the other's is shown as an alias. Task ids are sealed: they name the
upstream and are valid for their owner only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..catalogue.catalogue import Catalogue, CatalogueEntry
from ..catalogue.items import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    ItemKind,
    own_address,
    prefix_of,
    resource_alias,
)
from ..catalogue.scope import VisibleCatalogue, VisibleServer
from ..composio import own_form
from ..dispatch import CallTarget, Mount
from ..dispatch.remote import RemoteTool
from ..kit.calls.tasks import no_task
from ..kit.features.base import unknown
from ..languages import said
from ..pipeline import Handler
from ..results.storage import RESULT_URI
from ..telemetry.requests import new_request_id
from ..upstream import attribution
from ..upstream.base import Forward, Outcome
from ..upstream.connection import Params
from ..upstream.errors import (
    InvalidReplyError,
    UpstreamDownError,
    UpstreamError,
    UpstreamStartingError,
    UpstreamTimeoutError,
)
from ..wire.call import NO_CHANNEL, TASKS_EXTENSION, Call, Caller, StreamedResult
from ..wire.errors import RESOURCE_NOT_FOUND, InvalidParams, McpError, MissingCapability
from ..wire.headers import check_params, encode_value
from ..wire.messages import decode_params, encode
from ..wire.seal import BrokenSeal, Sealer

BACKGROUND_SECONDS = 10.0
LINK_JSON = b'"resource_link"'


class NameResolver(Protocol):
    """The part of a view that resolves names."""

    sees_all: bool

    @property
    def read_hint(self) -> str:
        """How the rest of a shortened result is read."""
        ...

    @property
    def marks(self) -> bool:
        """Whether the words of servers are marked as theirs."""
        ...

    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget: ...

    def places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]: ...

    def knows(self, uri: str, call: Call) -> bool: ...

    def servers(self, call: Call) -> list[str]: ...

    def seals_tasks(self, call: Call) -> bool: ...


class _LegacyTask(Struct, rename="camel"):
    task_id: str


class _Begun(Struct):
    """A new task of 2025-11-25."""

    task: _LegacyTask


class FitTask(Protocol):
    """Shapes the result in a task's state. `id`: the server's own; `hint`: how to read a truncated result."""

    async def __call__(
        self, state: Any, server: str, tool: str, id: str, caller: Caller, hint: str
    ) -> Any: ...


class ForwardingContext(Protocol):
    """The gateway, as a forwarder sees it."""

    @property
    def catalogue(self) -> Catalogue: ...

    def visible(self, call: Call) -> VisibleCatalogue: ...

    async def note_unknown(self, call: Call, kind: ItemKind, name: str) -> None: ...

    async def discover(self, call: Call, name: str, servers: Sequence[str]) -> Sequence[RemoteTool]: ...

    @property
    def mounts(self) -> Mapping[str, Mount]: ...

    @property
    def forward(self) -> Handler: ...

    @property
    def task_ids(self) -> "SealedTaskIds": ...

    @property
    def fit_task(self) -> FitTask | None: ...

    @property
    def list_wait(self) -> float: ...


class RequestForwarder:
    """Builds the `Forward` of a client's call and sends it through the pipeline."""

    def __init__(self, context: ForwardingContext, view: NameResolver) -> None:
        self._context = context
        self._view = view

    # Tools

    async def call_tool(self, call: Call) -> Any:
        params = call.members()
        target = await self._resolve(TOOLS, _string(params, "name"), call)
        return (await self.send_tool(call, target, params)).body

    async def send_tool(self, call: Call, target: CallTarget, params: Params) -> Outcome:
        """Calls a tool whose name is resolved. Seals the task id in an outcome for its caller."""
        mount, entry = target.mount, target.entry
        name, safe, headers = None, False, None
        if entry is not None:
            item = entry.item
            name, safe = target.own, item.safe
            if item.headers:
                headers = _mirrored(call, entry, params)
            if item.task_only and "task" not in params:
                params = {**params, "task": Raw(b"{}")}
        elif call.param_headers is not None and (sent := call.param_headers()):
            headers = sent  # the server judges them
        if mount.upstream.runs_named_tools:  # rules judge the form that is executed
            params = _in_own_form(target.own, params)
        forward = Forward(
            call,
            "tools/call",
            {**params, "name": Raw(encode(target.own))},
            name,
            safe,
            self._view.read_hint,
            headers,
            None,
            new_request_id(),
            marks=self._view.marks,
        )
        outcome = await self._context.forward(target, forward)
        if entry is None or entry.item.reads is not True:
            self._context.catalogue.note_written(mount.server)
        if entry is not None and entry.item.task_only and "task" not in call.members():
            outcome = await self._task_result(target, forward, outcome)
        if self._context.catalogue.has_rivals and self._view.sees_all:
            outcome = self._with_own_links(mount.server, outcome)
        if outcome.kind != "task":
            return outcome
        if isinstance(outcome.body, StreamedResult):
            outcome.body.close()
            raise InvalidReplyError(
                mount.server, said("its task is too large", "a tarefa dele é grande demais")
            )
        if not self._view.seals_tasks(call):
            return outcome
        return outcome.with_body(
            self._context.task_ids.seal_in(
                outcome.body, mount.server, name or "", call.caller, marks=forward.marks
            )
        )

    async def _task_result(self, target: CallTarget, forward: Forward, begun: Outcome) -> Outcome:
        """Waits for the task of a 2025-11-25 tool that answers only with tasks; returns a plain result."""
        if begun.kind == "input_required" or not isinstance(begun.body, Raw):
            return begun
        if b'"task"' not in bytes(begun.body):
            return begun
        params = {"taskId": Raw(encode(decode_params(begun.body, _Begun).task.task_id))}
        try:
            return await self._context.forward(
                target,
                replace(
                    forward,
                    method="tasks/result",
                    params=params,
                    headers=None,
                    request_id=new_request_id(),
                    task_arguments=forward.params.get("arguments"),
                ),
            )
        except (asyncio.CancelledError, UpstreamTimeoutError):
            alone = replace(forward.call, channel=NO_CHANNEL, progress_token=None)
            ending = replace(forward, call=alone, method="tasks/cancel", params=params, headers=None)
            run_in_background(target.mount.upstream.send(target.mount.keyed(ending)))
            raise

    # Everything else

    async def get_prompt(self, call: Call) -> Any:
        name = _string(call.members(), "name")
        target = await self._resolve(PROMPTS, name, call)
        known = target.own if target.entry is not None else None
        body = await self._send(call, CallTarget(target.mount), "name", target.own, known, safe=True)
        if not self._context.catalogue.has_rivals or not self._view.sees_all:
            return body
        return self._with_own_links(target.mount.server, Outcome(body, 0)).body

    def _with_own_links(self, server: str, outcome: Outcome) -> Outcome:
        """Lets a server's links lead to the server itself where another one has their addresses."""
        body = outcome.body
        if not isinstance(body, Raw) or LINK_JSON not in bytes(body):
            return outcome
        result, catalogue = msgspec.json.decode(body), self._context.catalogue
        is_changed = _relink(result, lambda uri: own_link(catalogue, server, uri))
        return outcome.with_body(Raw(encode(result))) if is_changed else outcome

    async def read_resource(self, call: Call) -> Any:
        uri = _string(call.members(), "uri")
        mounts, own = await self._places_of(uri, call)
        refused: McpError | None = None
        for mount in mounts:
            try:
                return await self._send(call, CallTarget(mount), "uri", own, own, safe=True)
            except McpError as error:
                if len(mounts) == 1:
                    raise
                refused = refused or error
        if refused is None:
            await self._context.note_unknown(call, RESOURCES, uri)
        raise refused or not_found(call, uri)

    async def complete(self, call: Call) -> Any:
        params = call.members()
        ref = dict(decode_params(params.get("ref", Raw(b"{}")), dict[str, Raw]))
        kind = _string(ref, "type")
        if kind == "ref/prompt":
            target = await self._resolve(PROMPTS, _string(ref, "name"), call)
            mount, ref["name"] = target.mount, Raw(encode(target.own))
        elif kind == "ref/resource":
            uri = _string(ref, "uri")
            mounts, own = await self._places_of(uri, call)
            if not mounts:
                await self._context.note_unknown(call, RESOURCES, uri)
                raise unknown("resource", uri)
            mount, ref["uri"] = mounts[0], Raw(encode(own))
        else:
            given = kind[:40]
            raise InvalidParams(
                said(
                    f"params.ref.type is 'ref/prompt' or 'ref/resource', not {given!r}",
                    f"params.ref.type é 'ref/prompt' ou 'ref/resource', não {given!r}",
                )
            )
        forward = Forward(
            call, call.method, {**params, "ref": Raw(encode(ref))}, safe=True, marks=self._view.marks
        )
        return (await self._context.forward(CallTarget(mount), forward)).body

    async def task(self, call: Call) -> Any:
        """Forwards tasks/get, tasks/update and tasks/cancel."""
        sealed = _string(call.members(), "taskId")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        if not self._view.seals_tasks(call):
            return await self._own_task(call)
        ids = self._context.task_ids
        server, tool, id = ids.open(sealed, call.caller)
        catalogue = self._context.visible(call)
        known = server in self._view.servers(call) and catalogue.permits(server, tool)
        mount = self._context.mounts.get(server) if known else None
        if mount is None:
            shown = sealed[:80]
            raise InvalidParams(
                said(
                    f"Task not found: {shown!r}; its server is not mounted any more",
                    f"Tarefa não encontrada: {shown!r}; o servidor dela não está mais montado",
                )
            )
        is_get = call.method == "tasks/get"
        target = CallTarget(mount, tool, catalogue.servers[server].entry_of(tool))
        body = await self._send(call, target, "taskId", id, None, safe=is_get)
        if not is_get:
            return body
        if self._context.fit_task is not None:
            hint = self._view.read_hint
            body = await self._context.fit_task(body, server, tool, id, call.caller, hint)
        return ids.seal_in(body, server, tool, call.caller, marks=self._view.marks)

    async def _own_task(self, call: Call) -> Any:
        """Forwards the id as the one server of this view gave it."""
        mount = self._context.mounts[self._view.servers(call)[0]]
        forward = Forward(call, call.method, call.members(), safe=call.method == "tasks/get", marks=False)
        return (await self._context.forward(CallTarget(mount), forward)).body

    async def _send(
        self, call: Call, target: CallTarget, key: str, own: str, name: str | None, *, safe: bool
    ) -> Raw | StreamedResult:
        """Sends the request with the upstream's own name under `key`."""
        params = {**call.members(), key: Raw(encode(own))}
        view = self._view
        forward = Forward(call, call.method, params, name, safe, view.read_hint, marks=view.marks)
        return (await self._context.forward(target, forward)).body

    # Resolving names

    async def _resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        """Waits for a server's list if a name is unknown: the client may have it from before a restart.

        Then a server that does not list all of its tools is asked for it.
        """
        catalogue = self._context.visible(call)
        if not catalogue.is_settled:
            with suppress(InvalidParams, UpstreamStartingError, UpstreamDownError):
                found = self._view.resolve(kind, name, call)
                if found.entry is not None:
                    return found
            await catalogue.wait_settled(self._context.list_wait)
        try:
            found = self._view.resolve(kind, name, call)
        except McpError:
            if (target := await self._discovered(kind, name, call)) is not None:
                return target
            await self._context.note_unknown(call, kind, name)
            raise
        return found if found.entry is not None else await self._discovered(kind, name, call) or found

    async def _discovered(self, kind: ItemKind, name: str, call: Call) -> CallTarget | None:
        if kind is not TOOLS:
            return None
        for tool in await self._context.discover(call, name, self._view.servers(call)):
            with suppress(McpError):  # the caller may not use it
                return self._view.resolve(kind, tool.name, call)
        return None

    async def _places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]:
        catalogue = self._context.visible(call)
        if not catalogue.is_settled:  # one that comes before others may have it too
            await catalogue.wait_settled(self._context.list_wait)
        return self._view.places_of(uri, call)


def _relink(value: Any, address_of: Callable[[str], str]) -> bool:
    """Replaces the addresses of links in a result. Returns whether one changed."""
    if isinstance(value, list):
        return bool(sum(_relink(item, address_of) for item in cast(list[Any], value)))
    if not isinstance(value, dict):
        return False
    members = cast(dict[str, Any], value)
    uri = members.get("uri")
    if members.get("type") == "resource_link" and isinstance(uri, str):
        members["uri"] = address_of(uri)
        return members["uri"] != uri
    return bool(sum(_relink(members.get(key), address_of) for key in ("content", "messages")))


def own_link(catalogue: VisibleCatalogue, server: str, uri: str, *, listed: bool = False) -> str:
    """Returns an address that leads to the server which named it; the same if it does so already.

    `listed`: an address that is in no list must not be asked of others either.
    """
    if uri.startswith(RESULT_URI):  # our own, of a result that was too big
        return uri
    leads_to = next(iter(_offering(catalogue, uri)), None)
    return uri if leads_to == server or (leads_to is None and not listed) else resource_alias(server, uri)


_background: set["asyncio.Task[None]"] = set()


def run_in_background(work: Awaitable[Any]) -> None:
    """Runs work in the background and ignores its failure."""
    task = asyncio.create_task(_quietly(work))
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _quietly(work: Awaitable[Any]) -> None:
    with suppress(McpError, TimeoutError):
        async with asyncio.timeout(BACKGROUND_SECONDS):
            await work


def _string(members: Params, key: str) -> str:
    raw = members.get(key)
    if raw is None:
        raise InvalidParams(said(f"params.{key} is missing", f"falta params.{key}"))
    return decode_params(raw, str)


def _in_own_form(tool: str, params: Params) -> Params:
    """Return the parameters of a call with its arguments in the form of the remote."""
    given = decode_params(params.get("arguments", Raw(b"{}")), dict[str, Any])
    arguments = own_form(tool, given)
    return params if arguments is given else {**params, "arguments": Raw(encode(arguments))}


def _mirrored(call: Call, entry: CatalogueEntry, members: Params) -> dict[str, str]:
    """Returns the arguments that a tool wants in headers; headers sent by the client must agree."""
    arguments = decode_params(members.get("arguments", Raw(b"{}")), dict[str, Any])
    if call.param_headers is not None:
        check_params(list(entry.item.headers), arguments, call.param_headers())
    found: dict[str, str] = {}
    for item in entry.item.headers:
        value: Any = arguments
        for key in item.path:
            value = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
        if isinstance(value, str | int | bool):
            found[item.header] = encode_value(value)
    return found


def not_found(call: Call, uri: str) -> McpError:
    shown = uri[:200]
    message = said(f"Resource not found: {shown!r}", f"Recurso não encontrado: {shown!r}")
    if call.caller.era == "modern":
        return InvalidParams(message, {"uri": uri})
    return McpError(RESOURCE_NOT_FOUND, message, {"uri": uri})


_PURPOSE = "task"


class SealedTaskIds:
    """Task ids for clients. Stores nothing: an id is signed, and names its server and its owner."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def seal(self, server: str, tool: str, id: str, caller: Caller) -> str:
        payload = msgspec.json.encode([server, tool, id, caller.principal.binding])
        return self._sealer.seal(payload, _PURPOSE)

    def open(self, sealed: str, caller: Caller) -> tuple[str, str, str]:
        """Returns the server, the tool and the server's own id. Another caller's id is an unknown task."""
        try:
            opened = self._sealer.open(sealed, _PURPOSE)
            server, tool, id, principal = msgspec.json.decode(opened, type=tuple[str, str, str, str])
            if principal == caller.principal.binding:
                return server, tool, id
        except (BrokenSeal, msgspec.DecodeError):
            pass
        raise no_task(sealed)

    def seal_in(self, body: Any, server: str, tool: str, caller: Caller, *, marks: bool) -> Raw:
        """Replaces the task id in a result or notification with a sealed one."""
        sealed = self.seal(server, tool, upstream_task_id(server, body), caller)
        members = attribution.task(server, _members(body)) if marks else _members(body)
        return Raw(encode({**members, "taskId": sealed}))


def upstream_task_id(server: str, state: Any) -> str:
    """Returns the server's own id of a task. Raises InvalidReplyError if there is none."""
    try:
        id = _members(state)["taskId"]
        return decode_params(id, str) if isinstance(id, Raw) else str(id)
    except (InvalidParams, KeyError):
        raise InvalidReplyError(server, said("its task has no id", "a tarefa dele não tem id")) from None


def _members(state: Any) -> dict[str, Any]:
    """Returns the members of a task's state: JSON, decoded or not, or a struct of an in-process server."""
    if isinstance(state, Struct):
        state = Raw(encode(state))
    return decode_params(state, dict[str, Raw]) if isinstance(state, Raw) else dict(state)


RETRY_SECONDS = 5.0


def why_unavailable(catalogue: VisibleCatalogue, name: str) -> UpstreamError | None:
    """Returns the error for an unknown name whose server is down or starting; None otherwise."""
    for server in catalogue.servers.values():
        if server.was_read or server.state == "ready" or not name.startswith(prefix_of(server.name)):
            continue
        shown = name[:80]
        if server.state == "down":
            reason = said(
                f"it is down, so {shown!r} is not known: {server.fault}; the gateway keeps trying",
                f"está fora do ar, por isso {shown!r} não é conhecido: {server.fault}; "
                "o gateway continua tentando",
            )
            return UpstreamDownError(server.name, reason)
        how = server.reason_unavailable.partition(": ")[2]
        reason = said(
            f"it is still starting ({how}), so {shown!r} is not known yet; try again in a while",
            f"ainda está iniciando ({how}), por isso {shown!r} ainda não é conhecido; "
            "tente de novo daqui a pouco",
        )
        return UpstreamStartingError(server.name, reason, RETRY_SECONDS)
    return None


def servers_for(catalogue: VisibleCatalogue, uri: str) -> tuple[list[str], str]:
    """Returns the upstreams to ask, likeliest first, and the URI to ask them for."""
    servers, own = _owners(catalogue, uri)
    return [server for server in servers if catalogue.servers[server].may_read(own)], own


def _offering(catalogue: VisibleCatalogue, uri: str) -> list[str]:
    """Returns the upstreams that an address names, that list it, or that have a template for it."""
    named = own_address(uri)
    if named is not None and named[0] in catalogue.servers:
        return [named[0]]
    entry = catalogue.find(RESOURCES, uri) or catalogue.find(TEMPLATES, uri)
    if entry is not None:
        return [entry.server]
    return [server.name for server in catalogue.servers.values() if server.templates.match(uri) is not None]


def _owners(catalogue: VisibleCatalogue, uri: str) -> tuple[list[str], str]:
    if offering := _offering(catalogue, uri):
        named = own_address(uri)
        return offering, uri if named is None or named[0] not in catalogue.servers else named[1]
    servers = list(catalogue.servers.values())
    # A tool's result may mention an unlisted URI. Only upstreams that use its scheme are asked, because a URI
    # may be private.
    near = [server_catalogue.name for server_catalogue in servers if server_catalogue.has_scheme(uri)]
    able = [
        server_catalogue.name
        for server_catalogue in servers
        if "resources" in server_catalogue.identity.capabilities
    ]
    return near or (able if len(able) == 1 else []), uri


def is_offered(server: VisibleServer, uri: str) -> bool:
    """Returns whether an upstream lists a URI, or has a template that matches it."""
    if server.find(RESOURCES, uri) is not None:
        return True
    return server.templates.match(uri) is not None and server.may_read(uri)
