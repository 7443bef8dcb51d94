"""Forwards a request to the upstream that a name, address or task id belongs to.

Addresses stay as their upstreams gave them, since results mention them. If two upstreams have the same
address the one mounted first keeps it; the other's is shown as an alias. Task ids are sealed: they name the
upstream and are valid for their owner only.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any, Protocol, cast
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..catalogue.catalogue import Catalogue, CatalogueEntry, ServerCatalogue
from ..catalogue.items import ALIAS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, ItemKind, prefix_of
from ..dispatch import CallTarget, Mount
from ..pipeline import Handler
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


class NameResolver(Protocol):
    """A view, as far as it knows where names lead."""

    read_hint: str

    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget: ...

    def places_of(self, uri: str) -> tuple[list[Mount], str]: ...

    def knows(self, uri: str) -> bool: ...

    def servers(self) -> list[str]: ...


class _LegacyTask(Struct, rename="camel"):
    task_id: str


class _Begun(Struct):
    """A task of 2025-11-25, just begun."""

    task: _LegacyTask


class FitTask(Protocol):
    """Makes the result in a task's state fit. `id`: the server's own; `hint`: how to read a cut result."""

    async def __call__(
        self, state: Any, server: str, tool: str, id: str, caller: Caller, hint: str
    ) -> Any: ...


class ForwardingContext(Protocol):
    """What a forwarder needs of the gateway."""

    @property
    def catalogue(self) -> Catalogue: ...

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
    """Makes the `Forward` of a client's call and sends it through the pipeline."""

    def __init__(self, context: ForwardingContext, view: NameResolver) -> None:
        self._context = context
        self._view = view

    # Tools

    async def call_tool(self, call: Call) -> Any:
        params = call.members()
        target = await self._resolve(TOOLS, _string(params, "name"), call)
        return (await self.send_tool(call, target, params)).body

    async def send_tool(self, call: Call, target: CallTarget, params: Params) -> Outcome:
        """Calls a tool whose name is resolved. The task id in an outcome is sealed for its caller."""
        mount, entry = target.mount, target.entry
        name, safe, headers = None, False, None
        if entry is not None:
            item = entry.item
            name, safe = target.own, item.safe
            if item.headers:
                headers = _mirrored(call, entry, params)
            if item.task_only:
                params = {**params, "task": Raw(b"{}")}
        forward = Forward(
            call,
            "tools/call",
            {**params, "name": Raw(encode(target.own))},
            name,
            safe,
            self._view.read_hint,
            headers,
        )
        outcome = await self._context.forward(target, forward)
        if entry is not None and entry.item.task_only:
            return await self._task_result(target, forward, outcome)
        if outcome.kind != "task":
            return outcome
        if isinstance(outcome.body, StreamedResult):
            outcome.body.close()
            raise InvalidReplyError(mount.server, "what it calls a task is too large")
        return outcome.with_body(
            self._context.task_ids.seal_in(outcome.body, mount.server, name or "", call.caller)
        )

    async def _task_result(self, target: CallTarget, forward: Forward, begun: Outcome) -> Outcome:
        """A tool of 2025-11-25 that answers only as a task: we wait for the task and give a plain answer."""
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
        return await self._send(call, target.mount, "name", target.own, known, safe=True)

    async def read_resource(self, call: Call) -> Any:
        uri = _string(call.members(), "uri")
        mounts, own = await self._places_of(uri)
        refused: McpError | None = None
        for mount in mounts:
            try:
                return await self._send(call, mount, "uri", own, own, safe=True)
            except McpError as error:
                if len(mounts) == 1:
                    raise
                refused = refused or error
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
            mounts, own = await self._places_of(uri)
            if not mounts:
                raise InvalidParams(f"Unknown resource: {uri[:80]!r}")
            mount, ref["uri"] = mounts[0], Raw(encode(own))
        else:
            raise InvalidParams(f"params.ref.type is 'ref/prompt' or 'ref/resource', not {kind[:40]!r}")
        forward = Forward(call, call.method, {**params, "ref": Raw(encode(ref))}, safe=True)
        return (await self._context.forward(CallTarget(mount), forward)).body

    async def task(self, call: Call) -> Any:
        """tasks/get, tasks/update and tasks/cancel."""
        sealed = _string(call.members(), "taskId")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        ids = self._context.task_ids
        server, tool, id = ids.open(sealed, call.caller)
        mount = self._context.mounts.get(server) if server in self._view.servers() else None
        if mount is None:
            raise InvalidParams(f"Task not found: {sealed[:80]!r}; its server is not mounted any more")
        is_get = call.method == "tasks/get"
        body = await self._send(call, mount, "taskId", id, None, safe=is_get)
        if not is_get:
            return body
        if self._context.fit_task is not None:
            hint = self._view.read_hint
            body = await self._context.fit_task(body, server, tool, id, call.caller, hint)
        return ids.seal_in(body, server, tool, call.caller)

    async def _send(
        self, call: Call, mount: Mount, key: str, own: str, name: str | None, *, safe: bool
    ) -> Raw | StreamedResult:
        """The same request, with the name that the upstream knows under `key`."""
        params = {**call.members(), key: Raw(encode(own))}
        forward = Forward(call, call.method, params, name, safe, self._view.read_hint)
        return (await self._context.forward(CallTarget(mount), forward)).body

    # Where names lead

    async def _resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        """A client may remember a name from before we started; then its server's list is waited for."""
        catalogue = self._context.catalogue
        if not catalogue.is_settled:
            with suppress(InvalidParams, UpstreamStartingError, UpstreamDownError):
                found = self._view.resolve(kind, name, call)
                if found.entry is not None:
                    return found
            await catalogue.wait_settled(self._context.list_wait)
        return self._view.resolve(kind, name, call)

    async def _places_of(self, uri: str) -> tuple[list[Mount], str]:
        if not self._context.catalogue.is_settled and not self._view.knows(uri):
            await self._context.catalogue.wait_settled(self._context.list_wait)
        return self._view.places_of(uri)


_background: set["asyncio.Task[None]"] = set()


def run_in_background(work: Awaitable[Any]) -> None:
    """Runs work that nobody waits for, and ignores its failure."""
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
        raise InvalidParams(f"params.{key} is missing")
    return decode_params(raw, str)


def _mirrored(call: Call, entry: CatalogueEntry, members: Params) -> dict[str, str]:
    """The arguments that a tool wants to see in headers; those that a client sent must agree."""
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
    message = f"Resource not found: {uri[:200]!r}"
    if call.caller.era == "modern":
        return InvalidParams(message, {"uri": uri})
    return McpError(RESOURCE_NOT_FOUND, message, {"uri": uri})


_PURPOSE = "task"


class SealedTaskIds:
    """Task ids for clients. Nothing is stored: an id is signed, names its server and is its owner's only."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def seal(self, server: str, tool: str, id: str, caller: Caller) -> str:
        payload = msgspec.json.encode([server, tool, id, caller.identity.principal])
        return self._sealer.seal(payload, _PURPOSE)

    def open(self, sealed: str, caller: Caller) -> tuple[str, str, str]:
        """The server, the tool and the server's own id; an id of another caller is an unknown task."""
        try:
            opened = self._sealer.open(sealed, _PURPOSE)
            server, tool, id, principal = msgspec.json.decode(opened, type=tuple[str, str, str, str])
            if principal == caller.identity.principal:
                return server, tool, id
        except (BrokenSeal, msgspec.DecodeError):
            pass
        raise InvalidParams(f"Task not found: {sealed[:80]!r}; it may have expired")

    def seal_in(self, body: Any, server: str, tool: str, caller: Caller) -> Raw:
        """A result or notification with its task id replaced by a sealed one."""
        sealed = self.seal(server, tool, upstream_task_id(server, body), caller)
        return Raw(encode({**_members(body), "taskId": sealed}))


def upstream_task_id(server: str, state: Any) -> str:
    """What a server itself calls a task; InvalidReplyError if it does not say."""
    try:
        id = _members(state)["taskId"]
        return decode_params(id, str) if isinstance(id, Raw) else str(id)
    except (InvalidParams, KeyError):
        raise InvalidReplyError(server, "what it calls a task has no id") from None


def _members(state: Any) -> dict[str, Any]:
    """Of a task's state: JSON, decoded or not, or a struct of a server in this process."""
    if isinstance(state, Struct):
        state = Raw(encode(state))
    return decode_params(state, dict[str, Raw]) if isinstance(state, Raw) else dict(state)


RETRY_SECONDS = 5.0


def why_unavailable(catalogue: Catalogue, name: str) -> UpstreamError | None:
    """Of a tool or prompt that is not known: that its server is not there, and why, if that is so."""
    for server in catalogue.servers.values():
        if server.was_read or server.state == "ready" or not name.startswith(prefix_of(server.name)):
            continue
        lacking = f"so {name[:80]!r} is not known"
        if server.state == "down":
            reason = f"it is down, {lacking}: {server.fault}; the gateway keeps trying"
            return UpstreamDownError(server.name, reason)
        how = server.reason_unavailable.partition(": ")[2]
        reason = f"it is still starting ({how}), {lacking} yet; try again in a while"
        return UpstreamStartingError(server.name, reason, RETRY_SECONDS)
    return None


def servers_for(catalogue: Catalogue, uri: str) -> tuple[list[str], str]:
    """The upstreams to ask, likeliest first, and what to ask them for."""
    if uri.startswith(ALIAS):
        server, _, rest = uri.removeprefix(ALIAS).partition("/")
        if unquote(server) in catalogue.servers:
            return [unquote(server)], unquote(rest)
    entry = catalogue.find(RESOURCES, uri) or catalogue.find(TEMPLATES, uri)
    if entry is not None:
        return [entry.server], uri
    servers = catalogue.servers.values()
    matching = [
        server_catalogue.name
        for server_catalogue in servers
        if server_catalogue.templates.match(uri) is not None
    ]
    if matching:
        return matching, uri
    # A tool's result may mention what no list does. Only those who have such addresses are asked: an address
    # may say more than a stranger should read.
    near = [server_catalogue.name for server_catalogue in servers if server_catalogue.has_scheme(uri)]
    able = [
        server_catalogue.name
        for server_catalogue in servers
        if "resources" in server_catalogue.identity.capabilities
    ]
    return near or (able if len(able) == 1 else []), uri


def is_offered(server: ServerCatalogue, uri: str) -> bool:
    """Whether an upstream lists an address, or has a template that it may be of."""
    return server.find(RESOURCES, uri) is not None or server.templates.match(uri) is not None
