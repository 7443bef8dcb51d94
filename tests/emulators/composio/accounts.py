"""Connected accounts and the links by which a user authorises them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from .asked import Asked, Operation, Reply
from .catalogue import Toolkit
from .refusals import Refusal, invalid, not_found
from .schemas import boolean, closed, free, text
from .world import Account, Session, World


def begin(
    world: World, session: Session, kit: Toolkit, *, alias: str | None = None, callback_url: str = ""
) -> Account:
    """A new account of a session's user, waiting for the user to authorise it."""
    given = (session.config.get("auth_configs") or {}).get(kit.slug)
    config = world.auth_config(given) if given else world.default_auth_config(kit)
    callback_url = callback_url or (session.config.get("manage_connections") or {}).get("callback_url") or ""
    return world.new_account(config, session.user_id, alias=alias, callback_url=callback_url)


def link_reply(account: Account, url: str) -> dict[str, Any]:
    return {
        "link_token": account.link_token,
        "redirect_url": redirect_url(account, url),
        "expires_at": (datetime.now(UTC) + timedelta(minutes=10)).isoformat(),
        "connected_account_id": account.id,
    }


def redirect_url(account: Account, url: str) -> str:
    return f"{url}/link/{account.link_token}"


async def authorise(asked: Asked) -> Reply:
    """What happens when the user opens the link in a browser and agrees: the account is active."""
    for account in asked.world.accounts.values():
        if account.link_token == asked.path["token"]:
            asked.world.settle(account, "ACTIVE")
            if account.callback_url:
                joint = "&" if "?" in account.callback_url else "?"
                place = f"{account.callback_url}{joint}status=success&connectedAccountId={account.id}"
                return Reply(b"", 302, {"Location": place})
            page = f"<h1>Connected</h1><p>{account.toolkit} is connected.</p>"
            return Reply(page.encode(), headers={"Content-Type": "text/html; charset=utf-8"})
    raise not_found("Link", asked.path["token"])


async def create_link(asked: Asked) -> Reply:
    body = asked.body
    config = asked.world.auth_config(body["auth_config_id"])
    account = asked.world.new_account(
        config, body["user_id"], callback_url=body.get("callback_url", ""), alias=body.get("alias")
    )
    return Reply(link_reply(account, asked.url), 201)


async def listed(asked: Asked) -> Reply:
    for status in asked.several("statuses"):
        if status not in STATUSES:
            raise invalid([f"query.statuses: {status!r} is none of {', '.join(STATUSES)}"])
    filters: dict[str, Callable[[Account], str]] = {
        "toolkit_slugs": lambda account: account.toolkit,
        "statuses": lambda account: account.status,
        "user_ids": lambda account: account.user_id,
        "auth_config_ids": lambda account: account.auth_config.id,
        "connected_account_ids": lambda account: account.id,
    }
    found = list(asked.world.accounts.values())
    for name, of in filters.items():
        if wanted := asked.several(name):
            found = [account for account in found if of(account) in wanted]
    newest = asked.among("order_direction", ("asc", "desc")) != "asc"
    by = "updated" if asked.among("order_by", ("created_at", "updated_at")) == "updated_at" else "made"
    found.sort(key=lambda account: getattr(account, by), reverse=newest)
    return Reply(asked.page([shown(account, asked.url) for account in found]))


async def read(asked: Asked) -> Reply:
    return Reply(shown(asked.world.account(asked.path["id"]), asked.url))


async def remove(asked: Asked) -> Reply:
    account = asked.world.account(asked.path["id"])
    del asked.world.accounts[account.id]
    return Reply({"success": True})


async def create(asked: Asked) -> Reply:
    """Since July 2026 only for what is not Composio's own OAuth; that is authorised by a link."""
    config = asked.world.auth_config(asked.body["auth_config"]["id"])
    connection = asked.body["connection"]
    if config.is_managed and config.scheme == "OAUTH2":
        raise Refusal(
            400,
            "This endpoint is no longer supported for Composio-managed OAuth."
            " Use POST /api/v3/connected_accounts/link instead.",
        )
    account = asked.world.new_account(
        config,
        connection.get("user_id", "default"),
        alias=connection.get("alias"),
        callback_url=connection.get("callback_url", ""),
    )
    if config.scheme != "OAUTH2":
        asked.world.settle(account, "ACTIVE")
    data = {"authScheme": config.scheme, "val": state(account, asked.url)}
    link = redirect_url(account, asked.url) if account.status == "INITIATED" else None
    reply = {
        "id": account.id,
        "status": account.status,
        "connectionData": data,
        "redirect_url": link,
        "redirect_uri": link,
        "deprecated": {"uuid": account.uuid, "authConfigUuid": config.uuid},
    }
    return Reply(reply, 201)


async def switch(asked: Asked) -> Reply:
    asked.world.account(asked.path["id"]).is_disabled = not asked.body["enabled"]
    return Reply({"success": True})


async def refresh(asked: Asked) -> Reply:
    account = asked.world.account(asked.path["id"])
    link = None
    if account.status != "ACTIVE" and account.auth_config.scheme == "OAUTH2":
        account.become("INITIATED")
        link = redirect_url(account, asked.url)
    return Reply({"id": account.id, "status": account.status, "redirect_url": link})


def shown(account: Account, url: str) -> dict[str, Any]:
    secret = state(account, url)
    return {
        "id": account.id,
        "user_id": account.user_id,
        "alias": account.alias,
        "toolkit": {"slug": account.toolkit},
        "status": account.status,
        "status_reason": None,
        "is_disabled": account.is_disabled,
        "created_at": account.made,
        "updated_at": account.updated,
        "auth_config": {
            "id": account.auth_config.id,
            "auth_scheme": account.auth_config.scheme,
            "is_composio_managed": account.auth_config.is_managed,
            "is_disabled": not account.auth_config.is_enabled,
        },
        "state": {"authScheme": account.auth_config.scheme, "val": secret},
        "data": secret,
        "params": {},
        "deprecated": {"labels": [], "uuid": account.uuid},
    }


def state(account: Account, url: str) -> dict[str, Any]:
    """What is known of the account's access, without its secrets."""
    if account.status in ("ACTIVE", "INACTIVE"):
        secret = "api_key" if account.auth_config.scheme == "API_KEY" else "access_token"
        return {"status": account.status, secret: "REDACTED"}
    if account.status == "INITIATED":
        return {"status": account.status, "redirectUrl": redirect_url(account, url)}
    return {"status": account.status}


async def wait(world: World, ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until accounts have changed so that this is true, or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            while not ready():
                await world.next_change()
    except TimeoutError:
        return False
    return True


STATUSES = ("INITIALIZING", "INITIATED", "ACTIVE", "FAILED", "EXPIRED", "INACTIVE", "REVOKED")
CREATION = closed(
    auth_config_=closed(id_=text(pattern="^ac_")),
    connection_=closed(
        user_id=text(),
        callback_url=text(),
        redirect_uri=text(),
        alias=text(),
        data=free(),
        experimental=free(),
        state=closed(authScheme_=text(), val_=free()),
    ),
    validate_credentials=boolean(),
)
FILTERS = ("toolkit_slugs", "statuses", "user_ids", "auth_config_ids", "connected_account_ids")
PAGING = ("limit", "cursor", "order_by", "order_direction", "account_type")
OPERATIONS = (
    Operation("accounts.list", "GET", "/connected_accounts", listed, query=(*FILTERS, *PAGING)),
    Operation("accounts.create", "POST", "/connected_accounts", create, CREATION),
    Operation(
        "accounts.link",
        "POST",
        "/connected_accounts/link",
        create_link,
        closed(
            auth_config_id_=text(pattern="^ac_"),
            user_id_=text(minLength=1),
            callback_url=text(),
            connection_data=free(),
            alias=text(),
            experimental=free(),
        ),
    ),
    Operation("accounts.read", "GET", "/connected_accounts/{id}", read),
    Operation(
        "accounts.switch",
        "PATCH",
        "/connected_accounts/{id}/status",
        switch,
        closed(enabled_=boolean()),
    ),
    Operation(
        "accounts.refresh",
        "POST",
        "/connected_accounts/{id}/refresh",
        refresh,
        closed(redirect_url=text(), validate_credentials=boolean()),
        fallback_body={},
    ),
    Operation("accounts.delete", "DELETE", "/connected_accounts/{id}", remove),
)
BROWSER = (Operation("browser.link", "GET", "/link/{token}", authorise),)
