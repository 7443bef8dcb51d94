"""From the parts of a file to what it says, in our words and in those of the JSON that was there before.

In YAML a name that we do not know is a slip, and said. JSON may hold more than we use.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from .knowledge import Hint, Knowledge, Link, TableNotes
from .parts import Part

# Ours, and what else it may be called.
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

Words = Mapping[str, tuple[str, ...]]


def knowledge_in(part: Part, strict: bool) -> Knowledge:
    """What a file says: of many tables, or of the one that it names."""
    found = Knowledge()
    given = part.members()
    if not given:
        return found
    if _is_of_one_table(given):
        _add_table(found, part, "", strict)
        return found
    members = _named(part, _FILE, strict)
    if "tables" in members:
        _add_tables(found, members["tables"], strict)
    for link in _items(members, "relationships"):
        found.links.append(_link(link, strict))
    found.general = _texts(members, "notes")
    found.blocked_tables = _texts(members, "blocked_tables")
    found.blocked_columns = _texts(members, "blocked_columns")
    return found


def _is_of_one_table(given: Mapping[str, Part]) -> bool:
    return any(name in given for name in ("table", *_TABLE["table"]))


def _add_tables(found: Knowledge, part: Part, strict: bool) -> None:
    if isinstance(part.value, list):
        for one in part.items():
            _add_table(found, one, "", strict)
        return
    for name, one in part.members().items():
        _add_table(found, one, name, strict)


def _add_table(found: Knowledge, part: Part, name: str, strict: bool) -> None:
    members = _named(part, _TABLE, strict)
    if not name:
        if "table" not in members:
            raise part.wrong("which table is this? `table: its name` is missing")
        name = members["table"].text()
    notes = TableNotes(description=_text(members, "description"), rules=_texts(members, "rules"))
    notes.hints = [_hint(one, strict) for one in _items(members, "hints")]
    notes.columns = _columns(members["columns"], strict) if "columns" in members else {}
    found.tables.setdefault(name, TableNotes()).add(notes)
    found.links += [_own_link(name, one, strict) for one in _items(members, "foreign_keys")]


def _columns(part: Part, strict: bool) -> dict[str, str]:
    if isinstance(part.value, list):
        return dict(_column(one, strict) for one in part.items())
    return {name: _of_column(one, strict) for name, one in part.members().items()}


def _column(part: Part, strict: bool) -> tuple[str, str]:
    members = _named(part, _COLUMN, strict)
    if "column" not in members:
        raise part.wrong("which column is this? `column: its name` is missing")
    return members["column"].text(), _of_column(part, strict)


def _of_column(part: Part, strict: bool) -> str:
    """A text, or a description with rules of the column's own."""
    if isinstance(part.value, str):
        return part.text()
    members = _named(part, _COLUMN, strict)
    return " ".join(text for text in (_text(members, "description"), *_texts(members, "rules")) if text)


def _hint(part: Part, strict: bool) -> Hint:
    members = _named(part, _HINT, strict)
    if "sql" not in members:
        raise part.wrong("a hint has `description` and `sql`; `sql` is missing")
    return Hint(_text(members, "description"), members["sql"].text())


def _link(part: Part, strict: bool) -> Link:
    members = _named(part, _LINK, strict)
    for name in _LINK:
        if name not in members:
            raise part.wrong(f"a relation has {', '.join(_LINK)}; {name!r} is missing")
    table, column, other, referenced = (members[name] for name in _LINK)
    columns, others = _several(column), _several(referenced)
    if len(columns) != len(others):
        raise part.wrong("a relation has as many columns on one side as on the other")
    return Link(table.text(), columns, other.text(), others)


def _own_link(table: str, part: Part, strict: bool) -> Link:
    members = _named(part, _KEY, strict)
    if "column" not in members or "references" not in members:
        raise part.wrong("a foreign key has `column` and `references: table.column`")
    target, dot, referenced = members["references"].text().rpartition(".")
    if not dot or not target or not referenced:
        raise members["references"].wrong(f"{members['references'].text()!r} is not table.column")
    return Link(table, (members["column"].text(),), target, (referenced,))


def _several(part: Part) -> tuple[str, ...]:
    """A name, or a list of them."""
    return tuple(one.text() for one in part.items()) if isinstance(part.value, list) else (part.text(),)


# Small parts


def _named(part: Part, words: Words, strict: bool) -> dict[str, Part]:
    """The members by our own names."""
    ours = {other: name for name, others in words.items() for other in (name, *others)}
    found: dict[str, Part] = {}
    for name, value in part.members().items():
        if name in ours:
            found[ours[name]] = value
        elif strict:
            near = get_close_matches(name, ours, 1, 0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(words)}"
            raise value.wrong(f"{name!r} is not known here; {hint}")
    return found


def _text(members: Mapping[str, Part], name: str) -> str:
    return members[name].text() if name in members else ""


def _items(members: Mapping[str, Part], name: str) -> list[Part]:
    return members[name].items() if name in members else []


def _texts(members: Mapping[str, Part], name: str) -> list[str]:
    return [text for one in _items(members, name) if (text := one.text())]
