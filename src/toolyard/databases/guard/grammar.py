"""Parses a text as one statement, within limits, and allows only known kinds of nodes.

Also sets the row limit and writes a tree as text.
"""

import logging
import re
from collections.abc import Sequence
from typing import Any

from sqlglot import Dialect, exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType  # pyright: ignore[reportPrivateImportUsage]

from ..model import StatementPosition, StatementRefusedError

# The parser would log statements; StatementRefusedError gives the reason.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

MAX_CHARACTERS = 50_000
MAX_TOKENS = 8_000
MAX_DEPTH = 40
"""Of brackets, `CASE` and unary operators: each is a level of recursion in the parser."""

MAX_BRACKETS = 6
"""Of `[` and `{`: the parser tries each in two ways, so the time doubles with every level."""

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


class StatementText:
    """The original text, to find the position of a word."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self._sql = sql
        self._tokens = tokens

    def position(self, *words: str) -> StatementPosition | None:
        """The position of the first of these words."""
        wanted = {word.casefold() for word in words if word}
        found = next((token for token in self._tokens if token.text.casefold() in wanted), None)
        return self.at(found.start) if found else None

    def at(self, offset: int) -> StatementPosition:
        before = self._sql[:offset]
        return StatementPosition(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def parse(sql: str, dialect: str) -> tuple[exp.Query, StatementText]:
    """Return the statement of the text; raise StatementRefusedError unless it is one query."""
    _check_characters(sql)
    language = Dialect.get_or_raise(dialect)
    try:
        tokens = language.tokenize(sql)
    except SqlglotError as error:
        raise StatementRefusedError(f"this is not valid {dialect} SQL: {_first_line(error)}") from error
    text = StatementText(sql, tokens)
    _check_tokens(tokens, text)
    try:
        statements = language.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    except ParseError as error:
        raise _parse_error(error, dialect) from error
    except RecursionError:
        raise StatementRefusedError("the statement is nested too deeply") from None
    except Exception as error:  # sqlglot may raise anything on a hostile text
        raise StatementRefusedError(f"this {dialect} SQL cannot be checked") from error
    return _only_query(statements, tokens, text), text


def _check_characters(sql: str) -> None:
    if len(sql) > MAX_CHARACTERS:
        raise StatementRefusedError(f"the statement has {len(sql)} characters; the limit is {MAX_CHARACTERS}")
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise StatementRefusedError("the statement contains NUL or an unpaired surrogate")
    if not sql.strip():
        raise StatementRefusedError("there is no statement")


def _check_tokens(tokens: Sequence[Token], text: StatementText) -> None:
    if not tokens:
        raise StatementRefusedError("there is no statement, only comments")
    if len(tokens) > MAX_TOKENS:
        raise StatementRefusedError(f"the statement has {len(tokens)} tokens; the limit is {MAX_TOKENS}")
    depth = signs = brackets = 0
    for token in tokens:
        brackets += (token.token_type in _BRACKETS) - (token.token_type in _BRACKETS_END)
        if brackets > MAX_BRACKETS:
            raise StatementRefusedError(
                f"the statement is nested deeper than {MAX_BRACKETS} levels", text.at(token.start)
            )
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        signs = signs + 1 if token.token_type in _PREFIXES else 0
        if max(depth, signs) > MAX_DEPTH:
            raise StatementRefusedError(
                f"the statement is nested deeper than {MAX_DEPTH} levels", text.at(token.start)
            )
    first = tokens[0]
    if first.token_type not in _BEGINNINGS:
        raise StatementRefusedError(
            f"only SELECT and WITH are run, and this begins with {first.text!r}", text.at(first.start)
        )


def _only_query(statements: Sequence[Any], tokens: Sequence[Token], text: StatementText) -> exp.Query:
    found = [part for part in statements if part is not None and not isinstance(part, exp.Semicolon)]
    if len(found) > 1:
        end = next((token for token in tokens if token.token_type is TokenType.SEMICOLON), None)
        raise StatementRefusedError(
            f"there are {len(found)} statements; one is run", text.at(end.start) if end else None
        )
    if not found:
        raise StatementRefusedError("there is no statement")
    statement = found[0]
    if isinstance(statement, exp.Values):
        statement = exp.select("*").from_(exp.alias_(statement, "rows", table=True))
    if not isinstance(statement, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise StatementRefusedError(
            f"only SELECT and WITH are run, and this is {type(statement).__name__.upper()}", text.at(0)
        )
    return statement


def with_limit(statement: exp.Query, limit: int) -> exp.Query:
    """Limit the rows, whatever the statement itself says."""
    own = _own_limit(statement.args.get("limit"))
    if own is None or own > limit:
        # Also for a limit that is not a plain number, and for FETCH … WITH TIES, which may give more rows.
        statement.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
    return statement


def _own_limit(limit: Any) -> int | None:
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
    """Whether the limit is not a fixed number of rows."""
    return isinstance(options, exp.LimitOptions) and any(map(options.args.get, ("percent", "with_ties")))


def write(statement: exp.Query, dialect: str) -> str:
    try:
        return statement.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise StatementRefusedError(
            f"the statement cannot be written safely: {_first_line(error)}"
        ) from error


def _parse_error(error: ParseError, dialect: str) -> StatementRefusedError:
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line"), details.get("col")
    position = (
        StatementPosition(line, max(1, column)) if isinstance(line, int) and isinstance(column, int) else None
    )
    near = f" near {details['highlight']!r}" if details.get("highlight") else ""
    return StatementRefusedError(
        f"this is not valid {dialect} SQL: {details.get('description') or _first_line(error)}{near}", position
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


_QUERIES: tuple[type[exp.Expr], ...] = (
    *(
        exp.Select,
        exp.SetOperation,
        exp.Subquery,
        exp.With,
        exp.CTE,
        exp.RecursiveWithSearch,
        exp.Values,
        exp.Tuple,
    ),
    *(exp.From, exp.Join, exp.Lateral, exp.Table, exp.TableAlias, exp.TableSample, exp.Pivot, exp.PivotAlias),
    *(
        exp.UnpivotColumns,
        exp.Where,
        exp.Group,
        exp.Having,
        exp.Qualify,
        exp.Cube,
        exp.Rollup,
        exp.GroupingSets,
    ),
    *(
        exp.Order,
        exp.Ordered,
        exp.Limit,
        exp.LimitOptions,
        exp.Offset,
        exp.Fetch,
        exp.Distinct,
        exp.All,
        exp.Any,
    ),
    *(
        exp.Window,
        exp.WindowSpec,
        exp.WithinGroup,
        exp.Filter,
        exp.IgnoreNulls,
        exp.RespectNulls,
        exp.HavingMax,
    ),
)
_VALUES: tuple[type[exp.Expr], ...] = (
    *(
        exp.Column,
        exp.Identifier,
        exp.Star,
        exp.Alias,
        exp.Aliases,
        exp.Literal,
        exp.Boolean,
        exp.Null,
        exp.Paren,
    ),
    *(exp.HexString, exp.BitString, exp.ByteString, exp.RawString, exp.National, exp.Introducer, exp.Heredoc),
    *(
        exp.DataType,
        exp.DataTypeParam,
        exp.PseudoType,
        exp.ObjectIdentifier,
        exp.IntervalSpan,
        exp.Interval,
        exp.Var,
    ),
    *(
        exp.Binary,
        exp.Unary,
        exp.Predicate,
        exp.Func,
        exp.Between,
        exp.In,
        exp.Escape,
        exp.AtTimeZone,
        exp.CharacterSet,
    ),
    *(exp.Bracket, exp.Slice, exp.Lambda, exp.Kwarg, exp.PropertyEQ, exp.Comprehension, exp.Variadic, exp.If),
    *(
        exp.JSON,
        exp.JSONKeyValue,
        exp.JSONPath,
        exp.JSONPathPart,
        exp.JSONValue,
        exp.JSONColumnDef,
        exp.JSONSchema,
    ),
    *(
        exp.FormatJson,
        exp.OnCondition,
        exp.JSONExtractQuote,
        exp.XMLNamespace,
        exp.Pseudocolumn,
        exp.ColumnDef,
    ),
    *(exp.OverflowTruncateBehavior, exp.Collate),
)
_ALLOWED = _QUERIES + _VALUES

# Subclasses of the kinds above that are not harmless, or that these databases do not have.
_EXCLUDED: tuple[type[exp.Expr], ...] = (exp.Operator, exp.Prior, exp.ConnectByRoot, exp.DynamicIdentifier)
_REASONS: dict[type[exp.Expr], str] = {
    exp.Into: "SELECT INTO makes a table or a file",
    exp.Lock: "FOR UPDATE and FOR SHARE lock rows",
    exp.Hint: "hints change how the server works",
    exp.Parameter: "variables and parameters are not allowed",
    exp.SessionParameter: "variables and parameters are not allowed",
    exp.Placeholder: "placeholders are not allowed: there are no parameters",
    exp.Insert: "INSERT writes",
    exp.Update: "UPDATE writes",
    exp.Delete: "DELETE writes",
    exp.Merge: "MERGE writes",
    exp.PositionalColumn: "columns must be given by name",
}
# Excludes lookalike characters, such as a full-width semicolon.
_PLAIN = re.compile(r"[\w$]*")
_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Into: ("into",),
    exp.Lock: ("for update", "for share", "for", "lock"),
    exp.Insert: ("insert",),
    exp.Update: ("update",),
    exp.Delete: ("delete",),
    exp.Merge: ("merge",),
    exp.Hint: ("/*+",),
    exp.Parameter: ("@", "$"),
    exp.SessionParameter: ("@@",),
    exp.Placeholder: ("?", ":", "%s"),
    exp.PositionalColumn: ("#",),
}


def check_grammar(statement: exp.Query, text: StatementText) -> None:
    for part in statement.walk():
        if not isinstance(part, _ALLOWED) or isinstance(part, _EXCLUDED):
            raise _refused(part, text)
        if isinstance(part, exp.Column) and not isinstance(part.this, (exp.Identifier, exp.Star)):
            # SQLite reads t.'name' as a column, which the checks of columns would miss.
            raise StatementRefusedError(
                "a column must be given by name, not by a string", text.position(part.this.name)
            )
        if isinstance(part, exp.Identifier) and not part.quoted and not _PLAIN.fullmatch(part.name):
            raise StatementRefusedError(
                f"{part.name!r} is not a plain name; hint: quote it", text.position(part.name)
            )
        if isinstance(part, exp.Select) and not part.expressions:
            raise StatementRefusedError("a SELECT names no columns", text.position("select"))
        if isinstance(part, exp.PropertyEQ) and isinstance(part.parent, (exp.Select, exp.Alias)):
            raise StatementRefusedError("variables cannot be set", text.position(":="))


def _refused(part: exp.Expr, text: StatementText) -> StatementRefusedError:
    kind = type(part)
    reason = _REASONS.get(kind) or f"{kind.__name__} is not allowed in a statement that only reads"
    return StatementRefusedError(reason, text.position(*_WORDS.get(kind, (part.name, kind.__name__))))
