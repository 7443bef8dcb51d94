"""Why the guard refuses, in the language of the server. What it says in new words is passed on as it is."""

import re

from ...kit.languages import Locale

_TOKEN = re.compile(r"<Token token_type: [\w.]+, text: (.*?), line: [^>]*>")
"""How the parser tells what it met."""

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
    r"a text is repeated or filled up to a number of at most (?P<what>\d+), both written out": (
        "um texto é repetido ou preenchido até um número de no máximo {what}, ambos escritos por extenso"
    ),
    r"a SELECT names no columns": "um SELECT não nomeia colunas",
    r"the statement is nested too deeply": "a instrução está aninhada demais",
    r"the statement is nested deeper than (?P<what>\d+) levels": (
        "a instrução está aninhada em mais de {what} níveis"
    ),
    r"the statement has (?P<what>\d+) characters; at most (?P<most>\d+) are read": (
        "a instrução tem {what} caracteres; no máximo {most} são lidos"
    ),
    r"the statement has (?P<what>\d+) words and signs; at most (?P<most>\d+) are read": (
        "a instrução tem {what} palavras e sinais; no máximo {most} são lidos"
    ),
    r"the statement holds a character that no database takes": (
        "a instrução tem um caractere que nenhum banco aceita"
    ),
    r"the statement cannot be written safely: (?P<what>.*)": (
        "a instrução não pode ser escrita com segurança: {what}"
    ),
    r"this is no (?P<what>\w+) SQL that can be checked": "isto não é SQL de {what} que se possa conferir",
    r"this is no (?P<what>\w+) SQL: (?P<more>.*)": "isto não é SQL de {what}: {more}",
    r"a column is given by its name, not by a text": "uma coluna é dada pelo nome, não por um texto",
    r"IN is followed by brackets here; hint: IN \(SELECT column FROM table\)": (
        "IN é seguido de parênteses aqui; dica: IN (SELECT coluna FROM tabela)"
    ),
    r"what is trimmed is written as a text of up to (?P<what>\d+) characters": (
        "o que se apara é escrito como um texto de até {what} caracteres"
    ),
    r"columns are given by their names": "as colunas são dadas pelos nomes",
    r"variables are not set": "variáveis não são definidas",
    r"variables and parameters are not read or set": "variáveis e parâmetros não são lidos nem definidos",
    r"there are no parameters to fill in": "não há parâmetros a preencher",
    r"SELECT INTO makes a table or a file": "SELECT INTO cria uma tabela ou um arquivo",
    r"FOR UPDATE and FOR SHARE lock rows": "FOR UPDATE e FOR SHARE travam linhas",
    r"hints change how the server works": "dicas mudam como o servidor trabalha",
    r"(?P<what>INSERT|UPDATE|DELETE|MERGE) writes": "{what} grava",
    r"(?P<what>\w+) is not part of a question that only reads": (
        "{what} não faz parte de uma consulta que só lê"
    ),
    r"the function (?P<what>.*) is not among those known to be harmless": (
        "a função {what} não está entre as reconhecidas como inofensivas"
    ),
    r"the function (?P<what>.*) is called by its schema; hint: without it": (
        "a função {what} é chamada pelo esquema; dica: sem ele"
    ),
    r"(?P<what>.*) is no plain name; hint: quote it": (
        "{what} não é um nome simples; dica: ponha-o entre aspas"
    ),
    r"(?P<what>.*) is no name of a table": "{what} não é nome de tabela",
    r"(?P<what>.*) is a table of the system, which is not read here": (
        "{what} é uma tabela do sistema, que não se lê aqui"
    ),
    r"the table (?P<what>.*) is not to be read here": "a tabela {what} não pode ser lida aqui",
    r"the column (?P<what>.*) is not to be read here": "a coluna {what} não pode ser lida aqui",
    r"the whole row (?P<what>.*) would read columns of (?P<more>.*) that are not to be read here; hint: .*": (
        "a linha inteira {what} leria colunas de {more} que não podem ser lidas aqui; dica: nomeie as colunas"
    ),
    r"renaming columns by their position would read columns of (?P<more>.*) that are .*": (
        "renomear colunas pela posição leria colunas de {more} que não podem ser lidas aqui; "
        "dica: nomeie as colunas"
    ),
    r"(?P<what>.*) would read columns of (?P<more>.*) that are not to be read here; hint: name the columns": (
        "{what} leria colunas de {more} que não podem ser lidas aqui; dica: nomeie as colunas"
    ),
}
_COMPILED = [(re.compile(pattern, re.DOTALL), words) for pattern, words in _PORTUGUESE.items()]


def told(reason: str, locale: Locale) -> str:
    plain = _TOKEN.sub(_met, reason)
    return plain if locale == "en" else _in_portuguese(plain)


def _met(token: re.Match[str]) -> str:
    return "the end" if token[1] == "SENTINEL" else repr(token[1])


def _in_portuguese(reason: str) -> str:
    for pattern, words in _COMPILED:
        found = pattern.fullmatch(reason)
        if found is not None:
            return words.format(**found.groupdict())
    return reason
