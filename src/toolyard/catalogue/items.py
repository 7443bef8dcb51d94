"""What upstreams offer, item by item: checked as a stranger's words are, kept as compactly as possible."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..wire.errors import McpError
from ..wire.headers import ParamHeader, param_headers
from ..wire.messages import check_text, encode

MAX_ITEM_BYTES = 256 * 1024
MAX_NAME = 512
MAX_ABOUT = 120
"""Characters about a server before the description of each of its tools."""


class Item(Struct, frozen=True, gc=False):
    """A tool, prompt, resource or template.

    `rest` is its JSON without the member that names it, so that it can be shown under any name.
    """

    own: str
    rest: bytes
    safe: bool = False
    """May run twice: read-only or idempotent, by its own word."""
    task_only: bool = False
    """Legacy: answers only as a task."""
    headers: tuple[ParamHeader, ...] = ()


class Kind(Struct, frozen=True):
    """One of the four lists."""

    name: str
    """Of its member in the result, and of the list in our files."""
    method: str
    key: str
    """The member that names an item."""
    capability: str
    changed: str


TOOLS = Kind("tools", "tools/list", "name", "tools", "notifications/tools/list_changed")
PROMPTS = Kind("prompts", "prompts/list", "name", "prompts", "notifications/prompts/list_changed")
RESOURCES = Kind("resources", "resources/list", "uri", "resources", "notifications/resources/list_changed")
TEMPLATES = Kind(
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


class Unusable(ValueError):
    """An item that cannot be shown; the message says why."""


def read_item(kind: Kind, raw: Raw) -> Item:
    """One item as its upstream sent it; Unusable with the reason."""
    body = bytes(raw)
    if len(body) > MAX_ITEM_BYTES:
        raise Unusable(f"it is over {MAX_ITEM_BYTES // 1024} KiB")
    try:
        check_text(body)
        members = msgspec.json.decode(body, type=dict[str, Raw])
        own = msgspec.json.decode(members.pop(kind.key, Raw(b"null")), type=str)
        if not own or len(own) > (8192 if kind.key != "name" else MAX_NAME):
            raise Unusable(f"its {kind.key!r} is empty or too long")
        rest = encode(members)[1:]
        if kind is not TOOLS:
            return Item(own, rest)
        return _tool(own, rest, msgspec.json.decode(body, type=_Tool), body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, McpError) as error:
        raise Unusable(str(error)) from None


def _tool(own: str, rest: bytes, found: _Tool, body: bytes) -> Item:
    try:
        headers = tuple(param_headers(found.input_schema)) if b"x-mcp-header" in body else ()
    except ValueError as error:
        raise Unusable(str(error)) from None
    hints = found.annotations or _Hints()
    safe = hints.read_only_hint is True or hints.idempotent_hint is True
    task_only = found.execution is not None and found.execution.task_support == "required"
    return Item(own, rest, safe, task_only, headers)


def shown(kind: Kind, item: Item, name: str) -> bytes:
    """An item's JSON under a name."""
    start = b'{"%s":%s' % (kind.key.encode(), encode(name))
    return start + (b"}" if item.rest == b"}" else b"," + item.rest)


def introduced(item: Item, about: str) -> Item:
    """A tool with words about its server before its own description."""
    if not about:
        return item
    members = msgspec.json.decode(b"{" + item.rest, type=dict[str, Raw])
    own = msgspec.json.decode(members.get("description", Raw(b"null")))
    members["description"] = Raw(encode(introduction(about, own)))
    return replace(item, rest=encode(members)[1:])


def introduction(about: str, description: Any) -> str:
    """A tool's description; a stranger's, so it may be missing or of another type."""
    own = description if isinstance(description, str) else ""
    if not about:
        return own
    about = about if len(about) <= MAX_ABOUT else about[: MAX_ABOUT - 1] + "…"
    return f"[{about}] {own}".rstrip()


def admitted(allow: Iterable[str], deny: Iterable[str]) -> Callable[[str], bool]:
    """Whether a name passes the patterns: some of `allow`, none of `deny`."""
    allow, deny = tuple(allow), tuple(deny)
    if allow == ("*",) and not deny:
        return lambda name: True
    return lambda name: (
        any(fnmatchcase(name, pattern) for pattern in allow)
        and not any(fnmatchcase(name, pattern) for pattern in deny)
    )
