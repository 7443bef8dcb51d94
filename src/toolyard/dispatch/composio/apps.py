"""Composio's apps: searches them, reads the state of a user's accounts, connects one and waits for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...upstream.composio import (
    AppAccount,
    ComposioClient,
    ComposioRefusedError,
    ComposioSession,
    Toolkit,
)
from ...upstream.composio.rest import rank_by_words
from ..remote import AppConnection

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
LONGEST_WAIT = 600.0
APP_ERRORS = (400, 403, 404, 422)
"""Statuses whose message concerns the named app."""

Statuses = Callable[[], Awaitable[Sequence[AppConnection]]]


class AppAccounts:
    """The accounts of Composio's users with apps."""

    def __init__(self, server: str, api: ComposioClient, callback_url: str) -> None:
        self._server = server
        self._api = api
        self._callback_url = callback_url

    async def statuses(
        self, session: ComposioSession | None, user: str, toolkits: Sequence[str]
    ) -> list[AppConnection]:
        """Return one for each app, in order; without any, the connected ones."""
        wanted = list(dict.fromkeys(toolkits))
        try:
            found = {one.toolkit.lower(): one for one in await self._api.accounts(session, user, wanted)}
        except ComposioRefusedError as error:
            if error.status not in APP_ERRORS or error.expired:
                raise
            if len(wanted) <= 1:
                return [self._failed(slug, error) for slug in wanted]
            # One of them is unknown; the error does not say which.
            return [(await self.statuses(session, user, [slug]))[0] for slug in wanted]
        if not wanted:
            return [self._connection(one) for one in found.values() if not one.needs_none]
        return [self._connection(found.get(slug.lower()) or AppAccount(slug, "none")) for slug in wanted]

    async def link(
        self,
        session: ComposioSession | None,
        user: str,
        toolkit: str,
        alias: str,
        fields: dict[str, Any] | None,
    ) -> AppConnection:
        """Connect an app. An active connection is kept unless another account or credentials are given."""
        (known,) = await self.statuses(session, user, [toolkit])
        if known.status == "failed" and known.account is None:
            return known
        if known.is_active and not alias and not fields:
            return known
        try:
            made = await self._api.link(session, user, toolkit, self._callback_url, alias, fields)
        except ComposioRefusedError as error:
            if error.status not in (200, *APP_ERRORS) or error.expired:
                raise
            return self._failed(toolkit, error)
        return self._connection(made)

    async def wait(self, statuses: Statuses, seconds: float, every: bool) -> Sequence[AppConnection]:
        """Poll with growing pauses until all (or any) are active, or until the time limit."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(seconds, LONGEST_WAIT)
        pause = FIRST_PAUSE
        while True:
            found = await statuses()
            done = (all if every else any)(one.is_active for one in found)
            left = until - loop.time()
            if done or left <= 0:
                return found
            await asyncio.sleep(min(pause, left))
            pause = min(LONGEST_PAUSE, pause * 1.5)

    def _connection(self, account: AppAccount) -> AppConnection:
        return AppConnection(
            server=self._server,
            toolkit=account.toolkit,
            status=account.status,
            link=account.link or None,
            account=account.id or None,
            message=account.message,
            required=account.required,
        )

    def _failed(self, toolkit: str, error: ComposioRefusedError) -> AppConnection:
        return AppConnection(self._server, toolkit, "failed", message=error.detail)


ALL = 1000
FRESH_SECONDS = 600.0


class ToolkitSearch:
    """Searches the apps in `only`, or all apps if it is empty."""

    def __init__(self, api: ComposioClient, only: tuple[str, ...]) -> None:
        self._api = api
        self._only = frozenset(slug.lower() for slug in only)
        self._known: list[Toolkit] = []
        self._read_at: float | None = None

    def has(self, slug: str) -> bool:
        return not self._only or slug.lower() in self._only

    async def get(self, slug: str) -> Toolkit | None:
        return await self._api.toolkit(slug) if self.has(slug) else None

    async def search(self, text: str, category: str, limit: int) -> list[Toolkit]:
        """Use Composio's search, which needs exact words; if it finds nothing, rank all apps by words."""
        found = await self._api.toolkits(text, category, ALL if self._only else limit)
        found = [kit for kit in found if self.has(kit.slug)]
        if not found and text:
            known = [kit for kit in await self._all() if not category or category in kit.categories]
            found = rank_by_words(known, _text, text, limit)
        return found[:limit]

    async def _all(self) -> list[Toolkit]:
        if self._read_at is None or time.monotonic() - self._read_at > FRESH_SECONDS:
            found = await self._api.toolkits("", "", ALL)
            self._known = [kit for kit in found if self.has(kit.slug)]
            self._read_at = time.monotonic()
        return self._known


def _text(kit: Toolkit) -> str:
    return " ".join((kit.slug, kit.name, kit.description, *kit.tags, *kit.categories))
