"""Accounts of a user in Composio's apps: how it stands with them, connecting one, waiting for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...upstream.composio import Account, Api, ApiRefused, Session
from ..remote import Connection

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
LONGEST_WAIT = 600.0
WRONG = (400, 403, 404, 422)
"""Its words are about the app that was named."""

Statuses = Callable[[], Awaitable[Sequence[Connection]]]


class Accounts:
    def __init__(self, server: str, api: Api, callback_url: str) -> None:
        self._server = server
        self._api = api
        self._callback_url = callback_url

    async def statuses(self, session: Session | None, user: str, toolkits: Sequence[str]) -> list[Connection]:
        """One for each app, in order; without any, those that are connected."""
        wanted = list(dict.fromkeys(toolkits))
        try:
            found = {one.toolkit.lower(): one for one in await self._api.accounts(session, user, wanted)}
        except ApiRefused as error:
            if error.status not in WRONG or error.expired:
                raise
            if len(wanted) <= 1:
                return [self._failed(slug, error) for slug in wanted]
            # One of them is unknown, and it does not say which.
            return [(await self.statuses(session, user, [slug]))[0] for slug in wanted]
        if not wanted:
            return [self._shown(one) for one in found.values() if not one.needs_none]
        return [self._shown(found.get(slug.lower()) or Account(slug, "none")) for slug in wanted]

    async def link(
        self,
        session: Session | None,
        user: str,
        toolkit: str,
        alias: str,
        fields: dict[str, Any] | None,
    ) -> Connection:
        """What is connected stays as it is, unless another account or other credentials are given."""
        (known,) = await self.statuses(session, user, [toolkit])
        if known.status == "failed" and known.account is None:
            return known
        if known.is_active and not alias and not fields:
            return known
        try:
            made = await self._api.link(session, user, toolkit, self._callback_url, alias, fields)
        except ApiRefused as error:
            if error.status not in (200, *WRONG) or error.expired:
                raise
            return self._failed(toolkit, error)
        return self._shown(made)

    async def wait(self, statuses: Statuses, seconds: float, every: bool) -> Sequence[Connection]:
        """Look again and again, less and less often, until it is so or the time is over."""
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

    def _shown(self, account: Account) -> Connection:
        return Connection(
            server=self._server,
            toolkit=account.toolkit,
            status=account.status,
            link=account.link or None,
            account=account.id or None,
            message=account.message,
            required=account.required,
        )

    def _failed(self, toolkit: str, error: ApiRefused) -> Connection:
        return Connection(self._server, toolkit, "failed", message=error.words)
