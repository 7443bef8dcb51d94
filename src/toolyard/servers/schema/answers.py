"""The results of the tools: the structs of the output schemas, how they are filled, and their Markdown."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...databases import Table, TableColumn
from ...kit.schema.annotations import schema_name
from .catalogue import Relation, Snapshot, find, similar
from .texts import SchemaTexts


@schema_name("Field")
class DescribedField(Struct, omit_defaults=True, kw_only=True):
    name: str
    type: str
    nullable: bool
    primary_key: bool
    default: str | None = None
    description: str = ""
    references: Annotated[str, Meta(description="table.column")] = ""


class Relationship(Struct):
    """`out`: this table refers to `table`. `in`: `table` refers to this one."""

    direction: Literal["out", "in"]
    table: str
    columns: Annotated[list[str], Meta(description="The columns that refer")]
    referenced: Annotated[list[str], Meta(description="The columns that are referred to")]
    source: Annotated[Literal["database", "notes"], Meta(description="Who says so")] = "database"


@schema_name("IndexOf")
class DescribedIndex(Struct):
    name: str
    columns: list[str]
    unique: bool


class QueryHint(Struct):
    description: str
    sql: str


class TableLine(Struct, omit_defaults=True):
    """A table in the list of all."""

    name: str
    kind: str
    field_count: int
    row_estimate: int | None = None
    description: str = ""


@schema_name("Described")
class TableDescription(Struct, omit_defaults=True):
    """A table, or with an empty name the list of tables."""

    found: bool
    table: str
    kind: Annotated[str, Meta(description="table or view")] = ""
    description: str = ""
    field_count: int = 0
    fields: list[DescribedField] = []
    primary_key: list[str] = []
    relationships: list[Relationship] = []
    indices: list[DescribedIndex] = []
    rules: list[str] = []
    hints: list[QueryHint] = []
    row_estimate: Annotated[int | None, Meta(description="About how many rows, where the database knows")] = (
        None
    )
    suggestions: Annotated[list[str], Meta(description="Names like an unknown one", max_length=5)] = []
    table_count: int | None = None
    tables: list[TableLine] = []
    notes: Annotated[list[str], Meta(description="What holds for all tables")] = []


@schema_name("Values")
class ColumnValues(Struct, kw_only=True):
    table: str
    field: str
    field_type: str = ""
    value_count: int
    values: Annotated[list[str], Meta(max_length=50)]
    has_more: bool = False


@schema_name("Line")
class DiagramLine(Struct):
    """A relation in a diagram."""

    table: str
    columns: list[str]
    references: str
    referenced: list[str]


class Diagram(Struct):
    tables: list[str]
    relationships: list[DiagramLine]
    mermaid: str
    left_out: Annotated[int, Meta(description="Tables that there was no room for")] = 0


MAX_TABLES = 1000
"""Tables in one list; a caller finds others by name."""


def table_description(snapshot: Snapshot, name: str) -> TableDescription:
    """Describes a table; for an unknown name, suggests similar ones."""
    if not name.strip():
        return table_list(snapshot)
    table = snapshot.find(name)
    if table is None:
        return TableDescription(found=False, table=name, suggestions=similar(name, snapshot.tables))
    notes = snapshot.notes(table.name)
    return TableDescription(
        found=True,
        table=table.name,
        kind=table.kind,
        description=snapshot.about(table),
        field_count=len(table.columns),
        fields=_fields(snapshot, table),
        primary_key=list(table.primary_key),
        relationships=_relationships(snapshot, table.name),
        indices=[DescribedIndex(index.name, list(index.columns), index.unique) for index in table.indices],
        rules=notes.rules,
        hints=[QueryHint(hint.description, hint.sql) for hint in notes.hints],
        row_estimate=table.row_estimate,
    )


def table_list(snapshot: Snapshot) -> TableDescription:
    lines = [
        TableLine(table.name, table.kind, len(table.columns), table.row_estimate, snapshot.about(table))
        for table in snapshot.tables.values()
    ]
    return TableDescription(
        found=True,
        table="",
        table_count=len(lines),
        tables=lines[:MAX_TABLES],
        notes=snapshot.general_notes,
    )


def _fields(snapshot: Snapshot, table: Table) -> list[DescribedField]:
    names = [column.name for column in table.columns]
    noted = {
        known: text
        for name, text in snapshot.notes(table.name).columns.items()
        if (known := find(name, names)) is not None
    }
    targets = {
        column: f"{relation.references}.{referenced}"
        for relation in snapshot.outgoing(table.name)
        for column, referenced in zip(relation.columns, relation.referenced, strict=False)
    }
    return [_field(table, column, noted.get(column.name, ""), targets) for column in table.columns]


def _field(table: Table, column: TableColumn, noted: str, targets: dict[str, str]) -> DescribedField:
    return DescribedField(
        name=column.name,
        type=column.type,
        nullable=column.nullable,
        default=column.default,
        description=noted or column.description,
        primary_key=column.name in table.primary_key,
        references=targets.get(column.name, ""),
    )


def _relationships(snapshot: Snapshot, name: str) -> list[Relationship]:
    out = [_relationship("out", one, one.references) for one in snapshot.outgoing(name)]
    return out + [_relationship("in", one, one.table) for one in snapshot.incoming(name)]


def _relationship(direction: Literal["out", "in"], relation: Relation, other: str) -> Relationship:
    return Relationship(
        direction=direction,
        table=other,
        columns=list(relation.columns),
        referenced=list(relation.referenced),
        source="notes" if relation.noted else "database",
    )


def description_text(answer: TableDescription, texts: SchemaTexts) -> str:
    if not answer.found:
        return unknown_text(
            texts.unknown_table.format(name=answer.table), answer.suggestions, texts.all_tables, texts
        )
    return _table(answer, texts) if answer.table else _list(answer, texts)


def unknown_text(what: str, suggestions: Sequence[str], otherwise: str, texts: SchemaTexts) -> str:
    """Says that a name is unknown and suggests others."""
    if not suggestions:
        return f"{what} {otherwise}"
    names = ", ".join(repr(name) for name in suggestions)
    return f"{what} {texts.did_you_mean.format(names=names)}"


def values_text(answer: ColumnValues, texts: SchemaTexts) -> str:
    facts = {
        "table": answer.table,
        "column": answer.field,
        "type": answer.field_type,
        "count": answer.value_count,
    }
    if not answer.values:
        return texts.no_value.format(**facts)
    head = (texts.more_values if answer.has_more else texts.values).format(**facts)
    return "\n".join([head, *(f"- {_line(one)}" for one in answer.values)])


def diagram_text(answer: Diagram, texts: SchemaTexts, cut: bool) -> str:
    sentences = [texts.diagram.format(tables=len(answer.tables), lines=len(answer.relationships))]
    if not answer.relationships:
        sentences.append(texts.no_relations)
    if answer.left_out:
        sentences.append(texts.left_out.format(count=answer.left_out))
    if cut:
        sentences.append(texts.picture_is_cut)
    return f"{' '.join(sentences)}\n\n```mermaid\n{answer.mermaid}\n```"


def _list(answer: TableDescription, texts: SchemaTexts) -> str:
    lines = [f"# {texts.tables} ({answer.table_count})", ""]
    for table in answer.tables:
        about = f": {_line(table.description)}" if table.description else ""
        lines.append(f"- `{table.name}` ({_size(table.kind, table.row_estimate, texts)}){about}")
    more = (answer.table_count or 0) - MAX_TABLES
    if more > 0:
        lines.append(f"- {texts.more_tables.format(count=more)}")
    return "\n".join(lines + _bullets(texts.notes, answer.notes))


def _table(answer: TableDescription, texts: SchemaTexts) -> str:
    lines = [f"# {answer.table}", ""]
    size = _size(answer.kind, answer.row_estimate, texts)
    lines.append(f"{answer.description} ({size})" if answer.description else f"({size})")
    lines += ["", f"## {texts.columns} ({answer.field_count})", "", *_columns(answer.fields, texts)]
    if answer.primary_key:
        lines += ["", f"{texts.primary_key}: {', '.join(answer.primary_key)}"]
    lines += _bullets(
        texts.relationships, (_relation(answer.table, one, texts) for one in answer.relationships)
    )
    indices = (
        f"{index.name} ({', '.join(index.columns)})" + (f", {texts.unique}" if index.unique else "")
        for index in answer.indices
    )
    lines += _bullets(texts.indices, indices)
    lines += _bullets(texts.rules, answer.rules)
    if answer.hints:
        lines += ["", f"## {texts.hints}"]
    for hint in answer.hints:
        lines += ["", hint.description, "", "```sql", hint.sql, "```"]
    return "\n".join(lines)


def _columns(fields: Sequence[DescribedField], texts: SchemaTexts) -> list[str]:
    heads = (texts.column, texts.type, texts.optional, texts.default, texts.about)
    rows = [heads, ("---",) * len(heads), *(_column(field, texts) for field in fields)]
    return [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]


def _column(field: DescribedField, texts: SchemaTexts) -> tuple[str, ...]:
    marks = "".join(
        [" (PK)" if field.primary_key else "", f" → {field.references}" if field.references else ""]
    )
    optional = texts.yes if field.nullable else texts.no
    return (field.name + marks, field.type, optional, field.default or "", field.description)


def _relation(table: str, one: Relationship, texts: SchemaTexts) -> str:
    ends = [(table, one.columns), (one.table, one.referenced)]
    if one.direction == "in":
        ends = [(one.table, one.columns), (table, one.referenced)]
    arrow = " → ".join(f"{name}.{', '.join(columns)}" for name, columns in ends)
    return f"{arrow} ({texts.noted})" if one.source == "notes" else arrow


def _bullets(head: str, items: Iterable[str]) -> list[str]:
    lines = [f"- {_line(item)}" for item in items]
    return ["", f"## {head}", "", *lines] if lines else []


def _size(kind: str, rows: int | None, texts: SchemaTexts) -> str:
    shown = texts.kinds.get(kind, kind)
    return shown if rows is None else f"{shown}, {texts.rows.format(count=f'{rows:,}')}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
