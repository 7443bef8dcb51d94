"""Our search, through the interface that the gateway uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.search.measures import DEPTH
from bench.search.sets import Task
from toolyard.search.documents import ToolDocument, ToolQuery, needs_id, parameters_of
from toolyard.search.index import ToolIndex


def document(tool: Mapping[str, Any], full_name: str) -> ToolDocument:
    return ToolDocument(
        tool=full_name,
        server=tool["server"],
        name=tool["name"],
        description=tool["description"] or "",
        parameters=parameters_of(tool["parameters"]),
        needs_id=needs_id(tool["parameters"]),
    )


def by_server(documents: Iterable[ToolDocument]) -> dict[str, list[ToolDocument]]:
    servers: dict[str, list[ToolDocument]] = {}
    for one in documents:
        servers.setdefault(one.server, []).append(one)
    return servers


def rankings(task: Task) -> list[Sequence[int]]:
    index = ToolIndex()
    places = {tool["id"]: at for at, tool in enumerate(task.tools)}
    for server, documents in by_server(document(tool, tool["id"]) for tool in task.tools).items():
        index.put(server, documents)
    return [[places[hit.tool] for hit in index.search(ToolQuery(text), DEPTH)] for text in task.queries]
