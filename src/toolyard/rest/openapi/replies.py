"""What an operation answers: the schema of it, where its list is, and an output schema when that is small."""

import json
from typing import Any

from .document import Document, Node, node
from .schemas import Schemas, types

SMALL = 1500


def reply_schema(document: Document, responses: Any, schemas: Schemas) -> Node | None:
    """Of the first good answer that is JSON."""
    found = node(responses)
    good = [*sorted(status for status in found if status.startswith("2")), "default"]
    for status in good:
        if status not in found:
            continue
        for kind, content in node(document.resolved(found[status]).get("content")).items():
            if "json" in kind.lower() or kind == "*/*":
                return schemas.plain(node(content).get("schema"), "writeOnly")
    return None


def lists_in(reply: Node | None) -> list[str]:
    """Paths of the arrays of a reply, its own and one level below; the empty one is the reply itself."""
    if reply is None:
        return []
    if types(reply) == ["array"]:
        return [""]
    found: list[str] = []
    for name, schema in node(reply.get("properties")).items():
        if "." in name:
            continue
        if types(node(schema)) == ["array"]:
            found.append(name)
        else:
            inner = node(node(schema).get("properties")).items()
            found += [
                f"{name}.{key}" for key, item in inner if types(node(item)) == ["array"] and "." not in key
            ]
    return found


def at(reply: Node | None, path: str) -> Node:
    found = node(reply)
    for step in path.split(".") if path else ():
        found = node(node(found.get("properties")).get(step))
    return found


def output(reply: Node | None, items: str | None) -> Node:
    """What the tool's result looks like; empty when that is not known, or too long to be worth its tokens."""
    if reply is None:
        return {}
    if items is not None or types(reply) == ["array"]:
        inner = node(at(reply, items or "").get("items"))
        if not inner:
            return {}
        schema = {"type": "object", "properties": {"items": {"type": "array", "items": loosened(inner)}}}
    elif "data" in node(reply.get("properties")):
        schema = {**loosened(reply), "type": "object"}  # a reply that has `data` is not wrapped in another
    elif node(reply.get("properties")):
        schema = {"type": "object", "properties": {"data": loosened(reply)}}
    else:
        return {}
    return schema if len(json.dumps(schema)) <= SMALL else {}


def loosened(schema: Node) -> Node:
    """Names and types only, and null everywhere: an API that is not quite as documented is still of use."""
    kinds = types(schema) if "type" in schema or "properties" in schema or "items" in schema else []
    found: Node = {}
    if kinds:
        found["type"] = [*dict.fromkeys([*kinds, "null"])]
    if schema.get("description") and "properties" not in schema:
        found["description"] = str(schema["description"]).split("\n")[0][:120]
    if node(schema.get("properties")):
        found["properties"] = {
            name: loosened(node(item)) for name, item in node(schema["properties"]).items()
        }
    if node(schema.get("items")):
        found["items"] = loosened(node(schema["items"]))
    return found


def has_links(document: Document, responses: Any) -> bool:
    """Whether good answers are documented to have a Link header, which leads to the next part of a list."""
    good = [document.resolved(item) for status, item in node(responses).items() if status.startswith("2")]
    return any(name.lower() == "link" for item in good for name in node(item.get("headers")))
