"""Texts and trees: what is too big to parse, the one statement in a text, its limit, the text of a tree."""

import logging
from collections.abc import Sequence
from typing import Any

from sqlglot import Dialect, exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType  # pyright: ignore[reportPrivateImportUsage]

from .refusing import Place, Refused

# What cannot be parsed is said by Refused. The parser's own lines would put statements into the log.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

MAX_CHARACTERS = 50_000
MAX_TOKENS = 8_000
MAX_DEPTH = 40
"""Of brackets, `CASE` and signs in a row: each is a level of recursion in the parser."""

MAX_BRACKETS = 6
"""Of `[` and `{`, which the parser tries in two ways each: the time doubles with every level."""

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_BRACKETS = {TokenType.L_BRACKET, TokenType.L_BRACE}
_BRACKETS_END = {TokenType.R_BRACKET, TokenType.R_BRACE}
_PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.EXCLAMATION}
_BEGINNINGS = {
    TokenType.SELECT,
    TokenType.WITH,
    TokenType.L_PAREN,
    TokenType.VALUES,
    TokenType.FROM,
    TokenType.TABLE,
}


class Text:
    """The statement as it was written, to say where something stands."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self._sql = sql
        self._tokens = tokens

    def place(self, *words: str) -> Place | None:
        """Where the first of these words stands."""
        wanted = {word.casefold() for word in words if word}
        found = next((token for token in self._tokens if token.text.casefold() in wanted), None)
        return self.at(found.start) if found else None

    def at(self, offset: int) -> Place:
        before = self._sql[:offset]
        return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def parsed(sql: str, dialect: str) -> tuple[exp.Query, Text]:
    """The only statement of the text; Refused when it is none, several, or no question."""
    _check_characters(sql)
    language = Dialect.get_or_raise(dialect)
    try:
        tokens = language.tokenize(sql)
    except SqlglotError as error:
        raise Refused(f"this is no {dialect} SQL: {_first_line(error)}") from error
    text = Text(sql, tokens)
    _check_tokens(tokens, text)
    try:
        statements = language.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    except ParseError as error:
        raise _unparsed(error, dialect) from error
    except RecursionError:
        raise Refused("the statement is nested too deeply") from None
    except Exception as error:  # the parser is not ours, and the text is anybody's
        raise Refused(f"this is no {dialect} SQL that can be checked") from error
    return _only_question(statements, tokens, text), text


def _check_characters(sql: str) -> None:
    if len(sql) > MAX_CHARACTERS:
        raise Refused(f"the statement has {len(sql)} characters; at most {MAX_CHARACTERS} are read")
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise Refused("the statement holds a character that no database takes")
    if not sql.strip():
        raise Refused("there is no statement")


def _check_tokens(tokens: Sequence[Token], text: Text) -> None:
    if not tokens:
        raise Refused("there is no statement, only comments")
    if len(tokens) > MAX_TOKENS:
        raise Refused(f"the statement has {len(tokens)} words and signs; at most {MAX_TOKENS} are read")
    depth = signs = brackets = 0
    for token in tokens:
        brackets += (token.token_type in _BRACKETS) - (token.token_type in _BRACKETS_END)
        if brackets > MAX_BRACKETS:
            raise Refused(f"the statement is nested deeper than {MAX_BRACKETS} levels", text.at(token.start))
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        signs = signs + 1 if token.token_type in _PREFIXES else 0
        if max(depth, signs) > MAX_DEPTH:
            raise Refused(f"the statement is nested deeper than {MAX_DEPTH} levels", text.at(token.start))
    first = tokens[0]
    if first.token_type not in _BEGINNINGS:
        raise Refused(
            f"only SELECT and WITH are run, and this begins with {first.text!r}", text.at(first.start)
        )


def _only_question(statements: Sequence[Any], tokens: Sequence[Token], text: Text) -> exp.Query:
    found = [part for part in statements if part is not None and not isinstance(part, exp.Semicolon)]
    if len(found) > 1:
        end = next((token for token in tokens if token.token_type is TokenType.SEMICOLON), None)
        raise Refused(f"there are {len(found)} statements; one is run", text.at(end.start) if end else None)
    if not found:
        raise Refused("there is no statement")
    statement = found[0]
    if isinstance(statement, exp.Values):
        statement = exp.select("*").from_(exp.alias_(statement, "rows", table=True))
    if not isinstance(statement, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise Refused(
            f"only SELECT and WITH are run, and this is {type(statement).__name__.upper()}", text.at(0)
        )
    return statement


def with_limit(statement: exp.Query, limit: int) -> exp.Query:
    """No more than so many rows, whatever it asked for."""
    asked = _asked(statement.args.get("limit"))
    if asked is None or asked > limit:
        # Also for a limit that is no plain number, and for FETCH … WITH TIES, which may give more.
        statement.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
    return statement


def _asked(limit: Any) -> int | None:
    if isinstance(limit, exp.Limit):
        count = limit.args.get("expression")
    elif isinstance(limit, exp.Fetch) and not _is_loose(limit.args.get("limit_options")):
        count = limit.args.get("count")
    else:
        return None
    if isinstance(count, exp.Literal) and not count.is_string and count.name.isdigit():
        return int(count.name)
    return None


def _is_loose(options: Any) -> bool:
    """Not a number of rows."""
    return isinstance(options, exp.LimitOptions) and any(map(options.args.get, ("percent", "with_ties")))


def written(statement: exp.Query, dialect: str) -> str:
    try:
        return statement.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise Refused(f"the statement cannot be written safely: {_first_line(error)}") from error


def _unparsed(error: ParseError, dialect: str) -> Refused:
    said = error.errors[0] if error.errors else {}
    line, column = said.get("line"), said.get("col")
    place = Place(line, max(1, column)) if isinstance(line, int) and isinstance(column, int) else None
    near = f" near {said['highlight']!r}" if said.get("highlight") else ""
    return Refused(f"this is no {dialect} SQL: {said.get('description') or _first_line(error)}{near}", place)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
