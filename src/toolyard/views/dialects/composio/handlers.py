"""The handlers of Composio's meta tools: search, schemas, execution, plans and connections."""

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec import Raw

from ....dispatch.remote import AppConnection
from ....kit.calls.content import ToolError
from ....search.documents import ToolQuery
from ....upstream.errors import UpstreamError
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.service import MetaToolService
from ...meta.tools import BatchItem, BatchResult, QueryMatches, SearchAnswer, ToolDescription, ToolMatch
from ..apps import NO_AUTH, App, ToolSlugs, connection_of, find_app, full_name, search_apps, server_apps
from ..definitions import ComposioReply, json_reply, reply_of, session_named
from . import requests
from .texts import SINGULAR, TEXTS


def wrapped(data: dict[str, Any], error: str | None = None) -> CallToolResult:
    return json_reply(ComposioReply(data, error).shown(), failed=error is not None)


def refused(error: str) -> CallToolResult:
    return wrapped({}, error)


OWN_TOOLS = frozenset(f"COMPOSIO_{name}" for name in (*TEXTS, SINGULAR))
"""Left out of search results: a mounted Composio lists them too, and the dialect has them already."""


class ComposioSearch:
    def __init__(self, prefix: str) -> None:
        """`prefix` is that of the tools named in replies."""
        self._prefix = prefix

    async def search(self, service: MetaToolService, call: Call, given: requests.SearchToolsRequest) -> Any:
        queries = [ToolQuery(one.use_case, one.known_fields, limit=given.limit) for one in given.queries]
        named = session_named(call, given.session) or given.session_id or None
        answer = await service.search(call, queries, named)
        slugs = ToolSlugs(service, await service.thread(call, named))
        for finding in answer.findings:
            finding.results = [one for one in finding.results if slugs.of(one.tool) not in OWN_TOOLS]
        error = None if any(answer.results) else "No matching tools; describe the use case in other words"
        data = {
            "success": error is None,
            "error": error,
            "results": [_query_result(number, one, slugs) for number, one in enumerate(answer.findings, 1)],
            "tool_schemas": {
                slugs.of(found.tool): self._schema(slugs.of(found.tool), found) for found in _all(answer)
            },
            "toolkit_connection_statuses": _statuses(_all(answer)),
            "time_info": _time(),
            "session": self._session(answer),
            "next_steps_guidance": self._guidance(answer),
        }
        return wrapped(data, error)

    async def schemas(self, service: MetaToolService, call: Call, given: requests.ToolSchemasRequest) -> Any:
        slugs = ToolSlugs(service, call, given.tool_slugs)
        names = [full_name(service, call, slug) for slug in given.tool_slugs]
        described = await service.describe(call, names, given.session_id or None)
        data: dict[str, Any] = {
            "tool_schemas": {
                slugs.of(one.tool): _full_schema(slugs.of(one.tool), one) for one in described.found
            }
        }
        if described.unknown:
            data["not_found"] = {slugs.of(name): hint for name, hint in described.unknown.items()}
        return wrapped(data, None if described.found else "All of these tools are unknown")

    def _schema(self, slug: str, found: ToolMatch) -> dict[str, Any]:
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
        steps += [f"Not available now: {server} ({reason})" for server, reason in answer.missing.items()]
        return steps


def _all(answer: SearchAnswer) -> list[ToolMatch]:
    """Return each tool once, with its schema if any query has it."""
    found: dict[str, ToolMatch] = {}
    for one in (tool for results in answer.results for tool in results):
        if one.tool not in found or found[one.tool].input_schema is None:
            found[one.tool] = one
    return list(found.values())


def _query_result(number: int, finding: QueryMatches, slugs: ToolSlugs) -> dict[str, Any]:
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
        result["error"] = "No tools match this use case"
    return result


def _statuses(tools: Iterable[ToolMatch]) -> list[dict[str, Any]]:
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


def _full_schema(slug: str, one: ToolDescription) -> dict[str, Any]:
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


async def multi_execute(service: MetaToolService, call: Call, given: requests.MultiExecuteRequest) -> Any:
    items = [BatchItem(full_name(service, call, step.tool_slug), step.arguments) for step in given.tools]
    done = await service.call_tools(call, items, session=given.session_id or None)
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
    # A reply with any successful result is not an error to the client: the model should read it.
    return json_reply(
        {"data": data, "error": error, "successful": error is None}, failed=failed == len(results)
    )


def _result(index: int, slug: str, done: BatchResult) -> dict[str, Any]:
    result: dict[str, Any] = {"index": index, "tool_slug": slug, "success": done.ok}
    if done.result is not None:
        reply = reply_of(done.result)
        result["response"] = reply.shown()
        if not done.ok:
            result["error"] = reply.error or done.error
    else:
        result["error"] = done.error
    return result


async def execute(service: MetaToolService, call: Call, given: requests.ExecuteRequest) -> Any:
    tool, session = full_name(service, call, given.tool_slug), given.session_id or None
    if not given.allow_destructive:
        described = await service.describe(call, [tool], session)
        if any((one.annotations or {}).get("destructiveHint") is True for one in described.found):
            raise ToolError(f"{given.tool_slug!r} is marked destructive; pass allow_destructive to run it")
    outcome = await service.call_tool(call, tool, given.arguments, session)
    if outcome.kind != "complete" or not isinstance(outcome.body, Raw):
        return outcome  # a question, a task, or a result too large to decode
    reply = reply_of(msgspec.json.decode(outcome.body, type=dict[str, Any]))
    return wrapped({"response": reply.data}, reply.error)


async def plan(service: MetaToolService, call: Call, given: requests.CreatePlanRequest) -> Any:
    """Build the steps of a plan from the tools' schemas, without a model."""
    given_slugs = [*given.primary_tool_slugs, *given.related_tool_slugs]
    slugs = ToolSlugs(service, call, given_slugs)
    names = [full_name(service, call, slug) for slug in given_slugs]
    described = await service.describe(call, names, given.session_id or None)
    known = {one.tool: one for one in described.found}
    steps = [
        _step(slugs.of(name), known[name], given.known_fields)
        for name in names[: len(given.primary_tool_slugs)]
        if name in known
    ]
    if not steps:
        raise ToolError(f"Unknown tools: {', '.join(given.primary_tool_slugs)}; search for tools first")
    data: dict[str, Any] = {
        "use_case": given.use_case,
        "steps": [f"{number}. {step}" for number, step in enumerate(steps, 1)],
        "if_needed": [slugs.of(name) for name in names[len(given.primary_tool_slugs) :] if name in known],
        "made_from": "the tools' schemas",
    }
    if described.unknown:
        data["unknown_tools"] = [slugs.of(name) for name in described.unknown]
    return wrapped({"workflow_instructions": data})


def _step(slug: str, tool: ToolDescription, known_fields: str) -> str:
    required = cast(list[str], tool.input_schema.get("required") or [])
    have = {pair.partition(":")[0].strip() for pair in known_fields.split(",")}
    missing = [name for name in required if name not in have]
    step = "" if tool.connected else f"Connect {tool.toolkit or tool.server}, then "
    step += f"run {slug}"
    if required:
        step += f" with {', '.join(required)}"
    return step + (f" (find out first: {', '.join(missing)})" if missing else "")


MAX_LISTED = 1000


class ComposioConnections:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def manage(
        self, service: MetaToolService, call: Call, given: requests.ManageConnectionsRequest
    ) -> Any:
        results: dict[str, dict[str, Any]] = {}
        call = await service.thread(call, given.session_id or None)
        for one in given.toolkits:
            wanted = requests.ManagedToolkit(one) if isinstance(one, str) else one
            results[wanted.name] = await self._manage(service, call, wanted, given)
        counts: dict[str, int] = {}
        for result in results.values():
            counts[result["status"]] = counts.get(result["status"], 0) + 1
        summary = ", ".join(f"{count} {status}" for status, count in counts.items())
        data = {
            "message": f"{len(results)} toolkits: {summary}",
            "results": results,
            "summary": {"total": len(results), **counts},
        }
        all_failed = counts.get("failed") == len(results)
        return wrapped(data, f"All {len(results)} toolkits failed" if all_failed else None)

    async def _manage(
        self,
        service: MetaToolService,
        call: Call,
        wanted: requests.ManagedToolkit,
        given: requests.ManageConnectionsRequest,
    ) -> dict[str, Any]:
        """Report an app's failure in its own entry, so that the others are not affected."""
        try:
            if wanted.action not in ("add", "list"):
                raise ToolError(f"{wanted.action!r} is not supported here; do it at the provider's site")
            app = await find_app(service, call, wanted.name)
            current = await connection_of(service, call, app)
            again = given.reinitiate_all and app.remote is not None
            if wanted.action == "list" or (current.is_active and not again):
                return self._entry(current, reinitiated=False)
            # A remote connects an active app again only for another account, which needs an alias.
            alias = wanted.alias or (f"reconnected-{uuid.uuid4().hex[:6]}" if current.is_active else "")
            linked = await _link(service, call, app, alias, given.specify_custom_auth.get(wanted.name))
            return self._entry(linked, reinitiated=again)
        except (ToolError, UpstreamError) as error:
            return {"toolkit": wanted.name, "status": "failed", "error_message": str(error)}

    def _entry(self, one: AppConnection, *, reinitiated: bool) -> dict[str, Any]:
        entry: dict[str, Any] = {"toolkit": one.toolkit, "status": one.status}
        if one.account:
            entry["connection_id"] = one.account
        if one.is_active:
            entry["active_connection"] = {"id": one.account}
        if one.link:
            entry["redirect_url"] = one.link
            entry["instruction"] = (
                f"Show the user this link to authorise {one.toolkit}: {one.link}. Then "
                f"{self._prefix}_WAIT_FOR_CONNECTIONS."
            )
        if one.required:
            entry["required_parameters"] = list(one.required)
            entry["instruction"] = f"Ask the user for {', '.join(one.required)}; pass specify_custom_auth."
        if one.status == "failed":
            entry["error_message"] = one.message
        if reinitiated:
            entry["was_reinitiated"] = True
        return entry


async def _link(
    service: MetaToolService, call: Call, app: App, alias: str, fields: dict[str, Any] | None
) -> AppConnection:
    if app.remote is None:
        return AppConnection(app.server, app.slug, "active")
    return await service.context.link(call, app.remote, app.slug, alias, fields)


async def wait(service: MetaToolService, call: Call, given: requests.WaitForConnectionsRequest) -> Any:
    found = await service.connections(
        call,
        given.toolkits,
        "wait",
        seconds=given.timeout_seconds,
        every=given.mode == "all",
        session=given.session_id or None,
    )
    active = sum(one.is_active for one in found)
    data = {
        "connection_statuses": [
            {
                "toolkit": one.toolkit or one.server,
                "status": one.status,
                "connected_account_id": one.account,
            }
            for one in found
        ],
        "message": f"{active} of {len(found)} connected",
    }
    enough = active == len(found) if given.mode == "all" else active > 0
    return wrapped(data, None if enough else "Timed out: the user has not authorised all of them")


async def initiate(service: MetaToolService, call: Call, given: requests.InitiateConnectionRequest) -> Any:
    app = await find_app(service, call, given.toolkit)
    one = await _link(service, call, app, "", given.parameters or None)
    data = {
        "toolkit": app.slug,
        "status": one.status,
        "redirect_url": one.link,
        "connected_account_id": one.account,
        "required_parameters": list(one.required),
        "message": one.message,
    }
    return wrapped({"response_data": data}, one.message or "It failed" if one.status == "failed" else None)


async def required(service: MetaToolService, call: Call, given: requests.RequiredParametersRequest) -> Any:
    app = await find_app(service, call, given.toolkit)
    current = await connection_of(service, call, app)
    managed = bool(app.toolkit.managed_auth_schemes) or NO_AUTH in app.toolkit.auth_schemes
    return wrapped({"has_default_credentials": managed, "required_parameters": list(current.required)})


async def list_toolkits(service: MetaToolService, call: Call, given: requests.ListToolkitsRequest) -> Any:
    size = MAX_LISTED if given.no_auth_only else given.size
    apps = await search_apps(service, call, given.name_filter, given.category, size)
    counts = {app.slug: _count(service, call, app.server) for app in server_apps(service, call)}
    kept = [
        app
        for app in apps
        if (not given.no_auth_only or _is_open(app))
        and (app.remote is not None or counts.get(app.slug, 0) >= given.min_tools)
    ]
    return wrapped({"toolkits": [_toolkit(app, counts) for app in kept[: given.size]]})


def _is_open(app: App) -> bool:
    return not app.toolkit.auth_schemes or NO_AUTH in app.toolkit.auth_schemes


def _count(service: MetaToolService, call: Call, server: str) -> int:
    return len(service.context.view_context.visible(call).servers[server].entries["tools"])


def _toolkit(app: App, counts: dict[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "slug": app.slug,
        "name": app.name,
        "description": app.toolkit.description,
        "categories": list(app.toolkit.categories),
        "auth_schemes": list(app.toolkit.auth_schemes),
        "is_no_auth": _is_open(app),
    }
    if app.remote is None:
        shown["tools_count"] = counts[app.slug]
    if app.toolkit.connected is not None:
        shown["is_connected"] = app.toolkit.connected
    return shown
