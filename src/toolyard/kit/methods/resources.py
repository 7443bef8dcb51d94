"""Listing, reading and (in the legacy era) subscribing to resources."""

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from ...wire.call import Call
from ...wire.errors import INVALID_PARAMS, InvalidParams, McpError
from ...wire.messages import decode_params
from ...wire.types import (
    ListResourcesResult,
    ListTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    Result,
    UriParams,
)
from ..resource import Resource
from ..rounds import InputRequired
from .base import Methods, check_own, guarded

if TYPE_CHECKING:
    from ..server import Server

RESOURCE_NOT_FOUND = -32002  # legacy; the modern era uses invalid params


class ResourceMethods(Methods):
    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self.shared = {
            "resources/list": self._list,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
        }
        self.legacy = {
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    async def _list(self, call: Call) -> ListResourcesResult:
        await self._server.renew_resources()
        infos, cursor = self._infos(call, templates=False)
        return self._cached(call, ListResourcesResult(resources=infos, next_cursor=cursor))

    async def _list_templates(self, call: Call) -> ListTemplatesResult:
        infos, cursor = self._infos(call, templates=True)
        return self._cached(call, ListTemplatesResult(resource_templates=infos, next_cursor=cursor))

    def _infos(self, call: Call, templates: bool) -> tuple[list[Any], str | None]:
        self._need(call, "resources")
        items = [item for item in self._server.resources.values() if item.is_template == templates]
        found, cursor = self._page(call, items)
        return [item.info for item in found], cursor

    def _find(self, call: Call, uri: str) -> tuple[Resource, dict[str, str]]:
        exact = self._server.resources.get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        for resource in self._server.resources.values():
            values = resource.match(uri) if resource.is_template else None
            if values is not None:
                return resource, values
        code = INVALID_PARAMS if call.caller.era == "modern" else RESOURCE_NOT_FOUND
        raise McpError(code, f"Resource not found: {uri[:200]!r}", {"uri": uri})

    async def _read(self, call: Call) -> Result:
        self._need(call, "resources")
        params = decode_params(call.params, ReadResourceParams)
        resource, values = self._find(call, params.uri)
        context = self._context(call, params, params.uri, Raw(b"{}")) if resource.wants_context else None
        try:
            contents = await guarded(resource.read(params.uri, values, context), f"resource {params.uri!r}")
        except InputRequired as pending:
            check_own(pending, context)
            return pending.result
        finally:
            if context is not None:
                context.close()
        return self._cached(call, ReadResourceResult(contents=contents))

    async def _subscribe(self, call: Call) -> Result:
        self._need(call, "resources")
        uri = decode_params(call.params, UriParams).uri
        self._find(call, uri)
        if call.session is not None:
            wanted = call.session.subscriptions | {uri}
            if len(wanted) > self._server.max_subscriptions:
                raise InvalidParams(f"A session may subscribe to {self._server.max_subscriptions} resources")
            call.session.subscriptions.add(uri)
        return Result()

    async def _unsubscribe(self, call: Call) -> Result:
        self._need(call, "resources")
        uri = decode_params(call.params, UriParams).uri
        if call.session is not None:
            call.session.subscriptions.discard(uri)
        return Result()
