"""The view of one server, as if its client spoke to it directly.

What the client says goes to the server, and what the server says comes back as it is: lists, capabilities,
methods of extensions, subscriptions. The catalogue stands in where the server cannot be asked, and for one
that does not list all it has. Names and tools that the configuration changes, and rules about who sees what,
hold here as everywhere.
"""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from ..catalogue.catalogue import CatalogueEntry, ServerIdentity, conversation_of
from ..catalogue.items import (
    PROMPTS,
    TOOLS,
    ItemKind,
    UnusableItemError,
    prefix_of,
    read_item,
    shown_name,
)
from ..catalogue.scope import VisibleServer
from ..dispatch import CallTarget, Mount
from ..kit.features.base import unknown
from ..languages import said
from ..telemetry.requests import new_request_id
from ..upstream.base import Forward
from ..upstream.connection import UpstreamInfo
from ..upstream.errors import ConnectionLostError, InvalidReplyError, UpstreamError, UpstreamRefusedError
from ..wire.call import SUBSCRIPTION_KEY, TASKS_EXTENSION, Call, Channel, StreamedResult
from ..wire.errors import METHOD_NOT_FOUND, InvalidParams, McpError, MethodNotFound, Unavailable
from ..wire.messages import decode_params, encode
from ..wire.types import Result, SetLevelParams, UriParams
from ..wire.versions import MODERN_VERSIONS, Era
from .context import ViewContext
from .forwarding import is_offered
from .instructions import brief
from .subscriptions import ACKNOWLEDGED, MAX_SUBSCRIPTIONS, cancel_all
from .view import MethodHandler, View

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member by which we find out where a request goes; without it the server says what is wrong."""
OURS = ("notifications/initialized", "notifications/cancelled")
"""Said to the gateway: it has opened the server's session itself, and ends calls itself."""
ANYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
"""The capabilities of a server that has not said what it can: what it may turn out to have."""


class BareView(View):
    def __init__(self, context: ViewContext, server: str) -> None:
        super().__init__(context)
        self._server = server
        self._modern["subscriptions/listen"] = self._follow
        self._closing = asyncio.Event()
        self._native: set[Era] = set()
        """The eras of callers in which the server was last spoken to: nothing is translated for them."""
        self._was_refused = False
        """The server is there, and did not want the client that was last told of it."""

    def _gone(self) -> Unavailable:
        return Unavailable(
            said(
                f"server {self._server!r} is not mounted any more",
                f"o servidor {self._server!r} não está mais montado",
            )
        )

    def _listing(self, call: Call) -> VisibleServer:
        listing = self.context.visible(call).servers.get(self._server)
        if listing is None:
            raise self._gone()
        return listing

    @property
    def _mount(self) -> Mount:
        mount = self.context.mounts.get(self._server)
        if mount is None:
            raise self._gone()
        return mount

    @property
    def marks(self) -> bool:
        """Only where the gateway itself may ask, or refuse: else nobody speaks but the server."""
        mount = self.context.mounts.get(self._server)
        return self.context.is_guarded or (mount is not None and mount.config.auth is not None)

    def seals_tasks(self, call: Call) -> bool:
        """Not where nobody else could know an id, and no result of a task is kept."""
        others = call.caller.principal.kind != "local"
        return self.marks or others or self.context.fit_task is not None or self._is_apart(call)

    def _is_apart(self, call: Call) -> bool:
        """Whether the catalogue tells of changes: what the client sees is not just what the server says."""
        return self._mount.transport == "inprocess" or not self._listing(call).is_whole

    # Names

    def entries(self, kind: ItemKind, call: Call) -> list[CatalogueEntry]:
        found = [entry for entry in self._discovered(kind, call) if entry.server == self._server]
        return [*self._listing(call).entries[kind.name], *found]

    def name_of(self, entry: CatalogueEntry) -> str:
        return entry.bare

    def server_info(self) -> Raw:
        server = self.context.catalogue.servers.get(self._server)
        return ServerIdentity().info if server is None else server.identity.info

    def servers(self, call: Call) -> list[str]:
        return [self._server] if self._server in self.context.visible(call).servers else []

    def resolve(self, kind: ItemKind, name: str, call: Call) -> CallTarget:
        """Passes unknown names on: they may be new, and the upstream decides.

        A tool that its server does not list may also be called by its full name.
        """
        listing = self._listing(call)
        entry = listing.find(kind, name)
        if entry is None and kind is TOOLS and not self._lists_all:
            full, name = name, name.removeprefix(prefix_of(self._server))
            entry = listing.find(kind, name) or self._find_discovered(call, full, name)
        if entry is None and not listing.may_call(name):
            raise unknown("tool" if kind is TOOLS else "prompt" if kind is PROMPTS else "resource", name)
        own = listing.own_name(name) if entry is None else entry.item.own
        return CallTarget(self._mount, own, entry)

    def _find_discovered(self, call: Call, full: str, bare: str) -> CatalogueEntry | None:
        visible, whose = self.context.visible(call), conversation_of(call)
        for name in (full, shown_name(self._server, bare)):
            entry = visible.find_discovered(name, whose)
            if entry is not None and entry.server == self._server:
                return entry
        return None

    def places_of(self, uri: str, call: Call) -> tuple[list[Mount], str]:
        return ([self._mount] if self._listing(call).may_read(uri) else []), uri

    def knows(self, uri: str, call: Call) -> bool:
        listing = self._listing(call)
        return is_offered(listing, uri) or not listing.was_read

    @property
    def _lists_all(self) -> bool:
        server = self.context.catalogue.servers.get(self._server)
        return self.context.asks_servers and (server is None or server.lists_all)

    # What the server says of itself

    async def _told(self, call: Call) -> UpstreamInfo | None:
        """What the server says to this client; None if it cannot be asked as long as a list may take."""
        mount = self._mount
        if not self._lists_all or (mount.breaker.is_open and not self._was_refused):
            return None
        keyed = mount.keyed(Forward.of(call)).call if call.secrets is not None else call
        asking = asyncio.ensure_future(mount.upstream.info(keyed))
        try:
            await asyncio.wait({asking}, timeout=self.context.list_wait)
            told = asking.result() if asking.done() else None
        except UpstreamError as error:
            refused = _refused_by_server(error)
            self._was_refused = refused is not None
            if refused is not None:
                raise refused from None
            return None
        finally:
            asking.cancel()
        self._was_refused = False
        return told

    async def about(self, call: Call) -> dict[str, Any]:
        self._native.clear()
        told = await self._told(call)
        listing = self._listing(call)
        identity = listing.identity if told is None else told
        known = bool(identity.version)
        capabilities = dict(identity.capabilities if known else ANYTHING)
        if call.caller.era == "legacy" and not self._mount.upstream.is_own(call):
            capabilities.pop("tasks", None)
        if self.context.stored is not None:
            capabilities.setdefault("resources", {})
        for name in ("tools", "prompts", "resources"):
            if name in capabilities and not listing.is_whole:  # another configuration may change them
                capabilities[name] = {**(capabilities[name] or {}), "listChanged": True}
        extensions = dict(capabilities.pop("extensions", None) or {})
        if call.caller.era != "modern":
            extensions.pop(TASKS_EXTENSION, None)
        if extensions:
            capabilities["extensions"] = extensions
        text = identity.instructions
        meta = told is not None and call.caller.era == "legacy" and bytes(told.meta) != b"{}"
        if told is None and listing.fault is not None:
            fault = brief(listing.fault)
            missing = said(
                f"This server is not available now: {fault}",
                f"Este servidor está indisponível agora: {fault}",
            )
            text = f"{text or ''}\n\n{missing}".strip()
        return {
            "capabilities": capabilities,
            "serverInfo": identity.info if known else {"name": self._server, "version": "0"},
            **({"instructions": text} if text else {}),
            **({"_meta": told.meta} if told is not None and meta else {}),
        }

    async def _discover(self, call: Call) -> Any:
        told = await self._told(call)
        if told is None or told.era != "modern":
            # Its server may say something else as soon as it is there, so nobody keeps this.
            return {**await super()._discover(call), "ttlMs": 0}
        self.context.host.client_seen(call)
        found = decode_params(_json(await self._ask(call)), dict[str, Raw])
        if "supportedVersions" in found:  # an extension may answer something else
            found["supportedVersions"] = Raw(encode(MODERN_VERSIONS))
        if self.context.stored is not None:
            capabilities = decode_params(found.get("capabilities", Raw(b"{}")), dict[str, Raw])
            found["capabilities"] = Raw(encode({"resources": {}, **capabilities}))
        return Raw(encode(found))

    async def _speaks(self, call: Call) -> bool:
        """Whether the client has a legacy session of its own with the server, which then answers itself."""
        if not self._mount.upstream.is_own(call):
            return False
        told = await self._told(call)
        return told is not None and told.era == "legacy"

    async def _ask(self, call: Call) -> Raw | StreamedResult:
        """The server's answer to what concerns no item."""
        forward = Forward(call, call.method, call.members(), safe=True, marks=self.marks)
        return (await self._mount.send(forward)).body

    # Lists

    def _list(self, kind: ItemKind) -> MethodHandler:
        by_catalogue = super()._list(kind)

        async def answer(call: Call) -> Any:
            listing = self._listing(call)
            if not self._lists_all:
                return await by_catalogue(call)
            ours = [] if "cursor" in call.members() else self._ours(kind)
            try:
                page = await self._ask(call)
            except (UpstreamRefusedError, InvalidReplyError):
                raise
            except UpstreamError as error:
                if (refused := _refused_by_server(error)) is not None:
                    raise refused from None
                if not listing.was_read:
                    raise
                return await by_catalogue(call)
            except McpError as error:
                if not ours or error.code != METHOD_NOT_FOUND:
                    raise
                return await by_catalogue(call)
            is_valid = call.caller.era == "legacy" or not isinstance(page, Raw) or b'"ttlMs"' in bytes(page)
            if listing.is_whole and not ours and is_valid:
                return page
            return await self._shown(call, kind, ours, page)

        return answer

    async def _shown(self, call: Call, kind: ItemKind, ours: list[bytes], page: Raw | StreamedResult) -> Raw:
        """A page of the server with our names, and without what the caller does not see."""
        body = page if isinstance(page, Raw) else await _whole(page)
        try:
            members = msgspec.json.decode(body, type=dict[str, Raw])
            items = msgspec.json.decode(members.get(kind.name, Raw(b"[]")), type=list[Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidReplyError(self._server, f"its {kind.method} is not valid: {error}") from None
        listing, shown = self._listing(call), list(ours)
        for raw in items:
            try:
                item = listing.shown(kind, read_item(kind, raw))
            except UnusableItemError:
                continue
            if item is not None:
                shown.append(item)
        members[kind.name] = Raw(b"[%s]" % b",".join(shown))
        if call.caller.era == "modern":
            members = {"ttlMs": Raw(b"0"), "cacheScope": Raw(b'"private"'), **members}
        return Raw(encode(members))

    # What else the client says

    def _handler(self, call: Call) -> MethodHandler | None:
        """What no other view knows goes to the server, and so does what names nothing."""
        known = super()._handler(call)
        if call.id is None:
            return known or self._notify
        if known is None or not _names(call):
            return self._pass
        return known

    async def _call_tool(self, call: Call) -> Any:
        if not self._listing(call).was_read and not await self._is_native(call):
            await self.context.host.read_lists([self._server])
        try:
            return await super()._call_tool(call)
        except ConnectionLostError:
            if self._listing(call).was_read or not await self._may_run_twice(call):
                raise
        return await super()._call_tool(call)

    async def _may_run_twice(self, call: Call) -> bool:
        """Whether a tool whose definition nobody had asked for says that it may be called again."""
        await self.context.host.read_lists([self._server])
        entry = self._listing(call).find(TOOLS, decode_params(call.members()["name"], str))
        return entry is not None and entry.item.safe

    async def _is_native(self, call: Call) -> bool:
        """Whether a call passes as it is, so that nobody has to know the tool's definition for it."""
        era = call.caller.era
        if era == "modern" and call.param_headers is None:  # from a pipe: headers are made of its arguments
            return False
        if era not in self._native:
            told = await self._told(call)
            if told is None or told.era != era or "tasks" in told.capabilities:  # some tools give tasks alone
                return False
            self._native.add(era)
        return True

    async def _pass(self, call: Call) -> Any:
        self._listing(call)
        mount = self._mount
        is_task = call.method.startswith("tasks/")  # of the legacy era: its ids are for its session alone
        other = call.method in (self._legacy if call.caller.era == "modern" else self._modern)
        own = mount.upstream.is_own(call) if is_task else call.method in NAMED or not other
        if not self._lists_all or not own:
            raise MethodNotFound(call.method[:80])
        forward = Forward(call, call.method, call.members(), request_id=new_request_id(), marks=self.marks)
        return (await self.context.forward(CallTarget(mount, call.method), forward)).body

    async def _notify(self, call: Call) -> None:
        if call.method not in OURS and self.servers(call):
            await self._mount.upstream.notified(call)

    async def _ping(self, call: Call) -> Any:
        return await self._ask(call) if await self._speaks(call) else Result()

    async def _set_level(self, call: Call) -> Any:
        if not await self._speaks(call):
            self._check_capable("logging" in self._listing(call).identity.capabilities, call)
            return await super()._set_level(call)
        answer = await self._ask(call)
        if call.session is not None:
            with suppress(InvalidParams):  # the server has taken one that we do not know
                call.session.log_level = decode_params(call.params, SetLevelParams).level
        return answer

    async def _subscribe(self, call: Call) -> Any:
        if not await self._speaks(call):
            identity = self._listing(call).identity
            offered: dict[str, Any] = identity.capabilities.get("resources") or {}
            if identity.version and not offered.get("subscribe") and self._may_read(call):
                await self._ask(call)  # the SDK's 1.x servers never announce it, and some of them do it
            return await super()._subscribe(call)
        if not self._may_read(call):
            return await super()._subscribe(call)
        answer = await self._ask(call)
        if call.session is not None and len(call.session.subscriptions) < MAX_SUBSCRIPTIONS:
            call.session.subscriptions.add(decode_params(call.params, UriParams).uri)
        return answer

    async def _unsubscribe(self, call: Call) -> Any:
        if not await self._speaks(call):
            return await super()._unsubscribe(call)
        answer = await self._ask(call)
        if call.session is not None:
            call.session.subscriptions.discard(decode_params(call.params, UriParams).uri)
        return answer

    def _may_read(self, call: Call) -> bool:
        return self._listing(call).may_read(decode_params(call.params, UriParams).uri)

    def _check_capable(self, is_capable: bool, call: Call) -> None:
        if not is_capable and self._listing(call).identity.version:
            raise MethodNotFound(call.method)

    # What the server says of its own accord

    async def listen(self, call: Call) -> None:
        if await self._speaks(call):
            await self._mount.upstream.listen(call)
            return
        await self.context.host.read_lists([self._server])
        await super().listen(call)

    async def _follow(self, call: Call) -> Any:
        """A subscription at the server itself; the catalogue goes on with it if the server goes away."""
        told = await self._told(call)
        sealed = self.seals_tasks(call) and b"taskIds" in bytes(call.params)
        if told is None or told.era != "modern" or sealed or self._is_apart(call):
            await self.context.host.read_lists([self._server])
            return await self._subscriptions.modern(call)
        following = asyncio.ensure_future(self._mount.upstream.send(Forward.of(call)))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({following, closing}, return_when=asyncio.FIRST_COMPLETED)
            if closing.done():
                return Result(result_type="complete", meta={SUBSCRIPTION_KEY: call.id})
            return following.result().body
        except UpstreamError as error:
            if (refused := _refused_by_server(error)) is not None:
                raise refused from None
            call.channel = _Acknowledged(call.channel)
            return await self._subscriptions.modern(call)
        finally:
            await cancel_all([following, closing])

    async def close(self) -> None:
        self._closing.set()
        await super().close()


def _names(call: Call) -> bool:
    """Whether a request says whom it is for, as far as its method has to."""
    member = NAMED.get(call.method)
    return member is None or bytes(call.members().get(member, Raw(b""))).startswith(b'"')


class _Acknowledged:
    """The channel of a subscription that its client knows to stand."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def notify(self, method: str, params: Any) -> None:
        if method != ACKNOWLEDGED:
            await self._channel.notify(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._channel.ask(method, params)

    async def release(self, retry_ms: int | None) -> None:
        await self._channel.release(retry_ms)


def _refused_by_server(error: BaseException) -> McpError | None:
    """The server's own refusal of the handshake, if that is why it cannot be reached."""
    cause: BaseException | None = error.__cause__
    while cause is not None:
        if isinstance(cause, McpError) and not isinstance(cause, UpstreamError):
            return cause
        cause = cause.__cause__
    return None


async def _whole(page: StreamedResult) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in page.chunks()]))
    finally:
        page.close()


def _json(body: Raw | StreamedResult) -> Raw:
    if isinstance(body, Raw):
        return body
    body.close()
    raise InvalidParams("its answer is too large")
