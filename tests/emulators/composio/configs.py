"""`/auth_configs`: how the accounts of a toolkit are authorised."""

from typing import Any

from .asked import Asked, Operation, Reply
from .catalogue import Toolkit
from .refusals import Refusal
from .schemas import boolean, choice, closed, either, free, opened, text, texts
from .world import AuthConfig

SCHEMES = (
    *("OAUTH2", "OAUTH1", "API_KEY", "BASIC", "BILLCOM_AUTH", "BEARER_TOKEN", "GOOGLE_SERVICE_ACCOUNT"),
    *("NO_AUTH", "BASIC_WITH_JWT", "CALCOM_AUTH", "SERVICE_ACCOUNT", "SAML", "DCR_OAUTH"),
)


async def create(asked: Asked) -> Reply:
    kit = asked.world.toolkit(asked.body["toolkit"]["slug"])
    wanted = asked.body.get("auth_config") or {"type": "use_composio_managed_auth"}
    is_managed = wanted["type"] == "use_composio_managed_auth"
    scheme = _managed_scheme(kit) if is_managed else wanted["authScheme"]
    if scheme not in kit.schemes:
        raise Refusal(400, f"Toolkit {kit.slug!r} cannot be authorised by {scheme}")
    config = asked.world.new_auth_config(kit, scheme, is_managed, wanted.get("name", ""))
    shown_ = {
        "id": config.id,
        "auth_scheme": scheme,
        "is_composio_managed": is_managed,
        "restrict_to_following_tools": wanted.get("restrict_to_following_tools", []),
    }
    return Reply({"toolkit": {"slug": kit.slug}, "auth_config": shown_}, 201)


async def listed(asked: Asked) -> Reply:
    configs = list(asked.world.auth_configs.values())
    if slug := asked.one("toolkit_slug"):
        configs = [config for config in configs if config.toolkit == slug.lower()]
    managed = asked.flag("is_composio_managed")
    if managed is not None:
        configs = [config for config in configs if config.is_managed == managed]
    if not asked.flag("show_disabled"):
        configs = [config for config in configs if config.is_enabled]
    configs = [config for config in configs if asked.one("search").lower() in config.name.lower()]
    return Reply(asked.page([_shown(asked, config) for config in configs]))


async def read(asked: Asked) -> Reply:
    return Reply(_shown(asked, asked.world.auth_config(asked.path["id"])))


async def switch(asked: Asked) -> Reply:
    config = asked.world.auth_config(asked.path["id"])
    if asked.path["status"] not in ("ENABLED", "DISABLED"):
        raise Refusal(400, f"Status {asked.path['status']!r} is neither ENABLED nor DISABLED")
    config.is_enabled = asked.path["status"] == "ENABLED"
    return Reply({"success": True})


async def delete(asked: Asked) -> Reply:
    config = asked.world.auth_config(asked.path["id"])
    del asked.world.auth_configs[config.id]
    return Reply({"success": True, "message": f"Auth config {config.id} deleted"})


def _managed_scheme(kit: Toolkit) -> str:
    if not kit.managed_schemes:
        raise Refusal(400, f"Composio brings no auth of its own for toolkit {kit.slug!r}")
    return kit.managed_schemes[0]


def _shown(asked: Asked, config: AuthConfig) -> dict[str, Any]:
    kit = asked.world.toolkit(config.toolkit)
    held = [account for account in asked.world.accounts.values() if account.auth_config is config]
    return {
        "id": config.id,
        "uuid": config.uuid,
        "type": "default" if config.is_managed else "custom",
        "toolkit": {"slug": kit.slug, "logo": kit.logo},
        "name": config.name,
        "auth_scheme": config.scheme,
        "is_composio_managed": config.is_managed,
        "status": "ENABLED" if config.is_enabled else "DISABLED",
        "created_at": config.made,
        "last_updated_at": config.made,
        "no_of_connections": len(held),
        "expected_input_fields": [],
        "restrict_to_following_tools": [],
        "tool_access_config": {
            "tools_for_connected_account_creation": [],
            "tools_available_for_execution": [],
        },
    }


SCOPES = either(text(), texts())
SHARED = {
    "name": text(),
    "credentials": opened(scopes=SCOPES, user_scopes=SCOPES),
    "restrict_to_following_tools": texts(),
    "tool_access_config": closed(tools_for_connected_account_creation=texts()),
    "shared_credentials": free(),
}
CREATION = closed(
    toolkit_=closed(slug_=text()),
    auth_config=either(
        closed(type_={"const": "use_composio_managed_auth"}, **SHARED),
        closed(
            type_={"const": "use_custom_auth"},
            authScheme_=choice(*SCHEMES),
            proxy_config=closed(proxy_url_=text(format="uri"), proxy_auth_key=text()),
            is_enabled_for_tool_router=boolean(),
            **SHARED,
        ),
    ),
)
FILTERS = ("is_composio_managed", "toolkit_slug", "deprecated_app_id", "deprecated_status", "show_disabled")
OPERATIONS = (
    Operation("auth_configs.create", "POST", "/auth_configs", create, CREATION),
    Operation(
        "auth_configs.list", "GET", "/auth_configs", listed, query=(*FILTERS, "search", "limit", "cursor")
    ),
    Operation("auth_configs.read", "GET", "/auth_configs/{id}", read),
    Operation("auth_configs.delete", "DELETE", "/auth_configs/{id}", delete),
    Operation("auth_configs.switch", "PATCH", "/auth_configs/{id}/{status}", switch),
)
