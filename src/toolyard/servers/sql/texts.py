"""The server's texts in English and Portuguese: the tool's description, messages, and formats of numbers."""

from msgspec import Struct

from ...kit.localization import LocalizedTool
from ...languages import Locale

SMALLEST, LARGEST = 1e-4, 1e15
"""Numbers outside this range are written with an exponent."""


class SqlTexts(Struct, frozen=True, kw_only=True):
    # Answers
    rows: str
    one_row: str
    more: str
    tables_used: str
    yes: str
    no: str
    separators: tuple[str, str]
    """Between thousands, and before decimals."""
    cut_rows: str
    cut_bytes: str
    not_evaluated: str
    # Steps of a question
    reading: str
    writing: str
    writing_again: str
    evaluating: str
    checking: str
    running: str
    # Wrong arguments
    neither: str
    both: str
    too_long: str
    no_model: str
    # Failures
    refused: str
    refused_at: str
    timeout: str
    memory: str
    read_only: str
    unknown: str
    unknown_column: str
    unknown_table: str
    near: str
    known_tables: str
    syntax: str
    unreachable: str
    unusable: str
    too_big: str
    other: str
    no_answer: str
    model_sql: str
    # Models
    model_key: str
    model_busy: str
    model_busy_for: str
    model_unknown_model: str
    model_failing: str
    model_slow: str
    model_unreachable: str
    model_unreadable: str
    model_refused: str
    model_status: str
    instead: str
    # The list of tables
    tables_title: str
    tables_description: str
    no_tables: str
    # The prompt
    prompt_title: str
    prompt_description: str
    prompt_topic: str
    explore: str
    explore_topic: str

    def whole(self, value: int) -> str:
        return f"{value:,}".replace(",", self.separators[0])

    def number(self, value: float) -> str:
        """With two to six decimals; the structured content has all of them."""
        if value and not SMALLEST <= abs(value) < LARGEST:
            return repr(value)
        whole, _, decimals = f"{value:,.6f}".partition(".")
        thousands, point = self.separators
        return whole.replace(",", thousands) + point + decimals.rstrip("0").ljust(2, "0")


EN = SqlTexts(
    rows="**{count} rows** in {ms} ms",
    one_row="**1 row** in {ms} ms",
    more="… and {count} more",
    tables_used="Tables: {tables}",
    yes="true",
    no="false",
    separators=(",", "."),
    cut_rows=(
        "Only the first {count} rows are shown; there may be more. Aggregate, filter, or ask for fewer "
        "columns."
    ),
    cut_bytes="Only {count} rows are shown: more would be over the size limit. Ask for fewer columns.",
    not_evaluated="The evaluator could not check the statement against the schema: {reason}",
    reading="Reading the catalogue",
    writing="Writing SQL",
    writing_again="Writing SQL again",
    evaluating="Evaluating the SQL",
    checking="Checking that it is safe",
    running="Running it",
    neither="Nothing to answer: pass 'question' (in plain words) or 'sql' (one SELECT).",
    both="Pass 'question' (in plain words) or 'sql' (one SELECT), not both.",
    too_long="The question has {count} characters; at most {most} are read.",
    no_model=(
        "No model is configured, so a question in plain words cannot be turned into SQL. "
        "Write one SELECT yourself and pass it as 'sql'. {tables} "
        "The server's operator can set 'model_key' (or the variable {variable}), 'provider', 'model' and "
        "'model_url'."
    ),
    refused="Not run: {reason}. Only one statement that reads is run: SELECT, or WITH … SELECT.",
    refused_at="Not run: {reason} (line {line}, column {column}). Only one statement that reads is run.",
    timeout="The statement took longer than {seconds} s and was cancelled. Filter more, or aggregate less.",
    memory=(
        "The statement was cancelled: {reason}. Filter more, aggregate less, or make smaller values; the "
        "server's operator can set 'max_memory_mb'."
    ),
    read_only="The database refused the statement: this connection is read-only.",
    unknown="The database does not know a name in the statement: {reason}.",
    unknown_column="No column {name!r} in {tables}.",
    unknown_table="No table {name!r}.",
    near="Did you mean {names}?",
    known_tables="Tables: {names}.",
    syntax="The database does not understand the statement: {reason}.",
    unreachable="The database cannot be reached now: {reason}. Try again later.",
    unusable=(
        "The database cannot be used: {reason}. The server's operator should check the setting 'database'."
    ),
    too_big="The answer is over the size limit: {reason}. Ask for fewer rows or columns.",
    other="The database answered with an error: {reason}.",
    no_answer="The model found no SQL for this question: {reason}. Rephrase it, or pass 'sql'.",
    model_sql="The model wrote: {sql}",
    model_key="The model {model!r} was not asked: its API refused the key ({detail}).",
    model_busy="The API of the model {model!r} limits the rate of requests (429). Try again later.",
    model_busy_for=(
        "The API of the model {model!r} limits the rate of requests (429). Try again in {detail} s."
    ),
    model_unknown_model="The API has no model {model!r} (404).",
    model_failing="The API of the model {model!r} fails ({detail}).",
    model_slow="The model {model!r} did not answer within {detail} s.",
    model_unreachable="The API of the model {model!r} cannot be reached.",
    model_unreadable="The reply of the model {model!r} cannot be read.",
    model_refused="The model {model!r} refused to answer.",
    model_status="The API of the model {model!r} rejected the request ({detail}).",
    instead="Meanwhile you can pass 'sql'.",
    tables_title="Tables",
    tables_description="The tables and views that can be queried, with their columns.",
    no_tables="The database has no tables.",
    prompt_title="Explore the data",
    prompt_description="Get to know the database and find something interesting in it.",
    prompt_topic="What you are interested in; leave empty for an overview",
    explore=(
        "Look at this database with the tool `query_sql`. These are its tables:\n\n{tables}\n\n"
        "First find out how many rows the most important tables have and which period they cover. Then "
        "answer three questions that somebody responsible for this data would ask, with one SELECT each. "
        "Show the statements, the numbers and what they mean, and say what is doubtful."
    ),
    explore_topic="Keep to this topic: {topic}",
)

PT = SqlTexts(
    rows="**{count} linhas** em {ms} ms",
    one_row="**1 linha** em {ms} ms",
    more="… e mais {count}",
    tables_used="Tabelas: {tables}",
    yes="verdadeiro",
    no="falso",
    separators=(".", ","),
    cut_rows=(
        "Aqui estão só as primeiras {count} linhas; pode haver mais. Agregue, filtre ou peça menos colunas."
    ),
    cut_bytes="Aqui estão só {count} linhas: mais passariam do limite de tamanho. Peça menos colunas.",
    not_evaluated="O avaliador não pôde conferir a consulta com o esquema: {reason}",
    reading="Lendo o catálogo",
    writing="Escrevendo o SQL",
    writing_again="Escrevendo o SQL de novo",
    evaluating="Avaliando o SQL",
    checking="Conferindo se é seguro",
    running="Executando",
    neither="Não há o que responder: informe 'pergunta' (em palavras) ou 'sql' (um SELECT).",
    both="Informe 'pergunta' (em palavras) ou 'sql' (um SELECT), não os dois.",
    too_long="A pergunta tem {count} caracteres; no máximo {most} são lidos.",
    no_model=(
        "Nenhum modelo está configurado, então uma pergunta em palavras não pode virar SQL. "
        "Escreva um SELECT e passe em 'sql'. {tables} "
        "Quem opera o servidor pode definir 'model_key' (ou a variável {variable}), 'provider', 'model' e "
        "'model_url'."
    ),
    refused="Não executado: {reason}. Só uma consulta de leitura é executada: SELECT, ou WITH … SELECT.",
    refused_at=(
        "Não executado: {reason} (linha {line}, coluna {column}). Só uma consulta de leitura é executada."
    ),
    timeout="A consulta passou de {seconds} s e foi cancelada. Filtre mais, ou agregue menos.",
    memory=(
        "A consulta foi cancelada: {reason}. Filtre mais, agregue menos ou produza valores menores; quem "
        "opera o servidor pode definir 'max_memory_mb'."
    ),
    read_only="O banco recusou a consulta: esta conexão é somente leitura.",
    unknown="O banco não conhece um nome da consulta: {reason}.",
    unknown_column="Não há coluna {name!r} em {tables}.",
    unknown_table="Não há tabela {name!r}.",
    near="Você quis dizer {names}?",
    known_tables="Tabelas: {names}.",
    syntax="O banco não entende a consulta: {reason}.",
    unreachable="O banco não pode ser alcançado agora: {reason}. Tente mais tarde.",
    unusable="O banco não pode ser usado: {reason}. Quem opera o servidor deve conferir a opção 'database'.",
    too_big="A resposta passa do limite de tamanho: {reason}. Peça menos linhas ou colunas.",
    other="O banco respondeu com um erro: {reason}.",
    no_answer=(
        "O modelo não achou SQL para esta pergunta: {reason}. Pergunte com outras palavras, ou passe 'sql'."
    ),
    model_sql="O modelo escreveu: {sql}",
    model_key="O modelo {model!r} não foi consultado: a API recusou a chave ({detail}).",
    model_busy="A API do modelo {model!r} limita a taxa de pedidos (429). Tente de novo mais tarde.",
    model_busy_for="A API do modelo {model!r} limita a taxa de pedidos (429). Tente de novo em {detail} s.",
    model_unknown_model="A API não tem o modelo {model!r} (404).",
    model_failing="A API do modelo {model!r} está com falha ({detail}).",
    model_slow="O modelo {model!r} não respondeu em {detail} s.",
    model_unreachable="A API do modelo {model!r} não pode ser alcançada.",
    model_unreadable="A resposta do modelo {model!r} não pode ser lida.",
    model_refused="O modelo {model!r} se recusou a responder.",
    model_status="A API do modelo {model!r} não aceitou o pedido ({detail}).",
    instead="Enquanto isso, você pode passar 'sql'.",
    tables_title="Tabelas",
    tables_description="As tabelas e visões que podem ser consultadas, com suas colunas.",
    no_tables="O banco não tem tabelas.",
    prompt_title="Explorar os dados",
    prompt_description="Conhecer o banco de dados e achar nele algo interessante.",
    prompt_topic="O que interessa; vazio para uma visão geral",
    explore=(
        "Veja este banco de dados com a ferramenta `consultar_sql`. Estas são as tabelas:\n\n{tables}\n\n"
        "Primeiro descubra quantas linhas têm as tabelas mais importantes e que período cobrem. Depois "
        "responda a três perguntas que um responsável por estes dados faria, com um SELECT cada. Mostre as "
        "consultas, os números e o que significam, e diga o que é duvidoso."
    ),
    explore_topic="Fique neste assunto: {topic}",
)


def texts_of(locale: Locale) -> SqlTexts:
    return EN if locale == "en" else PT


TITLE: dict[Locale, str] = {"en": "SQL", "pt": "SQL"}
INSTRUCTIONS: dict[Locale, str] = {
    "en": (
        "Answers questions from a database. Pass one SELECT as `sql`, or a question in plain words. "
        "Access is read-only. The resource sql://tables lists the tables and their columns."
    ),
    "pt": (
        "Responde perguntas a partir de um banco de dados. Passe um SELECT em `sql`, ou uma pergunta em "
        "palavras. O acesso é somente leitura. O recurso sql://tables lista as tabelas e suas colunas."
    ),
}

QUERY_EN = LocalizedTool(
    name="query_sql",
    title="Query the database",
    description=(
        "Query the database in SQL or in plain words; pass exactly one of them. Runs one statement that only "
        "reads, with limits on time, rows and size. Returns the columns, the rows (values in the order of "
        "the columns), the statement that ran and the tables it used."
    ),
    parameters={
        "question": "What you want to know, in plain words; needs a configured model",
        "sql": "One SELECT statement, or WITH … SELECT, in the dialect of the database",
    },
)
QUERY_PT = LocalizedTool(
    name="consultar_sql",
    title="Consultar o banco de dados",
    description=(
        "Consulta o banco de dados em SQL ou em palavras; informe exatamente um dos dois. Executa uma "
        "instrução que só lê, com limites de tempo, linhas e tamanho. Devolve as colunas, as linhas "
        "(valores na ordem das colunas), a consulta executada e as tabelas usadas."
    ),
    parameters={
        "question": ("pergunta", "O que você quer saber, em palavras; precisa de um modelo configurado"),
        "sql": "Um SELECT, ou WITH … SELECT, no dialeto do banco",
    },
)
PROMPT: dict[Locale, str] = {"en": "explore_data", "pt": "explorar_dados"}
