"""Describes tools in full: their schemas, and the instructions of their servers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from ...catalogue.catalogue import CatalogueEntry
from ...catalogue.items import full_description
from ...dispatch.remote import RemoteTool
from ...wire.call import Call
from ...wire.text import printable
from ..context import MetaToolContext
from ..forwarding import why_unavailable
from ..signatures import arguments_line, described
from .conversation import ToolResolver
from .tools import DescribeAnswer, ToolDescription

MAX_TOOLS = 50
MAX_TITLE = 200
MAX_INSTRUCTIONS = 1_000
MAX_ANSWER = 100_000
"""Characters of one answer. A tool that is longer is shown alone, and without its output schema."""


def describe_entry(entry: CatalogueEntry) -> ToolDescription:
    """Describe a tool as its server lists it; drops members of the wrong type."""
    listed = _object(msgspec.json.decode(b"{" + entry.item.rest))
    hints = _object(listed.get("annotations"))
    output = _object(listed.get("outputSchema"))
    return ToolDescription(
        tool=entry.name,
        server=entry.server,
        title=printable(_text(listed.get("title")) or _text(hints.get("title")))[:MAX_TITLE],
        description=printable(full_description(entry.about, listed.get("description"))),
        input_schema=_object(listed.get("inputSchema")),
        output_schema=output or None,
        annotations={key: value for key, value in hints.items() if key != "title"} or None,
    )


def usage(entry: CatalogueEntry) -> str:
    """Return the signature of a tool and what its arguments mean: what the next try needs."""
    schema = describe_entry(entry).input_schema
    return "\n  ".join([arguments_line(entry.name, schema), *described(schema)])


class OwnTool(Protocol):
    """A meta tool."""

    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> dict[str, Any]: ...


class ToolDescriber:
    def __init__(
        self, context: MetaToolContext, resolver: ToolResolver, own: Mapping[str, OwnTool] = {}
    ) -> None:
        """`own`: the meta tools by name, because some of them are not listed."""
        self._context = context
        self._resolver = resolver
        self._own = own

    async def answer(self, call: Call, names: Sequence[str]) -> DescribeAnswer:
        names = list(dict.fromkeys(names))
        await self._context.view_context.catalogue.wait_settled(self._context.view_context.list_wait)
        own = {name: self._own[name] for name in names if name in self._own}
        unknown = [name for name in names if name not in own and self._resolver.entry(call, name) is None]
        remote = {tool.own: tool for tool in await self._resolver.discover(call, unknown)} if unknown else {}
        remote |= {tool.name: tool for tool in remote.values()}
        answer = DescribeAnswer(found=[], unknown={})
        for name in names:
            tool = remote.get(name)
            entry = self._resolver.entry(call, name if tool is None else tool.name)
            if name in own:
                meta = own[name]
                shown = ToolDescription(
                    tool=name, server="", description=meta.description, input_schema=meta.input_schema
                )
                answer.found.append(shown)
            elif entry is not None:
                described = self._describe(entry, tool)
                lacking = await self._context.unconnected(call, [entry.server])
                if entry.server in lacking:
                    described.connected, described.auth = False, lacking[entry.server].auth
                answer.found.append(described)
            else:
                unavailable = why_unavailable(self._context.view_context.visible(call), name)
                answer.unknown[name[:80]] = str(unavailable or await self._resolver.unknown(call, name))
                await asyncio.sleep(0)  # let other calls run between the names
        _fit(answer)
        answer.instructions = self._instructions(answer.found)
        return answer

    def _describe(self, entry: CatalogueEntry, tool: RemoteTool | None) -> ToolDescription:
        found = describe_entry(entry)
        found.connected = self._resolver.state_of(entry.server) == "up"
        if tool is not None:
            found.connected, found.auth, found.toolkit = tool.connected, tool.auth, tool.toolkit
        return found

    def _instructions(self, found: list[ToolDescription]) -> dict[str, str]:
        """Return the instructions of the tools' servers; a model gets them only with their tools."""
        servers = self._context.view_context.catalogue.servers
        texts = {
            one.server: servers[one.server].identity.instructions for one in found if one.server in servers
        }
        return {server: printable(text)[:MAX_INSTRUCTIONS] for server, text in texts.items() if text}


def _fit(answer: DescribeAnswer) -> None:
    """Move tools that do not fit into the answer to `left_out`."""
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


def _object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
