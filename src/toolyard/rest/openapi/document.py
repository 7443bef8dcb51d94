"""An OpenAPI document as plain values, its references, and its schemas as self-contained JSON Schemas.

The document is untrusted: references may be missing, external or circular, so everything is bounded.
"""

from typing import Any, Literal, cast
from urllib.parse import unquote

Node = dict[str, Any]
_MAX_REFERENCES = 50
MAX_DEPTH = 200


class OpenApiError(Exception):
    """The document cannot be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def node(value: Any) -> Node:
    """The value if it is a mapping, else an empty one."""
    return cast(Node, value) if isinstance(value, dict) else {}


def nodes(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    return [item for item in nodes(value) if isinstance(item, str)]


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class OpenApiDocument:
    def __init__(self, raw: Any) -> None:
        raw = _normalized(raw, 0, set(), {})
        if not isinstance(raw, dict):
            raise OpenApiError("not an OpenAPI document: it is not a mapping")
        self.raw = cast(Node, raw)
        self.version = str(self.raw.get("openapi", ""))
        if "swagger" in self.raw:
            hint = "convert it first, with `npx swagger2openapi` for instance"
            raise OpenApiError(f"Swagger {self.raw['swagger']} is older than OpenAPI 3", hint)
        if not self.version.startswith("3."):
            reason = f"'openapi' is {self.version!r}" if self.version else "there is no 'openapi' in it"
            raise OpenApiError(f"not an OpenAPI 3 document: {reason}")
        if not node(self.raw.get("paths")):
            raise OpenApiError("the document has no paths, so it has no operations")

    def resolved(self, value: Any) -> Node:
        """The mapping with its reference resolved; members beside the reference take precedence."""
        beside: Node = {}
        reference: Any = None
        for _ in range(_MAX_REFERENCES):
            found = node(value)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return {**found, **beside} if beside else found
            beside = {**{key: item for key, item in found.items() if key != "$ref"}, **beside}
            value = self.at(reference)
        raise OpenApiError(f"the reference {reference!r} is circular")

    def at(self, reference: str) -> Any:
        if not reference.startswith("#"):
            hint = "bundle it into one file first, with `npx @redocly/cli bundle` for instance"
            raise OpenApiError(f"refers to {reference!r}, which is in another file", hint)
        found: Any = self.raw
        for step in reference.removeprefix("#").split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key[:9]) < len(cast(list[Any], found)):
                found = cast(list[Any], found)[int(key[:9])]
            elif isinstance(found, dict) and key in found:
                found = cast(Node, found)[key]
            else:
                raise OpenApiError(f"refers to {reference!r}, which does not exist")
        return found


def _normalized(value: Any, depth: int, above: set[int], done: dict[int, Any]) -> Any:
    """The value with text keys (YAML reads `200:` as a number). YAML aliases may be shared or circular."""
    if isinstance(value, str):
        return _encodable(value)
    if not isinstance(value, dict | list):
        return value
    mark = id(cast(Any, value))
    if mark in done:
        return done[mark]
    if mark in above or depth > MAX_DEPTH:
        raise OpenApiError("the document is nested too deeply, or contains itself")
    above.add(mark)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        result: Any = {_key(key): _normalized(item, depth + 1, above, done) for key, item in items}
    else:
        result = [_normalized(item, depth + 1, above, done) for item in cast(list[Any], value)]
    above.discard(mark)
    done[mark] = result
    return result


def _key(key: Any) -> str:
    # YAML 1.1 reads `on:` and `no:` as booleans.
    return str(key).lower() if isinstance(key, bool) or key is None else _encodable(str(key))


def _encodable(value: str) -> str:
    """Replace unpaired surrogates, which cannot be written to a file."""
    return value.encode("utf-8", "replace").decode()


Direction = Literal["readOnly", "writeOnly"]
"""Members to leave out: `readOnly` ones of requests, `writeOnly` ones of responses."""

ANYTHING = ["string", "number", "boolean", "object", "array"]
_LIMITS = [
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
]
_BRANCHES = ("anyOf", "oneOf")
_NESTED = 150


class SchemaResolver:
    def __init__(self, document: OpenApiDocument) -> None:
        self._document = document

    def effective(self, schema: Any, unwanted: Direction) -> Node:
        """The schema with its reference resolved and allOf merged; references below stay."""
        found = self._merged(schema, set(), 0)
        properties = node(found.get("properties"))
        if properties:
            found["properties"] = {
                name: item
                for name, item in properties.items()
                if not node(item).get(unwanted) and not self._document.resolved(item).get(unwanted)
            }
        return found

    def _merged(self, schema: Any, seen: set[str], depth: int) -> Node:
        """The schema with allOf merged, each reference once."""
        found = dict(self._document.resolved(schema))
        parts = nodes(found.pop("allOf", None))
        if depth > 20:
            return found
        for part in parts:
            reference = node(part).get("$ref")
            if isinstance(reference, str):
                if reference in seen:
                    continue
                seen.add(reference)
            found = _merged_schemas(self._merged(part, seen, depth + 1), found)
        return found

    def plain(self, schema: Any, unwanted: Direction = "readOnly") -> Node:
        """A self-contained JSON Schema; beyond a size, and where it is recursive, it allows anything."""
        return _Plain(self, unwanted).of(schema, ())


class _Plain:
    def __init__(self, schemas: SchemaResolver, unwanted: Direction) -> None:
        self._schemas = schemas
        self._unwanted: Direction = unwanted
        self._left = _NESTED

    def of(self, schema: Any, above: tuple[str, ...]) -> Node:
        reference = node(schema).get("$ref")
        if isinstance(reference, str):
            if reference in above:
                return {}
            above = (*above, reference)
        self._left -= 1
        if self._left < 0 or len(above) > 5:
            return {}
        found = self._schemas.effective(schema, self._unwanted)
        plain = _own(found)
        self._below(found, plain, above)
        return _nullable(plain, found)

    def _below(self, found: Node, plain: Node, above: tuple[str, ...]) -> None:
        if "properties" in found:
            inside = {name: self.of(item, above) for name, item in node(found["properties"]).items()}
            plain["properties"] = inside
            if "required" in plain:
                plain["required"] = [name for name in texts(plain["required"]) if name in inside]
        if isinstance(found.get("items"), dict):
            plain["items"] = self.of(found["items"], above)
        if isinstance(found.get("additionalProperties"), dict) and found["additionalProperties"]:
            plain["additionalProperties"] = self.of(found["additionalProperties"], above)
        for key in _BRANCHES:
            branches = [self.of(item, above) for item in nodes(found.get(key))]
            if branches:
                # `oneOf` in documents is rarely exact, so a value may match several branches.
                plain.setdefault("anyOf", []).extend(branches)
        if plain.get("required") == []:
            del plain["required"]
        if any(branch == {} for branch in nodes(plain.get("anyOf"))):
            del plain["anyOf"]


def _own(found: Node) -> Node:
    """The schema without its parts. TOML has no null, and OpenAPI 3.0 has other exclusive limits."""
    plain: Node = {}
    kind = found.get("type")
    if isinstance(kind, str | list) and kind:
        plain["type"] = kind
    if described := short(text(found.get("description")), 300):
        plain["description"] = described
    for key in _LIMITS:
        if found.get(key) is not None and not _is_huge(found[key]):
            plain[key] = found[key]
    for key, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(plain.get(key), bool):
            exclusive = plain.pop(key)
            if exclusive and limit in plain:
                plain[key] = plain.pop(limit)
    if "enum" in plain:
        plain["enum"] = [item for item in nodes(plain["enum"]) if item is not None]
        if not plain["enum"]:
            del plain["enum"]
    if (
        found.get("default") is not None
        and not isinstance(found["default"], dict)
        and not _is_huge(found["default"])
    ):
        plain["default"] = found["default"]
    return plain


def _is_huge(value: Any) -> bool:
    """Limits beyond 64 bits, as JavaScript rounds them, cannot be read and limit nothing."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _nullable(plain: Node, found: Node) -> Node:
    if found.get("nullable") is True and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
    if isinstance(plain.get("type"), list) and "null" in plain["type"]:
        # TOML cannot write null in an enum; leaving the parameter out means the same.
        if "enum" in plain:
            plain["type"] = [kind for kind in plain["type"] if kind != "null"]
        if len(plain["type"]) == 1:
            plain["type"] = plain["type"][0]
    return plain


def _merged_schemas(under: Node, over: Node) -> Node:
    merged = {**under, **over}
    for key in ("properties",):
        if key in under and key in over:
            merged[key] = {**node(under[key]), **node(over[key])}
    if "required" in under and "required" in over:
        merged["required"] = list(dict.fromkeys([*texts(under["required"]), *texts(over["required"])]))
    return merged


def types(plain: Node) -> list[str]:
    """The types of a plain schema, inferred if it does not name them."""
    kind = plain.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list) and kind:
        return [item for item in cast(list[Any], kind) if isinstance(item, str)]
    for key, implied in (("properties", "object"), ("additionalProperties", "object"), ("items", "array")):
        if key in plain:
            return [implied]
    named = [_type_of(value) for value in nodes(plain.get("enum"))] or [
        name for branch in nodes(plain.get("anyOf")) for name in types(node(branch))
    ]
    return sorted(dict.fromkeys(named), key=lambda name: name == "null") or ANYTHING


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def short(text: str, limit: int) -> str:
    """The text cut to whole words within the limit, without control characters."""
    clean = "".join(
        sign for sign in text.replace("\r\n", "\n") if sign in "\n\t" or sign.isprintable()
    ).strip()
    if len(clean) <= limit:
        return clean
    return clean[: limit - 1].rsplit(" ", 1)[0].rstrip(".,;: \n") + "…"
