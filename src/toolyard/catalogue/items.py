"""Items that upstreams offer: checked on the way in, kept compactly, and the names they are shown under.

Tools and prompts are shown as `mcp__<server>__<name>`. A name depends on its server and item alone, so
mounting another server never changes it. A name that does not fit `[a-zA-Z0-9_-]{1,64}` is made to fit
and gets a hash.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, cast
from urllib.parse import quote, unquote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..config.names import cut_prefix, slug
from ..wire.errors import McpError
from ..wire.headers import ParamHeader, param_headers
from ..wire.messages import check_text, encode

MAX_ITEM_BYTES = 256 * 1024
MAX_OWN_NAME = 512
MAX_ABOUT = 120
"""Characters about a server before the description of each of its tools."""


class UpstreamItem(Struct, frozen=True, gc=False):
    """A tool, prompt, resource or template.

    `rest` is its JSON without the member that names it, so that it can be shown under any name.
    """

    own: str
    rest: bytes
    safe: bool = False
    """Declared read-only or idempotent: it may run twice."""
    task_only: bool = False
    """Legacy: answers only as a task."""
    headers: tuple[ParamHeader, ...] = ()
    reads: bool | None = None
    """Of a tool: whether its annotations say that it only reads; None if they do not say."""


class ItemKind(Struct, frozen=True):
    """One of the four lists."""

    name: str
    """The name of the member in the result, and of the list in our files."""
    method: str
    key: str
    """The member that names an item."""
    capability: str
    changed: str


TOOLS = ItemKind("tools", "tools/list", "name", "tools", "notifications/tools/list_changed")
PROMPTS = ItemKind("prompts", "prompts/list", "name", "prompts", "notifications/prompts/list_changed")
RESOURCES = ItemKind(
    "resources", "resources/list", "uri", "resources", "notifications/resources/list_changed"
)
TEMPLATES = ItemKind(
    "resourceTemplates",
    "resources/templates/list",
    "uriTemplate",
    "resources",
    "notifications/resources/list_changed",
)
KINDS = (TOOLS, PROMPTS, RESOURCES, TEMPLATES)


class _Hints(Struct, rename="camel"):
    read_only_hint: Any = None
    idempotent_hint: Any = None


class _Execution(Struct, rename="camel"):
    task_support: Any = None


class _Tool(Struct, rename="camel"):
    input_schema: dict[str, Any]
    annotations: _Hints | None = None
    execution: _Execution | None = None


class UnusableItemError(ValueError):
    """The item cannot be shown; the message says why."""


def read_item(kind: ItemKind, raw: Raw) -> UpstreamItem:
    """Read one item as its upstream sent it."""
    body = bytes(raw)
    if len(body) > MAX_ITEM_BYTES:
        raise UnusableItemError(f"it is over {MAX_ITEM_BYTES // 1024} KiB")
    try:
        check_text(body)
        members = msgspec.json.decode(body, type=dict[str, Raw])
        own = msgspec.json.decode(members.pop(kind.key, Raw(b"null")), type=str)
        if not own or len(own) > (8192 if kind.key != "name" else MAX_OWN_NAME):
            raise UnusableItemError(f"its {kind.key!r} is empty or too long")
        rest = encode(members)[1:]
        if kind is not TOOLS:
            return UpstreamItem(own, rest)
        return _tool(own, rest, msgspec.json.decode(body, type=_Tool), body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, McpError) as error:
        raise UnusableItemError(str(error)) from None


def _tool(own: str, rest: bytes, found: _Tool, body: bytes) -> UpstreamItem:
    try:
        headers = tuple(param_headers(found.input_schema)) if b"x-mcp-header" in body else ()
    except ValueError as error:
        raise UnusableItemError(str(error)) from None
    hints = found.annotations or _Hints()
    safe = hints.read_only_hint is True or hints.idempotent_hint is True
    task_only = found.execution is not None and found.execution.task_support == "required"
    reads = hints.read_only_hint if isinstance(hints.read_only_hint, bool) else None
    return UpstreamItem(own, rest, safe, task_only, headers, reads)


def item_json(kind: ItemKind, item: UpstreamItem, name: str) -> bytes:
    """An item's JSON under a name."""
    start = b'{"%s":%s' % (kind.key.encode(), encode(name))
    return start + (b"}" if item.rest == b"}" else b"," + item.rest)


def with_server_description(item: UpstreamItem, about: str) -> UpstreamItem:
    """A tool with its server's description before its own."""
    if not about:
        return item
    members = msgspec.json.decode(b"{" + item.rest, type=dict[str, Raw])
    own = msgspec.json.decode(members.get("description", Raw(b"null")))
    members["description"] = Raw(encode(full_description(about, own)))
    return replace(item, rest=encode(members)[1:])


def full_description(about: str, description: Any) -> str:
    """A tool's description after that of its server. It comes from outside, so it may not be a string."""
    own = description if isinstance(description, str) else ""
    return f"{_before(about)}{own}".rstrip() if about else own


def own_description(about: str, description: str) -> str:
    """A tool's own part of its full description."""
    return description.removeprefix(_before(about)) if about else description


def _before(about: str) -> str:
    about = about if len(about) <= MAX_ABOUT else about[: MAX_ABOUT - 1] + "…"
    return f"[{about}] "


def name_filter(allow: Iterable[str], deny: Iterable[str]) -> Callable[[str], bool]:
    """Tests whether a name matches a pattern of `allow` and none of `deny`."""
    allow, deny = tuple(allow), tuple(deny)
    if allow == ("*",) and not deny:
        return lambda name: True
    return lambda name: (
        any(fnmatchcase(name, pattern) for pattern in allow)
        and not any(fnmatchcase(name, pattern) for pattern in deny)
    )


ALIAS = "toolyard://"
PAGE = "ui://"
PAGE_ALIAS = "ui://toolyard.server/"
"""Hosts show a page (MCP Apps) only under an address of this scheme."""
SERVER_MARK = "toolyard/server"
MAX_NAME = 64
_FIT = re.compile(r"[a-zA-Z0-9_-]+")
_HASH = 8
_MARKED = re.compile(r"_[0-9a-f]{8}$")


def shown_name(server: str, own: str) -> str:
    plain = f"mcp__{server}__{own}"
    # A double underscore in the server's name, or an ending like our own mark, could make two names equal.
    clear = "__" not in server and not server.endswith("_") and not _MARKED.search(own)
    if len(plain) <= MAX_NAME and _FIT.fullmatch(plain) and clear:
        return plain
    mark = hashlib.blake2b(f"{server}\0{own}".encode(), digest_size=_HASH // 2).hexdigest()
    start = f"mcp__{cut_prefix(server)}__"
    room = MAX_NAME - len(start) - _HASH - 1
    return f"{start}{slug(own)[:room].rstrip('_-')}_{mark}"


def prefix_of(server: str) -> str:
    """The beginning of the names of a server's tools."""
    return "__".join(shown_name(server, "x").split("__", 2)[:2]) + "__"


def resource_alias(server: str, uri: str) -> str:
    """An address that names the server: `toolyard://<server>/<address, percent-encoded>`."""
    start = PAGE_ALIAS if uri.startswith(PAGE) else ALIAS
    return f"{start}{quote(server, safe='')}/{quote(uri, safe='')}"


def own_address(uri: str) -> tuple[str, str] | None:
    """The server and the address that an alias stands for; None if it is none."""
    for start in (ALIAS, PAGE_ALIAS):
        if uri.startswith(start):
            server, _, own = uri.removeprefix(start).partition("/")
            return unquote(server), unquote(own)
    return None


def with_owner(item: UpstreamItem, server: str) -> UpstreamItem:
    """A resource that says in its `_meta` whose it is."""
    members = msgspec.json.decode(b"{" + item.rest, type=dict[str, Any])
    meta = members.get("_meta")
    about = cast(dict[str, Any], meta) if isinstance(meta, dict) else {}
    return replace(item, rest=encode({**members, "_meta": {**about, SERVER_MARK: server}})[1:])


def with_own_page(item: UpstreamItem, address_of: Callable[[str], str]) -> UpstreamItem:
    """A tool whose page (MCP Apps) is read under the address that leads to it."""
    members = msgspec.json.decode(b"{" + item.rest, type=dict[str, Any])
    meta = members.get("_meta")
    about = cast(dict[str, Any], meta) if isinstance(meta, dict) else {}
    ui = about.get("ui")
    page = cast(dict[str, Any], ui).get("resourceUri") if isinstance(ui, dict) else None
    if not isinstance(page, str) or (address := address_of(page)) == page:
        return item
    about["ui"] = {**cast(dict[str, Any], ui), "resourceUri": address}
    return replace(item, rest=encode(members)[1:])
