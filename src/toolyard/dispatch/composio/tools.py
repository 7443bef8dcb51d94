"""Composio's tools under our full names, available to the conversation that found them.

A denied tool is unknown inside the arguments and results of Composio's meta tools too. Code in Composio's
sandbox can call tools without naming them to us: deny COMPOSIO_REMOTE_* as well.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from ...catalogue.catalogue import Catalogue, ServerCatalogue, conversation_of
from ...catalogue.items import MAX_NAME, TOOLS, UnusableItemError, UpstreamItem, read_item
from ...upstream.composio import AppAccount, FoundToolRecord, ToolRecord, replies
from ...wire.call import Call
from ...wire.messages import encode
from ..remote import RemoteTool

Admits = Callable[[str], bool]

META_PREFIX = "COMPOSIO_"
SEARCH_TOOLS = ("COMPOSIO_SEARCH_TOOLS", "COMPOSIO_GET_TOOL_SCHEMAS")
_JSON = ("{", "[", '"')
"""How a text begins that can be a table or a list; what is in it may be written in escapes."""
MAX_DEPTH = 128
"""Requests that nest deeper do not get here."""


def may_use(slug: str, admits: Admits) -> bool:
    """Composio's names are in capitals, and it may not insist on that."""
    return admits(slug) and admits(slug.strip().upper())


def slugs_in(arguments: Any, depth: int = 0) -> Iterator[str]:
    """Every tool that arguments name, however deep: a meta tool can be handed another one's arguments."""
    if depth > MAX_DEPTH:
        return
    if isinstance(arguments, dict):
        for key, value in cast(dict[str, Any], arguments).items():
            if key == "tool_slug" and isinstance(value, str):
                yield value
            elif key.endswith("tool_slugs") and isinstance(value, list):
                yield from (slug for slug in cast(list[Any], value) if isinstance(slug, str))
            yield from slugs_in(value, depth + 1)
    elif isinstance(arguments, list):
        for value in cast(list[Any], arguments):
            yield from slugs_in(value, depth + 1)
    elif isinstance(arguments, str) and arguments.lstrip()[:1] in _JSON:
        yield from slugs_in(_decoded(arguments), depth + 1)


def _decoded(text: str) -> Any:
    """Models write objects as texts at times, and not every server minds."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def without_denied(data: Any, admits: Admits, depth: int = 0) -> Any:
    """A search's result without the tools that may not be used."""
    if depth > MAX_DEPTH:
        return data
    if isinstance(data, list):
        return [without_denied(value, admits, depth + 1) for value in cast(list[Any], data)]
    if not isinstance(data, dict):
        return data
    found: dict[str, Any] = {}
    for key, value in cast(dict[str, Any], data).items():
        if key.endswith("tool_slugs") and isinstance(value, list):
            slugs = cast(list[Any], value)
            value = [slug for slug in slugs if not isinstance(slug, str) or may_use(slug, admits)]
        elif key == "tool_schemas" and isinstance(value, dict):
            schemas = cast(dict[str, Any], value)
            value = {slug: schema for slug, schema in schemas.items() if may_use(slug, admits)}
        found[key] = without_denied(value, admits, depth + 1)
    return found


_SLUG = re.compile(r"[A-Za-z0-9_-]{1,200}")
_PLAIN = re.compile(r"[A-Z0-9]+_[A-Z0-9_]+")
"""How Composio writes them: a name that says nothing of us is one of its only if it looks like it."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ANY: dict[str, Any] = {"type": "object"}

_MARKED = re.compile(r"_[0-9a-f]{8}$")


class SessionTools:
    def __init__(self, server: str, catalogue: Catalogue, server_catalogue: ServerCatalogue) -> None:
        self._server = server
        self._catalogue = catalogue
        self._server_catalogue = server_catalogue

    def may_use(self, slug: str) -> bool:
        return may_use(slug, self._server_catalogue.allows)

    def is_listed(self, slug: str) -> bool:
        """Whether the upstream itself lists it, and so takes it over MCP."""
        return any(item.own == slug for item in self._server_catalogue.lists.get(TOOLS.name, ()))

    def own_name(self, call: Call, name: str) -> str | None:
        """Composio's name for a tool of which ours is given; None when it cannot be one of its."""
        lent = self._catalogue.find_discovered(name, conversation_of(call))
        if lent is not None and lent.server == self._server:
            return lent.item.own
        bare = name.removeprefix(f"mcp__{self._server}__")
        own = self._server_catalogue.own_name(bare)
        form = _PLAIN if bare == own == name else _SLUG
        if bare.startswith("mcp__") or not form.fullmatch(own) or not self.may_use(own):
            return None
        return own

    def shortened(self, name: str) -> list[str]:
        """The apps that a tool may be of whose name was too long for us, so that ours has only its beginning.

        It was lent by another process, or before a restart, or this one would know it.
        """
        start = "__".join(self.name("x" * MAX_NAME).split("__", 2)[:2]) + "__"
        if not _MARKED.search(name) or not name.startswith(start):
            return []
        words = name.removeprefix(start).lower().split("_")
        return ["_".join(words[:count]) for count in (1, 2)]

    def lend_found(
        self, call: Call, found: Iterable[FoundToolRecord], accounts: dict[str, AppAccount]
    ) -> list[RemoteTool]:
        """What a search found, less what may not be used."""
        usable = [tool for tool in found if self.may_use(tool.slug)]
        items = [_item(tool.slug, "", tool.description, tool.input_schema, ()) for tool in usable]
        self._lend(call, items)
        return [self._found(tool, accounts.get(tool.toolkit)) for tool in usable]

    def lend_records(self, call: Call, records: Iterable[ToolRecord]) -> list[RemoteTool]:
        usable = [tool for tool in records if self.may_use(tool.slug)]
        items = [_item(one.slug, one.name, one.description, one.input_schema, one.tags) for one in usable]
        self._lend(call, items)
        return [self._record(tool) for tool in usable]

    def _lend(self, call: Call, items: Sequence[UpstreamItem | None]) -> None:
        whose = conversation_of(call)
        new = [item for item in items if item is not None and not self._is_better(item, whose)]
        self._catalogue.add_discovered(self._server, new, whose)

    def _is_better(self, item: UpstreamItem, whose: str) -> bool:
        """Whether what they have of a tool says more: not every search gives the parameters."""
        known = self._catalogue.find_discovered(self._server_catalogue.entry(item).name, whose)
        return known is not None and b'"properties"' in known.item.rest and b'"properties"' not in item.rest

    def name(self, slug: str) -> str:
        return self._server_catalogue.entry(UpstreamItem(slug, b"}")).name

    def _found(self, tool: FoundToolRecord, account: AppAccount | None) -> RemoteTool:
        return RemoteTool(
            own=tool.slug,
            name=self.name(tool.slug),
            toolkit=tool.toolkit,
            title=_title(tool.slug, tool.toolkit),
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=_unwrapped(tool.output_schema),
            recommended=tool.primary,
            connected=account is None or account.status == "active",
            auth=_auth(account),
        )

    def _record(self, tool: ToolRecord) -> RemoteTool:
        return RemoteTool(
            own=tool.slug,
            name=self.name(tool.slug),
            toolkit=tool.toolkit,
            title=tool.name or _title(tool.slug, tool.toolkit),
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=_unwrapped(tool.output_schema),
            auth="none" if tool.no_auth else "unknown",
        )


def _auth(account: AppAccount | None) -> str:
    return "connected" if account is not None and account.status == "active" else "unknown"


def _title(slug: str, toolkit: str) -> str:
    words = slug.upper().removeprefix(f"{toolkit.upper()}_").replace("_", " ")
    return words.capitalize()


def _unwrapped(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of the data alone, since that is what a result has."""
    properties = replies.members((schema or {}).get("properties"))
    if "successful" in properties and "data" in properties:
        return replies.members(properties["data"]) or None
    return schema


def _item(
    slug: str, title: str, description: str, schema: dict[str, Any] | None, tags: Sequence[str]
) -> UpstreamItem | None:
    """A tool as if it had been listed; None when it cannot be shown."""
    tool: dict[str, Any] = {"name": slug, "inputSchema": {**(schema or {}), **_ANY}}
    if title:
        tool["title"] = title
    if description:
        tool["description"] = description
    if hints := {hint: True for hint in _HINTS if hint in tags}:
        tool["annotations"] = hints
    try:
        return read_item(TOOLS, Raw(encode(tool)))
    except UnusableItemError:
        return None
