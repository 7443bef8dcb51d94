"""Definitions of tools inside a result, such as those that a search for tools returns.

Half a schema is worse than none: a model would build its arguments from it. So definitions are shown whole,
or each without its schemas and marked so.
"""

import re
from collections.abc import Callable
from typing import Any, cast

from .json_parts import Buffer, value_of
from .truncation import ENDLESS, is_schema, left_out, size_of

LARGEST = 4 * 2**20
"""Bytes; longer results are not searched for definitions."""
DEEPEST = 16
LEAST_SHARE = 0.25
"""A result is one of definitions if its schemas have this share of its bytes."""
_SCHEMAS = (
    *("input_schema", "inputSchema", "input_parameters", "inputParameters", "parameters"),
    *("output_schema", "outputSchema", "output_parameters", "outputParameters"),
)
_BY_SLUG = "tool_schemas"
"""In Composio's searches: the definitions by slug, also those without a schema."""
_MAY_DEFINE = re.compile(rb'"(?:input_?(?:[sS]chema|[pP]arameters)|parameters|tool_schemas)"').search


def definitions_in(body: Buffer) -> Any:
    """Return the decoded value if it has definitions of tools; else None."""
    if len(body) > LARGEST or not _MAY_DEFINE(body):
        return None
    try:
        value = value_of(body)
    except ValueError:
        return None
    return value if _bytes_of_schemas(value, DEEPEST) >= size_of(value) * LEAST_SHARE else None


def fit_definitions(value: Any, room: int) -> Any:
    """Return the value with the schemas of as many tools as fit into `room` bytes; None if none fit.

    The first come first: searches return the best first.
    """
    spent = size_of(_with_schemas(value, lambda schemas: False, DEEPEST))
    if spent > room:
        return None

    def has_room(schemas: dict[str, Any]) -> bool:
        nonlocal spent
        more = sum(size_of(schema) - size_of(left_out(schema)) for schema in schemas.values())
        if spent + more > room:
            return False
        spent += more
        return True

    return _with_schemas(value, has_room, DEEPEST)


def _bytes_of_schemas(value: Any, depth: int) -> int:
    if depth == 0:
        return 0
    if isinstance(value, list):
        return sum(_bytes_of_schemas(item, depth - 1) for item in cast(list[Any], value))
    if not isinstance(value, dict):
        return 0
    members = cast(dict[str, Any], value)
    if isinstance(members.get(_BY_SLUG), dict):
        return ENDLESS
    if schemas := _schemas_of(members):
        return size_of(schemas)
    return sum(_bytes_of_schemas(item, depth - 1) for item in members.values())


def _schemas_of(members: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of a tool's definition; empty if it is none."""
    return {name: members[name] for name in _SCHEMAS if name in members and _is_object(members[name])}


def _is_object(value: Any) -> bool:
    """Whether a value is the schema of an object; that of a tool without arguments has no properties."""
    return is_schema(value) or (
        isinstance(value, dict) and cast(dict[str, Any], value).get("type") == "object"
    )


def _with_schemas(value: Any, keeps: Callable[[dict[str, Any]], bool], depth: int) -> Any:
    if depth == 0:
        return value
    if isinstance(value, list):
        return [_with_schemas(item, keeps, depth - 1) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    members = cast(dict[str, Any], value)
    schemas = _schemas_of(members)
    if not schemas:
        return {name: _with_schemas(item, keeps, depth - 1) for name, item in members.items()}
    if keeps(schemas):
        return members
    return {**members, **{name: left_out(schema) for name, schema in schemas.items()}}
