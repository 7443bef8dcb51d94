"""The conversation of a task, held with a real gateway, and what a model reads and writes in it.

Counted once each: the definitions and instructions, every call as the model writes it, every answer as it
reads it. What the tools themselves answer is left out on both sides.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from statistics import mean
from typing import Any, NamedTuple

import msgspec

from bench.tokens.mounted import mount
from bench.tokens.sample import Sample, Task
from toolyard import Client
from toolyard.app import Gateway
from toolyard.catalogue.items import shown_name
from toolyard.config import Config, GatewayConfig
from toolyard.config.names import fitting_server_name

KEY = b"for what a task costs, in tokens"
STEP_WORDS = 14

Count = Callable[[str], int]


class Cost(NamedTuple):
    """Tokens; of a task, the mean."""

    definitions: float
    search: float
    describe: float
    call: float
    searches: float

    @property
    def whole(self) -> float:
        return self.definitions + self.search + self.describe + self.call


class Figures(NamedTuple):
    tools: int
    tasks: int
    searched: Cost
    listed: Cost


async def figures(sample: Sample, count: Count) -> Figures:
    servers = mount(sample.tools, sample.mounted)
    async with connected(servers, "all") as client:
        tools = await client.list_tools()
        about = await client.request("server/discover")
        schemas = {tool.name: tool.input_schema for tool in tools}
        # One by one: together they are too long for the tokeniser.
        everything = sum(count(_json(tool)) for tool in tools) + count(about.get("instructions", ""))
    listed = [_direct(task, schemas, everything, count) for task in sample.tasks]
    searched: list[Cost] = []
    async with connected(servers, "search") as client:
        for task in sample.tasks:
            searched.append(await Conversation(client, count).hold(task, schemas))
    return Figures(len(tools), len(sample.tasks), _mean(searched), _mean(listed))


@asynccontextmanager
async def connected(servers: list[Any], view: Any) -> AsyncIterator[Client]:
    with tempfile.TemporaryDirectory() as state:
        settings = GatewayConfig(view=view, state_dir=state, list_wait=600.0)
        gateway = Gateway(Config(servers=tuple(servers), gateway=settings), KEY)
        await gateway.start()
        try:
            async with Client(gateway.view(), timeout=None) as client:
                yield client
        finally:
            await gateway.close()


class Conversation:
    def __init__(self, client: Client, count: Count) -> None:
        self._client = client
        self._count = count

    async def hold(self, task: Task, schemas: dict[str, Any]) -> Cost:
        about = await self._client.request("server/discover")
        tools = [
            tool for tool in await self._client.list_all("tools/list") if not tool["name"].startswith("mcp__")
        ]
        definitions = self._count(_json(tools)) + self._count(about["instructions"])
        found: set[str] = set()
        search, searches = 0, 0
        needed = [_full_name(tool) for tool in task.needed]
        for use_case in _use_cases(task, needed, found):
            cost, results = await self._search(use_case)
            search, searches = search + cost, searches + 1
            found.update(results)
        unseen = [name for name in dict.fromkeys(needed) if name not in found]
        describe = (await self._called("describe_tools", {"tools": unseen}))[0] if unseen else 0
        call = 0
        for name in needed:
            given = {"tool": name, "arguments": arguments_for(schemas[name])}
            call += self._count(_json({"name": "call_tool", "arguments": given}))
        return Cost(definitions, search, describe, call, searches)

    async def _search(self, use_case: str) -> tuple[int, list[str]]:
        cost, result = await self._called("search_tools", {"queries": [use_case]})
        (finding,) = result["_meta"]["toolyard/search"]["results"]
        return cost, [one["tool"] for one in finding["results"]]

    async def _called(self, tool: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        result = (await self._client.call_tool(tool, arguments)).raw
        text = result["content"][0]["text"]
        return self._count(_json({"name": tool, "arguments": arguments})) + self._count(text), result


def _use_cases(task: Task, needed: list[str], found: set[str]) -> Iterator[str]:
    """The task in its own words, then each step whose tool was not among what that found."""
    yield task.text
    for name, tool in zip(needed, task.needed, strict=True):
        if name not in found:
            yield " ".join(str(tool["description"]).split()[:STEP_WORDS]) or tool["name"]


def _direct(task: Task, schemas: dict[str, Any], everything: int, count: Count) -> Cost:
    names = [_full_name(tool) for tool in task.needed]
    call = sum(count(_json({"name": name, "arguments": arguments_for(schemas[name])})) for name in names)
    return Cost(everything, 0, 0, call, 0)


def arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Values for the required arguments; the same however the tool was found."""
    members: dict[str, Any] = schema.get("properties") or {}
    return {name: _value(members.get(name)) for name in schema.get("required") or []}


def _value(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return {"integer": 10, "number": 1.5, "boolean": True, "array": ["one"], "object": {"name": "one"}}.get(
        kind if isinstance(kind, str) else "", "a short text of a few words"
    )


def _full_name(tool: dict[str, Any]) -> str:
    return shown_name(fitting_server_name(tool["server"]), tool["name"])


def _mean(costs: list[Cost]) -> Cost:
    return Cost(*(mean(column) for column in zip(*costs, strict=True)))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
