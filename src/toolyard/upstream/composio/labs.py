"""The endpoints that the Suna fork calls: a search that returns apps, and a session that is only an id.

Composio documents the session's path with another body, and does not document the search. So both bodies
are tried, an app's tools are read from the list of all tools, and tools are executed directly for the user,
with the session's id in a header.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ...composio import ExecutedTool, executed, members, path, text
from ..errors import InvalidReplyError, UpstreamError
from . import replies
from .api import (
    AppAccount,
    ComposioAnswer,
    ComposioQuery,
    ComposioRefusedError,
    ComposioSession,
    ToolRecord,
)
from .rest import JsonApi, ListsClient, gather, rank_by_words

ROOT = "/api/v3/labs/tool_router"
HEADER = "x-composio-session-id"
APPS_PER_QUERY = 3
TOOLS_READ = 200


class LabsClient(ListsClient):
    needs_session = False

    def __init__(self, rest: JsonApi, toolkits: Sequence[str] = (), callback_url: str = "") -> None:
        super().__init__(rest)
        self._toolkits = tuple(toolkits)
        self._callback_url = callback_url

    async def begin(self, user: str) -> ComposioSession:
        body: dict[str, Any] = {"user_id": user}
        if self._toolkits:
            body["config"] = {"toolkits": [{"toolkit": slug} for slug in self._toolkits]}
        try:
            reply = await self.post(f"{ROOT}/session", body)
        except ComposioRefusedError as error:
            if error.status not in (400, 409, 422):
                raise
            reply = await self.post(f"{ROOT}/session", {"generate_id": True})
        session = replies.session(reply, "labs")
        if session is None:
            raise InvalidReplyError(self._rest.server, "its new session has no id")
        return session

    # Search

    async def search(
        self, session: ComposioSession | None, user: str, queries: Sequence[ComposioQuery], limit: int
    ) -> ComposioAnswer:
        asked = [_query(query) for query in queries]
        session_part = {"generate_id": True} if session is None else {"id": session.id}
        body = {"queries": asked, "limit": max(limit, APPS_PER_QUERY), "session": session_part}
        reply = await self.post(f"{ROOT}/search-tools", body, _header(session))
        groups = zip(replies.groups(reply, len(asked)), queries, strict=True)
        tools = await gather([self._tools_for(_slugs(group), query, limit) for group, query in groups])
        return ComposioAnswer(tuple(tools), await self._accounts_for(user, tools))

    async def _accounts_for(
        self, user: str, found: Sequence[tuple[ToolRecord, ...]]
    ) -> dict[str, AppAccount]:
        """Return the account of each app found, which this search does not tell."""
        apps = {tool.toolkit: tool.no_auth for tools in found for tool in tools}
        wanted = [slug for slug, is_open in apps.items() if not is_open]
        try:
            held = await self._held(user, wanted) if wanted else {}
        except UpstreamError:  # the tools are of use all the same
            held = {}
        return {
            slug: _open_app(slug) if is_open else held.get(slug) or AppAccount(slug, "none")
            for slug, is_open in apps.items()
        }

    async def _tools_for(
        self, slugs: Sequence[str], query: ComposioQuery, limit: int
    ) -> tuple[ToolRecord, ...]:
        """Return the best tools of the apps found, those of the best app first."""
        lists = await gather([self.tools_of(slug, TOOLS_READ) for slug in slugs[:APPS_PER_QUERY]])
        ranked = [rank_by_words(tools, _text, query.use_case, limit) or tools for tools in lists]
        found = [tool for tools in ranked for tool in tools]
        return tuple(replace(tool, primary=number == 0) for number, tool in enumerate(found[:limit]))

    # Execution

    async def execute(
        self, session: ComposioSession | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> ExecutedTool:
        body = {"user_id": user, "arguments": arguments}
        reply = await self._rest.post(f"/api/v3/tools/execute{path(slug)}", body, _header(session))
        try:
            return executed(reply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._rest.invalid_reply(error) from None

    # Accounts

    async def accounts(
        self, session: ComposioSession | None, user: str, toolkits: Sequence[str]
    ) -> list[AppAccount]:
        found = await self._held(user, toolkits)
        wanted = toolkits or [slug for slug, one in found.items() if one.status == "active"]
        return [found.get(slug) or await self._without_account(slug) for slug in wanted]

    async def _held(self, user: str, toolkits: Sequence[str]) -> dict[str, AppAccount]:
        """Return the user's accounts by app, an active one first; those of all apps if none is named."""
        query = {"user_ids": user, "limit": "200"}
        if toolkits:
            query["toolkit_slugs"] = ",".join(toolkits)
        found: dict[str, AppAccount] = {}
        for row in await self.pages("/api/v3/connected_accounts", query, 200):
            slug = text(members(row.get("toolkit")).get("slug"))
            one = AppAccount(slug, replies.status_of(row.get("status")), text(row.get("id")))
            if slug not in found or one.status == "active":
                found[slug] = one
        return found

    async def _without_account(self, slug: str) -> AppAccount:
        """Return the state of an app without an account; it may need none."""
        tools = await self.tools_of(slug, 1)
        return _open_app(slug) if tools and tools[0].no_auth else AppAccount(slug, "none")

    async def link(
        self,
        session: ComposioSession | None,
        user: str,
        toolkit: str,
        callback_url: str,
        alias: str,
        fields: dict[str, Any] | None,
    ) -> AppAccount:
        body: dict[str, Any] = {"auth_config_id": await self._auth_config(toolkit), "user_id": user}
        if callback_url:
            body["callback_url"] = callback_url
        if fields:
            body["connection_data"] = fields
        reply = await self.post("/api/v3/connected_accounts/link", body)
        id = text(reply.get("connected_account_id"))
        return AppAccount(toolkit, "initiated", id, text(reply.get("redirect_url")))

    async def _auth_config(self, toolkit: str) -> str:
        """Return the id of the app's auth config: that of the project, or a new one managed by Composio."""
        rows = await self.pages("/api/v3/auth_configs", {"toolkit_slug": toolkit, "limit": "20"}, 20)
        for row in rows:
            if row.get("status", "ENABLED") == "ENABLED" and (id := text(row.get("id"))):
                return id
        wanted = {"toolkit": {"slug": toolkit}, "auth_config": {"type": "use_composio_managed_auth"}}
        made = await self.post("/api/v3/auth_configs", wanted)
        return text(members(made.get("auth_config")).get("id"))


def _query(query: ComposioQuery) -> dict[str, str]:
    known = {"known_fields": query.known_fields, "category": query.category}
    return {"use_case": query.use_case, **{name: value for name, value in known.items() if value}}


def _open_app(slug: str) -> AppAccount:
    return AppAccount(slug, "active", message="it needs no account", needs_none=True)


def _header(session: ComposioSession | None) -> dict[str, str] | None:
    return None if session is None else {HEADER: session.id}


def _slugs(group: Sequence[dict[str, Any]]) -> list[str]:
    kits = [replies.toolkit(item) for item in group]
    return list(dict.fromkeys(kit.slug for kit in kits if kit is not None))


def _text(tool: ToolRecord) -> str:
    return f"{tool.slug} {tool.name} {tool.description}"
