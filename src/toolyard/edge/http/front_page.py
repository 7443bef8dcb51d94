"""The page at `/`, for whoever opens the address in a browser: what it is, and the lines for clients.

Plain text: nothing to escape, and readable with curl too. The lines are those that `toolyard serve` prints.
"""

import json
import re
from collections.abc import Sequence

from ...languages import said

CONTENT_TYPE = "text/plain; charset=utf-8"

Header = tuple[str, str]
"""A header that callers must send: its name, and what stands for its value."""


def front_page(name: str, url: str, header: Header | None = None) -> bytes:
    return "\n".join(
        [
            said("This is Toolyard, an MCP endpoint.", "Este é o Toolyard, um endpoint MCP."),
            said(
                "It is for agents and other MCP clients, not for browsers:",
                "Ele é para agentes e outros clientes MCP, não para navegadores:",
            ),
            "",
            f"  {url}",
            "",
            *client_lines(name, url, header),
            said("Clients that start programs:", "Clientes que iniciam programas:"),
            f"  {_snippet(name, _program(url, header))}",
            "",
            said("/health says how it is.", "/health diz como ele está."),
            "",
        ]
    ).encode()


def client_lines(name: str, url: str, header: Header | None = None) -> list[str]:
    """Lines to paste into clients that take an address."""
    name = server_name(name)
    entry: dict[str, object] = {"url": url, **({"headers": dict([header])} if header else {})}
    option = f" --header '{header[0]}: {header[1]}'" if header else ""
    return [
        "Claude Code:",
        f"  claude mcp add --transport http {name} {url}{option}",
        said("Cursor and other clients that take a URL:", "Cursor e outros clientes que aceitam uma URL:"),
        f"  {_snippet(name, entry)}",
    ]


def stdio_line(name: str, command: Sequence[str]) -> str:
    """An entry for clients that start the server themselves."""
    return _snippet(name, {"command": command[0], "args": list(command[1:])})


def server_name(name: str) -> str:
    """A name that clients take for a server."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "toolyard"


def _program(url: str, header: Header | None) -> dict[str, object]:
    # No space after the colon: Claude Desktop on Windows splits arguments there.
    sent = ["--header", f"{header[0]}:{header[1]}"] if header else []
    return {"command": "npx", "args": ["-y", "mcp-remote", url, *sent]}


def _snippet(name: str, entry: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {server_name(name): entry}}, ensure_ascii=False)
