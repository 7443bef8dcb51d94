"""Many upstreams in one process: `python -m bench.farm --port N --servers 100 --tools 100 --hang 10`.

Server K is at `/K/mcp`; each is a kit server of its own with tools of a usual size. The first `--hang`
of them take every request and never answer one.
"""

import argparse
from typing import Annotated, Any, Literal

from bench.kit_servers import end_with_parent, serve
from toolyard.kit import Server

VERBS = ("list", "get", "create", "update", "search", "archive", "count", "export", "share", "review")
NOUNS = (
    "issues",
    "branches",
    "invoices",
    "contacts",
    "tickets",
    "pages",
    "files",
    "events",
    "orders",
    "teams",
)


async def entry(
    workspace: Annotated[str, "The identifier of the workspace, as the settings page shows it."],
    query: Annotated[str, "What to look for; words are joined with AND, quotes keep a phrase together."],
    state: Annotated[Literal["open", "closed", "all"], "Only entries in this state."] = "open",
    limit: Annotated[int, "How many entries to return at most, up to 100."] = 20,
    include_archived: bool = False,
) -> str:
    return f"{workspace} {query} {state} {limit} {include_archived}"


def one_server(number: int, tools: int) -> Server:
    server = Server(f"farm{number:03d}", version="1.0.0", page_size=100)
    for at in range(tools):
        verb, noun = VERBS[at // 10 % 10], NOUNS[at % 10]
        suffix = f"_{at // 100}" if at >= 100 else ""
        server.add_tool(
            entry,
            name=f"{verb}_{noun}{suffix}",
            description=(
                f"{verb.capitalize()} the {noun} of a workspace in system {number}. Returns one line for "
                "each entry with its identifier, title, owner and the time of the last change, newest first."
            ),
            read_only=verb in ("list", "get", "search", "count"),
        )
    return server


class Farm:
    def __init__(self, servers: int, tools: int, hang: int) -> None:
        self._apps: dict[str, Any] = {
            str(number): one_server(number, tools).asgi() for number in range(hang, servers)
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        _, number, rest = scope["path"].split("/", 2)
        app = self._apps.get(number)
        if app is None:
            # Until the client gives up, or this process is ended.
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await app({**scope, "path": f"/{rest}"}, receive, send)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.farm", description="Serve many upstreams.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--tools", type=int, default=100, help="of each server")
    parser.add_argument("--hang", type=int, default=0, help="servers that never answer")
    options = parser.parse_args()
    end_with_parent()
    # Streams that gateways keep open are cut at the end, and each would be reported as an error.
    serve(Farm(options.servers, options.tools, options.hang), options.port, log_level="critical")


if __name__ == "__main__":
    main()
