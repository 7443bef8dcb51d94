"""Explains failures in the server's language and says what to do.

Translates the guard's reasons; a reason without a translation is passed on unchanged.
"""

import re

from ...databases import DatabaseError
from ...databases.guard.statement import GuardedStatement
from ...databases.model import StatementRefusedError
from ...languages import Locale
from .catalogue import SqlCatalogue, named_in, near, unknown_names
from .models import FormFillingError
from .pipeline import NoAnswerError
from .settings import Settings
from .texts import SqlTexts

_TOKEN = re.compile(r"<Token token_type: [\w.]+, text: (.*?), line: [^>]*>")
"""How the parser writes a token in its messages."""

_PORTUGUESE = {
    r"only SELECT and WITH are run, and this begins with (?P<what>.*)": (
        "só SELECT e WITH são executados, e isto começa com {what}"
    ),
    r"only SELECT and WITH are run, and this is (?P<what>.*)": (
        "só SELECT e WITH são executados, e isto é {what}"
    ),
    r"there are (?P<what>\d+) statements; one is run": "há {what} instruções; uma é executada",
    r"there is no statement, only comments": "não há instrução, só comentários",
    r"there is no statement": "não há instrução",
    r"repeat, lpad and rpad need a literal text and a literal number of at most (?P<what>\d+)": (
        "repeat, lpad e rpad precisam de um texto literal e de um número literal de no máximo {what}"
    ),
    r"a SELECT names no columns": "um SELECT não nomeia colunas",
    r"the statement is nested too deeply": "a instrução está aninhada demais",
    r"the statement is nested deeper than (?P<what>\d+) levels": (
        "a instrução está aninhada em mais de {what} níveis"
    ),
    r"the statement has (?P<what>\d+) characters; the limit is (?P<most>\d+)": (
        "a instrução tem {what} caracteres; o limite é {most}"
    ),
    r"the statement has (?P<what>\d+) tokens; the limit is (?P<most>\d+)": (
        "a instrução tem {what} tokens; o limite é {most}"
    ),
    r"the statement contains NUL or an unpaired surrogate": (
        "a instrução contém NUL ou um substituto sem par"
    ),
    r"the statement cannot be written safely: (?P<what>.*)": (
        "a instrução não pode ser escrita com segurança: {what}"
    ),
    r"this (?P<what>\w+) SQL cannot be checked": "este SQL de {what} não pode ser conferido",
    r"this is not valid (?P<what>\w+) SQL: (?P<more>.*)": "isto não é SQL válido de {what}: {more}",
    r"a column must be given by name, not by a string": (
        "uma coluna deve ser dada pelo nome, não por um texto"
    ),
    r"IN needs brackets; hint: IN \(SELECT column FROM table\)": (
        "IN precisa de parênteses; dica: IN (SELECT coluna FROM tabela)"
    ),
    r"the characters to trim must be a literal text of at most (?P<what>\d+) characters": (
        "os caracteres a aparar devem ser um texto literal de até {what} caracteres"
    ),
    r"columns must be given by name": "as colunas devem ser dadas pelo nome",
    r"variables cannot be set": "variáveis não podem ser definidas",
    r"variables and parameters are not allowed": "variáveis e parâmetros não são permitidos",
    r"placeholders are not allowed: there are no parameters": (
        "marcadores não são permitidos: não há parâmetros"
    ),
    r"SELECT INTO makes a table or a file": "SELECT INTO cria uma tabela ou um arquivo",
    r"FOR UPDATE and FOR SHARE lock rows": "FOR UPDATE e FOR SHARE travam linhas",
    r"hints change how the server works": "dicas mudam como o servidor trabalha",
    r"(?P<what>INSERT|UPDATE|DELETE|MERGE) writes": "{what} grava",
    r"(?P<what>\w+) is not allowed in a statement that only reads": (
        "{what} não é permitido em uma instrução que só lê"
    ),
    r"the function (?P<what>.*) is not among those known to be harmless": (
        "a função {what} não está entre as reconhecidas como inofensivas"
    ),
    r"the function (?P<what>.*) is called with a schema; hint: leave it out": (
        "a função {what} é chamada com esquema; dica: omita-o"
    ),
    r"(?P<what>.*) is not a plain name; hint: quote it": (
        "{what} não é um nome simples; dica: ponha-o entre aspas"
    ),
    r"(?P<what>.*) is not the name of a table": "{what} não é nome de tabela",
    r"(?P<what>.*) is a system table, which cannot be read here": (
        "{what} é uma tabela do sistema, que não pode ser lida aqui"
    ),
    r"the table (?P<what>.*) cannot be read here": "a tabela {what} não pode ser lida aqui",
    r"the column (?P<what>.*) cannot be read here": "a coluna {what} não pode ser lida aqui",
    r"the whole row (?P<what>.*) would read blocked columns of (?P<more>.*); hint: name the columns": (
        "a linha inteira {what} leria colunas bloqueadas de {more}; dica: nomeie as colunas"
    ),
    r"renaming columns by their position would read blocked columns of (?P<more>.*); hint: .*": (
        "renomear colunas pela posição leria colunas bloqueadas de {more}; dica: nomeie as colunas"
    ),
    r"(?P<what>.*) would read blocked columns of (?P<more>.*); hint: name the columns": (
        "{what} leria colunas bloqueadas de {more}; dica: nomeie as colunas"
    ),
}
_COMPILED = [(re.compile(pattern, re.DOTALL), words) for pattern, words in _PORTUGUESE.items()]


def refusal_text(reason: str, locale: Locale) -> str:
    plain = _TOKEN.sub(_quoted_token, reason)
    return plain if locale == "en" else _in_portuguese(plain)


def _quoted_token(token: re.Match[str]) -> str:
    return "the end" if token[1] == "SENTINEL" else repr(token[1])


def _in_portuguese(reason: str) -> str:
    for pattern, words in _COMPILED:
        found = pattern.fullmatch(reason)
        if found is not None:
            return words.format(**found.groupdict())
    return reason


LONGEST_SQL = 500
MAX_TABLES = 20


class FailureTexts:
    def __init__(self, settings: Settings, texts: SqlTexts, catalogue: SqlCatalogue) -> None:
        self._settings = settings
        self._texts = texts
        self._catalogue = catalogue

    async def explain(self, error: Exception, statement: GuardedStatement | None = None) -> str:
        if isinstance(error, StatementRefusedError):
            return self.refused(error)
        if isinstance(error, DatabaseError):
            return await self._database_failure(error, statement)
        if isinstance(error, FormFillingError):
            return f"{self.model_failure(error)} {self._texts.instead}"
        if isinstance(error, NoAnswerError):
            return self._texts.no_answer.format(reason=error.reason)
        raise error

    def refused(self, error: StatementRefusedError) -> str:
        reason = refusal_text(error.reason, self._settings.locale)
        if error.position is None:
            return self._texts.refused.format(reason=reason)
        line, column = error.position
        return self._texts.refused_at.format(reason=reason, line=line, column=column)

    def model_failure(self, failure: FormFillingError) -> str:
        fault = "busy_for" if failure.fault == "busy" and failure.detail else failure.fault
        words: str = getattr(self._texts, f"model_{fault}")
        return words.format(model=failure.model, detail=failure.detail)

    def written_sql(self, sql: str) -> str:
        """The model's statement, so that the reader can correct it."""
        shown = sql if len(sql) <= LONGEST_SQL else sql[: LONGEST_SQL - 1] + "…"
        return self._texts.model_sql.format(sql=shown)

    async def _database_failure(self, error: DatabaseError, statement: GuardedStatement | None) -> str:
        if error.kind == "timeout":
            return self._texts.timeout.format(seconds=f"{self._settings.seconds:g}")
        if error.kind == "unknown" and statement is not None:
            return await self._unknown_names(error, statement)
        words: str = getattr(self._texts, error.kind)
        return words.format(reason=error.reason.rstrip(". \n"))

    async def _unknown_names(self, error: DatabaseError, statement: GuardedStatement) -> str:
        missing = named_in(error.reason, await unknown_names(self._catalogue, statement))
        parts: list[str] = []
        for name in missing.tables:
            parts.append(self._texts.unknown_table.format(name=name))
            parts.append(self._likely(name, missing.known_tables) or self.tables(missing.known_tables))
        for name in () if missing.tables else missing.columns:
            parts.append(self._texts.unknown_column.format(name=name, tables=", ".join(statement.tables)))
            parts.append(self._likely(name, missing.known_columns))
        # Perhaps a function: only the database's own message names it.
        parts = parts or [self._texts.unknown.format(reason=error.reason.rstrip(". \n"))]
        return " ".join(part for part in parts if part)

    def _likely(self, name: str, known: tuple[str, ...]) -> str:
        found = near(name, known)
        return self._texts.near.format(names=", ".join(map(repr, found))) if found else ""

    def tables(self, known: tuple[str, ...]) -> str:
        names = ", ".join(known[:MAX_TABLES]) + (", …" if len(known) > MAX_TABLES else "")
        return self._texts.known_tables.format(names=names) if known else ""
