"""Servers under test, each with one echo tool: `python -m bench.kit_servers bare|kit|sdk --port N`.

Owns the three ASGI apps and the uvicorn settings that all our servers share. It does not know the
load (`bench.load`) nor what is measured (`bench.measure`).
"""

import argparse
import ctypes
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.process import HOST, Process, free_port, running

_PR_SET_PDEATHSIG = 1


def bare() -> Any:
    """The minimum: an ASGI app that reads a tools/call and answers in JSON-RPC."""
    import msgspec

    class Arguments(msgspec.Struct):
        text: str

    class Params(msgspec.Struct):
        arguments: Arguments

    class Request(msgspec.Struct):
        id: int | str
        params: Params

    decode = msgspec.json.Decoder(Request).decode
    encode = msgspec.json.Encoder().encode

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        request = decode(body)
        result = {"content": [{"type": "text", "text": request.params.arguments.text}]}
        reply = encode({"jsonrpc": "2.0", "id": request.id, "result": result})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    return app


def kit() -> Any:
    """Toolyard's kit as a user would write it."""
    from toolyard.kit import Server

    server = Server("bench", version="1.0.0")

    @server.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    return server.asgi()


def sdk() -> Any:
    """The low-level server of `mcp`, in the fastest form it offers for both eras.

    JSON replies spare it the SSE stream; `get_tool_input_schema` spares a modern call the walk
    through `tools/list` that looks for `x-mcp-header`.
    """
    import mcp_types as types
    from mcp.server.lowlevel import Server

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tool = types.Tool(name="echo", description="Say it again.", input_schema=schema)

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = (params.arguments or {})["text"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server: Server[Any] = Server(
        "bench",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema={"echo": schema}.get,
    )
    return server.streamable_http_app(json_response=True)


APPS: dict[str, Callable[[], Any]] = {"bare": bare, "kit": kit, "sdk": sdk}


def serve(app: Any, port: int, **more: Any) -> None:
    import uvicorn

    settings: dict[str, Any] = {
        "host": HOST,
        "port": port,
        "loop": "uvloop",
        "http": "httptools",
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        # The benchmark keeps its connections open while it measures other servers.
        "timeout_keep_alive": 600,
        "timeout_graceful_shutdown": 1,
    }
    uvicorn.run(app, **(settings | more))


@contextmanager
def serving(name: str, source: Path | None = None) -> Generator[Process, None, None]:
    """Runs the server `name` in its own process while the block runs. `source`: another checkout's `src`."""
    port = free_port()
    env = {} if source is None else {"PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "bench.kit_servers", name, "--port", str(port)]
    with running(name, command, port, env=env) as process:
        yield process


def end_with_parent() -> None:
    """Ends this server if the benchmark is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.kit_servers", description="Serve one server under test."
    )
    parser.add_argument("name", choices=APPS)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    end_with_parent()
    serve(APPS[options.name](), options.port)


if __name__ == "__main__":
    main()
