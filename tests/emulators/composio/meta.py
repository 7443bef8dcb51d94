"""The COMPOSIO_* meta tools, as a session offers them over REST and MCP."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from . import connecting, execution, files, forms, searching
from .asked import mistakes
from .catalogue import VERSION
from .desk import Desk
from .refusals import Refusal, invalid, not_found
from .sandbox import HOME, Sandbox
from .schemas import (
    Schema,
    boolean,
    choice,
    closed,
    either,
    free,
    integer,
    listing,
    mapping,
    nullable,
    opened,
    text,
    texts,
)
from .world import Session, fresh

Done = dict[str, Any]
Deed = Callable[[Desk, dict[str, Any]], Awaitable[Done]]


@dataclass(frozen=True)
class MetaTool:
    name: str
    description: str
    input: Schema
    do: Deed


async def call(desk: Desk, slug: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The `{data, error, successful}` of a meta tool, and its log id."""
    if slug not in names(desk.session):
        raise not_found("Tool", slug)
    if errors := mistakes(TOOLS[slug].input, arguments):
        raise invalid(errors)
    try:
        data, error = await TOOLS[slug].do(desk, arguments), None
    except Refusal as refusal:
        data, error = {}, refusal.message
    return {"data": data, "error": error, "successful": error is None, "log_id": f"log_{uuid4().hex[:12]}"}


def over(session: Session) -> dict[str, Any]:
    """A good reply that says the session is not good any more."""
    error = f"Session {session.id} has expired"
    return {"data": {}, "error": error, "successful": False, "log_id": "log_expired"}


def names(session: Session) -> list[str]:
    return forms.meta_tools(session)


def shown(slug: str) -> dict[str, Any]:
    """A meta tool as the list of a session's tools has it."""
    tool = TOOLS[slug]
    return {
        "slug": slug,
        "name": tool.name,
        "description": tool.description,
        "toolkit": {
            "slug": "composio",
            "name": "Composio",
            "logo": "https://logos.composio.dev/api/composio",
        },
        "input_parameters": tool.input,
        "output_parameters": OUTPUT,
        "no_auth": True,
        "available_versions": [VERSION],
        "version": VERSION,
        "scopes": [],
        "tags": [],
        "is_deprecated": False,
        "deprecated": {
            "displayName": tool.name,
            "version": VERSION,
            "available_versions": [VERSION],
            "is_deprecated": False,
            "toolkit": {"logo": "https://logos.composio.dev/api/composio"},
        },
    }


async def _search(desk: Desk, arguments: dict[str, Any]) -> Done:
    reply = searching.search(desk.world, desk.session, arguments["queries"], is_empty=desk.is_empty)
    wanted = arguments.get("session") or {}
    is_new = bool(wanted.get("generate_id"))
    reply["session"]["id"] = fresh("flow") if is_new else wanted.get("id") or desk.session.id
    reply["session"]["generate_id"] = is_new
    return searching.older(reply) if desk.shape == "2025" else reply


async def _schemas(desk: Desk, arguments: dict[str, Any]) -> Done:
    known = desk.world.catalogue.tools
    found = {slug: known[slug] for slug in arguments["tool_slugs"] if slug in known}
    return {
        "tool_schemas": {
            slug: {
                "tool_slug": slug,
                "toolkit": tool.toolkit,
                "description": tool.description,
                "input_schema": tool.input,
                "output_schema": tool.output,
            }
            for slug, tool in found.items()
        },
        "not_found": [slug for slug in arguments["tool_slugs"] if slug not in known],
        "success": len(found) == len(arguments["tool_slugs"]),
    }


async def _multi_execute(desk: Desk, arguments: dict[str, Any]) -> Done:
    results = [await _executed(desk, index, item) for index, item in enumerate(arguments["tools"])]
    good = sum(result["success"] for result in results)
    done = {
        "results": results,
        "total_count": len(results),
        "success_count": good,
        "error_count": len(results) - good,
    }
    threshold = (desk.session.config.get("workbench") or {}).get("auto_offload_threshold", OFFLOADED)
    whole = json.dumps(done)
    if not arguments.get("sync_response_to_workbench") and len(whole) <= threshold:
        return done
    return _offloaded(desk, arguments, done, whole)


OFFLOADED = 100_000
"""From how many characters on a response stays in the workbench, unless the session says otherwise."""


def _offloaded(desk: Desk, arguments: dict[str, Any], done: Done, whole: str) -> Done:
    """The responses are in a file of the workbench, and the reply has only how each ended."""
    sandbox = _sandbox(desk, arguments)
    path = f"{HOME}multi_execute_{fresh('r')}.json"
    sandbox.place(path).write_text(whole)
    briefly = [{name: one[name] for name in one if name != "response"} for one in done["results"]]
    return {**done, "results": briefly, "remote_file_info": {"file_path": path}, "session": _again(desk)}


async def _executed(desk: Desk, index: int, item: dict[str, Any]) -> dict[str, Any]:
    slug = item["tool_slug"]
    try:
        reply = await execution.in_session(
            desk.world, desk.session, slug, item["arguments"], item.get("account")
        )
    except Refusal as refusal:
        return {"index": index, "tool_slug": slug, "success": False, "error": refusal.message}
    shown = {"index": index, "tool_slug": slug, "success": reply["successful"]}
    if not reply["successful"]:
        return shown | {"error": reply["error"]}
    return shown | {"response": {"successful": True, "data": reply["data"], "error": None}}


async def _workbench(desk: Desk, arguments: dict[str, Any]) -> Done:
    if len(arguments["code_to_execute"]) > desk.world.max_code:
        raise Refusal(413, f"code_to_execute has more than {desk.world.max_code} characters")
    sandbox = _sandbox(desk, arguments)
    sandbox.mount(files.of_session(desk.world, desk.session))
    done = await sandbox.python(arguments["code_to_execute"])
    if desk.lies:
        sandbox.damage()
    return {**done, "results": "", "session": _again(desk)}


def _sandbox(desk: Desk, arguments: dict[str, Any]) -> Sandbox:
    return desk.world.workbench(desk.session.user_id, arguments.get("session_id") or desk.session.id)


async def _bash(desk: Desk, arguments: dict[str, Any]) -> Done:
    done = await _sandbox(desk, arguments).shell(arguments["command"])
    del done["error"]
    lines = {f"{name}Lines": done[name].count("\n") for name in ("stdout", "stderr")}
    return {**done, **lines, "session": _again(desk)}


def _again(desk: Desk) -> dict[str, Any]:
    return {"id": desk.session.id, "instructions": "Pass this id as session_id next time."}


OUTPUT = opened(
    data_=free("What the tool gives."),
    error_=nullable(text("Why it failed.")),
    successful_=boolean("Whether it did not."),
)
STEPS = {
    "session_id": text("The id that COMPOSIO_SEARCH_TOOLS gave."),
    "thought": text("One sentence about why."),
    "current_step": text("The step of the plan that this is."),
    "current_step_metric": text("Progress, as done/total units."),
    "next_step": text("What comes after."),
}
QUERY = closed(
    use_case_=text("What is to be done, for one app or several.", minLength=1, maxLength=1024),
    known_fields=text("What is known already, as `key:value, key:value`.", maxLength=500),
)
EXECUTION = closed(
    tool_slug_=text("A slug that the search has given.", minLength=1),
    arguments_=free("The tool's arguments, by its schema."),
    account=text("Which account, where there are several."),
)
KIT = either(
    text(minLength=1),
    closed(
        name_=text(minLength=1),
        action=choice("add", "list", "rename", "remove"),
        account_id=text(),
        alias=text(),
    ),
)
TOOLS = {
    "COMPOSIO_SEARCH_TOOLS": MetaTool(
        "Search Tools",
        "Finds the tools for one or more use cases, with schemas, connections and advice. Call it first.",
        closed(
            queries_=listing(QUERY, "One entry for each use case.", minItems=1),
            session=closed(id=text(), generate_id=boolean()),
            model=text("The model that asks."),
            limit=integer("How many tools at most.", minimum=1),
        ),
        _search,
    ),
    "COMPOSIO_GET_TOOL_SCHEMAS": MetaTool(
        "Get Tool Schemas",
        "Gives the whole input schemas of tools that a search named without them.",
        closed(tool_slugs_=texts("The tools.", minItems=1), session_id=STEPS["session_id"]),
        _schemas,
    ),
    "COMPOSIO_MULTI_EXECUTE_TOOL": MetaTool(
        "Multi Execute Tools",
        "Executes up to 50 tools at once, each with its own arguments. Toolkits must be connected.",
        closed(
            tools_=listing(EXECUTION, "What to execute.", minItems=1, maxItems=50),
            sync_response_to_workbench=boolean("Keep big responses in the workbench.", default=False),
            memory=mapping(texts(), "What to remember, by app."),
            **STEPS,
        ),
        _multi_execute,
    ),
    "COMPOSIO_MANAGE_CONNECTIONS": MetaTool(
        "Manage Connections",
        "Shows or begins the connections of toolkits; gives a link where the user has to agree.",
        closed(
            toolkits_=listing(KIT, "Which toolkits.", minItems=1),
            reinitiate_all=boolean("Connect anew what is connected.", default=False),
            specify_custom_auth=mapping(free(), "Values for toolkits that ask for parameters."),
            session_id=STEPS["session_id"],
        ),
        connecting.manage,
    ),
    "COMPOSIO_WAIT_FOR_CONNECTIONS": MetaTool(
        "Wait For Connections",
        "Waits until toolkits are connected by the user, or the time is over.",
        closed(
            toolkits_=texts("Which toolkits.", minItems=1),
            mode=choice("any", "all", description="One of them, or all.", default="all"),
            timeout_seconds=integer("How long.", default=300, minimum=0, maximum=600),
            session_id=STEPS["session_id"],
        ),
        connecting.wait,
    ),
    "COMPOSIO_REMOTE_WORKBENCH": MetaTool(
        "Remote Workbench",
        "Runs Python on files and big responses in a sandbox whose state stays.",
        closed(code_to_execute_=text("The code."), file_path=text("A file to open first."), **STEPS),
        _workbench,
    ),
    "COMPOSIO_REMOTE_BASH_TOOL": MetaTool(
        "Remote Bash Tool",
        "Runs a shell command in the sandbox of the workbench.",
        closed(command_=text("The command."), session_id=STEPS["session_id"]),
        _bash,
    ),
}
