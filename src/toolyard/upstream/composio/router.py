"""Composio's tool router: sessions of API v3.1, or of v3 where v3.1 is not available."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...composio import (
    LOCAL_BYTES,
    MAX_DETAIL,
    NOT_FOUND,
    SEARCH,
    VERSIONS,
    ExecutedTool,
    executed,
    members,
    path,
    text,
)
from ...wire.text import clean
from ..errors import InvalidReplyError
from . import replies
from .api import (
    AppAccount,
    ComposioAnswer,
    ComposioQuery,
    ComposioRefusedError,
    ComposioSession,
)
from .rest import JsonApi, ListsClient

MAX_USE_CASE, MAX_KNOWN_FIELDS = 1024, 500
PAGE = 50
MAX_ACCOUNTS = 200
MANAGE = "COMPOSIO_MANAGE_CONNECTIONS"


class ToolRouterClient(ListsClient):
    needs_session = True

    def __init__(self, rest: JsonApi, toolkits: Sequence[str] = (), callback_url: str = "") -> None:
        super().__init__(rest)
        self._toolkits = tuple(toolkits)
        self._callback_url = callback_url

    # Sessions

    async def begin(self, user: str) -> ComposioSession:
        body: dict[str, Any] = {
            "user_id": user,
            # Local first: only what is larger stays in the workbench.
            "workbench": {"auto_offload_threshold": LOCAL_BYTES},
        }
        if self._toolkits:
            body["toolkits"] = {"enable": list(self._toolkits)}
        if self._callback_url:
            body["manage_connections"] = {"callback_url": self._callback_url}
        newest, older = VERSIONS
        try:
            return self._session(await self.post(f"/api/{newest}/tool_router/session", body), newest)
        except ComposioRefusedError as error:
            if error.status not in NOT_FOUND:
                raise
        return self._session(await self.post(f"/api/{older}/tool_router/session", body), older)

    def _session(self, reply: dict[str, Any], api: str) -> ComposioSession:
        session = replies.session(reply, api)
        if session is None:
            raise InvalidReplyError(self._rest.server, "its new session has no id")
        return session

    # Search

    async def search(
        self, session: ComposioSession | None, user: str, queries: Sequence[ComposioQuery], limit: int
    ) -> ComposioAnswer:
        assert session is not None, "the tool router searches in a session"
        asked = [_query(query) for query in queries]
        if session.api == "v3.1":
            try:
                reply = await self.post(_at(session, "/search"), {"queries": asked})
                return replies.answer(reply, len(asked))
            except ComposioRefusedError as error:
                if error.status not in NOT_FOUND or error.expired:
                    raise
        reply = await self._meta(session, SEARCH, {"queries": asked, "session": {"id": session.id}})
        return replies.answer(reply, len(asked))

    async def _meta(self, session: ComposioSession, slug: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a meta tool; raises ComposioRefusedError if it failed, which it reports with HTTP 200."""
        body = await self._rest.post(_at(session, "/execute_meta"), {"slug": slug, "arguments": arguments})
        done = self._executed(body)
        if done.failure is not None:
            raise ComposioRefusedError(self._rest.server, 200, clean(done.failure)[:MAX_DETAIL])
        return self.decode(bytes(done.data))

    # Execution

    async def execute(
        self, session: ComposioSession | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> ExecutedTool:
        assert session is not None, "the tool router executes in a session"
        asked = {"tool_slug": slug, "arguments": arguments}
        return self._executed(await self._rest.post(_at(session, "/execute"), asked))

    def _executed(self, body: bytes) -> ExecutedTool:
        try:
            return executed(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._rest.invalid_reply(error) from None

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
            reply = await self.post(_at(session, "/link"), asked)
        except ComposioRefusedError as error:
            if error.status not in (400, 422):
                raise
            # It needs more than a link; the meta tool says what.
            return await self._manage(session, toolkit, {})
        url = text(reply.get("redirect_url"))
        return AppAccount(toolkit, "initiated", text(reply.get("connected_account_id")), url)

    async def _manage(self, session: ComposioSession, toolkit: str, more: dict[str, Any]) -> AppAccount:
        reply = await self._meta(session, MANAGE, {"toolkits": [toolkit], **more})
        results = members(reply.get("results"))
        found = replies.managed(toolkit, members(results.get(toolkit)))
        if found.status == "none":
            return AppAccount(toolkit, "failed", message=text(reply.get("message")))
        return found


def _at(session: ComposioSession, rest: str) -> str:
    return f"/api/{session.api}/tool_router/session{path(session.id)}{rest}"


def _query(query: ComposioQuery) -> dict[str, str]:
    asked = {"use_case": query.use_case[:MAX_USE_CASE]}
    if query.known_fields:
        asked["known_fields"] = query.known_fields[:MAX_KNOWN_FIELDS]
    return asked
