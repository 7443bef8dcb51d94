"""Resources and resource templates: declaration, URI matching, listing, reading, legacy subscriptions.

In a template `{name}` matches a segment or a part of one, `{+name}` the rest. Matching takes linear time.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol, Unpack, cast
from urllib.parse import unquote

from msgspec import Raw

from ...languages import said
from ...wire.call import Call
from ...wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, InvalidParams, McpError
from ...wire.messages import decode_params
from ...wire.text import clean
from ...wire.types import (
    BlobContents,
    ListResourcesResult,
    ListTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    ResourceInfo,
    ResourceTemplateInfo,
    Result,
    TextContents,
    UriParams,
)
from ..calls.context import Context
from ..calls.input_requests import InputRequired
from ..schema.annotations import describe, name_of
from ..schema.validation import Signature
from .base import (
    AuthorFunction,
    Feature,
    FeatureHost,
    ResourceOptions,
    check_options,
    require_own,
    run_author,
)

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class UriTemplate:
    def __init__(self, uri: str) -> None:
        self._uri = uri
        found = list(_VARIABLE.finditer(uri))
        self.variables = [match[2] for match in found]
        self._check(found)
        self._pattern = self._compile(found)

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the variables in a URI, percent-decoded; None if it does not match."""
        match = self._pattern.fullmatch(uri)
        return {key: unquote(value) for key, value in match.groupdict().items()} if match else None

    def _check(self, found: list[re.Match[str]]) -> None:
        rest = _VARIABLE.sub("", self._uri)
        if "{" in rest or "}" in rest:
            raise self._error("in a template, variables are {name} or {+name}")
        if len(set(self.variables)) < len(self.variables):
            raise self._error(f"a variable is named twice in {self.variables}")
        if sum(1 for match in found if match[1]) > 1:
            raise self._error("a template may have only one variable of the form {+name}")
        for match in found[:-1]:
            following = self._uri[match.end()]
            if following == "{":
                raise self._error("two variables need a separator between them")
            if match[1] and following not in "/?#":
                raise self._error(f"variables after {match[0]} need a '/' before them")

    def _error(self, why: str) -> ValueError:
        return ValueError(f"resource {self._uri!r}: {why}")

    def _compile(self, found: list[re.Match[str]]) -> re.Pattern[str]:
        parts: list[str] = []
        end = 0
        for match in found:
            parts.append(re.escape(self._uri[end : match.start()]))
            end = match.end()
            # Ambiguous only before another variable of the same segment.
            shares = "{" in re.split("[/?#]", self._uri[end:])[0]
            stops = re.escape("/?#" + (self._uri[end] if shares else ""))
            parts.append(f"(?P<{match[2]}>{'.+' if match[1] else f'[^{stops}]+'})")
        return re.compile("".join(parts) + re.escape(self._uri[end:]), re.DOTALL)


UI_MIME_TYPE = "text/html;profile=mcp-app"

Contents = TextContents | BlobContents


class Resource:
    """A URI with `{name}` in it is a template; see `UriTemplate`."""

    def __init__(
        self, function: Callable[..., Any], uri: str, *, serial: int = 0, **options: Unpack[ResourceOptions]
    ) -> None:
        check_options(options, ResourceOptions, "a resource")
        if ":" not in uri:
            raise ValueError(f"{uri!r} is not a URI; resources need a scheme, as in 'notes://today'")
        mime_type = options.get("mime_type")
        if mime_type is None and uri.startswith("ui://"):
            mime_type = UI_MIME_TYPE
        self.uri = uri
        self.serial = serial
        self._mime_type = mime_type
        self._signature = Signature(function, Context, strict=False)
        self._function = AuthorFunction(function, self._signature.context_name)
        self._template = UriTemplate(uri)
        self.variables = self._template.variables
        missing = set(self._signature.names) ^ set(self.variables)
        if missing:
            raise TypeError(
                f"resource {uri!r}: its variables {self.variables} and the parameters "
                f"{self._signature.names} of {name_of(function)} differ in {sorted(missing)}"
            )
        self.info = self._info(function, options)

    def _info(
        self, function: Callable[..., Any], options: ResourceOptions
    ) -> ResourceInfo | ResourceTemplateInfo:
        info: ResourceInfo | ResourceTemplateInfo
        name = options.get("name") or name_of(function)
        if self.variables:
            info = ResourceTemplateInfo(self.uri, name)
        else:
            info = ResourceInfo(self.uri, name, size=options.get("size"))
        info.title = options.get("title")
        info.description = describe(function, options.get("description"))
        info.mime_type = self._mime_type
        info.icons = options.get("icons")
        info.annotations = options.get("annotations")
        info.meta = options.get("meta")
        return info

    @property
    def is_template(self) -> bool:
        return bool(self.variables)

    @property
    def wants_context(self) -> bool:
        return self._function.wants_context

    def match(self, uri: str) -> dict[str, str] | None:
        return self._template.match(uri)

    async def read(self, uri: str, values: dict[str, str], context: Context | None) -> list[Contents]:
        """Raises MismatchError if a value in the URI does not fit the function's parameter."""
        bound = self._signature.bind(dict(values))
        value = await self._function(bound, context)
        items = cast(list[Any], value if isinstance(value, list) else [value])
        return [self._contents(uri, item) for item in items]

    def _contents(self, uri: str, value: Any) -> Contents:
        if isinstance(value, Contents):
            return value
        if isinstance(value, str):
            return TextContents(uri, clean(value), self._mime_type)
        if isinstance(value, bytes):
            return BlobContents(uri, value, self._mime_type)
        raise TypeError(
            f"resource {self.uri!r} returned {type(value).__name__}; return str, bytes or contents"
        )


class ResourceHost(FeatureHost, Protocol):
    resources: dict[str, Resource]

    async def renew_resources(self) -> None:
        """Add and remove resources before they are listed."""
        ...


class ResourceFeature(Feature[ResourceHost]):
    def __init__(self, host: ResourceHost) -> None:
        super().__init__(host)
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
        await self._host.renew_resources()
        infos, cursor = self._infos(call, templates=False)
        return self._cached(call, ListResourcesResult(resources=infos, next_cursor=cursor))

    async def _list_templates(self, call: Call) -> ListTemplatesResult:
        infos, cursor = self._infos(call, templates=True)
        return self._cached(call, ListTemplatesResult(resource_templates=infos, next_cursor=cursor))

    def _infos(self, call: Call, templates: bool) -> tuple[list[Any], str | None]:
        self._require(call, "resources")
        items = [item for item in self._host.resources.values() if item.is_template == templates]
        shown, cursor = self._page(call, items)
        return [item.info for item in shown], cursor

    def _find(self, call: Call, uri: str) -> tuple[Resource, dict[str, str]]:
        exact = self._host.resources.get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        for resource in self._host.resources.values():
            values = resource.match(uri) if resource.is_template else None
            if values is not None:
                return resource, values
        code = INVALID_PARAMS if call.caller.era == "modern" else RESOURCE_NOT_FOUND
        shown = uri[:200]
        message = said(f"Resource not found: {shown!r}", f"Recurso não encontrado: {shown!r}")
        raise McpError(code, message, {"uri": uri})

    async def _read(self, call: Call) -> Result:
        self._require(call, "resources")
        params = decode_params(call.params, ReadResourceParams)
        resource, values = self._find(call, params.uri)
        context = self._context(call, params, params.uri, Raw(b"{}")) if resource.wants_context else None
        try:
            contents = await run_author(resource.read(params.uri, values, context), "resource", params.uri)
        except InputRequired as pending:
            require_own(pending, context)
            return pending.result
        finally:
            if context is not None:
                context.close()
        return self._cached(call, ReadResourceResult(contents=contents))

    async def _subscribe(self, call: Call) -> Result:
        self._require(call, "resources")
        uri = decode_params(call.params, UriParams).uri
        self._find(call, uri)
        if call.session is not None:
            subscriptions = call.session.subscriptions | {uri}
            if len(subscriptions) > self._host.max_subscriptions:
                most = self._host.max_subscriptions
                raise InvalidParams(
                    said(
                        f"A session may subscribe to {most} resources",
                        f"Uma sessão pode assinar {most} recursos",
                    )
                )
            call.session.subscriptions.add(uri)
            self._host.subscribed(uri, call.caller)
        return Result()

    async def _unsubscribe(self, call: Call) -> Result:
        self._require(call, "resources")
        uri = decode_params(call.params, UriParams).uri
        if call.session is not None:
            call.session.subscriptions.discard(uri)
        return Result()
