"""Resources and resource templates: declaration, URI matching, listing, reading, legacy subscriptions.

In a template `{name}` matches a segment or a part of one, `{+name}` and `{name*}` the rest, and
`{?name,other}` at the end the members of a query, each of which may be left out. Matching takes linear time.
"""

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Unpack, cast
from urllib.parse import parse_qs, unquote

from msgspec import Raw
from msgspec.structs import replace

from ...languages import said
from ...wire.call import Call
from ...wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, InvalidParams, McpError
from ...wire.messages import decode_params
from ...wire.text import clean
from ...wire.types import (
    Annotations,
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
from ..calls.content import to_wire
from ..calls.context import Context
from ..calls.input_requests import InputRequired
from ..components import Home, Kind, tags_of, with_tags
from ..schema.annotations import describe, name_of
from ..schema.validation import Signature, to_json
from .base import (
    Feature,
    FeatureHost,
    ResourceOptions,
    author_function,
    check_options,
    icons_of,
    require_own,
    run_author,
)

_VARIABLE = re.compile(r"\{(\+?)(\w[\w-]*)(\*?)\}")
_QUERY = re.compile(r"\{\?(\w[\w-]*(?:,\w[\w-]*)*)\}\Z")


class UriTemplate:
    """`variables` and `query` are the names in the path and in the query, as parameters: `-` is `_` there."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        query = _QUERY.search(uri)
        self._query = {name: _parameter(name) for name in query[1].split(",")} if query else {}
        self._path = uri[: query.start()] if query else uri
        found = list(_VARIABLE.finditer(self._path))
        self.variables = [_parameter(match[2]) for match in found]
        self.query = list(self._query.values())
        self._check(found)
        self._pattern = self._compile(found)

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the variables in a URI, percent-decoded; None if it does not match."""
        path, mark, query = uri.partition("?") if self._query else (uri, "", "")
        match = self._pattern.fullmatch(path)
        if match is None:
            return None
        values = {key: unquote(value) for key, value in match.groupdict().items()}
        if mark:
            sent = parse_qs(query, keep_blank_values=True)
            values |= {self._query[name]: texts[0] for name, texts in sent.items() if name in self._query}
        return values

    def _check(self, found: list[re.Match[str]]) -> None:
        rest = _VARIABLE.sub("", self._path)
        if "{" in rest or "}" in rest:
            raise self._error("in a template, variables are {name}, {+name}, or {?name,other} at its end")
        names = [*self.variables, *self.query]
        if len(set(names)) < len(names):
            raise self._error(f"a variable is named twice in {names}")
        if sum(1 for match in found if _is_rest(match)) > 1:
            raise self._error("a template may have only one variable of the form {+name}")
        for match in found[:-1]:
            following = self._path[match.end()]
            if following == "{":
                raise self._error("two variables need a separator between them")
            if _is_rest(match) and following not in "/?#":
                raise self._error(f"variables after {match[0]} need a '/' before them")

    def _error(self, why: str) -> ValueError:
        return ValueError(f"resource {self._uri!r}: {why}")

    def _compile(self, found: list[re.Match[str]]) -> re.Pattern[str]:
        parts: list[str] = []
        end = 0
        for match in found:
            parts.append(re.escape(self._path[end : match.start()]))
            end = match.end()
            # Ambiguous only before another variable of the same segment.
            shares = "{" in re.split("[/?#]", self._path[end:])[0]
            stops = re.escape("/?#" + (self._path[end] if shares else ""))
            parts.append(f"(?P<{_parameter(match[2])}>{'.+' if _is_rest(match) else f'[^{stops}]+'})")
        return re.compile("".join(parts) + re.escape(self._path[end:]), re.DOTALL)


def _parameter(name: str) -> str:
    """A variable's name as Python can have it."""
    return name.replace("-", "_")


def _is_rest(variable: re.Match[str]) -> bool:
    return bool(variable[1] or variable[3])


UI_MIME_TYPE = "text/html;profile=mcp-app"

Contents = TextContents | BlobContents


class Resource:
    """A URI with `{name}` in it is a template; see `UriTemplate`."""

    home: Home | None = None
    namespace = ""
    """Where it is mounted: what goes out of a URI on its way to `home`."""
    serial = 0
    """Its place in lists."""

    def __init__(self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]) -> None:
        check_options(options, ResourceOptions, "a resource")
        if ":" not in uri:
            raise ValueError(f"{uri!r} is not a URI; resources need a scheme, as in 'notes://today'")
        mime_type = options.get("mime_type")
        if mime_type is None and uri.startswith("ui://"):
            mime_type = UI_MIME_TYPE
        self.uri = uri
        self.tags = tags_of(options.get("tags"))
        self._mime_type = mime_type
        self._signature = Signature(function, Context, strict=False)
        self._function = author_function(function, self._signature.context_name)
        self._template = UriTemplate(uri)
        self.variables = self._template.variables
        self._check_parameters(name_of(function))
        self.info = self._info(function, options)

    def _check_parameters(self, function: str) -> None:
        names, required = self._signature.names, self._signature.required
        variables = [*self.variables, *self._template.query]
        differing = (set(variables) - set(names)) | (required - set(variables))
        if not variables:
            differing |= set(names)
        if differing:
            raise TypeError(
                f"resource {self.uri!r}: its variables {variables} and the parameters "
                f"{names} of {function} differ in {sorted(differing)}"
            )
        if always := required & set(self._template.query):
            raise TypeError(
                f"resource {self.uri!r}: a query can be left out, so {sorted(always)} of {function} "
                "need defaults"
            )

    def _info(
        self, function: Callable[..., Any], options: ResourceOptions
    ) -> ResourceInfo | ResourceTemplateInfo:
        info: ResourceInfo | ResourceTemplateInfo
        name = options.get("name") or name_of(function)
        if self.is_template:
            info = ResourceTemplateInfo(self.uri, name)
        else:
            info = ResourceInfo(self.uri, name, size=options.get("size"))
        info.title = options.get("title")
        info.description = describe(function, options.get("description"))
        info.mime_type = self._mime_type
        info.icons = icons_of(options)
        annotations = options.get("annotations")
        info.annotations = (
            None if annotations is None else to_wire(annotations, Annotations, "annotations of a resource")
        )
        info.meta = with_tags(options.get("meta"), self.tags)
        return info

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def key(self) -> str:
        return self.uri

    @property
    def kind(self) -> Kind:
        return "template" if self.is_template else "resource"

    def under(self, namespace: str) -> "Resource":
        """Itself, as it is read where its server is mounted: the namespace goes before the path."""
        resource = copy.copy(self)
        resource.namespace = namespace
        scheme, separator, path = self.uri.partition("://")
        resource.uri = f"{scheme}://{namespace}/{path}" if separator else self.uri
        resource._template = UriTemplate(resource.uri)
        info = self.info
        resource.info = (
            replace(info, uri=resource.uri)
            if isinstance(info, ResourceInfo)
            else replace(info, uri_template=resource.uri)
        )
        return resource

    @property
    def is_template(self) -> bool:
        return bool(self.variables or self._template.query)

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
        if isinstance(value, dict):
            return TextContents(uri, to_json(value).decode(), self._mime_type or "application/json")
        raise TypeError(
            f"resource {self.uri!r} returned {type(value).__name__}; return str, bytes or contents"
        )


class ResourceHost(FeatureHost, Protocol):
    resources: Mapping[str, Resource]

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
        if resource.home is not None:
            own = (
                params.uri.replace(f"://{resource.namespace}/", "://", 1)
                if resource.namespace
                else params.uri
            )
            return _renamed(await resource.home.forward(call, "uri", own), own, params.uri)
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


def _renamed(result: Result, own: str, uri: str) -> Result:
    """What a mounted resource holds, under the URI by which it was asked for."""
    if isinstance(result, ReadResourceResult):
        result.contents = [replace(part, uri=uri) if part.uri == own else part for part in result.contents]
    return result
