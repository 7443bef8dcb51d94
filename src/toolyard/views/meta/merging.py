"""What our index and a remote's search found for a query, in one list; and what of it comes with schemas."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...dispatch.remote import RemoteTool
from .answers import Finding, Found

MAX_DESCRIPTION = 400
CERTAIN = 0.6
"""A local score from which the best of a query is recommended."""
FIRST_RECOMMENDED, FIRST_RELATED = 0.95, 0.7
STEP, LEAST = 0.04, 0.2
UNCONNECTED = 0.1
TOKEN = 4.0
"""Characters of a JSON schema; in those of 3,000 public tools o200k has 4.3 to one, in few less than 3.7."""
WITH_SCHEMA = 3
"""For one query at most."""
_WORD = re.compile(r"[a-z0-9]{3,}")


def from_remote(server: str, tools: Sequence[RemoteTool]) -> list[Found]:
    """A remote gives an order and no scores: what it recommends begins above most of ours, the rest below."""
    found: list[Found] = []
    for at, tool in enumerate(sorted(tools, key=lambda tool: not tool.recommended)):
        first = FIRST_RECOMMENDED if tool.recommended else FIRST_RELATED
        score = max(LEAST, first - STEP * at - (0.0 if tool.connected else UNCONNECTED))
        found.append(
            Found(
                tool=tool.name,
                server=server,
                title=tool.title,
                description=cut(tool.description),
                score=score,
                recommended=tool.recommended,
                connected=tool.connected,
                auth=tool.auth,
                input_schema=tool.input_schema,
                toolkit=tool.toolkit,
                parts={"remote": score},
            )
        )
    return found


def merged(local: Iterable[Found], remote: Iterable[Found]) -> list[Found]:
    """The best first. A tool that both have found is the remote's, with the better score."""
    found = {one.tool: one for one in local}
    for one in remote:
        ours = found.get(one.tool)
        if ours is not None and ours.score > one.score:
            one.score, one.parts = ours.score, ours.parts
        found[one.tool] = one
    return sorted(found.values(), key=lambda one: (-one.score, one.tool))


def recommend(found: list[Found]) -> None:
    """The best of them, when it is good enough and nobody has recommended another."""
    if found and found[0].score >= CERTAIN and found[0].connected:
        found[0].recommended = True


def with_schemas(findings: Sequence[Finding], tokens: int) -> None:
    """Leave the schemas of the best few, as many as there is room for: first the first of every query."""
    room = tokens
    given: set[str] = set()
    for rank in range(max((len(finding.results) for finding in findings), default=0)):
        for finding in findings:
            if rank >= len(finding.results):
                continue
            found = finding.results[rank]
            size = _size(found.input_schema)
            if rank >= WITH_SCHEMA or size > room or found.tool in given:
                found.input_schema = None
            elif found.input_schema is not None:
                room -= size
                given.add(found.tool)


def _size(schema: dict[str, Any] | None) -> int:
    return 0 if schema is None else math.ceil(len(msgspec.json.encode(schema)) / TOKEN)


def by_words(use_case: str, tools: Iterable[RemoteTool]) -> list[RemoteTool]:
    """Those that share a word with the use case, most of them first."""
    wanted = set(_WORD.findall(use_case.lower()))

    def shared(tool: RemoteTool) -> int:
        said = f"{tool.own} {tool.title} {tool.description} {tool.toolkit}".lower().replace("_", " ")
        return len(wanted & set(_WORD.findall(said)))

    counted = [(shared(tool), tool) for tool in tools]
    return [tool for count, tool in sorted(counted, key=lambda pair: -pair[0]) if count]


def cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
