"""The server's texts in English and Portuguese: descriptions of the tools, messages and headings."""

from msgspec import Struct

from ...kit.localization import LocalizedTool
from ...languages import Locale


class SchemaTexts(Struct, frozen=True, kw_only=True):
    """Texts with braces are filled in where they are used."""

    title: str
    instructions: str

    tables: str
    columns: str
    column: str
    type: str
    optional: str
    default: str
    about: str
    rows: str
    kinds: dict[str, str]
    yes: str
    no: str
    primary_key: str
    relationships: str
    indices: str
    unique: str
    rules: str
    hints: str
    notes: str
    noted: str
    more_tables: str

    unknown_table: str
    unknown_column: str
    did_you_mean: str
    all_tables: str
    all_columns: str
    no_values: str
    values: str
    no_value: str
    more_values: str

    diagram: str
    no_relations: str
    left_out: str
    nothing_to_draw: str
    picture_is_cut: str

    timeout: str
    unreachable: str
    unusable: str
    too_big: str
    failed: str

    resource_title: str
    resource_about: str
    template_title: str
    template_about: str


_EN = SchemaTexts(
    title="Database schema",
    instructions=(
        "Call describe_table before you write SQL: it has names, types, keys, rules and hints. "
        "list_column_values shows which values a text column contains."
    ),
    tables="Tables",
    columns="Columns",
    column="column",
    type="type",
    optional="null",
    default="default",
    about="description",
    rows="about {count} rows",
    kinds={"table": "table", "view": "view"},
    yes="yes",
    no="no",
    primary_key="Primary key",
    relationships="Relationships",
    indices="Indices",
    unique="unique",
    rules="Rules",
    hints="Query hints",
    notes="For all tables",
    noted="from the notes",
    more_tables="{count} more; ask for one by name.",
    unknown_table="There is no table {name!r}.",
    unknown_column="The table {table!r} has no column {name!r}.",
    did_you_mean="Did you mean {names}?",
    all_tables="An empty name lists all tables.",
    all_columns="describe_table lists its columns.",
    no_values=(
        "{table}.{column} has the type {type}; only the values of text and boolean columns can be listed. "
        "Columns that can be listed: {names}."
    ),
    values="{table}.{column} ({type}) has {count} distinct values:",
    no_value="{table}.{column} ({type}) has no values.",
    more_values="{table}.{column} ({type}) has more than {count} distinct values; the first ones in order:",
    diagram="{tables} tables, {lines} relations.",
    no_relations="No relations between these tables are declared.",
    left_out="{count} more tables do not fit; name the tables to draw.",
    nothing_to_draw="The database has no tables.",
    picture_is_cut="The picture shows the keys and the first columns of each table; the text has them all.",
    timeout=(
        "The database took longer than {seconds:g} s to find the values of {table}.{column}. The column is "
        "probably big and has no index; query it with SQL and a condition instead."
    ),
    unreachable="The database cannot be reached: {reason}",
    unusable="The database cannot be used: {reason}",
    too_big="The values of {table}.{column} are too long to list; query them with SQL instead.",
    failed="The database refused: {reason}",
    resource_title="Tables",
    resource_about="All tables of the database, one line each.",
    template_title="A table",
    template_about="A table's columns, keys, relations, rules and hints, as JSON and as Markdown.",
)

_PT = SchemaTexts(
    title="Esquema do banco de dados",
    instructions=(
        "Chame consultar_schema antes de escrever SQL: tem nomes, tipos, chaves, regras e dicas. "
        "consultar_valores_campo mostra que valores um campo de texto contém."
    ),
    tables="Tabelas",
    columns="Campos",
    column="campo",
    type="tipo",
    optional="nulo",
    default="padrão",
    about="descrição",
    rows="cerca de {count} linhas",
    kinds={"table": "tabela", "view": "visão"},
    yes="sim",
    no="não",
    primary_key="Chave primária",
    relationships="Relações",
    indices="Índices",
    unique="único",
    rules="Regras",
    hints="Dicas de consulta",
    notes="Para todas as tabelas",
    noted="das anotações",
    more_tables="Mais {count}; peça uma pelo nome.",
    unknown_table="Não existe a tabela {name!r}.",
    unknown_column="A tabela {table!r} não tem o campo {name!r}.",
    did_you_mean="Você quis dizer {names}?",
    all_tables="Um nome vazio lista todas as tabelas.",
    all_columns="consultar_schema lista os campos dela.",
    no_values=(
        "{table}.{column} é do tipo {type}; só se podem listar os valores de campos de texto e booleanos. "
        "Campos que se podem listar: {names}."
    ),
    values="{table}.{column} ({type}) tem {count} valores distintos:",
    no_value="{table}.{column} ({type}) não tem valores.",
    more_values="{table}.{column} ({type}) tem mais de {count} valores distintos; os primeiros em ordem:",
    diagram="{tables} tabelas, {lines} relações.",
    no_relations="Não há relações declaradas entre elas.",
    left_out="Mais {count} tabelas não cabem; diga quais desenhar.",
    nothing_to_draw="O banco de dados não tem tabelas.",
    picture_is_cut="A imagem mostra as chaves e os primeiros campos de cada tabela; o texto tem todos.",
    timeout=(
        "O banco de dados levou mais de {seconds:g} s para achar os valores de {table}.{column}. O campo "
        "deve ser grande e sem índice; consulte com SQL e uma condição."
    ),
    unreachable="Não se consegue falar com o banco de dados: {reason}",
    unusable="O banco de dados não pode ser usado: {reason}",
    too_big="Os valores de {table}.{column} são longos demais para listar; consulte com SQL.",
    failed="O banco de dados recusou: {reason}",
    resource_title="Tabelas",
    resource_about="Todas as tabelas do banco de dados, uma linha para cada uma.",
    template_title="Uma tabela",
    template_about="Campos, chaves, relações, regras e dicas de uma tabela, em JSON e em Markdown.",
)


def texts_of(locale: Locale) -> SchemaTexts:
    return _EN if locale == "en" else _PT


DESCRIBE_EN = LocalizedTool(
    name="describe_table",
    title="Describe a table",
    description=(
        "Describe a table or view of the database: columns with types and meanings, keys, relationships "
        "in both directions, indices, business rules and query hints. With an empty name, list all "
        "tables. For an unknown name, suggest similar ones."
    ),
    parameters={"table": "The table's name; empty for the list of tables"},
)
DESCRIBE_PT = LocalizedTool(
    name="consultar_schema",
    title="Consultar o esquema",
    description=(
        "Descreve uma tabela ou visão do banco de dados: campos com tipos e significados, chaves, "
        "relações nos dois sentidos, índices, regras de negócio e dicas de consulta. Com o nome vazio, "
        "lista todas as tabelas. Para um nome desconhecido, sugere outros parecidos."
    ),
    parameters={"table": ("tabela", "O nome da tabela; vazio para a lista de tabelas")},
)
VALUES_EN = LocalizedTool(
    name="list_column_values",
    title="List a column's values",
    description=(
        "List the distinct values of a text or boolean column, in order, 50 at most. Use it before "
        "filtering by such a column, to spell the values as they are stored."
    ),
    parameters={"table": "The table's name", "column": "The column's name"},
)
VALUES_PT = LocalizedTool(
    name="consultar_valores_campo",
    title="Consultar os valores de um campo",
    description=(
        "Lista os valores distintos de um campo de texto ou booleano, em ordem, no máximo 50. Use antes "
        "de filtrar por um campo assim, para escrever os valores como estão guardados."
    ),
    parameters={"table": ("tabela", "O nome da tabela"), "column": ("campo", "O nome do campo")},
)
DRAW_EN = LocalizedTool(
    name="draw_relationships",
    title="Draw relationships",
    description=(
        "Draw how tables are related, as a Mermaid diagram and on request as a picture. With one table, "
        "draws it and its neighbours; with several, those; with none, all. 30 tables at most."
    ),
    parameters={
        "tables": "The tables to draw; empty for all",
        "image": "Whether to add a picture, as PNG",
    },
)
DRAW_PT = LocalizedTool(
    name="desenhar_relacoes",
    title="Desenhar relações",
    description=(
        "Desenha como as tabelas se relacionam, como diagrama Mermaid e, a pedido, como imagem. Com uma "
        "tabela, desenha ela e as vizinhas; com várias, essas; com nenhuma, todas. No máximo 30 tabelas."
    ),
    parameters={
        "tables": ("tabelas", "As tabelas a desenhar; vazio para todas"),
        "image": ("imagem", "Se é para acrescentar uma imagem, em PNG"),
    },
)
