"""A tool as one line, as a person would write it: `create_issue(repo, labels?: string[], state=open|closed)`.

Owns the notation, and what of a schema is worth a word: names, types, required marks, enumerations, defaults,
nested objects; a format, a unit or an example where the schema or its texts have one. An argument without a
type is a string, `?` may be left out, `=` is the default. Every required argument is in the line; it is cut
among the optional ones. Never fails on what a server calls a schema.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from ..wire.text import printable
from .meta.arguments import resolve_reference

Access = Literal["read", "write", "destructive", ""]
Node = dict[str, Any]

MAX_LINE = 420
"""Characters of the arguments in a line, after which optional ones are only counted."""
BRIEF_LINE = 150
MAX_DEPTH = 3
MAX_MEMBERS = 12
MAX_VALUES = 12
MAX_ENUM = 120
"""Characters of an enumeration."""
MAX_VALUE = 24
MAX_REQUIRED = 100
MAX_PURPOSE = 100
MAX_TOLD = 90
MAX_ARGUMENTS_TOLD = 8

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_PLAIN = re.compile(r"[\w./:@+-]+")
_IMPLIED = re.compile(r"-?[\d.]+|true|false")
_LEADS = re.compile(
    r"^(?:(?:this|the)\s+(?:tool|function|endpoint|method|api|command)\s+(?:will\s+|can\s+|is\s+used\s+to\s+|"
    r"allows\s+you\s+to\s+|lets\s+you\s+|enables\s+you\s+to\s+)?|(?:a\s+|the\s+)?tool\s+(?:to|that|for)\s+|"
    r"use\s+this\s+(?:tool\s+)?(?:to|for|when\s+you\s+(?:need|want)\s+to)\s+|allows\s+you\s+to\s+|"
    r"esta\s+ferramenta\s+|use\s+esta\s+ferramenta\s+para\s+)",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"(?:purpose|overview|description|summary|about|usage|note|important|warning)s?", re.IGNORECASE
)
_NOISE = re.compile(
    r"<[^>\n]{1,80}>|\*\*|__(?=\w)|^#+\s|```\w*|\[(?=[^\]]{1,80}\]\()|\]\([^)\s]*\)|"
    r"[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]",
    re.MULTILINE,
)
_SENTENCE = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?](?=\s|$)|\n\s*\n|\n\s*[-*•]\s|[\n:]\s*\n"
)
_UNITS = re.compile(
    r"\b(?:in|em|en)\s+(milliseconds|seconds|minutes|hours|days|bytes|pixels|percent|megabytes|kilobytes|meters|"
    r"kilometers|celsius|fahrenheit|degrees|points|inches|cents|dollars|milissegundos|segundos|minutos)\b|"
    r"\((ms|px|seconds|milliseconds|minutes|bytes|percent|in points|inches)\)",
    re.IGNORECASE,
)
_BASED = re.compile(r"\b(0|1|zero|one)[- ](?:based|indexed)\b", re.IGNORECASE)
_FORMS = re.compile(
    r"\b(ISO[- ]?8601|RFC[- ]?3339|YYYY-MM-DD(?:[T ]HH:MM(?::SS)?)?|HH:MM(?::SS)?|unix timestamp)\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:\be\.g\.,?|\bfor example,?|\bexamples?:|\bsuch as|\bpor exemplo,?)[:\s]*"
    "[`'\"\u201c\u2018]([^`'\"\u201d\u2019\n]{2,40})[`'\"\u201d\u2019]",
    re.IGNORECASE,
)
_SHORT = {"zero": "0", "one": "1", "milliseconds": "ms", "seconds": "s", "minutes": "min", "percent": "%"}
_SMALL_WORDS = {"the", "a", "an", "of", "to", "for", "o", "de", "da", "do"}
_OPTIONS = ("_fields", "_max_bytes")


class ToolSignature(Struct, frozen=True):
    """A tool as a model reads it."""

    line: str
    """Its name with its arguments."""
    purpose: str
    """What it does, in the first sentence of its description."""
    access: Access = ""

    def shown(self) -> str:
        """Return the whole on one line: `name(arguments) [read] What it does`."""
        access = f" [{self.access}]" if self.access else ""
        return f"{self.line}{access} {self.purpose}".rstrip()


def signature(
    name: str, schema: Any, description: Any = "", hints: Any = None, *, brief: bool = False
) -> ToolSignature:
    """Write a tool's signature. `schema`, `description` and `hints` may be anything that a server sent."""
    line = arguments_line(name, schema, BRIEF_LINE if brief else MAX_LINE)
    return ToolSignature(line, purpose(description), access(hints))


def arguments_line(name: str, schema: Any, room: int = MAX_LINE) -> str:
    """Write a tool's name with its arguments."""
    return f"{name}({_Writer(_node(schema)).arguments(room)})"


def described(schema: Any) -> list[str]:
    """Return a line for each argument that its server describes, required ones first, up to some."""
    root = _node(schema)
    writer = _Writer(root)
    told: list[str] = []
    for name, part in writer.members(root):
        text = _first(_flat(_text(part.get("description"))), MAX_TOLD)
        if text and not _says_nothing(name, text):
            told.append(f"{_name(name)}: {text}")
        if len(told) == MAX_ARGUMENTS_TOLD:
            break
    return told


def purpose(description: Any) -> str:
    """Return the first sentence that says what a tool does, without what says nothing."""
    text = _flat(_NOISE.sub("", _text(description)[:2_000]), keep_lines=True)
    for piece in _SENTENCE.split(text):
        plain = _LEADS.sub("", " ".join(piece.split()).strip(" -\u2013\u2014:#>|"))
        if any(letter.isalpha() for letter in plain) and not _HEADING.fullmatch(plain):
            return _cut(plain[:1].upper() + plain[1:], MAX_PURPOSE)
    return ""


def access(hints: Any) -> Access:
    """Say in a word what a tool does to its world, if its annotations say so."""
    told = _node(hints)
    if told.get("readOnlyHint") is True:
        return "read"
    if told.get("destructiveHint") is True:
        return "destructive"
    return "write" if told.get("readOnlyHint") is False or told.get("destructiveHint") is False else ""


class _Writer:
    def __init__(self, root: Node) -> None:
        self._root = root

    def arguments(self, room: int) -> str:
        needed, others = self._split(self._root)
        share = max(room // 4, room // max(1, len(needed)))
        written = [self._within(share, name, part, True) for name, part in needed[:MAX_REQUIRED]]
        left = room - sum(map(len, written))
        for at, (name, part) in enumerate(others):
            told = self._within(max(room // 3, left), name, part, False)
            if len(told) + 2 > left:
                # Names alone are worth more than a few types.
                told = f"{_name(name)}?"
                if len(told) + 2 > left:
                    return ", ".join([*written, f"…{len(others) - at} more?"])
            written.append(told)
            left -= len(told) + 2
        return ", ".join(written)

    def _within(self, room: int, name: str, part: Node, required: bool) -> str:
        """Write an argument with as much of what is nested in it as there is room for."""
        told = ""
        for depth in range(MAX_DEPTH + 1):
            told = self._member(name, part, required, depth)
            if len(told) <= room:
                break
        return told

    def members(self, node: Node) -> list[tuple[str, Node]]:
        needed, others = self._split(node)
        return [*needed, *others]

    def _split(self, node: Node) -> tuple[list[tuple[str, Node]], list[tuple[str, Node]]]:
        """Return the required and the other members of an object, each in the server's order."""
        known: dict[str, Node] = {}
        required: list[str] = []
        for part in self._merged(node, MAX_DEPTH):
            for name, member in _node(part.get("properties")).items():
                known.setdefault(name, _node(member))
            required += [name for name in _list(part.get("required")) if isinstance(name, str)]
        for name in _OPTIONS:
            if name in known and name not in required:
                del known[name]
        for name in required:
            known.setdefault(name, {})
        needed = [(name, part) for name, part in known.items() if name in required]
        return needed, [(name, part) for name, part in known.items() if name not in required]

    def _merged(self, node: Node, depth: int) -> Iterator[Node]:
        """Yield an object's schema and those that it must fit as well."""
        node = self._plain(node)
        yield node
        if depth:
            for other in _list(node.get("allOf")):
                yield from self._merged(_node(other), depth - 1)

    def _plain(self, node: Node) -> Node:
        for _ in range(4):
            if "$ref" not in node:
                return node
            try:
                found = _node(resolve_reference(self._root, node["$ref"]))
            except (LookupError, TypeError, ValueError):
                return {}
            node = {**found, **{key: value for key, value in node.items() if key != "$ref"}}
        return {}

    def _member(self, name: str, part: Node, required: bool, depth: int) -> str:
        part = self._plain(part)
        kind = self._type(part, depth)
        hint = _hint(part, kind)
        default = "" if required else _default(part)
        told = _name(name) + ("" if required or default else "?")
        is_told = kind and kind != "string" and not (_IMPLIED.fullmatch(default) and kind in _TYPES)
        if is_told:
            told += f": {kind}"
        if hint:
            told += f" ({hint})"
        return f"{told}={default}" if default else told

    def _type(self, part: Node, depth: int) -> str:
        """Write a type; empty if the schema does not say."""
        part = self._plain(part)
        if "const" in part:
            return _value(part["const"])
        if values := [value for value in _list(part.get("enum")) if value is not None]:
            return _choices(values)
        for key in ("anyOf", "oneOf", "allOf"):
            if (parts := _list(part.get(key))) and "properties" not in part:
                return self._either([_node(one) for one in parts], depth) if depth < MAX_DEPTH else "object"
        kind = part.get("type")
        if isinstance(kind, list):
            kinds = [one for one in cast(list[Any], kind) if one in _TYPES and one != "null"]
            return "|".join(dict.fromkeys(self._typed({**part, "type": one}, one, depth) for one in kinds))
        if not isinstance(kind, str):
            kind = "object" if "properties" in part else "array" if "items" in part else ""
        return self._typed(part, kind, depth)

    def _either(self, parts: list[Node], depth: int) -> str:
        consts = [self._plain(part).get("const") for part in parts]
        if parts and all(value is not None for value in consts):
            return _choices(consts)
        kinds = (self._type(part, depth + 1) for part in parts if self._plain(part).get("type") != "null")
        return "|".join(dict.fromkeys(kind for kind in kinds if kind))

    def _typed(self, part: Node, kind: str, depth: int) -> str:
        if kind == "array":
            items = part.get("items")
            inner = self._type(_node(items), depth + 1) if depth < MAX_DEPTH else ""
            inner = inner or ("string" if depth < MAX_DEPTH and _node(items).get("type") == "string" else "")
            return f"({inner})[]" if "|" in inner and not inner.startswith("{") else f"{inner or 'any'}[]"
        if kind == "object":
            return self._object(part, depth)
        if kind == "string" and isinstance(part.get("format"), str) and _PLAIN.fullmatch(part["format"]):
            return cast(str, part["format"])[:MAX_VALUE]
        return kind if kind in _TYPES else _flat(kind)[:MAX_VALUE]

    def _object(self, part: Node, depth: int) -> str:
        if depth >= MAX_DEPTH:
            return "object"
        needed, others = self._split(part)
        members = [self._member(name, one, True, depth + 1) for name, one in needed]
        members += [self._member(name, one, False, depth + 1) for name, one in others]
        if not members:
            values = self._type(_node(part.get("additionalProperties")), depth + 1)
            return f"{{…: {values}}}" if values else "object"
        if len(members) > MAX_MEMBERS:
            shown = max(MAX_MEMBERS, min(len(needed), MAX_REQUIRED))
            members = [*members[:shown], *(["…"] if len(members) > shown else [])]
        return f"{{{', '.join(members)}}}"


def _choices(values: list[Any]) -> str:
    shown: list[str] = []
    room = MAX_ENUM
    for value in values:
        told = _value(value)
        if len(shown) == MAX_VALUES or (shown and len(told) > room):
            return "|".join([*shown, "…"])
        shown.append(told)
        room -= len(told) + 1
    return "|".join(shown)


def _value(value: Any) -> str:
    if isinstance(value, str):
        plain = _flat(value)
        is_plain = _PLAIN.fullmatch(plain) and plain not in _TYPES and not _IMPLIED.fullmatch(plain)
        return plain[:80] if is_plain else f"'{plain[:80]}'"
    return _flat(msgspec.json.encode(value).decode())[:80]


def _default(part: Node) -> str:
    """Write a default that says something; an empty one is what leaving the argument out means anyway."""
    value = part.get("default")
    if value is None or isinstance(value, (dict, list)) or value == "":
        return ""
    told = _value(value)
    return told if len(told) <= MAX_VALUE else ""


def _hint(part: Node, kind: str) -> str:
    """Return the unit, the base, the form or an example of a value, where its texts have one."""
    text = _text(part.get("description"))[:600]
    if kind in ("integer", "number"):
        if found := _BASED.search(text):
            return f"{_SHORT.get(found[1].lower(), found[1])}-based"
        if found := _UNITS.search(text):
            unit = (found[1] or found[2]).lower()
            return _SHORT.get(unit, unit)
        low, high = part.get("minimum"), part.get("maximum")
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 < high - low <= 1_000:
            return f"{low} to {high}"
        return ""
    if kind not in ("string", ""):
        return ""
    if found := _FORMS.search(text):
        return found[1]
    examples = [one for one in _list(part.get("examples")) if isinstance(one, str)]
    example = examples[0] if examples else (_EXAMPLE.search(text) or ("", ""))[1]
    return f"'{_flat(example)}'" if 0 < len(example) <= MAX_VALUE else ""


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _flat(msgspec.json.encode(name).decode())[:200]


def _says_nothing(name: str, text: str) -> bool:
    """Whether a text has no word that the argument's own name has not."""
    words = set(re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
    return not set(re.findall(r"[a-z0-9]+", text.lower())) - _SMALL_WORDS - words


def _first(text: str, most: int) -> str:
    return _cut(_SENTENCE.split(text)[0].strip(), most)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    start = text[: most - 1]
    space = start.rfind(" ")
    return (start[:space] if space > most // 2 else start).rstrip(" ,;:(") + "…"


def _flat(text: str, *, keep_lines: bool = False) -> str:
    plain = printable(text)
    return plain.strip() if keep_lines else " ".join(plain.split())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _node(value: Any) -> Node:
    return cast(Node, value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
