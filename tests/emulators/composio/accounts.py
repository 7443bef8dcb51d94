"""Connected accounts and the links by which a user authorises them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from .asked import Asked, Operation, Reply
from .catalogue import Toolkit
from .refusals import not_found
from .schemas import closed, free, text
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
    return Reply(asked.page([shown(account) for account in reversed(found)]))


async def read(asked: Asked) -> Reply:
    return Reply(shown(asked.world.account(asked.path["id"])))


async def remove(asked: Asked) -> Reply:
    account = asked.world.account(asked.path["id"])
    del asked.world.accounts[account.id]
    return Reply({"success": True})


def shown(account: Account) -> dict[str, Any]:
    secret = {"status": account.status}
    if account.status == "ACTIVE":
        secret["access_token"] = "REDACTED"
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
        "deprecated": {"labels": [], "uuid": account.uuid},
    }


async def wait(world: World, ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until accounts have changed so that this is true, or the time is over."""
    try:
        async with asyncio.timeout(seconds):
            while not ready():
                await world.next_change()
    except TimeoutError:
        return False
    return True


FILTERS = ("toolkit_slugs", "statuses", "user_ids", "auth_config_ids", "connected_account_ids")
PAGING = ("limit", "cursor", "order_by", "order_direction")
OPERATIONS = (
    Operation("accounts.list", "GET", "/connected_accounts", listed, query=(*FILTERS, *PAGING)),
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
        ),
    ),
    Operation("accounts.read", "GET", "/connected_accounts/{id}", read),
    Operation("accounts.delete", "DELETE", "/connected_accounts/{id}", remove),
)
BROWSER = (Operation("browser.link", "GET", "/link/{token}", authorise),)
