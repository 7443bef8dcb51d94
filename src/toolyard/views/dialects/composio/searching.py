"""SEARCH_TOOLS and GET_TOOL_SCHEMAS: what the desk found, in the shape of Composio's v3.1 search reply."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ....search.documents import Query
from ....wire.call import Call
from ...meta.answers import Description, Finding, Found, SearchAnswer
from ...meta.desk import Desk
from ..sessions import session_named
from ..slugs import Slugs, full_name
from . import asked
from .words import SINGULAR, WORDS
from .wrapping import wrapped

OWN_TOOLS = frozenset(f"COMPOSIO_{name}" for name in (*WORDS, SINGULAR))
"""A mounted Composio lists its own, and a search finds them too; here they are there already."""


class Searching:
    """`prefix` is what the sibling tools are called with in what is said."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def search(self, desk: Desk, call: Call, given: asked.Search) -> Any:
        queries = [Query(one.use_case, one.known_fields, limit=given.limit) for one in given.queries]
        named = session_named(call, given.session) or given.session_id or None
        answer = await desk.search(call, queries, named)
        slugs = Slugs(desk, await desk.thread(call, named))
        for finding in answer.findings:
            finding.results = [one for one in finding.results if slugs.of(one.tool) not in OWN_TOOLS]
        error = None if any(answer.results) else "No tools fit; say the use case in other words"
        data = {
            "success": error is None,
            "error": error,
            "results": [_result(number, one, slugs) for number, one in enumerate(answer.findings, 1)],
            "tool_schemas": {
                slugs.of(found.tool): self._schema(slugs.of(found.tool), found) for found in _all(answer)
            },
            "toolkit_connection_statuses": _statuses(_all(answer)),
            "time_info": _time(),
            "session": self._session(answer),
            "next_steps_guidance": self._guidance(answer),
        }
        return wrapped(data, error)

    async def schemas(self, desk: Desk, call: Call, given: asked.Schemas) -> Any:
        slugs = Slugs(desk, call, given.tool_slugs)
        names = [full_name(desk, slug) for slug in given.tool_slugs]
        described = await desk.describe(call, names, given.session_id or None)
        data: dict[str, Any] = {
            "tool_schemas": {
                slugs.of(one.tool): _full_schema(slugs.of(one.tool), one) for one in described.found
            }
        }
        if described.unknown:
            data["not_found"] = {slugs.of(name): hint for name, hint in described.unknown.items()}
        return wrapped(data, None if described.found else "None of these tools is known")

    def _schema(self, slug: str, found: Found) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "tool_slug": slug,
            "toolkit": found.toolkit or found.server,
            "description": found.description,
            "hasFullSchema": found.input_schema is not None,
        }
        if found.input_schema is not None:
            schema["input_schema"] = found.input_schema
        else:
            schema["schemaRef"] = {
                "tool": f"{self._prefix}_GET_TOOL_SCHEMAS",
                "args": {"tool_slugs": [slug]},
            }
        return schema

    def _session(self, answer: SearchAnswer) -> dict[str, Any]:
        return {
            "id": answer.session.id,
            "generate_id": answer.session.generated,
            "instructions": f"Pass session_id {answer.session.id!r} to the other {self._prefix}_* tools of "
            "this workflow.",
        }

    def _guidance(self, answer: SearchAnswer) -> list[str]:
        steps = list(answer.guidance)
        waiting = {found.toolkit or found.server for found in _all(answer) if not found.connected}
        if waiting:
            steps.append(
                f"Connect {', '.join(sorted(waiting))} with {self._prefix}_MANAGE_CONNECTIONS first."
            )
        steps.append(f"Run the tools with {self._prefix}_MULTI_EXECUTE_TOOL, by these slugs and schemas.")
        steps += [f"Not there now: {server} ({reason})" for server, reason in answer.missing.items()]
        return steps


def _all(answer: SearchAnswer) -> list[Found]:
    """Each tool once; with its schema where one of the queries gave it."""
    found: dict[str, Found] = {}
    for one in (tool for results in answer.results for tool in results):
        if one.tool not in found or found[one.tool].input_schema is None:
            found[one.tool] = one
    return list(found.values())


def _result(number: int, finding: Finding, slugs: Slugs) -> dict[str, Any]:
    tools = finding.results
    primary = [one for one in tools if one.recommended] or tools[:1]
    result: dict[str, Any] = {
        "index": number,
        "use_case": finding.query.use_case,
        "primary_tool_slugs": [slugs.of(one.tool) for one in primary],
        "related_tool_slugs": [slugs.of(one.tool) for one in tools if one not in primary],
        "toolkits": list(dict.fromkeys(one.toolkit or one.server for one in tools)),
    }
    if not tools:
        result["error"] = "No tools fit this use case"
    return result


def _statuses(tools: Iterable[Found]) -> list[dict[str, Any]]:
    statuses: dict[str, dict[str, Any]] = {}
    for one in tools:
        app = one.toolkit or one.server
        message = "Connected" if one.connected else f"Not connected ({one.auth})"
        statuses.setdefault(
            app,
            {
                "toolkit": app,
                "description": "",
                "has_active_connection": one.connected,
                "status_message": message,
            },
        )
    return list(statuses.values())


def _time() -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "current_time_utc": now.isoformat(timespec="seconds"),
        "current_time_utc_epoch_seconds": int(now.timestamp()),
        "message": "The time at the gateway; ask the user where they are before saying 'today'.",
    }


def _full_schema(slug: str, one: Description) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "tool_slug": slug,
        "toolkit": one.toolkit or one.server,
        "description": one.description,
        "hasFullSchema": True,
        "input_schema": one.input_schema,
    }
    if one.output_schema is not None:
        schema["output_schema"] = one.output_schema
    return schema
