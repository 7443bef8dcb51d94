"""Composio's tool router: sessions of API v3.1, or of v3 where v3.1 is not available."""

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
)
from .rest import NOT_THERE, VERSIONS, JsonApi, ListsClient, path

MAX_USE_CASE, MAX_KNOWN_FIELDS = 1024, 500
PAGE = 50
MAX_ACCOUNTS = 200
SEARCH, MANAGE = "COMPOSIO_SEARCH_TOOLS", "COMPOSIO_MANAGE_CONNECTIONS"


class ToolRouterClient(ListsClient):
    needs_session = True

    def __init__(self, rest: JsonApi, toolkits: Sequence[str] = (), callback_url: str = "") -> None:
        super().__init__(rest)
        self._toolkits = tuple(toolkits)
        self._callback_url = callback_url

    # Sessions

    async def begin(self, user: str) -> ComposioSession:
        body: dict[str, Any] = {"user_id": user}
        if self._toolkits:
            body["toolkits"] = {"enable": list(self._toolkits)}
        if self._callback_url:
            body["manage_connections"] = {"callback_url": self._callback_url}
        newest, older = VERSIONS
        try:
            return self._session(await self.put(f"/api/{newest}/tool_router/session", body), newest)
        except ComposioRefusedError as error:
            if error.status not in NOT_THERE:
                raise
        return self._session(await self.put(f"/api/{older}/tool_router/session", body), older)

    def _session(self, reply: dict[str, Any], api: str) -> ComposioSession:
        session = replies.session(reply, api)
        if session is None:
            raise InvalidReplyError(self._rest.server, "it began a session and gave no id")
        return session

    # Search

    async def search(
        self, session: ComposioSession | None, user: str, questions: Sequence[ComposioQuery], limit: int
    ) -> ComposioAnswer:
        assert session is not None, "the tool router searches in a session"
        queries = [_query(question) for question in questions]
        if session.api == "v3.1":
            try:
                reply = await self.put(_at(session, "/search"), {"queries": queries})
                return replies.answer(reply, len(queries))
            except ComposioRefusedError as error:
                if error.status not in NOT_THERE or error.expired:
                    raise
        reply = await self._meta(session, SEARCH, {"queries": queries, "session": {"id": session.id}})
        return replies.answer(reply, len(queries))

    async def _meta(self, session: ComposioSession, slug: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a meta tool gives; refused when it failed, which it says in a good reply."""
        body = await self._rest.post(_at(session, "/execute_meta"), {"slug": slug, "arguments": arguments})
        done = self._executed(body)
        if done.failure is not None:
            raise ComposioRefusedError(self._rest.server, 200, self._rest.without_key(done.failure))
        return self.decoded(bytes(done.data))

    # Execution

    async def execute(
        self, session: ComposioSession | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> ExecutedTool:
        assert session is not None, "the tool router executes in a session"
        asked = {"tool_slug": slug, "arguments": arguments}
        return self._executed(await self._rest.post(_at(session, "/execute"), asked))

    def _executed(self, body: bytes) -> ExecutedTool:
        try:
            return replies.executed(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._rest.garbled(error) from None

    # Accounts

    async def accounts(
        self, session: ComposioSession | None, user: str, toolkits: Sequence[str]
    ) -> list[AppAccount]:
        assert session is not None, "accounts are those of a session's user"
        query = {"toolkits": ",".join(toolkits)} if toolkits else {"is_connected": "true"}
        rows = await self.pages(
            _at(session, "/toolkits"), {**query, "limit": str(PAGE)}, max(len(toolkits), MAX_ACCOUNTS)
        )
        return [replies.account(row) for row in rows]

    async def link(
        self,
        session: ComposioSession | None,
        user: str,
        toolkit: str,
        callback_url: str,
        alias: str,
        fields: dict[str, Any] | None,
    ) -> AppAccount:
        assert session is not None, "an account is connected in a session"
        if fields:
            return await self._manage(session, toolkit, {"specify_custom_auth": {toolkit: fields}})
        asked = {"toolkit": toolkit}
        if callback_url:
            asked["callback_url"] = callback_url
        if alias and session.api == "v3.1":
            asked["alias"] = alias
        try:
            reply = await self.put(_at(session, "/link"), asked)
        except ComposioRefusedError as error:
            if error.status not in (400, 422):
                raise
            # It needs more than a link, and the meta tool says what.
            return await self._manage(session, toolkit, {})
        url = replies.text(reply.get("redirect_url"))
        return AppAccount(toolkit, "initiated", replies.text(reply.get("connected_account_id")), url)

    async def _manage(self, session: ComposioSession, toolkit: str, more: dict[str, Any]) -> AppAccount:
        reply = await self._meta(session, MANAGE, {"toolkits": [toolkit], **more})
        results = replies.members(reply.get("results"))
        found = replies.managed(toolkit, replies.members(results.get(toolkit)))
        if found.status == "none":
            return AppAccount(toolkit, "failed", message=replies.text(reply.get("message")))
        return found


def _at(session: ComposioSession, rest: str) -> str:
    return f"/api/{session.api}/tool_router/session{path(session.id)}{rest}"


def _query(question: ComposioQuery) -> dict[str, str]:
    query = {"use_case": question.use_case[:MAX_USE_CASE]}
    if question.known_fields:
        query["known_fields"] = question.known_fields[:MAX_KNOWN_FIELDS]
    return query
