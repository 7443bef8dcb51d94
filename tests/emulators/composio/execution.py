"""Executing a tool: the account it is done with, the check of the arguments, the reply."""

from collections.abc import Awaitable
from typing import Any
from uuid import uuid4

from .asked import mistakes
from .catalogue import Deed, Tool, ToolFailed
from .refusals import Refusal, invalid, not_connected, not_found
from .world import Account, Session, World


def find(world: World, slug: str) -> Tool:
    tool = world.catalogue.tools.get(slug)
    if tool is None:
        raise not_found("Tool", slug)
    if tool.is_deprecated:
        raise Refusal(410, f"Tool {slug} has been deprecated and is no longer available")
    return tool


async def execute(
    world: World,
    tool: Tool,
    user: str,
    arguments: dict[str, Any],
    account: Account | None,
    session: str = "",
) -> dict[str, Any]:
    """Do it, and reply as direct execution does."""
    if errors := mistakes(tool.input, arguments):
        raise invalid(errors)
    log = f"log_{uuid4().hex[:12]}"
    try:
        _check_files(world, tool, arguments)
        answer = tool.answer(Deed(world, user, account, arguments, session))
        data, error = (await answer if isinstance(answer, Awaitable) else answer), None
    except ToolFailed as failed:
        data, error = {}, str(failed)
    world.executions.append({"tool": tool.slug, "user_id": user, "arguments": arguments, "log_id": log})
    return {"data": data, "error": error, "successful": error is None, "log_id": log}


def _check_files(world: World, tool: Tool, arguments: dict[str, Any]) -> None:
    """A file that an argument names must have been put into the store."""
    for name, schema in tool.input["properties"].items():
        if schema.get("file_uploadable") and name in arguments:
            blob = world.blobs.get(arguments[name]["s3key"])
            if blob is None or blob.content is None:
                raise ToolFailed(f"File {arguments[name]['s3key']!r} of {name} is not in the store")


def account_for(world: World, tool: Tool, user: str, wanted: str | None = None) -> Account | None:
    """The account to do it with; none for a toolkit that needs none."""
    kit = world.catalogue.kit_of(tool)
    if kit.no_auth:
        return None
    if wanted is None:
        accounts = world.accounts_of(user, kit.slug)
        if not accounts:
            raise not_connected(user, kit.slug)
        return accounts[0]
    account = world.account(wanted)
    if account.toolkit != kit.slug or (user and account.user_id != user):
        raise Refusal(403, f"Connected account {wanted} does not belong to this user and toolkit")
    if account.status != "ACTIVE" or account.is_disabled:
        raise Refusal(422, f"Connected account {wanted} is in state {account.status}, not ACTIVE")
    return account


async def in_session(
    world: World, session: Session, slug: str, arguments: dict[str, Any], account: str | None = None
) -> dict[str, Any]:
    """Execute in a session, within what it allows, with an account that it pins, names or finds."""
    tool = find(world, slug)
    if not session.allows_toolkit(tool.toolkit) or not session.allows_tool(slug, tool.toolkit, tool.tags):
        raise Refusal(403, f"Tool {slug} is not enabled in session {session.id}")
    chosen = _account(world, session, tool, account)
    return await execute(world, tool, session.user_id, arguments, chosen, session.id)


def _account(world: World, session: Session, tool: Tool, wanted: str | None) -> Account | None:
    if wanted is not None:
        aliased = [
            each.id for each in world.accounts_of(session.user_id, tool.toolkit) if each.alias == wanted
        ]
        wanted = aliased[0] if aliased else wanted
    else:
        pinned = (session.config.get("connected_accounts") or {}).get(tool.toolkit)
        wanted = (pinned or [None])[0] if isinstance(pinned, list) else pinned or None
    return account_for(world, tool, session.user_id, wanted)
