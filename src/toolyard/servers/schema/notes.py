"""People's notes on a database, read from a folder: descriptions, rules, hints, relations.

Owns the file formats and their error messages, which name the line. YAML is composed, never constructed, and
files that are too big, too deep or expand too much are refused. Does not look at the database.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field


class NotesError(Exception):
    """A file that cannot be used; `str()` names it, the line or place, and what is wrong."""


class Hint(Struct, frozen=True):
    """A query for a frequent question."""

    description: str
    sql: str


class NotedRelation(Struct, frozen=True):
    """A relation that the database does not declare."""

    table: str
    columns: tuple[str, ...]
    references: str
    referenced: tuple[str, ...]


class TableNotes(Struct):
    description: str = ""
    columns: dict[str, str] = field(default_factory=dict[str, str])
    rules: list[str] = field(default_factory=list[str])
    hints: list[Hint] = field(default_factory=list[Hint])

    def add(self, other: "TableNotes") -> None:
        """Merges another file's notes on the same table: its texts win, its rules and hints are added."""
        self.description = other.description or self.description
        self.columns |= other.columns
        self.rules += [rule for rule in other.rules if rule not in self.rules]
        self.hints += [hint for hint in other.hints if hint not in self.hints]


class Knowledge(Struct):
    """All notes of a folder."""

    tables: dict[str, TableNotes] = field(default_factory=dict[str, TableNotes])
    links: list[NotedRelation] = field(default_factory=list[NotedRelation])
    general_notes: list[str] = field(default_factory=list[str])
    """Notes on all tables."""
    blocked_tables: list[str] = field(default_factory=list[str])
    blocked_columns: list[str] = field(default_factory=list[str])

    def add(self, other: "Knowledge") -> None:
        for name, notes in other.tables.items():
            self.tables.setdefault(name, TableNotes()).add(notes)
        self.links += [link for link in other.links if link not in self.links]
        self.general_notes += [text for text in other.general_notes if text not in self.general_notes]
        self.blocked_tables += other.blocked_tables
        self.blocked_columns += other.blocked_columns


MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 20
MAX_NODES = 100_000
"""With every alias expanded: a few lines of YAML can stand for billions of nodes."""


class NotesNode(Struct, frozen=True):
    value: "str | list[NotesNode] | dict[str, NotesNode]"
    """A text, a list, or members by name; a number is its text, null an empty one."""
    place: str
    """Such as `shop.yaml, line 3`."""

    def wrong(self, why: str) -> NotesError:
        return NotesError(f"{self.place}: {why}")

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong(f"expected a text, not {_kind(self.value)}")
        return self.value.strip()

    def items(self) -> "list[NotesNode]":
        if self.value == "":  # `rules:` without a value
            return []
        if not isinstance(self.value, list):
            raise self.wrong(f"expected a list, not {_kind(self.value)}")
        return self.value

    def members(self) -> "dict[str, NotesNode]":
        if self.value == "":
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong(f"expected names with values, not {_kind(self.value)}")
        return self.value


def _kind(value: Any) -> str:
    return (
        "a list" if isinstance(value, list) else "names with values" if isinstance(value, dict) else "a text"
    )


def read_file(path: Path, shown: str) -> NotesNode:
    """Reads a file; `shown` is its name in messages."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise NotesError(f"{shown}: the file is over {MAX_FILE_BYTES >> 20} MiB; split it")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise NotesError(f"{shown}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise NotesError(f"{shown}: is not UTF-8 (byte {error.start})") from None
    return _json(text, shown) if path.suffix == ".json" else _yaml(text, shown)


# JSON


def _json(text: str, shown: str) -> NotesNode:
    try:
        return _of_data(json.loads(text), shown, "", MAX_DEPTH)
    except json.JSONDecodeError as error:
        raise NotesError(f"{shown}, line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise NotesError(f"{shown}: nested too deeply") from None


def _of_data(data: Any, shown: str, path: str, depth: int) -> NotesNode:
    place = f"{shown}, {path}" if path else shown
    if depth == 0:
        raise NotesError(f"{place}: nested too deeply")
    if isinstance(data, dict):
        members = cast("dict[str, Any]", data).items()
        value = {name: _of_data(one, shown, f"{path}.{name}".lstrip("."), depth - 1) for name, one in members}
        return NotesNode(value, place)
    if isinstance(data, list):
        items = enumerate(cast("list[Any]", data))
        return NotesNode([_of_data(one, shown, f"{path}[{at}]", depth - 1) for at, one in items], place)
    return NotesNode("" if data is None else data if isinstance(data, str) else json.dumps(data), place)


# YAML


def _yaml(text: str, shown: str) -> NotesNode:
    import yaml as package  # 15 ms of CPU, only if there are YAML files

    yaml = cast(Any, package)  # it has no types
    # The C loader where PyYAML was built with it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_depth(yaml.parse(text, loader), shown)
        node = yaml.compose(text, loader)
    except yaml.YAMLError as error:
        raise NotesError(_syntax(error, shown)) from None
    if node is None:
        return NotesNode("", shown)
    _check_extent(node, {}, shown)
    return _of_node(node, shown)


def _check_depth(events: Iterator[Any], shown: str) -> None:
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise NotesError(f"{shown}, line {event.start_mark.line + 1}: nested too deeply")


class _Extent(Struct, frozen=True):
    """The size of a node with all aliases expanded."""

    parts: int
    depth: int


def _check_extent(node: Any, known: dict[int, "_Extent | None"], shown: str) -> _Extent:
    place = f"{shown}, line {node.start_mark.line + 1}"
    if id(node) in known:
        extent = known[id(node)]
        if extent is None:
            raise NotesError(f"{place}: contains itself")
        return extent
    known[id(node)] = None  # still counting
    inside = [_check_extent(child, known, shown) for child in _children(node)]
    extent = _Extent(1 + sum(one.parts for one in inside), 1 + max((one.depth for one in inside), default=0))
    if extent.parts > MAX_NODES:
        raise NotesError(f"{place}: expands to more than {MAX_NODES:,} values through its aliases")
    if extent.depth > MAX_DEPTH:
        raise NotesError(f"{place}: nested too deeply with its aliases expanded")
    known[id(node)] = extent
    return extent


def _children(node: Any) -> list[Any]:
    if node.id == "mapping":
        return [part for pair in node.value for part in pair]
    return list(node.value) if node.id == "sequence" else []


def _of_node(node: Any, shown: str) -> NotesNode:
    place = f"{shown}, line {node.start_mark.line + 1}"
    if node.id == "sequence":
        return NotesNode([_of_node(child, shown) for child in node.value], place)
    if node.id == "mapping":
        return NotesNode(_of_pairs(node, shown), place)
    empty = node.tag == "tag:yaml.org,2002:null"
    return NotesNode("" if empty else str(node.value), place)


def _of_pairs(node: Any, shown: str) -> dict[str, NotesNode]:
    members: dict[str, NotesNode] = {}
    for key, value in node.value:
        place = f"{shown}, line {key.start_mark.line + 1}"
        if key.id != "scalar":
            raise NotesError(f"{place}: expected a name before the colon")
        if key.value in members:
            raise NotesError(f"{place}: duplicate key {key.value!r}")
        members[key.value] = _of_node(value, shown)
    return members


def _syntax(error: Any, shown: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
    return f"{shown}, line {mark.line + 1}: {problem}" if mark is not None else f"{shown}: {problem}"


# Our names of the keys, and their other spellings.
_FILE = {
    "tables": ("tabelas",),
    "notes": ("notas_gerais", "notas"),
    "relationships": ("relacoes",),
    "blocked_tables": ("tabelas_bloqueadas",),
    "blocked_columns": ("colunas_bloqueadas",),
}
_TABLE = {
    "table": ("name", "tabela"),
    "description": ("descricao",),
    "columns": ("fields", "colunas", "campos"),
    "rules": ("business_rules", "regras"),
    "hints": ("query_hints", "dicas"),
    "foreign_keys": ("relationships", "relacoes"),
}
_COLUMN = {"column": ("name", "campo"), "description": ("descricao",), "rules": ("regras",)}
_HINT = {"description": ("descricao",), "sql": ()}
_LINK = {
    "from_table": (),
    "from_column": (),
    "to_table": (),
    "to_column": (),
}
_KEY = {"column": ("coluna", "campo"), "references": ("referencia",)}

Spellings = Mapping[str, tuple[str, ...]]


def parse_notes(part: NotesNode, strict: bool) -> Knowledge:
    """Parses a file: notes on many tables, or on the one table that it names."""
    found = Knowledge()
    given = part.members()
    if not given:
        return found
    if _describes_one_table(given):
        _add_table(found, part, "", strict)
        return found
    members = _named(part, _FILE, strict)
    if "tables" in members:
        _add_tables(found, members["tables"], strict)
    for link in _items(members, "relationships"):
        found.links.append(_link(link, strict))
    found.general_notes = _texts(members, "notes")
    found.blocked_tables = _texts(members, "blocked_tables")
    found.blocked_columns = _texts(members, "blocked_columns")
    return found


def _describes_one_table(given: Mapping[str, NotesNode]) -> bool:
    return any(name in given for name in ("table", *_TABLE["table"]))


def _add_tables(found: Knowledge, part: NotesNode, strict: bool) -> None:
    if isinstance(part.value, list):
        for one in part.items():
            _add_table(found, one, "", strict)
        return
    for name, one in part.members().items():
        _add_table(found, one, name, strict)


def _add_table(found: Knowledge, part: NotesNode, name: str, strict: bool) -> None:
    members = _named(part, _TABLE, strict)
    if not name:
        if "table" not in members:
            raise part.wrong("`table` is missing; it names the table")
        name = members["table"].text()
    notes = TableNotes(description=_text(members, "description"), rules=_texts(members, "rules"))
    notes.hints = [_hint(one, strict) for one in _items(members, "hints")]
    notes.columns = _columns(members["columns"], strict) if "columns" in members else {}
    found.tables.setdefault(name, TableNotes()).add(notes)
    found.links += [_own_link(name, one, strict) for one in _items(members, "foreign_keys")]


def _columns(part: NotesNode, strict: bool) -> dict[str, str]:
    if isinstance(part.value, list):
        return dict(_column(one, strict) for one in part.items())
    return {name: _of_column(one, strict) for name, one in part.members().items()}


def _column(part: NotesNode, strict: bool) -> tuple[str, str]:
    members = _named(part, _COLUMN, strict)
    if "column" not in members:
        raise part.wrong("`column` is missing; it names the column")
    return members["column"].text(), _of_column(part, strict)


def _of_column(part: NotesNode, strict: bool) -> str:
    """Joins a description and the column's rules into one text."""
    if isinstance(part.value, str):
        return part.text()
    members = _named(part, _COLUMN, strict)
    return " ".join(text for text in (_text(members, "description"), *_texts(members, "rules")) if text)


def _hint(part: NotesNode, strict: bool) -> Hint:
    members = _named(part, _HINT, strict)
    if "sql" not in members:
        raise part.wrong("a hint has `description` and `sql`; `sql` is missing")
    return Hint(_text(members, "description"), members["sql"].text())


def _link(part: NotesNode, strict: bool) -> NotedRelation:
    members = _named(part, _LINK, strict)
    for name in _LINK:
        if name not in members:
            raise part.wrong(f"a relation has {', '.join(_LINK)}; {name!r} is missing")
    table, column, other, referenced = (members[name] for name in _LINK)
    columns, others = _several(column), _several(referenced)
    if len(columns) != len(others):
        raise part.wrong("a relation needs the same number of columns on both sides")
    return NotedRelation(table.text(), columns, other.text(), others)


def _own_link(table: str, part: NotesNode, strict: bool) -> NotedRelation:
    members = _named(part, _KEY, strict)
    if "column" not in members or "references" not in members:
        raise part.wrong("a foreign key has `column` and `references: table.column`")
    target, dot, referenced = members["references"].text().rpartition(".")
    if not dot or not target or not referenced:
        raise members["references"].wrong(f"{members['references'].text()!r} is not table.column")
    return NotedRelation(table, (members["column"].text(),), target, (referenced,))


def _several(part: NotesNode) -> tuple[str, ...]:
    """One name, or a list of names."""
    return tuple(one.text() for one in part.items()) if isinstance(part.value, list) else (part.text(),)


def _named(part: NotesNode, words: Spellings, strict: bool) -> dict[str, NotesNode]:
    """Returns the members by our names of the keys."""
    ours = {other: name for name, others in words.items() for other in (name, *others)}
    found: dict[str, NotesNode] = {}
    for name, value in part.members().items():
        if name in ours:
            found[ours[name]] = value
        elif strict:
            near = get_close_matches(name, ours, 1, 0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(words)}"
            raise value.wrong(f"unknown key {name!r}; {hint}")
    return found


def _text(members: Mapping[str, NotesNode], name: str) -> str:
    return members[name].text() if name in members else ""


def _items(members: Mapping[str, NotesNode], name: str) -> list[NotesNode]:
    return members[name].items() if name in members else []


def _texts(members: Mapping[str, NotesNode], name: str) -> list[str]:
    return [text for one in _items(members, name) if (text := one.text())]


MAX_FILES = 2000
MAX_FOLDER_BYTES = 32 * 1024 * 1024

# Later files win. YAML comes last, because people write it by hand.
_ORDER = (
    "catalog.json",
    "tables/*.json",
    "schema.json",
    "relationships.json",
    "overlays/*.json",
    "*.yaml",
    "*.yml",
    "tables/*.yaml",
    "tables/*.yml",
)


def read_folder(folder: Path) -> Knowledge:
    """Raises NotesError with the file and the line."""
    if not folder.is_dir():
        raise NotesError(f"{str(folder)!r} is not a folder")
    files = [path for pattern in _ORDER for path in sorted(folder.glob(pattern)) if path.is_file()]
    _check_sizes(files, folder)
    found = Knowledge()
    for path in files:
        shown = path.relative_to(folder).as_posix()
        found.add(parse_notes(read_file(path, shown), strict=path.suffix != ".json"))
    return found


def _check_sizes(files: Iterable[Path], folder: Path) -> None:
    sizes = [path.stat().st_size for path in files]
    if len(sizes) > MAX_FILES:
        raise NotesError(f"{str(folder)!r} has over {MAX_FILES} files of notes")
    if sum(sizes) > MAX_FOLDER_BYTES:
        raise NotesError(f"the notes in {str(folder)!r} are over {MAX_FOLDER_BYTES >> 20} MiB")
