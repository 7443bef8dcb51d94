"""All open browser sessions, one for each thread of an owner, and the Chromium process they share.

Starts the browser on first use, limits the number of sessions, closes idle ones and ends the browser with the
last.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ...chromium import CONNECTION_BYTES, Chromium, ChromiumError, GuardedContext
from ...egress import AddressRules
from ...kit import Context, ToolError
from .session import BrowserSession
from .settings import Settings
from .storage import BrowserOwner, DownloadFolder, StateVault, StorageState
from .texts import BrowserTexts

logger = logging.getLogger("toolyard.servers.browser")


class BrowserPool:
    def __init__(self, settings: Settings, rules: AddressRules, texts: BrowserTexts) -> None:
        self._settings = settings
        self._rules = rules
        self._texts = texts
        self._engine = Chromium(settings.chromium, settings.sandbox)
        self._vault = StateVault(settings.state_folder, settings.key)
        self.downloads = DownloadFolder(settings.downloads_folder)
        self._open: dict[tuple[BrowserOwner, str], BrowserSession] = {}
        self._opening = asyncio.Lock()
        self._used_at = 0.0
        self._lost: set[tuple[BrowserOwner, str]] = set()
        """Sessions that ended unexpectedly; their next call reports it."""
        self._sweeping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lease(self, ctx: Context) -> AsyncGenerator[BrowserSession]:
        """Lends the caller's session for one call."""
        session = await self._acquire((owner_of(ctx), ctx.caller.thread), ctx)
        try:
            yield session
        finally:
            self._touch(session)
            try:
                await self._after(session)
            finally:
                session.lock.release()

    async def close_one(self, ctx: Context) -> bool:
        session = self._open.pop((owner_of(ctx), ctx.caller.thread), None)
        if session is None:
            return False
        async with session.lock:
            await session.close(self._vault)
        return True

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        sessions, self._open = [*self._open.values()], {}
        try:
            await asyncio.gather(*(session.close(self._vault) for session in sessions))
        finally:
            await self._engine.close()
            self.downloads.close()

    async def _after(self, session: BrowserSession) -> None:
        from playwright.async_api import Error

        with contextlib.suppress(Error, TimeoutError):  # it has ended; the next call reports it
            if not session.is_over:
                await session.save_cookies(self._vault)

    async def _acquire(self, key: tuple[BrowserOwner, str], ctx: Context) -> BrowserSession:
        while True:
            session = await self._get_or_open(key, ctx)
            await session.lock.acquire()
            if not session.is_over:  # it may have ended while another call held it
                return session
            session.lock.release()

    async def _get_or_open(self, key: tuple[BrowserOwner, str], ctx: Context) -> BrowserSession:
        async with self._opening:
            session = self._open.get(key)
            if session is not None and session.is_over:
                self._lost.add(key)
                await self._drop(key)
                session = None
            if session is None:
                await self._make_room()
                if not self._engine.is_running:
                    await ctx.report_progress(0, message=self._texts.starting)
                session = self._open[key] = await self._open_session(key[0])
            if key in self._lost:
                self._lost.discard(key)
                session.events.add("restarted", self._texts.restarted)
            self._touch(session)
            if self._sweeping is None or self._sweeping.done():
                self._sweeping = asyncio.create_task(self._sweep())
            return session

    async def _open_session(self, owner: BrowserOwner) -> BrowserSession:
        memory = self._vault.load(owner)
        try:
            guarded = await self._context(memory)
        except ChromiumError as error:
            texts = self._texts
            text = texts.no_chromium if error.code == "missing" else texts.not_started.format(error.detail)
            raise ToolError(text) from None
        guarded.context.set_default_timeout(self._settings.action_timeout * 1000)
        return BrowserSession(owner, guarded.context, guarded.proxy, memory, self._settings, self._texts)

    async def _context(self, memory: StorageState) -> GuardedContext:
        settings = self._settings
        options: dict[str, Any] = {
            "max_bytes": max(CONNECTION_BYTES, settings.download_bytes * 2),
            "viewport": {"width": settings.width, "height": settings.height},
            "accept_downloads": True,
        }
        await self._engine.browser()
        from playwright.async_api import Error

        try:
            return await self._engine.context(self._rules, storage_state=memory, **options)
        except Error:
            logger.warning("the browser rejected the saved cookies; starting without them")
            return await self._engine.context(self._rules, **options)

    async def _make_room(self) -> None:
        for key in [key for key, session in self._open.items() if session.is_over]:
            self._lost.add(key)
            await self._drop(key)
        if len(self._open) < self._settings.max_contexts:
            return
        idle = [(session.used_at, key) for key, session in self._open.items() if not session.lock.locked()]
        if not idle:
            raise ToolError(self._texts.full.format(self._settings.max_contexts))
        await self._drop(min(idle)[1])

    def _touch(self, session: BrowserSession) -> None:
        session.touch()
        self._used_at = session.used_at

    async def _drop(self, key: tuple[BrowserOwner, str]) -> None:
        await self._open.pop(key).close(self._vault)

    async def _sweep(self) -> None:
        """Closes idle sessions until none is left."""
        while self._open or self._engine.is_running:
            oldest = min((session.used_at for session in self._open.values()), default=self._used_at)
            await asyncio.sleep(max(0.01, oldest + self._settings.idle - time.monotonic()))
            async with self._opening:
                await self._close_idle(time.monotonic() - self._settings.idle)

    async def _close_idle(self, since: float) -> None:
        for key, session in [*self._open.items()]:
            if session.used_at <= since and not session.lock.locked():
                await self._drop(key)
            elif session.lock.locked():
                session.touch()
        if not self._open and self._used_at <= since:
            await self._engine.close()


def owner_of(ctx: Context) -> BrowserOwner:
    return BrowserOwner(ctx.caller.owner, ctx.caller.agent)
