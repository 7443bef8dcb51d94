"""Composio's tools under the gateway's full names, available to the conversation that found them.

A denied tool is unknown inside the arguments and results of Composio's meta tools too. Code in Composio's
sandbox can call tools without naming them to the gateway: deny COMPOSIO_REMOTE_* as well.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from ...catalogue.catalogue import Catalogue, ServerCatalogue, conversation_of
from ...catalogue.items import MAX_NAME, TOOLS, UnusableItemError, UpstreamItem, read_item
from ...composio import MULTI_EXECUTE, SEARCH, members
from ...upstream.composio import AppAccount, ToolRecord
from ...wire.call import Call
from ...wire.messages import encode
from ..remote import RemoteTool

Admits = Callable[[str], bool]

META_PREFIX = "COMPOSIO_"
SEARCH_TOOLS = (SEARCH, "COMPOSIO_GET_TOOL_SCHEMAS")
SYNC = "sync_response_to_workbench"
_JSON = ("{", "[", '"')
"""The first characters of a text that may be JSON, in which tool names may be escaped."""
MAX_DEPTH = 128
"""Deeper requests are refused at the edge."""


def may_use(slug: str, admits: Admits) -> bool:
    """Whether a tool is allowed, also in capitals: Composio may accept its names in other case."""
    return admits(slug) and admits(slug.strip().upper())


def slugs_in(arguments: Any, depth: int = 0) -> Iterator[str]:
    """Find every tool that arguments name, at any depth: a meta tool can get another's arguments."""
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
        yield from slugs_in(_decode(arguments), depth + 1)


def kept_local(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without the wish to leave its results in Composio's workbench.

    The session itself leaves those there that are larger than `LOCAL_BYTES`.
    """
    if name.upper() != MULTI_EXECUTE or not arguments.get(SYNC):
        return arguments
    return {**arguments, SYNC: False}


def _decode(text: str) -> Any:
    """Decode an object that a model wrote as a text, which some servers accept."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def without_denied(data: Any, admits: Admits, depth: int = 0) -> Any:
    """Return a search's result without denied tools."""
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
"""Composio's own form; a name without the gateway's prefix is taken for Composio's only in this form."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ANY: dict[str, Any] = {"type": "object"}

_SHORTENED = re.compile(r"_[0-9a-f]{8}$")


class SessionTools:
    """Adds Composio's tools to the catalogue of one conversation, without denied ones."""

    def __init__(self, server: str, catalogue: Catalogue, own_catalogue: ServerCatalogue) -> None:
        self._server = server
        self._catalogue = catalogue
        self._own_catalogue = own_catalogue

    def may_use(self, slug: str) -> bool:
        return may_use(slug, self._own_catalogue.allows)

    def is_listed(self, slug: str) -> bool:
        """Whether the MCP endpoint lists it, and so can call it."""
        return any(item.own == slug for item in self._own_catalogue.lists.get(TOOLS.name, ()))

    def own_name(self, call: Call, name: str) -> str | None:
        """Return Composio's name of a tool from the gateway's; None if it cannot be Composio's tool."""
        known = self._catalogue.find_discovered(name, conversation_of(call))
        if known is not None and known.server == self._server:
            return known.item.own
        bare = name.removeprefix(f"mcp__{self._server}__")
        own = self._own_catalogue.own_name(bare)
        form = _PLAIN if bare == own == name else _SLUG
        if bare.startswith("mcp__") or not form.fullmatch(own) or not self.may_use(own):
            return None
        return own

    def apps_of_shortened(self, name: str) -> list[str]:
        """Return the possible apps of a tool whose full name was shortened because it was too long.

        Needed only for tools that were found by another process or before a restart.
        """
        start = "__".join(self.name("x" * MAX_NAME).split("__", 2)[:2]) + "__"
        if not _SHORTENED.search(name) or not name.startswith(start):
            return []
        words = name.removeprefix(start).lower().split("_")
        return ["_".join(words[:count]) for count in (1, 2)]

    def add_found(
        self, call: Call, found: Iterable[ToolRecord], accounts: dict[str, AppAccount]
    ) -> list[RemoteTool]:
        """Add the tools of a search to the conversation, and return them without denied ones."""
        usable = [tool for tool in found if self.may_use(tool.slug)]
        items = [_item(tool.slug, "", tool.description, tool.input_schema, ()) for tool in usable]
        self._add(call, items)
        return [self._found(tool, accounts.get(tool.toolkit)) for tool in usable]

    def _found(self, tool: ToolRecord, account: AppAccount | None) -> RemoteTool:
        connected = account is not None and account.status == "active"
        auth = "connected" if connected else "unknown"
        return self._remote_tool(tool, "", auth, connected or account is None)

    def add_records(self, call: Call, records: Iterable[ToolRecord]) -> list[RemoteTool]:
        usable = [tool for tool in records if self.may_use(tool.slug)]
        items = [_item(one.slug, one.name, one.description, one.input_schema, one.tags) for one in usable]
        self._add(call, items)
        return [self._remote_tool(tool, tool.name, "none" if tool.no_auth else "unknown") for tool in usable]

    def _add(self, call: Call, items: Sequence[UpstreamItem | None]) -> None:
        conversation = conversation_of(call)
        new = [item for item in items if item is not None and not self._has_better(item, conversation)]
        self._catalogue.add_discovered(self._server, new, conversation)

    def _has_better(self, item: UpstreamItem, conversation: str) -> bool:
        """Whether the conversation has the tool with its parameters; not every search returns them."""
        known = self._catalogue.find_discovered(self._own_catalogue.entry(item).name, conversation)
        return known is not None and b'"properties"' in known.item.rest and b'"properties"' not in item.rest

    def name(self, slug: str) -> str:
        return self._own_catalogue.entry(UpstreamItem(slug, b"}")).name

    def _remote_tool(self, tool: ToolRecord, title: str, auth: str, connected: bool = True) -> RemoteTool:
        return RemoteTool(
            own=tool.slug,
            name=self.name(tool.slug),
            toolkit=tool.toolkit,
            title=title or _title(tool.slug, tool.toolkit),
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=_data_schema(tool.output_schema),
            recommended=tool.primary,
            connected=connected,
            auth=auth,
        )


def _title(slug: str, toolkit: str) -> str:
    words = slug.upper().removeprefix(f"{toolkit.upper()}_").replace("_", " ")
    return words.capitalize()


def _data_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema of `data`: results come without the envelope."""
    properties = members((schema or {}).get("properties"))
    if "successful" in properties and "data" in properties:
        return members(properties["data"]) or None
    return schema


def _item(
    slug: str, title: str, description: str, schema: dict[str, Any] | None, tags: Sequence[str]
) -> UpstreamItem | None:
    """Build a tool as `tools/list` has it; None if it cannot be shown."""
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
