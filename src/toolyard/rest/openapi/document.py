"""An OpenAPI document as a tree of plain values, and the references inside it.

Whoever wrote it may be a stranger: references may lead nowhere, outside, or round in circles.
"""

from typing import Any, cast
from urllib.parse import unquote

Node = dict[str, Any]
_CHAIN = 50
DEEPEST = 200


class DocumentError(Exception):
    """The document cannot be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def node(value: Any) -> Node:
    """A mapping, or an empty one where the document has something else."""
    return cast(Node, value) if isinstance(value, dict) else {}


def nodes(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    return [item for item in nodes(value) if isinstance(item, str)]


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class Document:
    def __init__(self, raw: Any) -> None:
        raw = _tidied(raw, 0, set(), {})
        if not isinstance(raw, dict):
            raise DocumentError("not an OpenAPI document: it is no mapping")
        self.raw = cast(Node, raw)
        self.version = str(self.raw.get("openapi", ""))
        if "swagger" in self.raw:
            hint = "convert it first, with `npx swagger2openapi` for instance"
            raise DocumentError(f"Swagger {self.raw['swagger']} is older than OpenAPI 3", hint)
        if not self.version.startswith("3."):
            said = f"'openapi' is {self.version!r}" if self.version else "there is no 'openapi' in it"
            raise DocumentError(f"not an OpenAPI 3 document: {said}")
        if not node(self.raw.get("paths")):
            raise DocumentError("the document has no paths, so there is nothing to make tools of")

    def resolved(self, value: Any) -> Node:
        """The mapping that is meant: a reference is followed, what stands beside it wins."""
        beside: Node = {}
        reference: Any = None
        for _ in range(_CHAIN):
            found = node(value)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return {**found, **beside} if beside else found
            beside = {**{key: item for key, item in found.items() if key != "$ref"}, **beside}
            value = self.at(reference)
        raise DocumentError(f"the reference {reference!r} leads in a circle")

    def at(self, reference: str) -> Any:
        if not reference.startswith("#"):
            hint = "bundle it into one file first, with `npx @redocly/cli bundle` for instance"
            raise DocumentError(f"refers to {reference!r}, which is in another file", hint)
        found: Any = self.raw
        for step in reference.removeprefix("#").split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key[:9]) < len(cast(list[Any], found)):
                found = cast(list[Any], found)[int(key[:9])]
            elif isinstance(found, dict) and key in found:
                found = cast(Node, found)[key]
            else:
                raise DocumentError(f"refers to {reference!r}, which is not in it")
        return found


def _tidied(value: Any, depth: int, above: set[int], done: dict[int, Any]) -> Any:
    """Keys as texts (YAML reads `200:` as a number). YAML's aliases share and may even hold themselves."""
    if isinstance(value, str):
        return _sound(value)
    if not isinstance(value, dict | list):
        return value
    mark = id(cast(Any, value))
    if mark in done:
        return done[mark]
    if mark in above or depth > DEEPEST:
        raise DocumentError("the document is nested too deeply, or holds itself")
    above.add(mark)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        tidy: Any = {_key(key): _tidied(item, depth + 1, above, done) for key, item in items}
    else:
        tidy = [_tidied(item, depth + 1, above, done) for item in cast(list[Any], value)]
    above.discard(mark)
    done[mark] = tidy
    return tidy


def _key(key: Any) -> str:
    # YAML 1.1 reads `on:` and `no:` as booleans.
    return str(key).lower() if isinstance(key, bool) or key is None else _sound(str(key))


def _sound(value: str) -> str:
    """JSON can spell half a character, which no file can hold."""
    return value.encode("utf-8", "replace").decode()
