"""The endpoints that the Suna fork calls: a search that answers with apps, and a session that is an id.

Composio's own documentation knows the path of the session and another body for it, and not the search. So
both bodies are tried, what an app can do is read from the list of all tools, and tools are executed
directly, in the name of the user, with the session's id in a header.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import InvalidReplyError
from . import replies
from .api import (
    AppAccount,
    ComposioAnswer,
    ComposioQuery,
    ComposioRefusedError,
    ComposioSession,
    ExecutedTool,
    FoundToolRecord,
    ToolRecord,
)
from .rest import JsonApi, ListsClient, best, path, together

ROOT = "/api/v3/labs/tool_router"
HEADER = "x-composio-session-id"
APPS_EACH = 3
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
            reply = await self.put(f"{ROOT}/session", body)
        except ComposioRefusedError as error:
            if error.status not in (400, 409, 422):
                raise
            reply = await self.put(f"{ROOT}/session", {"generate_id": True})
        session = replies.session(reply, "labs")
        if session is None:
            raise InvalidReplyError(self._rest.server, "it began a session and gave no id")
        return session

    # Search

    async def search(
        self, session: ComposioSession | None, user: str, questions: Sequence[ComposioQuery], limit: int
    ) -> ComposioAnswer:
        queries = [_query(question) for question in questions]
        held = {"generate_id": True} if session is None else {"id": session.id}
        body = {"queries": queries, "limit": max(limit, APPS_EACH), "session": held}
        reply = await self.put(f"{ROOT}/search-tools", body, _header(session))
        groups = replies.groups(reply, len(queries))
        asked = zip(groups, questions, strict=True)
        tools = await together([self._of_apps(_slugs(group), question, limit) for group, question in asked])
        return ComposioAnswer(tuple(tools))

    async def _of_apps(
        self, slugs: Sequence[str], question: ComposioQuery, limit: int
    ) -> tuple[FoundToolRecord, ...]:
        """The tools of the apps found that fit best, those of the best app first."""
        lists = await together([self.tools_of(slug, TOOLS_READ) for slug in slugs[:APPS_EACH]])
        fitting = [best(tools, _text, question.use_case, limit) or tools for tools in lists]
        found = [tool for tools in fitting for tool in tools]
        return tuple(_found(tool, number == 0) for number, tool in enumerate(found[:limit]))

    # Execution

    async def execute(
        self, session: ComposioSession | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> ExecutedTool:
        body = {"user_id": user, "arguments": arguments}
        reply = await self._rest.post(f"/api/v3/tools/execute{path(slug)}", body, _header(session))
        try:
            return replies.executed(reply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._rest.garbled(error) from None

    # Accounts

    async def accounts(
        self, session: ComposioSession | None, user: str, toolkits: Sequence[str]
    ) -> list[AppAccount]:
        query = {"user_ids": user, "limit": "200"}
        if toolkits:
            query["toolkit_slugs"] = ",".join(toolkits)
        rows = await self.pages("/api/v3/connected_accounts", query, 200)
        found: dict[str, AppAccount] = {}
        for row in rows:
            slug = replies.text(replies.members(row.get("toolkit")).get("slug"))
            one = AppAccount(slug, replies.status_of(row.get("status")), replies.text(row.get("id")))
            if slug not in found or one.status == "active":
                found[slug] = one
        wanted = toolkits or [slug for slug, one in found.items() if one.status == "active"]
        return [found.get(slug) or await self._without(slug) for slug in wanted]

    async def _without(self, slug: str) -> AppAccount:
        """An app without an account, which may need none."""
        some = await self.tools_of(slug, 1)
        if some and some[0].no_auth:
            return AppAccount(slug, "active", message="it needs no account", needs_none=True)
        return AppAccount(slug, "none")

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
        reply = await self.put("/api/v3/connected_accounts/link", body)
        id = replies.text(reply.get("connected_account_id"))
        return AppAccount(toolkit, "initiated", id, replies.text(reply.get("redirect_url")))

    async def _auth_config(self, toolkit: str) -> str:
        """How accounts of an app are connected: as it was set up in the project, or as Composio has it."""
        rows = await self.pages("/api/v3/auth_configs", {"toolkit_slug": toolkit, "limit": "20"}, 20)
        for row in rows:
            if row.get("status", "ENABLED") == "ENABLED" and (id := replies.text(row.get("id"))):
                return id
        wanted = {"toolkit": {"slug": toolkit}, "auth_config": {"type": "use_composio_managed_auth"}}
        made = await self.put("/api/v3/auth_configs", wanted)
        return replies.text(replies.members(made.get("auth_config")).get("id"))


def _query(question: ComposioQuery) -> dict[str, str]:
    known = {"known_fields": question.known_fields, "category": question.category}
    return {"use_case": question.use_case, **{name: value for name, value in known.items() if value}}


def _header(session: ComposioSession | None) -> dict[str, str] | None:
    return None if session is None else {HEADER: session.id}


def _slugs(group: Sequence[dict[str, Any]]) -> list[str]:
    kits = [replies.toolkit(item) for item in group]
    return list(dict.fromkeys(kit.slug for kit in kits if kit is not None))


def _text(tool: ToolRecord) -> str:
    return f"{tool.slug} {tool.name} {tool.description}"


def _found(tool: ToolRecord, primary: bool) -> FoundToolRecord:
    return FoundToolRecord(
        tool.slug, tool.toolkit, tool.description, tool.input_schema, tool.output_schema, primary
    )
