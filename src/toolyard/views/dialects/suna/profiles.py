"""Suna's credential profiles: made, listed, deleted. Each tenant has its own.

The account behind a profile is at the remote; the profile remembers which it is. Unlike Suna, whether it is
connected is asked, not guessed from there being a link.
"""

from datetime import UTC, datetime
from typing import Any

from ....dispatch.remote import Connection
from ....kit.content import ToolError
from ....sessions.profiles import Profile, Profiles
from ....upstream.errors import UpstreamError
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.desk import Desk
from ..apps import App, connection_of, find_app
from ..replies import json_reply
from . import asked, enabling

KIND = "composio"
"""What Suna calls every profile's type, and what it puts before the slug in qualified names."""


async def listed(desk: Desk, call: Call, given: asked.Profiles) -> CallToolResult:
    slug = given.toolkit_slug.lower()
    found = [one for one in await kept(desk).list(call.caller.tenant) if slug in ("", slug_of(one))]
    standing = {toolkit: await _standing(desk, call, toolkit) for toolkit in {slug_of(one) for one in found}}
    shown = [await _shown(desk, call, one, standing[slug_of(one)]) for one in found]
    return json_reply(
        {
            "message": f"Found {len(shown)} credential profiles",
            "profiles": shown,
            "total_count": len(shown),
        }
    )


async def _shown(desk: Desk, call: Call, one: Profile, standing: Connection | None) -> dict[str, Any]:
    return {
        "profile_id": one.profile_id,
        "connected_account_id": one.config.get("connected_account_id"),
        "account_id": call.caller.tenant,
        "profile_name": one.profile_name,
        "display_name": one.display_name,
        "toolkit_slug": slug_of(one),
        "toolkit_name": toolkit_name(one),
        "is_connected": await is_connected(desk, call, one, standing),
        "is_default": one.is_default,
    }


async def create(desk: Desk, call: Call, given: asked.Create) -> CallToolResult:
    app, begun, profile = await _created(desk, call, given)
    shown: dict[str, Any] = {
        "profile_id": profile.profile_id,
        "profile_name": profile.profile_name,
        "display_name": profile.display_name,
        "toolkit_slug": app.slug,
        "toolkit_name": app.name,
        "is_connected": begun.is_active,
        "auth_required": begun.link is not None,
    }
    reply: dict[str, Any] = {
        "message": f"Successfully created credential profile {profile.profile_name!r} for {app.name}",
        "profile": shown,
    }
    if begun.link is not None:
        reply["connection_link"] = begun.link
        reply["instructions"] = (
            f"Show the user this link and wait until they have authorised {app.name}: "
            f"[toolkit:{app.slug}:{app.name}] Authentication: {begun.link}"
        )
    else:
        reply["instructions"] = f"This {app.name} profile is ready: discover_user_mcp_servers is next."
    return json_reply(reply)


async def create_for_agent(desk: Desk, call: Call, given: asked.Create) -> CallToolResult:
    app, begun, profile = await _created(desk, call, given)
    step = (
        f"Show the user this link and wait until they have authorised it: {begun.link} " if begun.link else ""
    )
    return json_reply(
        {
            "message": f"Created the profile {profile.profile_name!r} for {app.name}. {step}"
            "Next: discover_mcp_tools_for_agent.",
            "authentication_url": begun.link,
            "profile_id": profile.profile_id,
            "profile_name": profile.profile_name,
            "toolkit_name": app.name,
            "toolkit_slug": app.slug,
            "requires_authentication": begun.link is not None,
        }
    )


async def _created(desk: Desk, call: Call, given: asked.Create) -> tuple[App, Connection, Profile]:
    store = kept(desk)
    app = await find_app(desk, call, given.toolkit_slug)
    begun = await connection_of(desk, call, app)
    if app.remote is not None and not (begun.is_active and begun.account is None):
        # Each profile is an account of its own, but for apps that need none.
        begun = await app.remote.link(call, app.slug, alias=given.profile_name)
    if begun.status in ("failed", "requires_parameters"):
        asks = f"it asks for {', '.join(begun.required)}" if begun.required else begun.message
        raise ToolError(f"A profile for {app.slug!r} could not be created: {asks}")
    config = {
        "type": KIND,
        "toolkit_slug": app.slug,
        "toolkit_name": app.name,
        "redirect_url": begun.link,
        "connected_account_id": begun.account,
        "connected": begun.is_active,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    profile = await store.create(
        call.caller.tenant,
        f"{KIND}.{app.slug}",
        given.profile_name,
        config,
        display_name=given.display_name,
    )
    return app, begun, profile


async def delete(desk: Desk, call: Call, given: asked.Named) -> CallToolResult:
    profile = await named(desk, call, given)
    await kept(desk).delete(call.caller.tenant, profile.profile_id)
    enabling.tell_change(desk, call)
    return json_reply(
        {
            "message": f"Successfully deleted credential profile {profile.display_name!r} for "
            f"{toolkit_name(profile)}",
            "deleted_profile": {
                "profile_name": profile.profile_name,
                "toolkit_name": toolkit_name(profile),
            },
        }
    )


def kept(desk: Desk) -> Profiles:
    if desk.supplies.profiles is None:
        raise ToolError("There are no credential profiles here; set [state] key, or ENCRYPTION_KEY")
    return desk.supplies.profiles


async def named(desk: Desk, call: Call, given: asked.Named) -> Profile:
    """By its id; else by its name, which two toolkits' profiles may share."""
    profiles = await kept(desk).list(call.caller.tenant)
    name = given.profile_id or given.profile_name
    found = [one for one in profiles if name == (one.profile_id if given.profile_id else one.profile_name)]
    if len(found) == 1:
        return found[0]
    fault = "names several; give its profile_id" if found else "not found"
    raise ToolError(f"Credential profile {name!r} {fault}: get_credential_profiles lists those there are")


def slug_of(profile: Profile) -> str:
    return str(profile.config.get("toolkit_slug", ""))


def toolkit_name(profile: Profile) -> str:
    return str(profile.config.get("toolkit_name") or slug_of(profile))


async def _standing(desk: Desk, call: Call, slug: str) -> Connection | None:
    """None: nobody can say just now."""
    try:
        return await connection_of(desk, call, await find_app(desk, call, slug))
    except (ToolError, UpstreamError):
        return None


async def is_connected(desk: Desk, call: Call, profile: Profile, standing: Connection | None) -> bool:
    """An app tells of one account. Of a profile with another, what was seen last is true."""
    if standing is None:
        return False
    account, seen = profile.config.get("connected_account_id"), bool(profile.config.get("connected"))
    if None not in (account, standing.account) and standing.account != account:
        return seen
    if account is not None and standing.is_active != seen:
        config = {**profile.config, "connected": standing.is_active}
        await kept(desk).update(call.caller.tenant, profile.profile_id, config=config)
    return standing.is_active
