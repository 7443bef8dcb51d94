"""MANAGE_CONNECTIONS and its kin: how it stands with apps' accounts, links to authorise them, waiting."""

import uuid
from typing import Any

from ....dispatch.remote import Connection
from ....kit.content import ToolError
from ....upstream.errors import UpstreamError
from ....wire.call import Call
from ...meta.desk import Desk
from ..apps import NO_AUTH, App, connection_of, find_app, search_apps, server_apps
from . import asked
from .wrapping import wrapped

LISTED_AT_MOST = 1000


class Connecting:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def manage(self, desk: Desk, call: Call, given: asked.Manage) -> Any:
        results: dict[str, dict[str, Any]] = {}
        call = await desk.thread(call, given.session_id or None)
        for one in given.toolkits:
            wanted = asked.Wanted(one) if isinstance(one, str) else one
            results[wanted.name] = await self._manage(desk, call, wanted, given)
        counts: dict[str, int] = {}
        for result in results.values():
            counts[result["status"]] = counts.get(result["status"], 0) + 1
        said = ", ".join(f"{count} {status}" for status, count in counts.items())
        data = {
            "message": f"{len(results)} toolkits: {said}",
            "results": results,
            "summary": {"total": len(results), **counts},
        }
        all_failed = counts.get("failed") == len(results)
        return wrapped(data, f"All {len(results)} toolkits failed" if all_failed else None)

    async def _manage(
        self, desk: Desk, call: Call, wanted: asked.Wanted, given: asked.Manage
    ) -> dict[str, Any]:
        """One app's trouble is in its own entry, and harms no other."""
        try:
            if wanted.action not in ("add", "list"):
                raise ToolError(f"{wanted.action!r} is not possible from here; do it at the provider's site")
            app = await find_app(desk, call, wanted.name)
            stands = await connection_of(desk, call, app)
            again = given.reinitiate_all and app.remote is not None
            if wanted.action == "list" or (stands.is_active and not again):
                return self._entry(stands, reinitiated=False)
            # An app that is connected is begun anew only for another account, which a name asks for.
            alias = wanted.alias or (f"reconnected-{uuid.uuid4().hex[:6]}" if stands.is_active else "")
            begun = await _link(call, app, alias, given.specify_custom_auth.get(wanted.name))
            return self._entry(begun, reinitiated=again)
        except (ToolError, UpstreamError) as error:
            return {"toolkit": wanted.name, "status": "failed", "error_message": str(error)}

    def _entry(self, one: Connection, *, reinitiated: bool) -> dict[str, Any]:
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


async def _link(call: Call, app: App, alias: str, fields: dict[str, Any] | None) -> Connection:
    if app.remote is None:
        return Connection(app.server, app.slug, "active")
    return await app.remote.link(call, app.slug, alias=alias, fields=fields)


async def wait(desk: Desk, call: Call, given: asked.Wait) -> Any:
    found = await desk.connections(
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
    return wrapped(data, None if enough else "The time is over and the user has not authorised all of them")


async def initiate(desk: Desk, call: Call, given: asked.Initiate) -> Any:
    app = await find_app(desk, call, given.toolkit)
    one = await _link(call, app, "", given.parameters or None)
    data = {
        "toolkit": app.slug,
        "status": one.status,
        "redirect_url": one.link,
        "connected_account_id": one.account,
        "required_parameters": list(one.required),
        "message": one.message,
    }
    return wrapped({"response_data": data}, one.message or "It failed" if one.status == "failed" else None)


async def required(desk: Desk, call: Call, given: asked.Required) -> Any:
    app = await find_app(desk, call, given.toolkit)
    stands = await connection_of(desk, call, app)
    managed = bool(app.toolkit.managed_auth_schemes) or NO_AUTH in app.toolkit.auth_schemes
    return wrapped({"has_default_credentials": managed, "required_parameters": list(stands.required)})


async def list_toolkits(desk: Desk, call: Call, given: asked.ListToolkits) -> Any:
    size = LISTED_AT_MOST if given.no_auth_only else given.size
    apps = await search_apps(desk, call, given.name_filter, given.category, size)
    counts = {app.slug: _count(desk, app.server) for app in server_apps(desk)}
    kept = [
        app
        for app in apps
        if (not given.no_auth_only or _is_open(app))
        and (app.remote is not None or counts.get(app.slug, 0) >= given.min_tools)
    ]
    return wrapped({"toolkits": [_toolkit(app, counts) for app in kept[: given.size]]})


def _is_open(app: App) -> bool:
    return not app.toolkit.auth_schemes or NO_AUTH in app.toolkit.auth_schemes


def _count(desk: Desk, server: str) -> int:
    return len(desk.supplies.yard.catalogue.shelves[server].entries["tools"])


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
