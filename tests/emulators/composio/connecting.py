"""The meta tools by which a model connects a user's accounts: begin, list, change, wait."""

from typing import Any

from . import accounts
from .catalogue import Toolkit
from .desk import Desk
from .world import Account


async def manage(desk: Desk, arguments: dict[str, Any]) -> dict[str, Any]:
    wanted = [item if isinstance(item, dict) else {"name": item} for item in arguments["toolkits"]]
    again = arguments.get("reinitiate_all", False)
    given = arguments.get("specify_custom_auth") or {}
    results = {item["name"]: _managed(desk, item, again, given.get(item["name"])) for item in wanted}
    statuses = [result["status"] for result in results.values()]
    return {
        "message": f"{statuses.count('active')} of {len(statuses)} toolkits are connected.",
        "results": results,
        "summary": {
            "total_toolkits": len(statuses),
            **{
                name: statuses.count(name)
                for name in ("active", "initiated", "requires_parameters", "failed")
            },
        },
    }


def _managed(desk: Desk, item: dict[str, Any], again: bool, given: dict[str, Any] | None) -> dict[str, Any]:
    slug, action = item["name"], item.get("action", "add")
    kit = desk.world.catalogue.toolkits.get(slug)
    if kit is None or not desk.session.allows_toolkit(slug):
        return {"toolkit": slug, "status": "failed", "error_message": f"Toolkit {slug!r} not found"}
    if kit.no_auth:
        return {"toolkit": slug, "status": "active", "instruction": "No connection is needed."}
    active = desk.world.accounts_of(desk.session.user_id, slug)
    if action in ("rename", "remove"):
        return _changed(desk, item, slug, action)
    if action == "list" or (active and not again):
        return _listed(slug, active)
    return _initiated(desk, kit, item, bool(active), given)


def _listed(slug: str, active: list[Account]) -> dict[str, Any]:
    shown = [{"id": each.id, "alias": each.alias, "status": "active"} for each in active]
    if not active:
        return {
            "toolkit": slug,
            "status": "failed",
            "error_message": "No account is connected.",
            "accounts": [],
        }
    connection = {"connection_id": active[0].id, "auth_config_id": active[0].auth_config.id}
    return {
        "toolkit": slug,
        "status": "active",
        "active_connection": connection,
        "accounts": shown,
    } | connection


def _initiated(
    desk: Desk, kit: Toolkit, item: dict[str, Any], is_again: bool, given: dict[str, Any] | None
) -> dict[str, Any]:
    missing = [name for name in kit.fields if name not in (given or {})]
    if missing:
        return {
            "toolkit": kit.slug,
            "status": "requires_parameters",
            "required_parameters": [{"name": name, "type": "string"} for name in missing],
            "has_default_credentials": False,
            "instruction": f"Ask the user for {', '.join(missing)} and pass them in specify_custom_auth.",
        }
    known = len(desk.world.auth_configs)
    account = accounts.begin(desk.world, desk.session, kit, alias=item.get("alias"))
    shown: dict[str, Any] = {
        "toolkit": kit.slug,
        "connection_id": account.id,
        "auth_config_id": account.auth_config.id,
        "auth_config_created": len(desk.world.auth_configs) > known,
        "has_default_credentials": kit.managed,
        "was_reinitiated": is_again,
    }
    if kit.fields:
        desk.world.settle(account, "ACTIVE")
        return shown | {"status": "active"}
    link = accounts.redirect_url(account, desk.url)
    instruction = f"Show the user this link to authorise {kit.name}, then wait for the connection."
    return shown | {"status": "initiated", "redirect_url": link, "instruction": instruction}


def _changed(desk: Desk, item: dict[str, Any], slug: str, action: str) -> dict[str, Any]:
    account = desk.world.account(item.get("account_id", ""))
    if action == "rename":
        account.alias = item.get("alias")
    else:
        del desk.world.accounts[account.id]
    return {
        "toolkit": slug,
        "status": "active",
        "connection_id": account.id,
        "instruction": f"{action}: done",
    }


async def wait(desk: Desk, arguments: dict[str, Any]) -> dict[str, Any]:
    slugs = arguments["toolkits"]
    combine = any if arguments.get("mode") == "any" else all

    def connected(slug: str) -> bool:
        kit = desk.world.toolkit(slug)
        return kit.no_auth or bool(desk.world.accounts_of(desk.session.user_id, slug))

    seconds = arguments.get("timeout_seconds", 300)
    is_ready = await accounts.wait(desk.world, lambda: combine(map(connected, slugs)), seconds)
    statuses = [{"toolkit": slug, "status": "active" if connected(slug) else "initiated"} for slug in slugs]
    message = "Connected." if is_ready else f"Timed out after {seconds} seconds."
    return {"connection_statuses": statuses, "message": message}
