"""The servers that come with Toolyard, by the names that they go by wherever a module is asked for."""

BUNDLED = {
    "demo": "something harmless to try things with",
    "sql": "questions to a database, in SQL or in words",
    "schema": "what a database has: tables, columns, relations, values",
    "memory": "notes that an agent keeps between conversations",
    "sessions": "earlier conversations, found again",
    "render": "logs, errors and services of Render, or of log files",
    "browser": "a web browser",
    "tiflux": "TiFlux, a help desk: tickets, clients, chats",
}


def module_of(name: str) -> str:
    """The module of a bundled server; any other name as it is."""
    return f"toolyard.servers.{name}" if name in BUNDLED else name
