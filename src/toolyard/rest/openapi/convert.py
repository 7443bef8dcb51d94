"""The whole of it: operations become tools, and the tools a text."""

from collections import Counter
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import Struct

from ... import __version__
from ...config.errors import nearest_or_all
from . import bodies, names, parameters, replies, security
from .document import Document, DocumentError, Node, node, nodes, text
from .drawing import Drawing
from .paging import Guess, guess
from .schemas import Schemas, short
from .writing import comment, pair, section

METHODS = ("get", "post", "put", "patch", "delete")
_SHARED_BY = 3


class Wishes(Struct, frozen=True, kw_only=True):
    only: tuple[str, ...] = ()
    """Tags, paths (`/pets*`) or operationIds; all when there are none."""
    name: str = ""
    base_url: str = ""


class Made(Struct, frozen=True):
    text: str
    tools: int
    notes: tuple[str, ...]
    """What was left out or guessed, one line each."""


class _Tool(Struct):
    name: str
    heading: str
    values: Node
    drawing: Drawing
    notes: list[str]


class _Tools(Struct):
    made: list[_Tool] = []
    paging: dict[str, Node] = {}
    left_out: list[str] = []


def convert(document: Document, wishes: Wishes, source: str) -> Made:
    info = node(document.raw.get("info"))
    name = wishes.name or names.server_name(text(info.get("title")))
    tools = _tools(document, wishes.only)
    if not tools.made:
        told = tools.left_out[0] if tools.left_out else "it has no operations"
        raise DocumentError(f"nothing of the document can become a tool: {told}")
    auth, said = security.auth(document, name)
    head: Node = {"name": name}
    head |= {"title": short(text(info.get("title")), 80)} if info.get("title") else {}
    head["base_url"] = _base_url(document, wishes.base_url)
    head |= {"instructions": short(text(info.get("description")), 1000)} if info.get("description") else {}
    shared = _share(tools.made)
    lines = _introduction(document, source, [*said, *tools.left_out])
    lines += [pair(key, value) for key, value in head.items()]
    lines += ["", *section(("auth",), auth), f'# caller = ["x-{name.replace("_", "-")}-key"]'] if auth else []
    for key, tables in (("paging", tools.paging), ("shared", shared)):
        for item, values in tables.items():
            lines += ["", *section((key, item), values)]
    for tool in tools.made:
        lines += ["", *_written(tool)]
    notes = [*said, *tools.left_out]
    notes += [f"{tool.name}: {note}" for tool in tools.made for note in (*tool.drawing.notes, *tool.notes)]
    return Made("\n".join(lines) + "\n", len(tools.made), tuple(notes))


def _introduction(document: Document, source: str, left_out: list[str]) -> list[str]:
    info = node(document.raw.get("info"))
    titled = f"{text(info.get('title')) or 'an API'} {info.get('version') or ''}".strip()
    lines = comment(
        f"{titled}: made of {source} by `toolyard openapi` {__version__}, to be edited from here."
    )
    lines += ["# The form of this file is described in docs/guides/rest.md."]
    if left_out:
        lines += ["#", "# Left out, or to be looked at:"]
        lines += [line for item in left_out for line in comment(f"- {item}")]
    return [*lines, ""]


def _base_url(document: Document, wished: str) -> str:
    server = _server(document)
    url = text(server.get("url")) or "/"
    for name, variable in node(server.get("variables")).items():
        url = url.replace(f"{{{name}}}", str(node(variable).get("default", "")))
    if wished:
        # An address without a path is only where the API is; the document knows its path.
        whole = (
            urljoin(wished, url)
            if urlsplit(wished).path in ("", "/") and not urlsplit(url).netloc
            else wished
        )
        return whole.rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "{" in url:
        raise DocumentError(f"the document does not say where the API is ({url!r})", "give --base-url URL")
    return parts._replace(query="", fragment="").geturl().rstrip("/")


def _server(document: Document) -> Node:
    """The first that is named; where the document names none, that of its first path which does."""
    found = nodes(document.raw.get("servers"))
    for path in node(document.raw.get("paths")).values():
        found = found or nodes(node(path).get("servers"))
    return node(found[0]) if found else {}


def _tools(document: Document, only: tuple[str, ...]) -> _Tools:
    found = _Tools()
    schemas = Schemas(document)
    wanted = _Only(document, only)
    taken: set[str] = set()
    for path, item in node(document.raw.get("paths")).items():
        whole = document.resolved(item)
        for method in whole:
            operation = node(whole[method])
            if method in ("head", "options", "trace") and wanted.has(path, operation):
                found.left_out.append(f"{method.upper()} {path}: no tool is made of this method")
            if method not in METHODS or not wanted.has(path, operation):
                continue
            name = names.tool_name(text(operation.get("operationId")), method, path, taken)
            try:
                found.made.append(_tool(document, schemas, name, method, path, whole, found.paging))
                taken.add(name)
            except bodies.Undrawable as error:
                found.left_out.append(f"{method.upper()} {path}: {error}")
    return found


class _Only:
    """Which operations are wanted; a wish that fits nothing is a mistake."""

    def __init__(self, document: Document, only: tuple[str, ...]) -> None:
        self._only = only
        known: dict[str, None] = {}
        operations: list[tuple[str, Node]] = []
        for path, item in node(document.raw.get("paths")).items():
            for method, operation in document.resolved(item).items():
                if method in METHODS:
                    operations.append((path, node(operation)))
                    known |= dict.fromkeys(str(tag) for tag in nodes(node(operation).get("tags")))
        for wish in only:
            if not any(self._fits(wish, path, operation) for path, operation in operations):
                hint = nearest_or_all(wish, known or dict.fromkeys(path for path, _ in operations))
                raise DocumentError(f"no operation has the tag, the path or the operationId {wish!r}", hint)

    def has(self, path: str, operation: Node) -> bool:
        return not self._only or any(self._fits(wish, path, operation) for wish in self._only)

    @staticmethod
    def _fits(wish: str, path: str, operation: Node) -> bool:
        if wish.startswith("/"):
            return path.startswith(wish[:-1]) if wish.endswith("*") else path == wish
        tags = [str(tag).lower() for tag in nodes(operation.get("tags"))]
        return wish.lower() in tags or wish == operation.get("operationId")


def _tool(
    document: Document,
    schemas: Schemas,
    name: str,
    method: str,
    path: str,
    item: Node,
    paging: dict[str, Node],
) -> _Tool:
    operation = node(item[method])
    drawing = Drawing(method.upper(), path)
    for parameter in parameters.listed(document, item.get("parameters"), operation.get("parameters")):
        parameters.draw(drawing, parameter, schemas)
    _fill_path(drawing)
    bodies.draw(drawing, document, operation.get("requestBody"), schemas)
    for server in (*nodes(operation.get("servers")), *nodes(item.get("servers"))):
        if node(server).get("url") != _server(document).get("url"):
            drawing.notes.append(f"it has a server of its own, which is not asked: {node(server).get('url')}")
    tags = ", ".join(str(tag) for tag in nodes(operation.get("tags")))
    heading = f"{method.upper()} {path}" + (f" ({tags})" if tags else "")
    reply = replies.reply_schema(document, operation.get("responses"), schemas)
    notes: list[str] = []
    guessed = guess(drawing.parameters, reply) if method == "get" else None
    values = _head(operation, drawing, f"{method.upper()} {path}")
    items = _paged(guessed, values, drawing, paging, notes)
    output = replies.output(reply, items)
    return _Tool(name, heading, values | ({"output": output} if output else {}), drawing, notes)


def _fill_path(drawing: Drawing) -> None:
    """Documents forget to describe what their paths have."""
    from ..placeholders import placeholders

    for word in placeholders(drawing.path):
        if word not in drawing.parameters:
            drawing.add(word, {"type": "string"}, place="path", required=True)


def _head(operation: Node, drawing: Drawing, otherwise: str) -> Node:
    summary, described = text(operation.get("summary")), text(operation.get("description"))
    values: Node = {"title": short(summary.split("\n")[0], 80)} if summary.strip() else {}
    whole = (
        described if described.strip().startswith(summary.strip().rstrip(".")) else f"{summary}\n{described}"
    )
    values["description"] = short(whole, 1000) or otherwise
    if operation.get("deprecated"):
        values["description"] = f"Deprecated. {values['description']}"
    values |= {"method": drawing.method} if drawing.method != "GET" else {}
    values["path"] = drawing.path
    return values | ({"body": drawing.body} if drawing.body not in ("", "json") else {})


def _paged(
    guessed: Guess | None, values: Node, drawing: Drawing, paging: dict[str, Node], notes: list[str]
) -> str | None:
    """Puts the guess in; the path of the list then."""
    if guessed is None:
        return None
    if guessed.missing:
        notes.append(f"it seems to come in parts ({guessed.paging['kind']}), but {guessed.missing}")
        return None
    known = next((name for name, table in paging.items() if table == guessed.paging), None)
    if known is None:
        known = names.unique(f"{guessed.paging['kind']}s", paging)
        paging[known] = guessed.paging
    values["paging"] = known
    for name in guessed.parameters:
        if "as" not in drawing.parameters[name]:  # such a name is only the tool's
            del drawing.parameters[name]
    if guessed.items:
        values["result"] = {"items": guessed.items}
    return guessed.items


def _share(tools: list[_Tool]) -> dict[str, Node]:
    """What several tools have in common is said once."""
    counts = Counter(
        (name, _frozen(values)) for tool in tools for name, values in tool.drawing.parameters.items()
    )
    shared: dict[str, Node] = {}
    marks: dict[str, bytes] = {}
    for (name, mark), count in counts.most_common():
        if count >= _SHARED_BY and name not in shared:
            marks[name] = mark
            shared[name] = msgspec.json.decode(mark)
    for tool in tools:
        own = tool.drawing.parameters
        used = [name for name in own if name in marks and _frozen(own[name]) == marks[name]]
        for name in used:
            del own[name]
        if used:
            tool.values["use"] = used
    return shared


def _frozen(values: Any) -> bytes:
    return msgspec.json.encode(values)


def _written(tool: _Tool) -> list[str]:
    lines = comment(tool.heading)
    for note in (*tool.drawing.notes, *tool.notes):
        lines += comment(f"Note: {note}")
    values = {key: value for key, value in tool.values.items() if key != "output"}
    if tool.drawing.parameters:
        values["parameters"] = tool.drawing.parameters
    if "output" in tool.values:
        values["output"] = tool.values["output"]
    return [*lines, *section(("tools", tool.name), values)]
