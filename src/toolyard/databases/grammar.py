"""The kinds of parts that a question may be made of. What is not named here is refused, whatever it is."""

import re

from sqlglot import exp

from .refusing import Refused
from .shape import Text

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

# Among the kinds above, and yet not harmless, or nothing that these databases have.
_NOT_THESE: tuple[type[exp.Expr], ...] = (exp.Operator, exp.Prior, exp.ConnectByRoot, exp.DynamicIdentifier)
_NAMED: dict[type[exp.Expr], str] = {
    exp.Into: "SELECT INTO makes a table or a file",
    exp.Lock: "FOR UPDATE and FOR SHARE lock rows",
    exp.Hint: "hints change how the server works",
    exp.Parameter: "variables and parameters are not read or set",
    exp.SessionParameter: "variables and parameters are not read or set",
    exp.Placeholder: "there are no parameters to fill in",
    exp.Insert: "INSERT writes",
    exp.Update: "UPDATE writes",
    exp.Delete: "DELETE writes",
    exp.Merge: "MERGE writes",
    exp.PositionalColumn: "columns are given by their names",
}
# Not the signs that only look like others, such as a wide semicolon.
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


def check_grammar(statement: exp.Query, text: Text) -> None:
    for part in statement.walk():
        if not isinstance(part, _ALLOWED) or isinstance(part, _NOT_THESE):
            raise _refused(part, text)
        if isinstance(part, exp.Column) and not isinstance(part.this, (exp.Identifier, exp.Star)):
            # SQLite takes t.'name' for a column, and it would not be seen as one.
            raise Refused("a column is given by its name, not by a text", text.place(part.this.name))
        if isinstance(part, exp.Identifier) and not part.quoted and not _PLAIN.fullmatch(part.name):
            raise Refused(f"{part.name!r} is no plain name; hint: quote it", text.place(part.name))
        if isinstance(part, exp.Select) and not part.expressions:
            raise Refused("a SELECT names no columns", text.place("select"))
        if isinstance(part, exp.PropertyEQ) and isinstance(part.parent, (exp.Select, exp.Alias)):
            raise Refused("variables are not set", text.place(":="))


def _refused(part: exp.Expr, text: Text) -> Refused:
    kind = type(part)
    reason = _NAMED.get(kind) or f"{kind.__name__} is not part of a question that only reads"
    return Refused(reason, text.place(*_WORDS.get(kind, (part.name, kind.__name__))))
