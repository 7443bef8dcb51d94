"""`get_ticket` on the SDK's low-level server over stdio: the smallest server of the SDK."""

import json
import os

import anyio
import httpx
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import TextContent, Tool

server = Server("tiflux")
SCHEMA = {
    "type": "object",
    "properties": {
        "ticket_number": {"type": "string"},
        "show_entities": {"type": "boolean"},
        "include_filled_entity": {"type": "boolean"},
    },
    "required": ["ticket_number"],
}


@server.list_tools()
async def tools():
    return [Tool(name="get_ticket", description="A ticket by its number", inputSchema=SCHEMA)]


@server.call_tool()
async def call(name, arguments):
    headers = {"Authorization": f"Bearer {os.environ['TIFLUX_API_KEY']}"}
    async with httpx.AsyncClient(base_url=os.environ["TIFLUX_API_BASE_URL"], headers=headers) as client:
        reply = await client.get(f"/tickets/{arguments['ticket_number']}")
    data = {"data": reply.raise_for_status().json()}
    return [TextContent(type="text", text=json.dumps(data))], data


async def main():
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


anyio.run(main)
