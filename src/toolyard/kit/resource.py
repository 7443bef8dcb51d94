"""Resources: one address or a template of addresses, and reading them."""

import re
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote

from ..wire.types import (
    Annotations,
    BlobContents,
    Icon,
    Meta,
    ResourceInfo,
    ResourceTemplateInfo,
    TextContents,
)
from .content import clean
from .context import Context
from .introspection import describe, name_of
from .running import Callee
from .schema import Signature

UI_MIME_TYPE = "text/html;profile=mcp-app"
_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")

Contents = TextContents | BlobContents


class Resource:
    """`uri` with `{name}` parts is a template: `{name}` stands for one segment, `{+name}` for the rest."""

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        icons: list[Icon] | None = None,
        annotations: Annotations | None = None,
        meta: Meta | None = None,
    ) -> None:
        if ":" not in uri:
            raise ValueError(f"{uri!r} is not a URI; resources need a scheme, as in 'notes://today'")
        rest = _VARIABLE.sub("", uri)
        if "{" in rest or "}" in rest:
            raise ValueError(f"resource {uri!r}: in a template, variables are {{name}} or {{+name}}")
        if mime_type is None and uri.startswith("ui://"):
            mime_type = UI_MIME_TYPE
        self.uri = uri
        self.serial = 0
        self._mime_type = mime_type
        self._signature = Signature(function, Context, strict=False)
        self._callee = Callee(function, self._signature.context_name)
        self.variables = [match[2] for match in _VARIABLE.finditer(uri)]
        if len(set(self.variables)) < len(self.variables):
            raise ValueError(f"resource {uri!r}: one of its variables {self.variables} is named twice")
        missing = set(self._signature.names) ^ set(self.variables)
        if missing:
            raise TypeError(
                f"resource {uri!r}: its variables {self.variables} and the parameters "
                f"{self._signature.names} of {name_of(function)} differ in {sorted(missing)}"
            )
        self._pattern = _compile(uri)
        label = name or name_of(function)
        text = describe(function, description)
        self.info: ResourceInfo | ResourceTemplateInfo
        if self.variables:
            self.info = ResourceTemplateInfo(uri, label, title, text, mime_type, icons, annotations, meta)
        else:
            self.info = ResourceInfo(uri, label, title, text, mime_type, size, icons, annotations, meta)

    @property
    def is_template(self) -> bool:
        return bool(self.variables)

    @property
    def wants_context(self) -> bool:
        return self._callee.wants_context

    def match(self, uri: str) -> dict[str, str] | None:
        found = self._pattern.fullmatch(uri)
        return {key: unquote(value) for key, value in found.groupdict().items()} if found else None

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


def _compile(uri: str) -> re.Pattern[str]:
    """`{name}` ends where what follows it in the template begins, so that matching takes linear time."""
    parts: list[str] = []
    end = 0
    matches = list(_VARIABLE.finditer(uri))
    if sum(1 for match in matches if match[1]) > 1:
        raise ValueError(f"resource {uri!r}: a template may have one of its variables in the form {{+name}}")
    for match in matches:
        following = uri[match.end() : match.end() + 1]
        if following == "{":
            raise ValueError(f"resource {uri!r}: two variables need something between them")
        if match[1] and match is not matches[-1] and following not in "/?#":
            raise ValueError(
                f"resource {uri!r}: between {{+{match[2]}}} and the variables after it comes a '/'"
            )
        parts.append(re.escape(uri[end : match.start()]))
        ending = "/?#" + following if following not in "/?#" else "/?#"
        parts.append(f"(?P<{match[2]}>{'.+' if match[1] else f'[^{re.escape(ending)}]+'})")
        end = match.end()
    return re.compile("".join(parts) + re.escape(uri[end:]), re.DOTALL)
