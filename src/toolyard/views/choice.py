"""Which view a client is served where the configuration leaves it open (`view = "auto"`), and why.

Owns the table of clients and the budgets. A choice depends on the client and on the catalogue as its caller
sees it, on nothing else, so the same client with the same catalogue is always served alike.
"""

from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct

from ..catalogue.catalogue import CatalogueEntry
from ..catalogue.items import TOOLS
from ..catalogue.scope import VisibleCatalogue
from ..results.measure import estimate_tokens
from ..wire.call import ClientInfo
from .signatures import signature

ViewName = Literal["index", "search", "all"]


class ClientRow(Struct, frozen=True):
    """What is known of a client, and from where."""

    names: tuple[str, ...]
    """What it calls itself in `clientInfo`."""
    budget: int
    """Tokens of signatures up to which an index is cheaper than a search; 0: everything is listed."""
    source: str
    measured: str


CLIENTS = (
    ClientRow(
        ("claude-code",),
        1_200,
        "tests/clients: Claude Code 2.1.325 and the Agent SDK, which call themselves so",
        "below the cost of direct use with 28 to 32 tools in the index if it searches tools itself (its "
        "default), from 45 if not; docs/concepts/tokens.md",
    ),
    ClientRow(
        ("mcp-inspector", "inspector-client", "inspector-cli", "mcp-inspector-tui"),
        0,
        "the names in the MCP Inspector's packages",
        "none: a person reads its lists, no model does",
    ),
)
OTHERS = ClientRow(
    (),
    800,
    "Pydantic AI, OpenAI Agents SDK, LangChain, `toolyard agent`: each with and without a name of its own",
    "below the cost of direct use with any size of index; cheapest up to 7 to 25 tools; "
    "docs/concepts/tokens.md",
)
_ROWS = {name: row for row in CLIENTS for name in row.names}


class ViewChoice(Struct, frozen=True):
    view: ViewName
    reason: str
    row: ClientRow
    tokens: int
    """Of the signatures, as far as they were counted: up to just above the budget."""


def choose(client: ClientInfo, catalogue: VisibleCatalogue, remotes: bool = False) -> ViewChoice:
    """Choose a view. `remotes`: whether the caller may use servers that only list what a search finds."""
    row = _ROWS.get(client.name, OTHERS)
    if not row.budget:
        return ViewChoice("all", "a person reads this client's lists", row, 0)
    if remotes:
        return ViewChoice("search", "a server has tools that only its own search finds", row, 0)
    if not catalogue.is_settled:
        return ViewChoice("search", "some servers have not said yet which tools they have", row, 0)
    tokens = 0
    for server in catalogue.servers.values():
        for entry in server.entries[TOOLS.name]:
            tokens += index_line(entry)[1]
            if tokens > row.budget:
                reason = f"an index of the tools would take more than {row.budget:,} tokens"
                return ViewChoice("search", reason, row, tokens)
    reason = f"an index of the tools takes {tokens:,} tokens, which is within {row.budget:,}"
    return ViewChoice("index", reason, row, tokens)


def index_line(entry: CatalogueEntry) -> tuple[str, int]:
    """Return a tool's line in an index, and how many tokens it takes."""
    return _index_line(entry.name, entry.item.rest)


@lru_cache(maxsize=2_048)
def _index_line(name: str, rest: bytes) -> tuple[str, int]:
    listed = msgspec.json.decode(b"{" + rest)
    hints = listed.get("annotations")
    line = signature(name, listed.get("inputSchema"), listed.get("description"), hints, brief=True).shown()
    return line, estimate_tokens(line)
