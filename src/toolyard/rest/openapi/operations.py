"""Operations become tools, one by one; what cannot become one is left out with its reason."""

import re
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from msgspec import Struct

from ...config.errors import nearest_or_all
from ..definition.model import ApiDefinition, Paging, ToolDefinition
from ..definition.plan import placeholders
from ..definition.rules import rules_of_tool
from . import inputs, responses
from .access import CredentialLocations, server_of
from .document import Node, OpenApiDocument, OpenApiError, SchemaResolver, node, nodes, short, text
from .inputs import ToolInputs, UnsupportedOperationError
from .responses import Guess, guess

_OTHER_METHODS = ("head", "options", "trace", "query")
METHODS = ("get", "post", "put", "patch", "delete")
_IN_PATHS = "/-._~!$&'()*+,;=:@%"


class ConvertedTool(Struct):
    name: str
    heading: str
    values: Node
    drawing: ToolInputs
    notes: list[str]


class ConvertedOperations(Struct):
    made: list[ConvertedTool] = []
    paging: dict[str, Node] = {}
    left_out: list[str] = []


def converted_operations(
    document: OpenApiDocument, only: tuple[str, ...], keys: CredentialLocations
) -> ConvertedOperations:
    found = ConvertedOperations()
    schemas = SchemaResolver(document)
    wanted = _Only(document, only)
    taken: set[str] = set()
    for path, item in node(document.raw.get("paths")).items():
        whole = document.resolved(item)
        for method in whole:
            operation = node(whole[method])
            if method in _OTHER_METHODS and wanted.has(path, operation):
                found.left_out.append(f"{method.upper()} {path}: no tool is made of this method")
            if method not in METHODS or not wanted.has(path, operation):
                continue
            name = inputs.tool_name(text(operation.get("operationId")), method, path, taken)
            try:
                tool = _tool(document, schemas, name, method, path, whole, found.paging, keys)
                _refuse_wrong(tool, found.paging)
            except UnsupportedOperationError as error:
                found.left_out.append(f"{method.upper()} {path}: {error}")
                continue
            found.made.append(tool)
            taken.add(name)
    return found


def _refuse_wrong(tool: ConvertedTool, paging: dict[str, Node]) -> None:
    """One operation that nobody foresaw is left out, and the others stay."""
    raw = {**tool.values, "parameters": tool.drawing.parameters}
    try:
        row = msgspec.convert(raw, ToolDefinition)
    except msgspec.ValidationError as error:
        raise UnsupportedOperationError(str(error)) from None
    table = ApiDefinition(name="api", base_url="", paging=msgspec.convert(paging, dict[str, Paging]))
    for mistake in rules_of_tool(table, tool.name, row):
        raise UnsupportedOperationError(f"{'.'.join(str(key) for key in mistake.keys[2:])} {mistake.what}")


class _Only:
    """Which operations are wanted; a wish that fits nothing is a mistake."""

    def __init__(self, document: OpenApiDocument, only: tuple[str, ...]) -> None:
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
                raise OpenApiError(f"no operation has the tag, the path or the operationId {wish!r}", hint)

    def has(self, path: str, operation: Node) -> bool:
        return not self._only or any(self._fits(wish, path, operation) for wish in self._only)

    @staticmethod
    def _fits(wish: str, path: str, operation: Node) -> bool:
        if wish.startswith("/"):
            return path.startswith(wish[:-1]) if wish.endswith("*") else path == wish
        tags = [str(tag).lower() for tag in nodes(operation.get("tags"))]
        return wish.lower() in tags or wish == operation.get("operationId")


def _tool(
    document: OpenApiDocument,
    schemas: SchemaResolver,
    name: str,
    method: str,
    path: str,
    item: Node,
    paging: dict[str, Node],
    keys: CredentialLocations,
) -> ConvertedTool:
    operation = node(item[method])
    drawing = ToolInputs(method.upper(), _encoded(path.partition("#")[0].partition("?")[0]))
    for parameter in inputs.listed(document, item.get("parameters"), operation.get("parameters")):
        inputs.add_parameter(drawing, parameter, schemas, keys)
    _fill_path(drawing)
    for called, value in parse_qsl(urlsplit(path).query):
        drawing.add(called, {"type": "string", "default": value}, place="query", required=False)
    inputs.add_body(drawing, document, operation.get("requestBody"), schemas)
    for server in (*nodes(operation.get("servers")), *nodes(item.get("servers"))):
        if node(server).get("url") != server_of(document).get("url"):
            drawing.notes.append(f"it has a server of its own, which is not asked: {node(server).get('url')}")
    tags = ", ".join(str(tag) for tag in nodes(operation.get("tags")))
    heading = f"{method.upper()} {path}" + (f" ({tags})" if tags else "")
    reply = responses.reply_schema(document, operation.get("responses"), schemas)
    notes: list[str] = []
    linked = responses.has_links(document, operation.get("responses"))
    guessed = guess(drawing.parameters, reply, linked) if method == "get" else None
    values = _head(operation, drawing, f"{method.upper()} {path}")
    items = _paged(guessed, values, drawing, paging, notes)
    output = responses.output(reply, items)
    return ConvertedTool(name, heading, values | ({"output": output} if output else {}), drawing, notes)


def _encoded(path: str) -> str:
    """What documents write into paths as they would say it; names in braces stay."""
    steps = re.split(r"(\{[^{}]*\})", path)
    return "".join(step if number % 2 else quote(step, safe=_IN_PATHS) for number, step in enumerate(steps))


def _fill_path(drawing: ToolInputs) -> None:
    """Documents forget to describe what their paths have."""
    for word in placeholders(drawing.path):
        if word not in drawing.parameters:
            drawing.add(word, {"type": "string"}, place="path", required=True)


def _head(operation: Node, drawing: ToolInputs, otherwise: str) -> Node:
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
    values |= {"body": drawing.body} if drawing.body not in ("", "json") else {}
    return values | ({"content_type": drawing.content_type} if drawing.content_type else {})


def _paged(
    guessed: Guess | None, values: Node, drawing: ToolInputs, paging: dict[str, Node], notes: list[str]
) -> str | None:
    """Puts the guess in; the path of the list then."""
    if guessed is None:
        return None
    if guessed.missing:
        notes.append(f"it seems to come in parts ({guessed.paging['kind']}), but {guessed.missing}")
        return None
    known = next((name for name, table in paging.items() if table == guessed.paging), None)
    if known is None:
        known = inputs.unique(f"{guessed.paging['kind']}s", paging)
        paging[known] = guessed.paging
    values["paging"] = known
    for name in guessed.parameters:
        if "as" not in drawing.parameters[name]:  # such a name is only the tool's
            del drawing.parameters[name]
    if guessed.items:
        values["result"] = {"items": guessed.items}
    return guessed.items
