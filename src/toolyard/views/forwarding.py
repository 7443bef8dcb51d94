"""Forwards a request to the upstream that a name, address or task id belongs to.

Addresses stay as their upstreams gave them, since results mention them. If two upstreams have the same
address the one mounted first keeps it; the other's is shown as an alias. Task ids are sealed: they name the
upstream and are valid for their owner only.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..bridge.translation import kind_of
from ..catalogue.catalogue import Catalogue, CatalogueEntry, ServerCatalogue
from ..catalogue.items import ALIAS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, ItemKind, prefix_of
from ..dispatch import Forward, Mount
from ..upstream.errors import (
    InvalidReplyError,
    UpstreamDownError,
    UpstreamError,
    UpstreamStartingError,
    UpstreamTimeoutError,
)
from ..wire.call import NO_CHANNEL, TASKS_EXTENSION, Call, Caller
from ..wire.errors import RESOURCE_NOT_FOUND, InvalidParams, McpError, MissingCapability
from ..wire.headers import check_params, encode_value
from ..wire.messages import decode_params, encode
from ..wire.seal import BrokenSeal, Sealer
from ..wire.types import TaskState

if TYPE_CHECKING:
    from .context import ViewContext


Members = dict[str, Raw]

BACKGROUND_SECONDS = 10.0


class NameResolver(Protocol):
    """A view, as far as it knows where names lead."""

    more: str

    def resolve(self, kind: ItemKind, name: str, call: Call) -> tuple[Mount, str, CatalogueEntry | None]: ...

    def places_of(self, uri: str) -> tuple[list[Mount], str]: ...

    def knows(self, uri: str) -> bool: ...

    def servers(self) -> list[str]: ...


class _LegacyTask(Struct, rename="camel"):
    task_id: str


class _Begun(Struct):
    """A task of 2025-11-25, just begun."""

    task: _LegacyTask


class RequestForwarder:
    def __init__(self, yard: "ViewContext", view: NameResolver) -> None:
        self._yard = yard
        self._view = view

    async def call_tool(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        name = _string(members, "name")
        mount, own, entry = await self._resolve(TOOLS, name, call)
        headers = None
        if entry is not None and entry.item.headers:
            headers = _mirrored(call, entry, members)
        forward = self._forward(call, mount, members, "name", name, own, headers)
        if entry is not None:
            forward.name = own
            forward.safe = entry.item.safe
            if entry.item.task_only:
                return await self._as_task(call, forward)
        result = await self._yard.forward(forward)
        return self._with_ticket(call, forward, result)

    async def _resolve(
        self, kind: ItemKind, name: str, call: Call
    ) -> tuple[Mount, str, CatalogueEntry | None]:
        """A client may remember a name from before we started; then its server's list is waited for."""
        if not self._yard.catalogue.is_settled:
            with suppress(InvalidParams, UpstreamStartingError, UpstreamDownError):
                found = self._view.resolve(kind, name, call)
                if found[2] is not None:
                    return found
            await self._yard.catalogue.wait_settled(self._yard.list_wait)
        return self._view.resolve(kind, name, call)

    async def _places_of(self, uri: str) -> tuple[list[Mount], str]:
        if not self._yard.catalogue.is_settled and not self._view.knows(uri):
            await self._yard.catalogue.wait_settled(self._yard.list_wait)
        return self._view.places_of(uri)

    def _with_ticket(self, call: Call, forward: Forward, result: Any) -> Any:
        if call.caller.era == "legacy":  # it was given a plain answer; the word means nothing there
            return result
        server = forward.mount.server
        is_raw = isinstance(result, Raw)
        if is_raw and b'"task"' not in bytes(result):  # nearly none have the word in them at all
            return result
        kind = kind_of(server, result) if is_raw else getattr(result, "result_type", UNSET)
        if kind != "task":
            return result
        return self._yard.tickets.relabel(result, server, forward.name or "", call.caller)

    async def _as_task(self, call: Call, forward: Forward) -> Any:
        """A tool of 2025-11-25 that answers only as a task: we wait for the task and give a plain answer."""
        begin = forward.call
        begin.params = Raw(encode({**decode_params(begin.params, dict[str, Raw]), "task": {}}))
        begun = await self._yard.forward(forward)
        if not isinstance(begun, Raw) or b'"task"' not in bytes(begun):
            return begun
        id = decode_params(begun, _Begun).task.task_id
        params = Raw(encode({"taskId": id}))
        try:
            waiting = _with_params(call, "tasks/result", params)
            return await self._yard.forward(replace(forward, call=waiting))
        except (asyncio.CancelledError, UpstreamTimeoutError):
            ending = Call("tasks/cancel", params, call.caller, NO_CHANNEL, call.id, None, call.session)
            ending.secrets = call.secrets
            run_in_background(forward.mount.service.handle(forward.mount.keyed(ending)))
            raise

    async def get_prompt(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        name = _string(members, "name")
        mount, own, entry = await self._resolve(PROMPTS, name, call)
        forward = self._forward(call, mount, members, "name", name, own)
        forward.name = own if entry is not None else None
        forward.safe = True
        return await self._yard.forward(forward)

    async def read_resource(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        uri = _string(members, "uri")
        mounts, own = await self._places_of(uri)
        refused: McpError | None = None
        for mount in mounts:
            forward = self._forward(call, mount, members, "uri", uri, own)
            forward.name, forward.safe = own, True
            try:
                return await self._yard.forward(forward)
            except McpError as error:
                if len(mounts) == 1:
                    raise
                refused = refused or error
        raise refused or not_found(call, uri)

    async def complete(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        ref = decode_params(members.get("ref", Raw(b"{}")), dict[str, Raw])
        kind = _string(ref, "type")
        if kind == "ref/prompt":
            name = _string(ref, "name")
            mount, own, _ = await self._resolve(PROMPTS, name, call)
            ref["name"] = Raw(encode(own))
        elif kind == "ref/resource":
            name = _string(ref, "uri")
            mounts, own = await self._places_of(name)
            if not mounts:
                raise InvalidParams(f"Unknown resource: {name[:80]!r}")
            mount = mounts[0]
            ref["uri"] = Raw(encode(own))
        else:
            raise InvalidParams(f"params.ref.type is 'ref/prompt' or 'ref/resource', not {kind[:40]!r}")
        passed = _with_params(call, call.method, Raw(encode({**members, "ref": ref})))
        return await self._yard.forward(Forward(passed, mount, None, safe=True))

    async def task(self, call: Call) -> Any:
        members = decode_params(call.params, dict[str, Raw])
        ticket = _string(members, "taskId")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        server, tool, id = self._yard.tickets.read(ticket, call.caller)
        mount = self._yard.mounts.get(server) if server in self._view.servers() else None
        if mount is None:
            raise InvalidParams(f"Task not found: {ticket[:80]!r}; its server is not mounted any more")
        forward = self._forward(call, mount, members, "taskId", ticket, id)
        forward.safe = call.method == "tasks/get"
        result = await self._yard.forward(forward)
        if call.method != "tasks/get":
            return result
        result = await self._yard.fit_task(result, server, tool, id, call.caller, self._view.more)
        return self._yard.tickets.relabel(result, server, tool, call.caller)

    def _forward(
        self,
        call: Call,
        mount: Mount,
        members: Members,
        key: str,
        shown: str,
        own: str,
        headers: dict[str, str] | None = None,
    ) -> Forward:
        """The same call, under the name that the upstream knows."""
        params = call.params if shown == own else Raw(encode({**members, key: own}))
        passed = _with_params(call, call.method, params)
        passed.param_headers = None if headers is None else lambda: headers
        return Forward(passed, mount, more=self._view.more)


_background: set["asyncio.Task[None]"] = set()


def run_in_background(work: Awaitable[Any]) -> None:
    """Behind the caller's back, whatever comes of it."""
    task = asyncio.create_task(_quietly(work))
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _quietly(work: Awaitable[Any]) -> None:
    with suppress(McpError, TimeoutError):
        async with asyncio.timeout(BACKGROUND_SECONDS):
            await work


def _with_params(call: Call, method: str, params: Raw) -> Call:
    again = Call(method, params, call.caller, call.channel, call.id, call.progress_token, call.session)
    again.secrets = call.secrets
    return again


def _string(members: Members, key: str) -> str:
    raw = members.get(key)
    if raw is None:
        raise InvalidParams(f"params.{key} is missing")
    return decode_params(raw, str)


def _mirrored(call: Call, entry: CatalogueEntry, members: Members) -> dict[str, str]:
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
    """Nothing is kept: the id itself is signed, and good for its owner only."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def issue(self, server: str, tool: str, id: str, caller: Caller) -> str:
        payload = msgspec.json.encode([server, tool, id, caller.identity.principal])
        return self._sealer.seal(payload, _PURPOSE)

    def read(self, ticket: str, caller: Caller) -> tuple[str, str, str]:
        """The server, the tool and their id for the task; a stranger's or forged one is an unknown task."""
        try:
            opened = self._sealer.open(ticket, _PURPOSE)
            server, tool, id, principal = msgspec.json.decode(opened, type=tuple[str, str, str, str])
            if principal == caller.identity.principal:
                return server, tool, id
        except (BrokenSeal, msgspec.DecodeError):
            pass
        raise InvalidParams(f"Task not found: {ticket[:80]!r}; it may have expired")

    def relabel(self, result: Any, server: str, tool: str, caller: Caller) -> Any:
        """A result or notification with its task id replaced by a ticket."""
        ticket = self.issue(server, tool, upstream_task_id(server, result), caller)
        if isinstance(result, TaskState):
            return msgspec.structs.replace(result, task_id=ticket)
        return Raw(encode({**_members(result), "taskId": ticket}))


def upstream_task_id(server: str, state: Any) -> str:
    """What a server itself calls a task; Garbled when it does not say."""
    if isinstance(state, TaskState):
        return state.task_id
    try:
        id = _members(state)["taskId"]
        return decode_params(id, str) if isinstance(id, Raw) else str(id)
    except (InvalidParams, KeyError):
        raise InvalidReplyError(server, "what it calls a task has no id") from None


def _members(state: Any) -> dict[str, Any]:
    return decode_params(state, dict[str, Raw]) if isinstance(state, Raw) else dict(state)


RETRY_SECONDS = 5.0


def why_unavailable(catalogue: Catalogue, name: str) -> UpstreamError | None:
    """Of a tool or prompt that is not known: that its server is not there, and why, if that is so."""
    for server in catalogue.servers.values():
        if server.was_read or server.state == "ready" or not name.startswith(prefix_of(server.name)):
            continue
        lacking = f"so {name[:80]!r} is not known"
        if server.state == "down":
            reason = f"it is down, {lacking}: {server.fault}; it is tried again by itself"
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
