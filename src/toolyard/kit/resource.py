"""Resources: one address or a template of addresses, and reading them."""

from collections.abc import Callable
from typing import Any, Unpack, cast

from ..wire.text import clean
from ..wire.types import (
    BlobContents,
    ResourceInfo,
    ResourceTemplateInfo,
    TextContents,
)
from .context import Context
from .introspection import describe, name_of
from .options import ResourceOptions, check
from .running import Callee
from .schema import Signature
from .template import Template

UI_MIME_TYPE = "text/html;profile=mcp-app"

Contents = TextContents | BlobContents


class Resource:
    """`uri` with `{name}` parts is a template; see `kit.template`."""

    def __init__(self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]) -> None:
        check(options, ResourceOptions, "a resource")
        if ":" not in uri:
            raise ValueError(f"{uri!r} is not a URI; resources need a scheme, as in 'notes://today'")
        mime_type = options.get("mime_type")
        if mime_type is None and uri.startswith("ui://"):
            mime_type = UI_MIME_TYPE
        self.uri = uri
        self.serial = 0
        self._mime_type = mime_type
        self._signature = Signature(function, Context, strict=False)
        self._callee = Callee(function, self._signature.context_name)
        self._template = Template(uri)
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
        return self._callee.wants_context

    def match(self, uri: str) -> dict[str, str] | None:
        return self._template.match(uri)

    async def read(self, uri: str, values: dict[str, str], context: Context | None) -> list[Contents]:
        """Raises Mismatch when a value of the address does not fit the function's parameter."""
        bound = self._signature.bind(dict(values))
        value = await self._callee(bound, context)
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
