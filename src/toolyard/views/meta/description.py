"""Describes tools in full: their schemas, and what their servers say about using them."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ...catalogue.catalogue import CatalogueEntry
from ...catalogue.items import full_description
from ...dispatch.remote import RemoteTool
from ...wire.call import Call
from ..context import MetaToolContext
from ..forwarding import why_unavailable
from .conversation import ToolResolver
from .tools import DescribeAnswer, ToolDescription

MAX_TOOLS = 50
MAX_TITLE = 200
MAX_INSTRUCTIONS = 1_000
MAX_ANSWER = 100_000
"""Characters of one answer. A tool that is longer by itself is shown alone, and without its output schema."""


def describe_entry(entry: CatalogueEntry) -> ToolDescription:
    """A tool as its server described it: a stranger's words, anything of which may be of the wrong type."""
    told = _table(msgspec.json.decode(b"{" + entry.item.rest))
    hints = _table(told.get("annotations"))
    output = _table(told.get("outputSchema"))
    return ToolDescription(
        tool=entry.name,
        server=entry.server,
        title=(_text(told.get("title")) or _text(hints.get("title")))[:MAX_TITLE],
        description=full_description(entry.about, told.get("description")),
        input_schema=_table(told.get("inputSchema")),
        output_schema=output or None,
        annotations={key: value for key, value in hints.items() if key != "title"} or None,
    )


class ToolDescriber:
    def __init__(self, supplies: MetaToolContext, known: ToolResolver) -> None:
        self._supplies = supplies
        self._known = known

    async def answer(self, call: Call, names: Sequence[str]) -> DescribeAnswer:
        names = list(dict.fromkeys(names))
        await self._supplies.yard.catalogue.wait_settled(self._supplies.yard.list_wait)
        strange = [name for name in names if self._known.entry(call, name) is None]
        remote = {tool.own: tool for tool in await self._known.borrow(call, strange)} if strange else {}
        remote |= {tool.name: tool for tool in remote.values()}
        answer = DescribeAnswer(found=[], unknown={})
        for name in names:
            tool = remote.get(name)
            entry = self._known.entry(call, name if tool is None else tool.name)
            if entry is not None:
                answer.found.append(self._of(entry, tool))
            else:
                absent = why_unavailable(self._supplies.yard.catalogue, name)
                answer.unknown[name[:80]] = str(absent or await self._known.unknown(name))
                await asyncio.sleep(0)  # many unknown names are no reason for others to wait
        _fit(answer)
        answer.instructions = self._instructions(answer.found)
        return answer

    def _of(self, entry: CatalogueEntry, tool: RemoteTool | None) -> ToolDescription:
        found = describe_entry(entry)
        found.connected = self._known.state_of(entry.server) == "up"
        if tool is not None:
            found.connected, found.auth, found.toolkit = tool.connected, tool.auth, tool.toolkit
        return found

    def _instructions(self, found: list[ToolDescription]) -> dict[str, str]:
        """What servers say of themselves is told when their tools are looked at, and not before."""
        servers = self._supplies.yard.catalogue.servers
        told = {
            one.server: servers[one.server].identity.instructions for one in found if one.server in servers
        }
        return {server: text[:MAX_INSTRUCTIONS] for server, text in told.items() if text}


def _fit(answer: DescribeAnswer) -> None:
    room = MAX_ANSWER
    shown: list[ToolDescription] = []
    for one in answer.found:
        size = _size(one)
        if size > MAX_ANSWER:
            one.output_schema = None
            size = _size(one)
        if shown and size > room:
            answer.left_out.append(one.tool)
            continue
        shown.append(one)
        room -= size
    answer.found = shown


def _size(one: ToolDescription) -> int:
    return len(msgspec.json.encode(one.shown()))


def _table(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
