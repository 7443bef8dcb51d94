"""Answers as Markdown, for people and for models that read no structure."""

from collections.abc import Iterable, Sequence

from .answers import Described, Diagram, Field, Relationship, Values
from .describing import MOST_TABLES
from .texts import Texts


def written(answer: Described, texts: Texts) -> str:
    if not answer.found:
        return unknown(
            texts.unknown_table.format(name=answer.table), answer.suggestions, texts.all_tables, texts
        )
    return _table(answer, texts) if answer.table else _list(answer, texts)


def unknown(what: str, suggestions: Sequence[str], otherwise: str, texts: Texts) -> str:
    """That something is not there, and what might have been meant."""
    if not suggestions:
        return f"{what} {otherwise}"
    names = ", ".join(repr(name) for name in suggestions)
    return f"{what} {texts.did_you_mean.format(names=names)}"


def written_values(answer: Values, texts: Texts) -> str:
    said = {
        "table": answer.table,
        "column": answer.field,
        "type": answer.field_type,
        "count": answer.value_count,
    }
    if not answer.values:
        return texts.no_value.format(**said)
    head = (texts.more_values if answer.has_more else texts.values).format(**said)
    return "\n".join([head, *(f"- {_line(one)}" for one in answer.values)])


def written_diagram(answer: Diagram, texts: Texts, cut: bool) -> str:
    said = [texts.diagram.format(tables=len(answer.tables), lines=len(answer.relationships))]
    if not answer.relationships:
        said.append(texts.no_relations)
    if answer.left_out:
        said.append(texts.left_out.format(count=answer.left_out))
    if cut:
        said.append(texts.picture_is_cut)
    return f"{' '.join(said)}\n\n```mermaid\n{answer.mermaid}\n```"


def _list(answer: Described, texts: Texts) -> str:
    lines = [f"# {texts.tables} ({answer.table_count})", ""]
    for table in answer.tables:
        about = f": {_line(table.description)}" if table.description else ""
        lines.append(f"- `{table.name}` ({_size(table.kind, table.row_estimate, texts)}){about}")
    more = (answer.table_count or 0) - MOST_TABLES
    if more > 0:
        lines.append(f"- {texts.more_tables.format(count=more)}")
    return "\n".join(lines + _bullets(texts.notes, answer.notes))


def _table(answer: Described, texts: Texts) -> str:
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


def _columns(fields: Sequence[Field], texts: Texts) -> list[str]:
    heads = (texts.column, texts.type, texts.optional, texts.default, texts.about)
    rows = [heads, ("---",) * len(heads), *(_column(field, texts) for field in fields)]
    return [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]


def _column(field: Field, texts: Texts) -> tuple[str, ...]:
    marks = "".join(
        [" (PK)" if field.primary_key else "", f" → {field.references}" if field.references else ""]
    )
    optional = texts.yes if field.nullable else texts.no
    return (field.name + marks, field.type, optional, field.default or "", field.description)


def _relation(table: str, one: Relationship, texts: Texts) -> str:
    ends = [(table, one.columns), (one.table, one.referenced)]
    if one.direction == "in":
        ends = [(one.table, one.columns), (table, one.referenced)]
    said = " → ".join(f"{name}.{', '.join(columns)}" for name, columns in ends)
    return f"{said} ({texts.noted})" if one.source == "notes" else said


def _bullets(head: str, items: Iterable[str]) -> list[str]:
    lines = [f"- {_line(item)}" for item in items]
    return ["", f"## {head}", "", *lines] if lines else []


def _size(kind: str, rows: int | None, texts: Texts) -> str:
    shown = texts.kinds.get(kind, kind)
    return shown if rows is None else f"{shown}, {texts.rows.format(count=f'{rows:,}')}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
