"""Small catalogues to search in."""

from collections.abc import Sequence
from typing import Any

from toolyard.meaning.embedding import TextEmbedding
from toolyard.search.documents import ToolDocument, ToolQuery
from toolyard.search.index import ToolIndex


def tool(server: str, name: str, description: str = "", **more: Any) -> ToolDocument:
    return ToolDocument(
        tool=f"mcp__{server}__{name}", server=server, name=name, description=description, **more
    )


OFFICE = [
    tool("mail", "send_email", "Sends an email to one or more people", parameters=(("to", "Recipients"),)),
    tool("mail", "search_inbox", "Finds messages in the inbox by sender, subject or date"),
    tool(
        "calendar", "createEvent", "Creates an event in the calendar", parameters=(("attendees", "Guests"),)
    ),
    tool("calendar", "list_events", "Lists the events of a day or week"),
    tool("files", "read_file", "Reads a text file", parameters=(("path", "Where the file is"),)),
    tool("files", "convert_to_pdf", "Converts a document to PDF"),
    tool(
        "weather", "get_forecast", "Weather forecast for a city", parameters=(("city", "Name of the city"),)
    ),
    tool("home", "turn_on", "Turns on a light or another device"),
    tool("home", "turn_off", "Turns off a light or another device"),
    tool("sql", "consultar_sql", "Executa uma consulta de leitura no banco de dados e devolve as linhas"),
    tool("crm", "get_customer", "Shows a customer's details", read_only=True),
    tool("crm", "delete_customer", "Deletes a customer's details", destructive=True, read_only=False),
]


def index_of(documents: Sequence[ToolDocument], semantic: TextEmbedding) -> ToolIndex:
    index = ToolIndex(semantic)
    for server in dict.fromkeys(document.server for document in documents):
        index.put(server, [document for document in documents if document.server == server])
    return index


def found(index: ToolIndex, use_case: str, limit: int = 5) -> list[str]:
    """The bare names that a use case finds."""
    return [hit.tool.rpartition("__")[2] for hit in index.search(ToolQuery(use_case), limit)]
