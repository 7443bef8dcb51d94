"""The native dialect's answer to a search, as a model reads it: one line a tool, no word that says nothing.

Text and structured content hold the same lines, because a client shows its model one of them. What programs
want besides is in `_meta`, which no client shows.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from ...languages import said
from ...wire.types import CallToolResult, Text
from ..meta.tools import QueryMatches, SearchAnswer, ToolMatch
from ..signatures import ToolSignature, arguments_line, described

FINDINGS = "toolyard/search"
"""The member of `_meta` with names, scores and the session."""
MAX_NEED = 60
MAX_ANSWER = 40_000
"""Characters, after which tools are only named: servers say how long their definitions are."""


def search_result(answer: SearchAnswer) -> CallToolResult:
    shown = _Shown(answer)
    told: dict[str, Any] = {"results": shown.results}
    if shown.notes:
        told["notes"] = shown.notes
    lines = [line for one in shown.results for line in _lines(one)]
    return CallToolResult(
        content=[Text("\n".join([*lines, *shown.notes]))],
        structured_content=Raw(msgspec.json.encode(told)),
        meta={FINDINGS: answer.shown()},
    )


def _lines(found: dict[str, Any]) -> Iterator[str]:
    if "need" in found:
        yield f"# {found['need']}"
    yield from found["tools"]


class _Shown:
    """The tools of each need, each tool once, and what has to be said of them."""

    def __init__(self, answer: SearchAnswer) -> None:
        self._given: set[str] = set()
        self._room = MAX_ANSWER
        self._lists_several = len(answer.findings) > 1
        self.notes = list(_notes(answer))
        self.results = [self._need(finding) for finding in answer.findings]

    def _need(self, finding: QueryMatches) -> dict[str, Any]:
        need = " ".join(finding.query.use_case.split())
        shown = {"need": need if len(need) <= MAX_NEED else f"{need[: MAX_NEED - 1]}…"}
        tools = [self._tool(match, at == 0) for at, match in enumerate(finding.results)]
        return {**(shown if self._lists_several else {}), "tools": tools}

    def _tool(self, match: ToolMatch, is_best: bool) -> str:
        if match.tool in self._given:
            return said(f"{match.tool} (see above)", f"{match.tool} (veja acima)")
        self._given.add(match.tool)
        told = described(match.schema) if is_best else []
        line = "\n  ".join([tool_line(match), *told])
        self._room -= len(line)
        return line if self._room > 0 else f"{match.tool}(…)"


def tool_line(match: ToolMatch) -> str:
    """Write a hit: its signature, what it does, and what stands in its way."""
    line = f"{match.tool}(…)" if match.schema is None else arguments_line(match.tool, match.schema)
    shown = ToolSignature(line, match.purpose, match.access).shown()
    if match.connected:
        return shown
    why = f": {match.auth}" if match.auth not in ("none", "connected") else ""
    return said(f"{shown} [not connected{why}]", f"{shown} [sem conexão{why}]")


def _notes(answer: SearchAnswer) -> Iterator[str]:
    findings = answer.findings
    empty = [finding.query.use_case[:MAX_NEED] for finding in findings if not finding.results]
    weak = [finding.query.use_case[:MAX_NEED] for finding in findings if finding.results and finding.weak]
    if empty:
        yield said("No tool fits: ", "Nenhuma ferramenta serve: ") + "; ".join(empty)
    if weak:
        needs = f" {'; '.join(weak)}" if len(findings) > 1 else ""
        yield said(
            f"Nothing fits{needs} well; try other words, or do without a tool.",
            f"Nada serve bem{needs}; tente outras palavras, ou faça sem ferramenta.",
        )
    matches = [match for finding in findings for match in finding.results]
    for server, about in {match.server: match.about for match in matches if match.about}.items():
        yield f"{server}: {about}"
    if any(match.schema is None for match in matches):
        yield said(
            'Arguments of NAME(…): call_tool with tool "describe_tools", arguments {"tools": ["NAME"]}.',
            'Argumentos de NOME(…): call_tool com tool "describe_tools", arguments {"tools": ["NOME"]}.',
        )
    if not all(match.connected for match in matches):
        yield said(
            'To connect: call_tool with tool "manage_connections", arguments {"action": "link", "names": '
            '["SERVER"]}.',
            'Para conectar: call_tool com tool "manage_connections", arguments {"action": "link", "names": '
            '["SERVIDOR"]}.',
        )
    for server, reason in answer.missing.items():
        yield said(f"Not available: {server}: {reason}", f"Indisponível: {server}: {reason}")
