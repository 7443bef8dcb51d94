"""The MCP endpoint of a session, and of an MCP server made with `/mcp/servers`: a real one, by the SDK."""

import json
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from . import execution, meta
from .desk import Desk
from .refusals import Refusal
from .searching import allowed
from .world import Session

Context = ServerRequestContext[Any, Any]
SEAT = "composio.desk"
"""Where the door leaves, in the ASGI scope, what a request is about."""


def manager() -> StreamableHTTPSessionManager:
    server = Server("tool_router", version="1.0.0", on_list_tools=_list, on_call_tool=_call)
    return StreamableHTTPSessionManager(server)


def _desk(context: Context) -> Desk:
    assert context.request is not None
    return context.request.scope[SEAT]


async def _list(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
    desk = _desk(context)
    tools = [
        Tool(name=slug, title=tool.name, description=tool.description, input_schema=tool.input)
        for slug, tool in meta.TOOLS.items()
        if slug in meta.names(desk.session)
    ]
    tools += [
        Tool(name=tool.slug, title=tool.name, description=tool.description, input_schema=tool.input)
        for tool in allowed(desk.world, desk.session)
        if _is_preloaded(desk.session, tool.slug)
    ]
    return ListToolsResult(tools=tools)


def _is_preloaded(session: Session, slug: str) -> bool:
    wanted = (session.config.get("preload") or {}).get("tools") or []
    return wanted == "all" or slug in wanted


async def _call(context: Context, params: CallToolRequestParams) -> CallToolResult:
    desk = _desk(context)
    if desk.session.expired_with == 200:
        return _told(meta.over(desk.session), is_error=True)
    arguments = params.arguments or {}
    try:
        if params.name in meta.TOOLS:
            reply = await meta.call(desk, params.name, arguments)
        else:
            reply = await execution.in_session(desk.world, desk.session, params.name, arguments)
    except Refusal as refusal:
        return _told({"data": {}, "error": refusal.message, "successful": False}, is_error=True)
    return _told(reply)


def _told(reply: dict[str, Any], is_error: bool = False) -> CallToolResult:
    wrapped = {name: reply[name] for name in ("data", "error", "successful")}
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(wrapped))], is_error=is_error)
