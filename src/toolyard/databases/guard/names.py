"""Checks the functions, tables and columns that a statement names.

Allowed functions are those that sqlglot has a class for, except a few, and the names listed here; any other
may be an extension, a sleep or a file. Tables and columns are compared without case and in Unicode's
compatibility form; `*`, a whole row or renaming by position counts as all columns of the table.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from sqlglot import exp

from ...wire.text import normalized
from ..model import StatementRefusedError
from .grammar import StatementText

_EVERYWHERE = """
abs acos asin atan atan2 avg ceil ceiling char char_length character_length chr coalesce concat concat_ws
cos cot count cume_dist current_date current_time current_timestamp date degrees dense_rank exp first_value
floor format greatest instr json_array json_array_length json_extract json_object json_type json_valid lag
last_value lead least left length ln log log10 log2 lower lpad ltrim max md5 min mod now nth_value ntile
nullif octet_length percent_rank pi position pow power radians random rank repeat replace reverse right
round row row_number rpad rtrim sign sin sqrt substr substring sum tan time translate trim trunc typeof
upper version
"""
_POSTGRES = """
abbrev acosd acosh age any_value area array_agg array_append array_cat array_dims array_fill array_length
array_lower array_ndims array_position array_positions array_prepend array_remove array_replace array_sample
array_shuffle array_to_json array_to_string array_upper ascii asind asinh atan2d atand atanh bit_and
bit_count bit_length bit_or bit_xor bool_and bool_or box broadcast btrim cardinality cbrt center circle
clock_timestamp convert_from convert_to corr cosd cosh cotd covar_pop covar_samp current_database
current_schema date_add date_bin date_part date_subtract date_trunc datemultirange daterange decode diagonal
diameter div encode enum_first enum_last enum_range erf erfc every extract factorial family gcd
gen_random_uuid generate_series generate_subscripts get_bit get_byte height host hostmask inet_merge
inet_same_family initcap int4multirange int4range int8multirange int8range is_normalized isclosed isempty
isfinite isopen json_agg json_agg_strict json_array_elements json_array_elements_text json_build_array
json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object_agg
json_object_keys json_populate_record json_populate_recordset json_strip_nulls json_to_record
json_to_recordset json_typeof jsonb_agg jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text
jsonb_array_length jsonb_build_array jsonb_build_object jsonb_concat jsonb_contains jsonb_delete jsonb_each
jsonb_each_text jsonb_exists jsonb_exists_all jsonb_exists_any jsonb_extract_path jsonb_extract_path_text
jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz
jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_populate_record
jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof
justify_days justify_hours justify_interval lcm line log lower_inc lower_inf lseg make_date make_interval
make_time make_timestamp make_timestamptz masklen min_scale mode multirange netmask network normalize
npoints num_nonnulls num_nulls nummultirange numnode numrange overlay parse_ident path percentile_cont
percentile_disc pg_size_pretty pg_typeof phraseto_tsquery plainto_tsquery point polygon quote_ident
quote_literal quote_nullable radius random_normal range_agg range_intersect_agg range_merge regexp_count
regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
regr_sxx regr_sxy regr_syy row_to_json scale set_bit set_byte setweight sha224 sha256 sha384 sha512 sind
sinh slope split_part starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg
string_to_array string_to_table strip strpos tand tanh text timeofday timezone to_ascii to_char to_date
to_hex to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector transaction_timestamp trim_array
trim_scale ts_delete ts_filter ts_headline ts_lexize ts_rank ts_rank_cd tsmultirange tsquery_phrase tsrange
tstzmultirange tstzrange tsvector_to_array unistr unnest upper_inc upper_inf var_pop var_samp variance
websearch_to_tsquery width width_bucket xml_is_well_formed xmlagg xmlcomment xpath xpath_exists similarity
word_similarity strict_word_similarity unaccent levenshtein soundex metaphone dmetaphone
"""
_SQLITE = """
acosh asinh atanh bm25 cosh datetime glob group_concat hex highlight ifnull iif json json_each
json_group_array json_group_object json_insert json_patch json_quote json_remove json_replace json_set
json_tree json_pretty julianday jsonb jsonb_array jsonb_extract jsonb_object like likelihood likely max min
offsets octet_length printf quote randomblob sinh snippet soundex sqlite_version strftime string_agg subtype
tanh timediff total unhex unicode unixepoch unlikely zeroblob generate_series unistr
"""
_DUCKDB = """
acosh add age aggregate alias any_value apply approx_count_distinct approx_quantile approx_top_k arbitrary
arg_max arg_max_null arg_min arg_min_null argmax argmin array_agg array_aggregate array_append array_apply
array_cat array_concat array_contains array_cosine_distance array_cosine_similarity array_cross_product
array_distance array_distinct array_extract array_filter array_has array_has_all array_has_any array_indexof
array_inner_product array_intersect array_length array_pop_back array_pop_front array_position array_prepend
array_push_back array_push_front array_reduce array_reverse array_reverse_sort array_select
array_slice array_sort array_to_json array_to_string array_transform array_unique array_value array_where
array_zip ascii asinh atanh bar base64 bin bit_and bit_count bit_length bit_or bit_position bit_xor
bitstring bitstring_agg bool_and bool_or cardinality cbrt century contains corr cosh count_if count_star
countif covar_pop covar_samp current_localtime current_localtimestamp damerau_levenshtein date_add date_diff
date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear
days_in_month decade decode divide editdist3 element_at encode ends_with entropy enum_code enum_first
enum_last enum_range epoch epoch_ms epoch_ns epoch_us equi_width_bins era even factorial favg fdiv filter
first flatten fmod formatreadabledecimalsize formatreadablesize format_bytes from_base64 from_binary
from_hex from_json from_json_strict fsum gamma gcd gen_random_uuid generate_series generate_subscripts
geomean geometric_mean get_bit grade_up group_concat hamming hash hex histogram histogram_exact hour if
isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_contains
json_each json_exists json_extract_path json_extract_path_text json_extract_string json_group_array
json_group_object json_group_structure json_keys json_merge_patch json_pretty json_quote json_structure
json_transform json_transform_strict json_tree json_value julian kahan_sum kurtosis kurtosis_pop last
last_day lcase lcm len levenshtein lgamma list list_aggr list_aggregate list_any_value list_append
list_apply list_avg list_cat list_concat list_contains list_count list_distinct list_element list_extract
list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram list_indexof
list_intersect list_last list_max list_median list_min list_mode list_position list_prepend list_product
list_reduce list_reverse list_reverse_sort list_select list_slice list_sort list_stddev_pop
list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop list_var_samp
list_where list_zip listagg mad make_date make_time make_timestamp make_timestamptz map map_concat
map_contains map_entries map_extract map_from_entries map_keys map_values max_by mean median microsecond
millennium millisecond min_by minute mode month monthname multiply nanosecond nfc_normalize ord
parse_filename pg_typeof prefix printf product quantile quantile_cont quantile_disc quarter range reduce
regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
regr_sxx regr_sxy regr_syy reservoir_quantile round_even row_to_json second sem sha1 sha256 signbit sinh
skewness split split_part starts_with stddev stddev_pop stddev_samp str_split str_split_regex strftime
string_agg string_split string_split_regex string_to_array strip_accents strlen strpos strptime
struct_concat struct_extract struct_insert struct_keys struct_pack subtract suffix sum_no_overflow sumkahan
tanh time_bucket timezone timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days
to_decades to_hex to_hours to_json to_microseconds to_milliseconds to_minutes to_months to_quarters
to_seconds to_timestamp to_weeks to_years today transaction_timestamp try_strptime ucase unbin unhex unicode
union_extract union_tag union_value unnest url_decode url_encode uuid uuidv4 uuidv7 var_pop var_samp
variance week weekday weekofyear wavg weighted_avg xor year yearweek
"""
_MYSQL = """
adddate addtime any_value ascii bin bit_and bit_count bit_length bit_or bit_xor conv convert_tz crc32
curdate curtime date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear elt
export_set field find_in_set from_base64 from_days from_unixtime get_format group_concat grouping hex hour
if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert interval is_ipv4 is_ipv6 is_uuid isnull
json_arrayagg json_array_append json_array_insert json_contains json_contains_path json_depth json_insert
json_keys json_length json_merge_patch json_merge_preserve json_objectagg json_overlaps json_pretty
json_quote json_remove json_replace json_search json_set json_storage_size json_table json_unquote
json_value last_day lcase locate make_set makedate maketime mid microsecond minute month monthname oct ord
period_add period_diff quarter quote rand regexp_instr regexp_like regexp_replace regexp_substr sec_to_time
second sha sha1 sha2 soundex space std stddev stddev_pop stddev_samp str_to_date strcmp subdate
substring_index subtime sysdate time_format time_to_sec timediff timestamp timestampadd timestampdiff
to_base64 to_days to_seconds truncate ucase unhex unix_timestamp utc_date utc_time utc_timestamp uuid
var_pop var_samp variance week weekday weekofyear weight_string year yearweek
"""
ALLOWED: dict[str, frozenset[str]] = {
    dialect: frozenset((_EVERYWHERE + names).split())
    for dialect, names in (
        ("postgres", _POSTGRES),
        ("sqlite", _SQLITE),
        ("duckdb", _DUCKDB),
        ("mysql", _MYSQL),
    )
}

MAX_REPEATED = 10_000
MAX_TRIMMED = 100

# Classes of sqlglot that are not harmless functions of these databases: files, models, sequences.
_NOT_THESE: tuple[type[exp.Expr], ...] = (
    *(
        exp.ReadCSV,
        exp.ReadParquet,
        exp.ToFile,
        exp.NextValueFor,
        exp.DynamicIdentifier,
        exp.ObjectId,
        exp.Secret,
    ),
    *(
        exp.AIAgg,
        exp.AIClassify,
        exp.AIEmbed,
        exp.AIForecast,
        exp.AIGenerate,
        exp.AISimilarity,
        exp.AISummarizeAgg,
    ),
    *(exp.GenerateText, exp.GenerateTable, exp.GenerateEmbedding, exp.GenerateBool, exp.GenerateInt),
    *(exp.GenerateDouble, exp.MLForecast, exp.MLTranslate, exp.Predict, exp.FeaturesAtTime, exp.VectorSearch),
    *(
        exp.NetFunc,
        exp.Search,
        exp.OpenJSON,
        exp.CurrentSession,
        exp.CurrentStatement,
        exp.CurrentTransaction,
    ),
)

_GROWING = (exp.Repeat, exp.Pad)


def check_functions(statement: exp.Query, dialect: str, text: StatementText) -> None:
    allowed = ALLOWED[dialect]
    for function in statement.find_all(exp.Func):
        name = _name(function)
        if isinstance(function, (exp.Anonymous, exp.AnonymousAggFunc)):
            if not isinstance(function.this, str) or name.casefold() not in allowed:
                raise StatementRefusedError(
                    f"the function {name!r} is not among those known to be harmless", text.position(name)
                )
        elif isinstance(function, _NOT_THESE):
            raise StatementRefusedError(
                f"the function {name!r} is not among those known to be harmless", text.position(name)
            )
        elif dialect == "sqlite" and isinstance(function, exp.Trim):
            _check_trim(function, text)
        elif dialect == "duckdb" and isinstance(function, _GROWING):
            _check_growth(function, text)
        if isinstance(function.parent, exp.Dot) and function.parent.expression is function:
            raise StatementRefusedError(
                f"the function {name!r} is called with a schema; hint: leave it out",
                text.position(name),
            )


def _check_growth(function: exp.Func, text: StatementText) -> None:
    """DuckDB makes such a text in one step that cannot be stopped, outside its memory limit."""
    repeats = isinstance(function, exp.Repeat)
    count = function.args.get("times" if repeats else "expression")
    is_short = isinstance(count, exp.Literal) and count.is_int and int(count.name) <= MAX_REPEATED
    if is_short and (not repeats or isinstance(function.this, exp.Literal)):
        return
    raise StatementRefusedError(
        f"repeat, lpad and rpad need a literal text and a literal number of at most {MAX_REPEATED}",
        text.position("repeat", "lpad", "rpad"),
    )


def _check_trim(function: exp.Trim, text: StatementText) -> None:
    """SQLite compares each character with each of these in one step that cannot be stopped."""
    characters = function.args.get("expression")
    if characters is None or (isinstance(characters, exp.Literal) and len(characters.name) <= MAX_TRIMMED):
        return
    raise StatementRefusedError(
        f"the characters to trim must be a literal text of at most {MAX_TRIMMED} characters",
        text.position("trim", "ltrim", "rtrim"),
    )


def _name(function: exp.Func) -> str:
    return (
        function.name if isinstance(function, (exp.Anonymous, exp.AnonymousAggFunc)) else function.sql_name()
    )


_SYSTEM_SCHEMAS: dict[str, frozenset[str]] = {
    "postgres": frozenset({"pg_catalog", "information_schema", "pg_toast"}),
    "mysql": frozenset({"mysql", "information_schema", "performance_schema", "sys"}),
    "duckdb": frozenset({"information_schema", "pg_catalog", "system", "temp"}),
    "sqlite": frozenset({"temp"}),
}
_SYSTEM_TABLES = {
    "postgres": re.compile(r"pg_.*"),
    "mysql": re.compile(r"(?!)"),
    "duckdb": re.compile(r"duckdb_.*|pg_.*|pragma_.*|sqlite_.*|which_secret"),
    "sqlite": re.compile(r"sqlite_.*|pragma_.*|dbstat|bytecode|tables_used"),
}
_TABLE_NAME = re.compile(r"[\w $-]+")


Names = tuple[str, ...]
"""The names of one table, as far as the statement gives them: `c.b.a`, `b.a`, `a`. A pattern matches any."""


class Blocked(NamedTuple):
    """Patterns of blocked tables and columns, and the columns of the known tables."""

    tables: Sequence[str]
    columns: Sequence[str]
    known: Mapping[str, Sequence[str]]


def check_names(statement: exp.Query, dialect: str, text: StatementText, blocked: Blocked) -> None:
    tables = list(statement.find_all(exp.Table))
    for table in tables:
        if isinstance(table.this, exp.Identifier):
            _check_table(table, dialect, text)
            _check_blocked(_qualified(table), blocked.tables, text, table.name)
    for cte in statement.find_all(exp.CTE):
        _check_blocked((folded(cte.alias),), blocked.tables, text, cte.alias)
    if dialect == "sqlite":
        _check_membership(statement, text)
    if blocked.columns:
        _BlockedColumns(statement, tables, dialect, blocked, text).check(statement)


def used_tables(statement: exp.Query, dialect: str) -> tuple[str, ...]:
    tables = [
        table
        for table in statement.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not _is_own(table, dialect)
    ]
    names = (".".join(part.name for part in table.parts) for table in sorted(tables, key=_start))
    return tuple(dict.fromkeys(names))


def used_columns(statement: exp.Query) -> tuple[str, ...]:
    columns = [column for column in statement.find_all(exp.Column) if not column.is_star]
    return tuple(dict.fromkeys(column.name for column in sorted(columns, key=_start)))


def _start(part: exp.Table | exp.Column) -> int:
    """The position in the text; the tree has another order."""
    return part.this.meta.get("start", 0)


def folded(name: str) -> str:
    return normalized("NFKC", name).casefold()


def _check_table(table: exp.Table, dialect: str, text: StatementText) -> None:
    name = folded(table.name)
    # DuckDB opens a file or URL that is given as the name of a table.
    if not _TABLE_NAME.fullmatch(table.name):
        raise StatementRefusedError(f"{table.name!r} is not the name of a table", text.position(table.name))
    schemas = {folded(part.name) for part in table.parts[:-1]}
    if schemas & _SYSTEM_SCHEMAS[dialect] or _SYSTEM_TABLES[dialect].fullmatch(name):
        raise StatementRefusedError(
            f"{table.name!r} is a system table, which cannot be read here", text.position(table.name)
        )


def _check_membership(statement: exp.Query, text: StatementText) -> None:
    """In SQLite `1 IN name` reads a table, which the tree shows as a column."""
    for part in statement.find_all(exp.In):
        field = part.args.get("field")
        if field is not None:
            reason = "IN needs brackets; hint: IN (SELECT column FROM table)"
            raise StatementRefusedError(reason, text.position(field.name, "in"))


def _check_blocked(names: Iterable[str], patterns: Sequence[str], text: StatementText, name: str) -> None:
    if _matches(names, patterns):
        raise StatementRefusedError(f"the table {name!r} cannot be read here", text.position(name))


def _matches(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, folded(pattern)) for name in names for pattern in patterns)


def _qualified(table: exp.Table) -> Names:
    parts = [folded(part.name) for part in table.parts]
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


class _BlockedColumns:
    """Checks one statement for blocked columns.

    Names that the statement defines are not tables here: their definitions are checked.
    """

    def __init__(
        self,
        statement: exp.Query,
        tables: Sequence[exp.Table],
        dialect: str,
        blocked: Blocked,
        text: StatementText,
    ) -> None:
        self._text = text
        # In DuckDB main.users is a row of users.
        self._rows_have_schemas = dialect == "duckdb"
        # In PostgreSQL u.to_json is to_json(u) if u has no such column.
        self._calls_by_dot = dialect == "postgres"
        self._patterns = [folded(pattern) for pattern in blocked.columns]
        self._known = {
            folded(name): [folded(column) for column in columns] for name, columns in blocked.known.items()
        }
        self._tables: set[Names] = set()
        self._aliases: dict[str, set[Names]] = {}
        for table in tables:
            if isinstance(table.this, exp.Identifier) and not _is_own(table, dialect):
                self._tables.add(_qualified(table))
                for alias in (folded(table.alias_or_name), folded(table.name)):
                    self._aliases.setdefault(alias, set()).add(_qualified(table))
        for group in statement.find_all(exp.Subquery):
            self._aliases.setdefault(folded(group.alias), set()).update(self._grouped(group))

    def check(self, statement: exp.Query) -> None:
        for part in statement.walk():
            if isinstance(part, exp.Identifier):
                self._check_identifier(part)
            elif isinstance(part, exp.Star) and not isinstance(part.parent, exp.Count):
                self._check_all(part, "*")
            elif isinstance(part, (exp.Columns, exp.Pivot)):
                self._check_all(part, type(part).__name__)
            elif isinstance(part, exp.Join) and part.method:
                self._check_all(part, part.method)
            elif isinstance(part, exp.Column):
                self._check_whole_row(part)
            elif isinstance(part, exp.Table):
                self._check_renaming(part, {_qualified(part)} & self._tables)
            elif isinstance(part, exp.Subquery):
                self._check_renaming(part, self._grouped(part))

    def _grouped(self, group: exp.Subquery) -> set[Names]:
        """The tables of `(a)` and `(a JOIN b)`, which can have an alias though they are not queries."""
        scope = group.find_ancestor(exp.Select)
        found = group.find_all(exp.Table)
        inside = {_qualified(table) for table in found if table.find_ancestor(exp.Select) is scope}
        return inside & self._tables

    def _check_identifier(self, part: exp.Identifier) -> None:
        column = part.parent
        owners = self._tables
        if isinstance(column, exp.Column) and column.this is part and column.table:
            owners = self._aliases.get(folded(column.table), self._tables)
        if self._is_blocked(folded(part.this), owners):
            raise StatementRefusedError(
                f"the column {part.this!r} cannot be read here", self._text.position(part.this)
            )

    def _is_blocked(self, column: str, owners: Iterable[Names]) -> bool:
        names = (f"{name}.{column}" for owner in owners for name in owner)
        return _matches((column, *names), self._patterns)

    def _check_all(self, part: exp.Expr, what: str) -> None:
        """Check all columns of all tables; for `SELECT *` and `alias.*`, of those tables."""
        parent = part.parent
        owners = self._tables
        if isinstance(parent, exp.Column) and parent.table:
            owners = self._aliases.get(folded(parent.table), set())
        elif isinstance(parent, exp.Select):
            # The tables of a subquery are checked there.
            found = parent.find_all(exp.Table)
            owners = {_qualified(table) for table in found if table.find_ancestor(exp.Select) is parent}
        self._check_tables(owners & self._tables, what)

    def _check_whole_row(self, column: exp.Column) -> None:
        if (not column.table or self._rows_have_schemas) and (
            owners := self._aliases.get(folded(column.name))
        ):
            self._check_tables(owners, f"the whole row {column.name!r}")
        elif self._calls_by_dot and column.table and not column.is_star:
            owners = self._aliases.get(folded(column.table), set())
            if not self._is_column(folded(column.name), owners):
                self._check_tables(owners, f"the whole row {column.table!r}")

    def _is_column(self, name: str, owners: Iterable[Names]) -> bool:
        known = [self._known[part] for owner in owners for part in owner if part in self._known]
        return any(name in columns for columns in known) if known else name not in ALLOWED["postgres"]

    def _check_renaming(self, named: exp.Table | exp.Subquery, owners: Iterable[Names]) -> None:
        alias = named.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            self._check_tables(owners, "renaming columns by their position")

    def _check_tables(self, owners: Iterable[Names], what: str) -> None:
        for owner in owners:
            columns = next((self._known[name] for name in owner if name in self._known), None)
            if columns is None:
                held = self._may_hold(owner)
            else:
                held = any(self._is_blocked(column, (owner,)) for column in columns)
            if held:
                raise self._unnamed(what, owner[-1])

    def _may_hold(self, owner: Names) -> bool:
        """Whether a pattern applies to every table, or to this one."""
        return any(
            "." not in pattern or fnmatchcase(owner[-1], pattern.rpartition(".")[0].rpartition(".")[2])
            for pattern in self._patterns
        )

    def _unnamed(self, what: str, owner: str) -> StatementRefusedError:
        reason = f"{what} would read blocked columns of {owner!r}; hint: name the columns"
        return StatementRefusedError(reason, self._text.position(what, owner))


def _is_own(table: exp.Table, dialect: str) -> bool:
    """Whether the name is surely defined by a WITH of the statement that is in scope."""
    if table.args.get("db"):
        return False
    inner: exp.Expr = table
    outer = table.parent
    while outer is not None:
        given = outer if isinstance(outer, exp.With) else outer.args.get("with_")
        if isinstance(given, exp.With) and given is not inner and _gives(given, table, inner, dialect):
            return True
        inner, outer = outer, outer.parent
    return False


def _gives(given: exp.With, table: exp.Table, inner: exp.Expr, dialect: str) -> bool:
    """Inside a WITH, the names before are in scope; and the name itself if it is recursive."""
    for cte in given.expressions:
        if cte is inner and not given.args.get("recursive"):
            return False
        if _same(cte.args["alias"].this, table.this, dialect):
            return True
        if cte is inner:
            return False
    return False


def _same(one: exp.Identifier, other: exp.Identifier, dialect: str) -> bool:
    """Whether the dialect surely treats both as one name: in PostgreSQL `"A"` and `a` are two."""
    if dialect == "mysql":
        return one.name == other.name
    return _unfolded(one) == _unfolded(other)


def _unfolded(name: exp.Identifier) -> str:
    return name.name if name.quoted else name.name.lower()
