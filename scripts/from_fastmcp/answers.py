"""What of an answer is compared: what it means to a client, in one form.

Not compared: how a server introduces itself beyond name and instructions, hints for caches, the words of an
error unless the program wrote them, and of schemas what does not change which values fit.
"""

from typing import Any, cast

JSON = Any
ERROR = "<an error>"
_HINTS = ("ttlMs", "cacheScope", "resultType", "io.modelcontextprotocol/serverInfo", "execution")
_UNSAID = {"title", "additionalProperties", "x-fastmcp-wrap-result", "$defs", "$schema"}


def compared(said: dict[str, JSON], text: str) -> dict[str, JSON]:
    """By request; `text` is the program's own."""
    return {
        label: {
            "answer": _answer(one["answer"], text if _is_its_own(label) else ""),
            "before": [_message(each) for each in one["before"]],
        }
        for label, one in said.items()
        if label not in ("server/discover", "initialize")
    }


def _is_its_own(label: str) -> bool:
    """Whether what a program says of a failure can be its own words: not of what we ask besides."""
    return not label.endswith((" without", " of none", "unknown method"))


def _answer(answer: JSON, text: str) -> JSON:
    if not isinstance(answer, dict):
        return answer
    if "error" in answer:
        return _error(answer["error"].get("message", ""), text)
    result = dict(cast(dict[str, JSON], answer["result"]))
    if result.get("isError"):
        return _error("".join(block.get("text", "") for block in result.get("content", [])), text)
    if "nextCursor" in result:
        result["nextCursor"] = "<a cursor>"
    for name in ("tools", "prompts", "resources", "resourceTemplates"):
        if name in result:
            result[name] = [_definition(one) for one in result[name]]
    return _without_hints(result)


def _error(words: str, text: str) -> JSON:
    return {ERROR: words if words and words in text else ""}


def _message(message: JSON) -> JSON:
    """Log lines of FastMCP have their text in a member of its own."""
    params = message.get("params") if isinstance(message, dict) else None
    if isinstance(params, dict) and "requestedSchema" in params:
        return {**message, "params": {**params, "requestedSchema": schema(params["requestedSchema"])}}
    if (
        isinstance(params, dict)
        and isinstance(params.get("data"), dict)
        and params["data"].keys() == {"msg", "extra"}
    ):
        data = params["data"]
        params = {**params, "data": data["msg"] if data["extra"] is None else data}
        return {**message, "params": params}
    return message


def _definition(one: JSON) -> JSON:
    found = dict(one)
    for name in ("inputSchema", "outputSchema"):
        if name in found:
            found[name] = schema(found[name])
    return _without_hints(found)


def _without_hints(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_without_hints(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_hints(one) for key, one in value.items() if key not in _HINTS}
    empty: dict[str, JSON] = {"_meta": {}, "fastmcp": {}, "tags": [], "isError": False}
    return {key: one for key, one in kept.items() if key not in empty or one != empty[key]}


def schema(node: JSON, whole: JSON = None) -> JSON:
    """A schema in one form: references followed, names of types and the order of lists without meaning."""
    whole = node if whole is None else whole
    if isinstance(node, list):
        return [schema(one, whole) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        rest = {key: one for key, one in node.items() if key != "$ref"}
        return schema({**whole.get("$defs", {}).get(name, {}), **rest}, whole)
    found: dict[str, JSON] = {}
    for key, one in node.items():
        if key in ("properties", "patternProperties"):
            found[key] = {name: schema(each, whole) for name, each in one.items()}
        elif key == "required":
            found[key] = sorted(one)
        elif key in ("default", "examples", "const", "enum"):
            found[key] = one
        elif key not in _UNSAID or (key == "additionalProperties" and one not in (False, True)):
            found[key] = schema(one, whole)
    if "enum" in found or "const" in found:
        found.pop("type", None)  # their values have it
    if not found.get("required", True):
        del found["required"]
    if isinstance(found.get("anyOf"), list):
        found["anyOf"] = sorted(found["anyOf"], key=repr)
    return found
