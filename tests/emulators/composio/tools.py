"""`/tools`: the list of all tools, one tool, and execution without a session."""

import json

from . import execution, meta, searching
from .asked import Asked, Operation, Reply
from .catalogue import VERSION, Tool
from .desk import Desk
from .refusals import Refusal, invalid, not_found
from .schemas import Schema, boolean, choice, closed, either, free, listing, nullable, number, text
from .world import Session

VERSIONS = ("latest", "00000000_00", VERSION)


async def listed(asked: Asked) -> Reply:
    _check_versions(asked)
    tools = list(asked.world.catalogue.tools.values())
    if kits := asked.several("toolkit_slug"):
        tools = [tool for tool in tools if tool.toolkit in [slug.lower() for slug in kits]]
    if slugs := asked.several("tool_slugs"):
        tools = [tool for tool in tools if tool.slug in slugs]
    if ids := asked.several("auth_config_ids"):
        named = {asked.world.auth_config(id).toolkit for id in ids}
        tools = [tool for tool in tools if tool.toolkit in named]
    if asked.flag("important"):
        tools = [tool for tool in tools if tool.important]
    if tags := asked.several("tags"):
        tools = [tool for tool in tools if set(tags) <= set(tool.tags)]
    if scopes := asked.several("scopes"):
        tools = [tool for tool in tools if set(scopes) & set(tool.scopes)]
    if asked.flag("include_deprecated") is False:
        tools = [tool for tool in tools if not tool.is_deprecated]
    if text_ := asked.one("search") or asked.one("query"):
        tools = searching.ranked(asked.world.catalogue, text_, tools)
    return Reply(asked.page([asked.world.catalogue.tool_shown(tool) for tool in tools]))


async def enumerated(asked: Asked) -> Reply:
    return Reply(json.dumps(sorted(asked.world.catalogue.tools)).encode())


async def read(asked: Asked) -> Reply:
    _check_versions(asked)
    if asked.path["slug"] in DIRECT:
        return Reply(meta.shown(asked.path["slug"]))
    return Reply(asked.world.catalogue.tool_shown(_tool(asked)))


async def execute(asked: Asked) -> Reply:
    world, body = asked.world, asked.body
    if asked.path["slug"] in DIRECT:
        return await _workbench(asked)
    tool = execution.find(world, asked.path["slug"])
    if ("arguments" in body) == ("text" in body):
        raise invalid(["body: exactly one of arguments and text is needed"])
    if "text" in body:
        raise Refusal(501, "Execution from natural language is not emulated")
    if body.get("version", "latest") not in VERSIONS:
        raise not_found("Toolkit version", body["version"])
    user = body.get("user_id") or body.get("entity_id") or ""
    wanted = body.get("connected_account_id")
    if not user and wanted is None and not world.catalogue.kit_of(tool).no_auth:
        raise invalid(["body: user_id or connected_account_id is needed"])
    account = execution.account_for(world, tool, user, wanted)
    user = user or (account.user_id if account else "default")
    return Reply(await execution.execute(world, tool, user, body["arguments"], account))


DIRECT = ("COMPOSIO_REMOTE_WORKBENCH", "COMPOSIO_REMOTE_BASH_TOOL")
"""The meta tools that are executed without a session as well, as the clients of December 2025 did."""


async def _workbench(asked: Asked) -> Reply:
    user = asked.body.get("user_id") or asked.body.get("entity_id")
    if not user:
        raise invalid(["body: user_id is needed"])
    alone = Session("direct", user, {}, asked.api)
    desk = Desk(asked.world, alone, asked.url, asked.shape, lies=asked.spoiled == "lie")
    return Reply(await meta.call(desk, asked.path["slug"], asked.body.get("arguments") or {}))


async def inputs(asked: Asked) -> Reply:
    _tool(asked)
    raise Refusal(501, "Arguments from natural language are not emulated")


async def proxy(asked: Asked) -> Reply:
    """Says what would have been sent; nothing leaves the emulator."""
    account = asked.world.account(asked.body.get("connected_account_id", ""))
    if account.status != "ACTIVE":
        raise Refusal(422, f"Connected account {account.id} is in state {account.status}, not ACTIVE")
    return Reply(sent(asked))


def sent(asked: Asked) -> dict[str, object]:
    told = {name: asked.body.get(name) for name in ("endpoint", "method", "body", "parameters")}
    return {"status": 200, "data": {"not_sent": told}, "headers": {"content-type": "application/json"}}


def _tool(asked: Asked) -> Tool:
    tool = asked.world.catalogue.tools.get(asked.path["slug"])
    if tool is None:
        raise not_found("Tool", asked.path["slug"])
    return tool


def _check_versions(asked: Asked) -> None:
    version = asked.one("version") or asked.one("toolkit_versions")
    if version and version not in VERSIONS:
        raise not_found("Toolkit version", version)


PARAMETER = closed(name_=text(), in_=choice("query", "header"), value_=either(text(), number()))
EXECUTION = closed(
    connected_account_id=text(),
    entity_id=text(),
    user_id=text(),
    version=text(),
    custom_auth_params=closed(base_url=text(), parameters=listing(PARAMETER), body=free()),
    custom_connection_data=free(),
    arguments=free(),
    text=text(),
    allow_tracing=nullable(boolean()),
)
METHODS = choice("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
FORWARD: dict[str, Schema] = {
    "endpoint_": text(),
    "method_": METHODS,
    "body": {},
    "binary_body": free(),
    "parameters": listing(closed(name_=text(), value_=text(), type_=choice("header", "query"))),
    "custom_connection_data": free(),
}
FILTERS = (
    *("toolkit_slug", "tool_slugs", "auth_config_ids", "important", "tags", "scopes", "search"),
    *("include_deprecated", "toolkit_versions", "limit", "cursor"),
)
OPERATIONS = (
    Operation("tools.list", "GET", "/tools", listed, query=FILTERS, apis=("v3",)),
    Operation(
        "tools.list", "GET", "/tools", listed, query=(*FILTERS, "query", "include_pricing"), apis=("v3.1",)
    ),
    Operation("tools.enum", "GET", "/tools/enum", enumerated),
    Operation(
        "tools.proxy",
        "POST",
        "/tools/execute/proxy",
        proxy,
        closed(connected_account_id=text(pattern="^ca_"), **FORWARD),
    ),
    Operation("tools.execute", "POST", "/tools/execute/{slug}", execute, EXECUTION),
    Operation(
        "tools.input",
        "POST",
        "/tools/execute/{slug}/input",
        inputs,
        closed(text_=text(), custom_description=text(), system_prompt=text(), version=text()),
    ),
    Operation(
        "tools.read", "GET", "/tools/{slug}", read, query=("version", "toolkit_versions", "include_pricing")
    ),
)
