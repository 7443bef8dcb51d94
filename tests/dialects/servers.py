"""Two small servers for the dialects' conversations. They share the name of a tool."""

from typing import Annotated

from toolyard.kit import Context, Server

notes = Server("notes", title="Notes", instructions="Keeps short notes.")
board = Server("board", title="Board", instructions="A message board.")
relay = Server("relay", title="Relay", instructions="Passes notes on.")


@notes.tool
async def add_note(text: Annotated[str, "What to write down"]) -> dict[str, str]:
    """Write a note down in the note book."""
    return {"noted": text}


@notes.tool(name="list-notes", read_only=True)
async def list_notes() -> str:
    """Read the notes that were written down."""
    return "milk"


@notes.tool(destructive=True)
async def burn_notes() -> str:
    """Destroy the note book."""
    return "ashes"


@board.tool(name="add_note")
async def pin(text: str) -> dict[str, str]:
    """Pin a message to the board."""
    return {"pinned": text}


@relay.tool
async def pass_on(ctx: Context, text: str) -> str:
    """Pass a note on to the note book."""
    return str(await ctx.call_tool("mcp__notes__add_note", {"text": text}))
