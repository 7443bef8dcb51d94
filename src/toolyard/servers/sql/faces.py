"""How the tool looks, in both languages."""

from ...kit.languages import Face, Locale

TITLE: dict[Locale, str] = {"en": "SQL", "pt": "SQL"}
INSTRUCTIONS: dict[Locale, str] = {
    "en": (
        "Answers questions from a database. Pass one SELECT as `sql`, or a question in plain words. "
        "Nothing can be changed here. The resource sql://tables has the tables and their columns."
    ),
    "pt": (
        "Responde perguntas a partir de um banco de dados. Passe um SELECT em `sql`, ou uma pergunta em "
        "palavras. Nada pode ser alterado aqui. O recurso sql://tables tem as tabelas e suas colunas."
    ),
}

QUERY_EN = Face(
    name="query_sql",
    title="Query the database",
    description=(
        "Ask the database, in SQL or in plain words; give exactly one of both. Only one statement that reads "
        "is run, with limits on time, rows and size. Returns the columns, the rows (values in "
        "the order of the "
        "columns), the statement that was run and the tables it used."
    ),
    parameters={
        "question": "What you want to know, in plain words; needs a configured model",
        "sql": "One SELECT statement, or WITH … SELECT, in the dialect of the database",
    },
)
QUERY_PT = Face(
    name="consultar_sql",
    title="Consultar o banco de dados",
    description=(
        "Consulta o banco de dados, em SQL ou em palavras; informe exatamente um dos dois. Só "
        "uma instrução de "
        "leitura é executada, com limites de tempo, linhas e tamanho. Devolve as colunas, as "
        "linhas (valores na "
        "ordem das colunas), a consulta executada e as tabelas usadas."
    ),
    parameters={
        "question": ("pergunta", "O que você quer saber, em palavras; precisa de um modelo configurado"),
        "sql": "Um SELECT, ou WITH … SELECT, no dialeto do banco",
    },
)
PROMPT: dict[Locale, str] = {"en": "explore_data", "pt": "explorar_dados"}
