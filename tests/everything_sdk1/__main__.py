"""`python -m tests.everything_sdk1 --port 8321` serves HTTP on loopback, `--stdio` one client on stdio."""

import argparse
from typing import Any

import uvicorn
from mcp.server.fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import JSONResponse

from tests.everything_sdk1.asking import add_asking_tools
from tests.everything_sdk1.content import add_content_tools, contact_tool
from tests.everything_sdk1.fixtures import INSTRUCTIONS
from tests.everything_sdk1.offers import add_completions, add_prompts, add_resources, add_session_methods
from tests.everything_sdk1.replay import RETRY_MS, Replay
from tests.everything_sdk1.streams import add_stream_tools


def everything() -> FastMCP[Any]:
    server = FastMCP(
        "everything-sdk1",
        instructions=INSTRUCTIONS,
        event_store=Replay(),
        retry_interval=RETRY_MS,
        tools=[contact_tool()],
        log_level="WARNING",
    )
    add_content_tools(server)
    add_stream_tools(server)
    add_asking_tools(server)
    add_resources(server)
    add_prompts(server)
    add_completions(server)
    add_session_methods(server)

    @server.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return server


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.everything_sdk1", description="Conformance fixtures."
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int, help="serve http://127.0.0.1:PORT/mcp")
    where.add_argument("--stdio", action="store_true", help="serve on stdin and stdout")
    options = parser.parse_args()
    if options.stdio:
        everything().run("stdio")
    else:
        app = everything().streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
