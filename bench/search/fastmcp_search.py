"""FastMCP's own search, as it ranks the tools of mounted servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from bench.search.measures import DEPTH
from bench.search.sets import Task


def rankings(task: Task) -> list[Sequence[int]]:
    return asyncio.run(_rankings(task))


async def _rankings(task: Task) -> list[Sequence[int]]:
    # One second of imports.
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools.base import Tool

    search = BM25SearchTransform(max_results=DEPTH)
    places: dict[str, int] = {}
    tools: list[Tool] = []
    for at, tool in enumerate(task.tools):
        # The names of a mounted server's tools; its search splits names at the same places.
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{tool['server']}_{tool['name']}")[:110].strip("._-")
        name = name if name not in places else f"{name}_{at}"
        places[name] = at
        tools.append(Tool(name=name, description=tool["description"], parameters=tool["parameters"] or {}))
    # Not the tool that it publishes: that one renders a hundred schemas for each of thousands of queries.
    return [[places[tool.name] for tool in await search._search(tools, text)] for text in task.queries]
