"""Converts operations into tools; an operation that cannot be converted is left out with a reason."""

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
    inputs: ToolInputs
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
    selection = _Selection(document, only)
    taken: set[str] = set()
    for path, item in node(document.raw.get("paths")).items():
        whole = document.resolved(item)
        for method in whole:
            operation = node(whole[method])
            if method in _OTHER_METHODS and selection.has(path, operation):
                found.left_out.append(f"{method.upper()} {path}: no tool is made of this method")
            if method not in METHODS or not selection.has(path, operation):
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
    """Leave out an operation whose tool breaks a rule, and keep the others."""
    raw = {**tool.values, "parameters": tool.inputs.parameters}
    try:
        row = msgspec.convert(raw, ToolDefinition)
    except msgspec.ValidationError as error:
        raise UnsupportedOperationError(str(error)) from None
    definition = ApiDefinition(name="api", base_url="", paging=msgspec.convert(paging, dict[str, Paging]))
    for problem in rules_of_tool(definition, tool.name, row):
        place = ".".join(str(key) for key in problem.key_path[2:])
        raise UnsupportedOperationError(f"{place} {problem.what}")


class _Selection:
    """The operations selected by `only`; a selector that matches nothing is an error."""

    def __init__(self, document: OpenApiDocument, only: tuple[str, ...]) -> None:
        self._only = only
        known: dict[str, None] = {}
        operations: list[tuple[str, Node]] = []
        for path, item in node(document.raw.get("paths")).items():
            for method, operation in document.resolved(item).items():
                if method in METHODS:
                    operations.append((path, node(operation)))
                    known |= dict.fromkeys(str(tag) for tag in nodes(node(operation).get("tags")))
        for selector in only:
            if not any(self._fits(selector, path, operation) for path, operation in operations):
                hint = nearest_or_all(selector, known or dict.fromkeys(path for path, _ in operations))
                raise OpenApiError(
                    f"no operation has the tag, the path or the operationId {selector!r}", hint
                )

    def has(self, path: str, operation: Node) -> bool:
        return not self._only or any(self._fits(selector, path, operation) for selector in self._only)

    @staticmethod
    def _fits(selector: str, path: str, operation: Node) -> bool:
        if selector.startswith("/"):
            return path.startswith(selector[:-1]) if selector.endswith("*") else path == selector
        tags = [str(tag).lower() for tag in nodes(operation.get("tags"))]
        return selector.lower() in tags or selector == operation.get("operationId")


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
    tool_inputs = ToolInputs(method.upper(), _encoded(path.partition("#")[0].partition("?")[0]))
    for parameter in inputs.listed(document, item.get("parameters"), operation.get("parameters")):
        inputs.add_parameter(tool_inputs, parameter, schemas, keys)
    _fill_path(tool_inputs)
    for called, value in parse_qsl(urlsplit(path).query):
        tool_inputs.add(called, {"type": "string", "default": value}, place="query", required=False)
    inputs.add_body(tool_inputs, document, operation.get("requestBody"), schemas)
    for server in (*nodes(operation.get("servers")), *nodes(item.get("servers"))):
        if node(server).get("url") != server_of(document).get("url"):
            tool_inputs.notes.append(f"it has its own server, which is not used: {node(server).get('url')}")
    tags = ", ".join(str(tag) for tag in nodes(operation.get("tags")))
    heading = f"{method.upper()} {path}" + (f" ({tags})" if tags else "")
    reply = responses.reply_schema(document, operation.get("responses"), schemas)
    notes: list[str] = []
    linked = responses.has_links(document, operation.get("responses"))
    guessed = guess(tool_inputs.parameters, reply, linked) if method == "get" else None
    values = _head(operation, tool_inputs, f"{method.upper()} {path}")
    items = _paged(guessed, values, tool_inputs, paging, notes)
    output = responses.output(reply, items)
    return ConvertedTool(name, heading, values | ({"output": output} if output else {}), tool_inputs, notes)


def _encoded(path: str) -> str:
    """Percent-encode a path; names in braces stay."""
    steps = re.split(r"(\{[^{}]*\})", path)
    return "".join(step if number % 2 else quote(step, safe=_IN_PATHS) for number, step in enumerate(steps))


def _fill_path(tool_inputs: ToolInputs) -> None:
    """Add parameters of the path that the document does not describe."""
    for word in placeholders(tool_inputs.path):
        if word not in tool_inputs.parameters:
            tool_inputs.add(word, {"type": "string"}, place="path", required=True)


def _head(operation: Node, tool_inputs: ToolInputs, otherwise: str) -> Node:
    summary, described = text(operation.get("summary")), text(operation.get("description"))
    values: Node = {"title": short(summary.split("\n")[0], 80)} if summary.strip() else {}
    whole = (
        described if described.strip().startswith(summary.strip().rstrip(".")) else f"{summary}\n{described}"
    )
    values["description"] = short(whole, 1000) or otherwise
    if operation.get("deprecated"):
        values["description"] = f"Deprecated. {values['description']}"
    groups = dict.fromkeys(inputs.group_name(str(tag)) for tag in nodes(operation.get("tags")))
    groups.pop("", None)
    values |= {"groups": list(groups)} if groups else {}
    values |= {"method": tool_inputs.method} if tool_inputs.method != "GET" else {}
    values["path"] = tool_inputs.path
    values |= {"body": tool_inputs.body} if tool_inputs.body not in ("", "json") else {}
    return values | ({"content_type": tool_inputs.content_type} if tool_inputs.content_type else {})


def _paged(
    guessed: Guess | None, values: Node, tool_inputs: ToolInputs, paging: dict[str, Node], notes: list[str]
) -> str | None:
    """Add the guessed paging; returns the path of the list."""
    if guessed is None:
        return None
    if guessed.missing:
        notes.append(f"it seems to be paged ({guessed.paging['kind']}), but {guessed.missing}")
        return None
    known = next((name for name, table in paging.items() if table == guessed.paging), None)
    if known is None:
        known = inputs.unique(f"{guessed.paging['kind']}s", paging)
        paging[known] = guessed.paging
    values["paging"] = known
    for name in guessed.parameters:
        if "as" not in tool_inputs.parameters[name]:  # a parameter with `as` keeps its name in the tool
            del tool_inputs.parameters[name]
    if guessed.items:
        values["result"] = {"items": guessed.items}
    return guessed.items
