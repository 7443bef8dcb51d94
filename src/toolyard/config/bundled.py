"""The servers that come with Toolyard, by the names that they go by wherever a module is asked for."""

from collections.abc import Mapping
from typing import Any

BUNDLED = {
    "demo": "something harmless to try things with",
    "sql": "questions to a database, in SQL or in words",
    "schema": "what a database has: tables, columns, relations, values",
    "memory": "notes that an agent keeps between conversations",
    "sessions": "earlier conversations, found again",
    "render": "logs, errors and services of Render, or of log files",
    "browser": "a web browser",
    "rest": "any REST API, described by a table",
    "tiflux": "TiFlux, a help desk: tickets, clients, chats",
}


def module_of(name: str) -> str:
    """The module of a bundled server; any other name as it is."""
    return f"toolyard.servers.{name}" if name in BUNDLED else name


TABLES = (".toml", ".json")


def is_table(target: str) -> bool:
    """Whether it names the file of a REST API's table, which the server `rest` serves."""
    return target.endswith(TABLES)


def served(target: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The module that serves a target, and its options: those of a table say which one it is."""
    if is_table(target):
        return module_of("rest"), {"table": target, **options}
    return module_of(target), options
