"""What is done in a session: search, execute, meta tools, link, and the lists of its toolkits and tools."""

from typing import Any

from . import execution, meta, searching
from . import tools as forwarding
from .accounts import begin, link_reply
from .asked import Asked, Operation, Reply
from .catalogue import Toolkit
from .desk import Desk
from .refusals import Refusal, not_connected
from .schemas import boolean, choice, closed, free, listing, text
from .world import Session

FILLED = text(minLength=1)


def _session(asked: Asked) -> Session:
    return asked.world.session(asked.path["session_id"])


async def search(asked: Asked) -> Reply:
    session = _session(asked)
    reply = searching.search(asked.world, session, asked.body["queries"], is_empty=asked.is_empty)
    if asked.shape == "2025":
        return Reply({"data": searching.older(reply), "error": None, "successful": True})
    return Reply(reply)


async def execute(asked: Asked) -> Reply:
    session, body = _session(asked), asked.body
    if session.expired_with == 200:
        return Reply(_completed(meta.over(session), asked.api))
    if body["tool_slug"] in meta.TOOLS:
        reply = await meta.call(_desk(asked, session), body["tool_slug"], body.get("arguments") or {})
    else:
        arguments = body.get("arguments") or {}
        reply = await execution.in_session(
            asked.world, session, body["tool_slug"], arguments, body.get("account")
        )
    return Reply(_completed(reply, asked.api))


async def execute_meta(asked: Asked) -> Reply:
    session = _session(asked)
    if session.expired_with == 200:
        return Reply(_completed(meta.over(session), asked.api))
    reply = await meta.call(_desk(asked, session), asked.body["slug"], asked.body.get("arguments") or {})
    return Reply(_completed(reply, asked.api))


async def link(asked: Asked) -> Reply:
    session = _session(asked)
    kit = asked.world.toolkit(asked.body["toolkit"])
    if not session.allows_toolkit(kit.slug):
        raise Refusal(403, f"Toolkit {kit.slug} is not enabled in session {session.id}")
    account = begin(
        asked.world,
        session,
        kit,
        alias=asked.body.get("alias"),
        callback_url=asked.body.get("callback_url", ""),
    )
    reply = link_reply(account, asked.url)
    del reply["expires_at"]
    return Reply(reply, 201)


async def toolkits(asked: Asked) -> Reply:
    session, world = _session(asked), asked.world
    wanted, text_ = asked.several("toolkits"), asked.one("search").lower()
    kits = [world.toolkit(slug) for slug in wanted] if wanted else list(world.catalogue.toolkits.values())
    shown = [
        _toolkit(asked, session, kit)
        for kit in kits
        if (wanted or session.allows_toolkit(kit.slug))
        and text_ in f"{kit.slug} {kit.name} {kit.description}".lower()
    ]
    if asked.flag("is_connected"):
        shown = [item for item in shown if item["is_no_auth"] or item.get("connected_account")]
    return Reply(asked.page(shown))


async def tools(asked: Asked) -> Reply:
    session = _session(asked)
    shown = [meta.shown(slug) for slug in meta.names(session)]
    preload = (session.config.get("preload") or {}).get("tools") or []
    for tool in searching.allowed(asked.world, session):
        if preload == "all" or tool.slug in preload:
            shown.append(asked.world.catalogue.tool_shown(tool))
    return Reply(asked.page(shown, size=100))


async def proxy(asked: Asked) -> Reply:
    """Says what would have been sent; nothing leaves the emulator."""
    session = _session(asked)
    kit = asked.world.toolkit(asked.body["toolkit_slug"])
    if not kit.no_auth and not asked.world.accounts_of(session.user_id, kit.slug):
        raise not_connected(session.user_id, kit.slug)
    return Reply({**forwarding.sent(asked), "result_type": "completed"})


def _desk(asked: Asked, session: Session) -> Desk:
    return Desk(asked.world, session, asked.url, asked.shape, asked.is_empty, asked.spoiled == "lie")


def _completed(reply: dict[str, Any], api: str) -> dict[str, Any]:
    """What execution in a session replies; newer APIs also say how it ended."""
    shown = {name: reply[name] for name in ("data", "error", "log_id")}
    return shown if api == "v3" else shown | {"result_type": "completed" if reply["successful"] else "failed"}


def _toolkit(asked: Asked, session: Session, kit: Toolkit) -> dict[str, Any]:
    item: dict[str, Any] = {
        "name": kit.name,
        "slug": kit.slug,
        "enabled": session.allows_toolkit(kit.slug),
        "is_no_auth": kit.no_auth,
        "composio_managed_auth_schemes": kit.managed_schemes,
        "meta": {"logo": kit.logo, "description": kit.description},
        "connected_account": None,
    }
    for account in asked.world.accounts_of(session.user_id, kit.slug, None)[:1]:
        item["connected_account"] = {
            "id": account.id,
            "user_id": account.user_id,
            "status": account.status,
            "created_at": account.made,
            "auth_config": {
                "id": account.auth_config.id,
                "auth_scheme": account.auth_config.scheme,
                "is_composio_managed": account.auth_config.is_managed,
            },
        }
    return item


ROOT = "/tool_router/session/{session_id}"
OLDER_META = [slug for slug in meta.TOOLS if slug != "COMPOSIO_WAIT_FOR_CONNECTIONS"]
QUERIES = listing(
    closed(use_case_=text(minLength=1, maxLength=1024), known_fields=text(maxLength=500)), minItems=1
)
OPERATIONS = (
    Operation(
        "session.search",
        "POST",
        ROOT + "/search",
        search,
        closed(
            queries_=QUERIES,
            model=text(),
            search_strategy=choice("auto", "tool_search"),
            experimental=free(),
        ),
        apis=("v3.1",),
    ),
    Operation(
        "session.execute",
        "POST",
        ROOT + "/execute",
        execute,
        closed(tool_slug_=FILLED, arguments=free()),
        apis=("v3",),
    ),
    Operation(
        "session.execute",
        "POST",
        ROOT + "/execute",
        execute,
        closed(
            tool_slug_=FILLED,
            arguments=free(),
            account=text(),
            enable_auto_workbench_offload=boolean(),
            input_responses=free(),
            request_state=text(),
            experimental=free(),
        ),
        apis=("v3.1",),
    ),
    Operation(
        "session.execute_meta",
        "POST",
        ROOT + "/execute_meta",
        execute_meta,
        closed(slug_=choice(*OLDER_META), arguments=free()),
        apis=("v3",),
    ),
    Operation(
        "session.execute_meta",
        "POST",
        ROOT + "/execute_meta",
        execute_meta,
        closed(
            slug_=choice(*meta.TOOLS),
            arguments=free(),
            input_responses=free(),
            request_state=text(),
            experimental=free(),
        ),
        apis=("v3.1",),
    ),
    Operation(
        "session.link",
        "POST",
        ROOT + "/link",
        link,
        closed(toolkit_=FILLED, callback_url=text(format="uri")),
        apis=("v3",),
    ),
    Operation(
        "session.link",
        "POST",
        ROOT + "/link",
        link,
        closed(toolkit_=FILLED, callback_url=text(format="uri"), alias=text(), experimental=free()),
        apis=("v3.1",),
    ),
    Operation(
        "session.toolkits",
        "GET",
        ROOT + "/toolkits",
        toolkits,
        query=("limit", "cursor", "toolkits", "is_connected", "search"),
    ),
    Operation(
        "session.proxy",
        "POST",
        ROOT + "/proxy_execute",
        proxy,
        closed(toolkit_slug_=FILLED, **forwarding.FORWARD),
        apis=("v3.1",),
    ),
    Operation("session.tools", "GET", ROOT + "/tools", tools, query=("limit", "cursor"), apis=("v3.1",)),
)
