"""How the tools look in each language."""

from ...kit.languages import Face

DESCRIBE_EN = Face(
    name="describe_table",
    title="Describe a table",
    description=(
        "Describe a table or view of the database: columns with types and meanings, keys, relationships "
        "in both directions, indices, business rules and query hints. With an empty name, list all "
        "tables. An unknown name is answered with similar ones."
    ),
    parameters={"table": "The table's name; empty for the list of tables"},
)
DESCRIBE_PT = Face(
    name="consultar_schema",
    title="Consultar o esquema",
    description=(
        "Descreve uma tabela ou visão do banco de dados: campos com tipos e significados, chaves, "
        "relações nos dois sentidos, índices, regras de negócio e dicas de consulta. Com o nome vazio, "
        "lista todas as tabelas. Um nome desconhecido é respondido com outros parecidos."
    ),
    parameters={"table": ("tabela", "O nome da tabela; vazio para a lista de tabelas")},
)
VALUES_EN = Face(
    name="list_column_values",
    title="List a column's values",
    description=(
        "List the distinct values of a text or boolean column, in order, 50 at most. Use it before "
        "filtering by such a column, to write the values as they are stored."
    ),
    parameters={"table": "The table's name", "column": "The column's name"},
)
VALUES_PT = Face(
    name="consultar_valores_campo",
    title="Consultar os valores de um campo",
    description=(
        "Lista os valores distintos de um campo de texto ou booleano, em ordem, no máximo 50. Use antes "
        "de filtrar por um campo assim, para escrever os valores como estão guardados."
    ),
    parameters={"table": ("tabela", "O nome da tabela"), "column": ("campo", "O nome do campo")},
)
DRAW_EN = Face(
    name="draw_relationships",
    title="Draw relationships",
    description=(
        "Draw how tables are related, as a Mermaid diagram and on request as a picture. With one table, "
        "it and those that it is related to; with several, those; with none, all. 30 tables at most."
    ),
    parameters={
        "tables": "The tables to draw; empty for all",
        "image": "Whether to draw a picture too, as PNG",
    },
)
DRAW_PT = Face(
    name="desenhar_relacoes",
    title="Desenhar relações",
    description=(
        "Desenha como as tabelas se relacionam, como diagrama Mermaid e, a pedido, como imagem. Com uma "
        "tabela, ela e as relacionadas a ela; com várias, essas; com nenhuma, todas. No máximo 30 "
        "tabelas."
    ),
    parameters={
        "tables": ("tabelas", "As tabelas a desenhar; vazio para todas"),
        "image": ("imagem", "Se é para desenhar também uma imagem, em PNG"),
    },
)
