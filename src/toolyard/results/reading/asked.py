"""What `read_result` is asked, checked."""

from typing import Any, Literal

from msgspec import Struct

LARGEST_OFFSET = 10**12
MOST_ITEMS = 1_000
LONGEST_QUERY = 20_000
Way = Literal["page", "query", "sql"]


class Wrong(Exception):
    """What was asked makes no sense; the message says what would, and a model reads it."""


class Asked(Struct, frozen=True):
    id: str
    way: Way
    text: str = ""
    """The expression or statement."""
    offset: int = 0
    limit: int | None = None


def asked(arguments: dict[str, Any]) -> Asked:
    unknown = set(arguments) - {"id", "offset", "limit", "query", "sql"}
    if unknown:
        raise Wrong(f"unknown argument {min(unknown)!r}; known are id, offset, limit, query and sql")
    id = arguments.get("id")
    if not isinstance(id, str) or not id:
        raise Wrong("'id' is missing: it is in the 'storage' of a truncated result")
    id = id.removeprefix("toolyard://results/")
    query, sql = _text(arguments, "query"), _text(arguments, "sql")
    if query and sql:
        raise Wrong("give 'query' (JMESPath) or 'sql', not both")
    way: Way = "query" if query else "sql" if sql else "page"
    offset = _number(arguments, "offset", 0, LARGEST_OFFSET)
    limit = _number(arguments, "limit", 1, MOST_ITEMS)
    return Asked(id, way, query or sql, offset or 0, limit)


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"{name!r} must be a text that is not empty")
    if not _can_be_written(value):
        raise Wrong(f"{name!r} has half of a letter in it")
    if len(value) > LONGEST_QUERY:
        raise Wrong(f"{name!r} is over {LONGEST_QUERY} characters")
    return value


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(arguments: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Wrong(f"{name!r} must be a whole number from {least} to {most}")
    return value
