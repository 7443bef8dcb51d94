"""What the tools answer with; their output schemas come from here, the same in every language."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Field(Struct, omit_defaults=True):
    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    description: str = ""
    primary_key: bool = False
    references: Annotated[str, Meta(description="table.column")] = ""


class Relationship(Struct):
    """`out`: this table refers to `table`. `in`: `table` refers to this one."""

    direction: Literal["out", "in"]
    table: str
    columns: Annotated[list[str], Meta(description="The columns that refer")]
    referenced: Annotated[list[str], Meta(description="The columns that are referred to")]
    source: Annotated[Literal["database", "notes"], Meta(description="Who says so")] = "database"


class IndexOf(Struct):
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


class Described(Struct, omit_defaults=True):
    """A table, or with an empty name the list of tables."""

    found: bool
    table: str
    kind: Annotated[str, Meta(description="table or view")] = ""
    description: str = ""
    field_count: int = 0
    fields: list[Field] = []
    primary_key: list[str] = []
    relationships: list[Relationship] = []
    indices: list[IndexOf] = []
    rules: list[str] = []
    hints: list[QueryHint] = []
    row_estimate: Annotated[int | None, Meta(description="About how many rows, where the database knows")] = (
        None
    )
    suggestions: Annotated[list[str], Meta(description="Names like an unknown one", max_length=5)] = []
    table_count: int | None = None
    tables: list[TableLine] = []
    notes: Annotated[list[str], Meta(description="What holds for all tables")] = []


class Values(Struct, kw_only=True):
    table: str
    field: str
    field_type: str = ""
    value_count: int
    values: Annotated[list[str], Meta(max_length=50)]
    has_more: bool = False


class Line(Struct):
    """A relation in a diagram."""

    table: str
    columns: list[str]
    references: str
    referenced: list[str]


class Diagram(Struct):
    tables: list[str]
    relationships: list[Line]
    mermaid: str
    left_out: Annotated[int, Meta(description="Tables that there was no room for")] = 0
