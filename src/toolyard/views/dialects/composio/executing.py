"""MULTI_EXECUTE_TOOL, EXECUTE_TOOL and CREATE_PLAN: tools run, or laid out, under their slugs."""

from typing import Any, cast

import msgspec
from msgspec import Raw

from ....kit.content import ToolError
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.answers import Description, Done, Item
from ...meta.desk import Desk
from ..replies import is_plain, json_reply, outcome_of
from ..slugs import Slugs, full_name
from . import asked
from .wrapping import wrapped


async def multi_execute(desk: Desk, call: Call, given: asked.MultiExecute) -> Any:
    items = [Item(full_name(desk, step.tool_slug), step.arguments) for step in given.tools]
    done = await desk.call_tools(call, items, session=given.session_id or None)
    results = [
        _result(index, step.tool_slug, one)
        for index, (step, one) in enumerate(zip(given.tools, done, strict=True))
    ]
    failed = sum(not one["success"] for one in results)
    error = f"{failed} out of {len(results)} tools failed" if failed else None
    data: dict[str, Any] = {
        "results": results,
        "total_count": len(results),
        "success_count": len(results) - failed,
        "error_count": failed,
    }
    # What did work is worth reading, so only a reply with nothing else in it is an error to the client.
    return json_reply(
        {"data": data, "error": error, "successful": error is None}, failed=failed == len(results)
    )


def _result(index: int, slug: str, done: Done) -> dict[str, Any]:
    result: dict[str, Any] = {"index": index, "tool_slug": slug, "success": done.ok}
    if done.result is not None:
        outcome = outcome_of(done.result)
        result["response"] = outcome.shown()
        if not done.ok:
            result["error"] = outcome.error or done.error
    else:
        result["error"] = done.error
    return result


async def execute(desk: Desk, call: Call, given: asked.Execute) -> Any:
    tool, session = full_name(desk, given.tool_slug), given.session_id or None
    if not given.allow_destructive:
        described = await desk.describe(call, [tool], session)
        if any((one.annotations or {}).get("destructiveHint") is True for one in described.found):
            raise ToolError(f"{given.tool_slug!r} says that it destroys; pass allow_destructive to run it")
    result = await desk.call_tool(call, tool, given.arguments, session)
    decoded = _decoded(result)
    if decoded is None or not is_plain(decoded):
        return result
    outcome = outcome_of(decoded)
    return wrapped({"response": outcome.data}, outcome.error)


def _decoded(result: Any) -> dict[str, Any] | None:
    """None: too big to look into, so it goes on as it is."""
    if isinstance(result, CallToolResult):
        result = Raw(msgspec.json.encode(result))
    return msgspec.json.decode(result, type=dict[str, Any]) if isinstance(result, Raw) else None


async def plan(desk: Desk, call: Call, given: asked.Plan) -> Any:
    """No model thinks here: the steps follow from the schemas, and say so."""
    given_slugs = [*given.primary_tool_slugs, *given.related_tool_slugs]
    slugs = Slugs(desk, call, given_slugs)
    names = [full_name(desk, slug) for slug in given_slugs]
    described = await desk.describe(call, names, given.session_id or None)
    known = {one.tool: one for one in described.found}
    steps = [
        _step(slugs.of(name), known[name], given.known_fields)
        for name in names[: len(given.primary_tool_slugs)]
        if name in known
    ]
    if not steps:
        raise ToolError(f"None of {', '.join(given.primary_tool_slugs)} is known; search for tools first")
    data: dict[str, Any] = {
        "use_case": given.use_case,
        "steps": [f"{number}. {step}" for number, step in enumerate(steps, 1)],
        "if_needed": [slugs.of(name) for name in names[len(given.primary_tool_slugs) :] if name in known],
        "made_from": "the tools' schemas",
    }
    if described.unknown:
        data["unknown_tools"] = [slugs.of(name) for name in described.unknown]
    return wrapped({"workflow_instructions": data})


def _step(slug: str, tool: Description, known_fields: str) -> str:
    required = cast(list[str], tool.input_schema.get("required") or [])
    have = {pair.partition(":")[0].strip() for pair in known_fields.split(",")}
    missing = [name for name in required if name not in have]
    step = "" if tool.connected else f"Connect {tool.toolkit or tool.server}, then "
    step += f"run {slug}"
    if required:
        step += f" with {', '.join(required)}"
    return step + (f" (find out first: {', '.join(missing)})" if missing else "")
