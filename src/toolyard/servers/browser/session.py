"""A browser session: the context of one thread of one owner, its pages, and which of them is active.

Collects events between calls (dialogs, popups, downloads, crashes) until the next answer reports them.
One call at a time holds a session.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from ...egress import ConnectionFailure, EgressProxy
from ...kit import ToolError
from ...kit.prompt_injection import is_suspect
from .page import Tab
from .results import DownloadedFile, FrameInfo, NoticeKind, PageInfo, PageNotice, PageView, address, one_line
from .settings import Settings
from .storage import BrowserOwner, DownloadFolder, StateVault, StorageState
from .texts import BrowserTexts

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Frame, Page

T = TypeVar("T")

MAX_NOTICES = 20
MAX_DIALOGS = 3
MAX_DOWNLOADS = 20
"""Downloads at a time; further ones are cancelled."""
AGAIN_SECONDS = 0.5
"""Seconds to wait for a download that was late before."""


class BrowserEvents:
    def __init__(self, texts: BrowserTexts) -> None:
        self._texts = texts
        self._notices: list[PageNotice] = []
        self._dialogs = 0
        self._downloaded: list[DownloadedFile] = []
        self._downloading: list[Download] = []
        self._late: set[Download] = set()
        self._download_came = asyncio.Event()

    def add(self, kind: NoticeKind, text: str) -> None:
        notice = PageNotice(kind, text)
        if notice not in self._notices and len(self._notices) < MAX_NOTICES:
            self._notices.append(notice)

    def dialog(self, text: str) -> None:
        self._dialogs += 1
        if self._dialogs <= MAX_DIALOGS:
            self.add("dialog", text)

    def download(self, download: "Download") -> bool:
        """Returns False if there are too many."""
        if len(self._downloading) >= MAX_DOWNLOADS:
            self.add("failed", self._texts.downloads_many.format(MAX_DOWNLOADS))
            return False
        self._downloading.append(download)
        self._download_came.set()
        return True

    async def download_begins(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._download_came.wait()
        return bool(self._downloading)

    def connection_failed(self, failure: ConnectionFailure) -> None:
        texts = self._texts
        text = {
            "refused": texts.refused,
            "unknown": texts.unknown,
            "unreachable": texts.unreachable,
            "too_much": texts.too_much,
        }[failure.kind]
        kind = "refused" if failure.kind == "refused" else "failed"
        self.add(kind, text.format(one_line(failure.host, 100), failure.port))

    def take(self) -> list[PageNotice]:
        if self._dialogs > MAX_DIALOGS:
            self.add("dialog", self._texts.dialogs_more.format(self._dialogs - MAX_DIALOGS))
        found, self._notices, self._dialogs = self._notices, [], 0
        return found

    def take_downloads(self) -> list[DownloadedFile]:
        found, self._downloaded = self._downloaded, []
        return found

    async def finish_downloads(
        self, downloads: DownloadFolder, owner: BrowserOwner, most: int, seconds: float
    ) -> None:
        """Waits for all new downloads together; for late ones only briefly."""
        waiting, self._downloading = self._downloading, []
        self._download_came.clear()
        await asyncio.gather(*(self._finish(one, downloads, owner, most, seconds) for one in waiting))

    async def _finish(
        self, download: "Download", downloads: DownloadFolder, owner: BrowserOwner, most: int, seconds: float
    ) -> None:
        try:
            async with asyncio.timeout(min(seconds, AGAIN_SECONDS) if download in self._late else seconds):
                await self._keep(download, downloads, owner, most)
            self._late.discard(download)
        except TimeoutError:
            self._downloading.append(download)
            self._late.add(download)
            self.add("note", self._texts.downloading.format(_download_name(download)))

    async def _keep(
        self, download: "Download", downloads: DownloadFolder, owner: BrowserOwner, most: int
    ) -> None:
        from playwright.async_api import Error

        try:
            came = await download.path()
            size = came.stat().st_size
            if size > most:
                self.add("failed", self._texts.download_too_big.format(_download_name(download), most))
            else:
                path = downloads.place(owner, download.suggested_filename)
                await download.save_as(path)
                uri = f"browser://downloads/{quote(path.name)}"
                self._downloaded.append(
                    DownloadedFile(path.name, uri, str(path), one_line(download.url), size)
                )
        except (Error, OSError):
            self.add("failed", self._texts.download_failed.format(_download_name(download)))
        with contextlib.suppress(Error):
            await download.delete()


def _download_name(download: "Download") -> str:
    return repr(one_line(download.suggested_filename, 100))


CLOSE_SECONDS = 5.0
MAX_FRAMES = 100
"""Maximum number of frames in a list."""


class PageStuckError(Exception):
    """A page did not answer in time; its script was stopped, or it was replaced."""


class BrowserSession:
    def __init__(
        self,
        owner: BrowserOwner,
        context: "BrowserContext",
        proxy: EgressProxy,
        memory: StorageState,
        settings: Settings,
        texts: BrowserTexts,
    ) -> None:
        self.owner = owner
        self.lock = asyncio.Lock()
        self.used_at = 0.0
        self.is_over = False
        self.context = context
        self.proxy = proxy
        self.events = BrowserEvents(texts)
        self.secrets: dict[str, str] = {}
        """Secrets that recipes typed, by the names of their variables; redacted from every answer."""
        self._memory = memory
        self._settings = settings
        self._texts = texts
        self._tabs: list[Tab] = []
        self._opened_count = 0
        self._ours = 0
        """Pages that this session is opening itself; they are not popups."""
        self._tab: Tab | None = None
        self._frame: Frame | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        context.on("page", self._on_page)
        context.on("close", self._on_close)

    async def tab(self) -> Tab:
        """Returns the active page; opens one if there is none."""
        if self._tab is None:
            self._ours += 1
            await self.context.new_page()  # _on_page adds its tab
            tab = self._tabs[-1]
            await tab.ready()
            return tab
        return self._tab

    @property
    def is_blank(self) -> bool:
        return self._tab is None

    @property
    def frame(self) -> "Frame":
        """The active frame, in which elements are found and scripts run."""
        assert self._tab is not None
        if self._frame is not None and self._frame.is_detached():
            self._frame = None
            self.events.add("frame", self._texts.frame_gone)
        return self._frame or self._tab.page.main_frame

    def enter(self, frame: "Frame | None") -> None:
        self._frame = frame

    def turn_to(self, tab: Tab) -> None:
        self._tab, self._frame = tab, None

    def tab_named(self, name: str) -> Tab | None:
        return next((tab for tab in self._tabs if tab.name == name), None)

    def frames(self) -> list[FrameInfo]:
        assert self._tab is not None
        active = self.frame
        return [
            FrameInfo(self.frame_name(frame), address(frame.url), frame == active)
            for frame in self._tab.page.frames[:MAX_FRAMES]
        ]

    def frame_name(self, frame: "Frame") -> str:
        assert self._tab is not None
        return _frame_name(self._tab, frame)

    def _on_page(self, page: "Page") -> None:
        ours = self._ours > 0
        self._ours -= ours
        if len(self._tabs) >= self._settings.max_pages and not ours:
            _ = any(other.take_announced_popup() for other in self._tabs)
            self.events.add("popup", self._texts.popups_closed.format(self._settings.max_pages))
            self._start(_close_page(page))
            return
        self._opened_count += 1
        tab = Tab(page, self._opened_count)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("crash", lambda _: self._lose(tab, crashed=True))
        page.on("close", lambda _: self._lose(tab, crashed=False))
        self._tabs.append(tab)
        if not ours and self._tab is not None:
            _ = any(other.take_announced_popup() for other in self._tabs)
            self.events.add("popup", self._texts.popup.format(tab.name, self._tab.name))
        self.turn_to(tab)

    def _lose(self, tab: Tab, crashed: bool) -> None:
        tab.lost()
        if tab not in self._tabs:
            return
        self._tabs.remove(tab)
        if crashed:
            self.events.add("crashed", self._texts.crashed)
            self._start(tab.close())
        if self._tab is tab:
            self._tab, self._frame = (self._tabs[-1] if self._tabs else None), None

    def _on_dialog(self, dialog: "Dialog") -> None:
        # Dismissing "Leave this page?" would prevent the navigation.
        accept = self._settings.dialogs == "accept" or dialog.type == "beforeunload"
        if dialog.type != "beforeunload":
            texts = self._texts.dialog_accepted if accept else self._texts.dialog_dismissed
            self.events.dialog(texts.format(dialog.type, repr(one_line(dialog.message, 200))))
        self._start(_answer(dialog, accept))

    def _on_download(self, download: "Download") -> None:
        if not self.events.download(download):
            self._start(_drop(download))

    def _on_close(self, _: "BrowserContext") -> None:
        self.is_over = True
        for tab in [*self._tabs]:
            self._lose(tab, crashed=False)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def within(self, tab: Tab, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work; if it takes too long, unblocks the page and raises PageStuckError."""
        doing = asyncio.create_task(work)
        losing = asyncio.create_task(tab.gone.wait())
        try:
            await asyncio.wait({doing, losing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if doing.done() and not (tab.gone.is_set() and doing.exception()):
                return doing.result()
        finally:
            for task in (doing, losing):
                task.cancel()
            await asyncio.gather(doing, losing, return_exceptions=True)
        if tab.gone.is_set():
            raise ToolError(self._texts.gone if self.is_over else self._texts.crashed)
        await self._unblock(tab)
        raise PageStuckError()

    async def _unblock(self, tab: Tab) -> None:
        if await tab.stop_script():
            self.events.add("stopped", self._texts.stopped)
        else:
            self.events.add("stopped", self._texts.replaced)
            await tab.close()

    async def settle(self, tab: Tab) -> bool:
        """Waits for the effects of an action, also in a page that it opened; returns whether it loaded."""
        arrived = await self._settled(tab)
        if tab.take_navigation_aborted():
            await self.events.download_begins(self._settings.settle)
        opened = self._tab
        if opened is not None and opened is not tab:
            await opened.begun(self._settings.settle)
            await self._settled(opened)
        return arrived

    async def _settled(self, tab: Tab) -> bool:
        arrived = await tab.settle(self._settings.timeout, self._settings.settle)
        if not arrived:
            self.events.add("loading", self._texts.loading.format(self._settings.timeout))
        return arrived

    def add_secrets(self, secrets: Mapping[str, str]) -> None:
        self.secrets |= secrets

    def touch(self) -> None:
        self.used_at = time.monotonic()

    async def view(
        self, kind: type[PageView] = PageView, start: int = 0, **more: Any
    ) -> "tuple[PageView, str]":
        """Returns the active page, and a line on what is left out."""
        tab, frame = await self.tab(), self.frame
        settings, texts = self._settings, self._texts
        lines, title, left_out, cut = [], "", "", False
        try:
            drawing = tab.outliner.draw(frame, start, settings.snapshot_chars)
            outline = await self.within(tab, settings.action_timeout, drawing)
            lines, title, cut = outline.lines, outline.title, outline.is_cut
            if cut:
                left_out = texts.lines_left.format(len(lines), start, start + len(lines))
                left_out += " " + texts.elements_left.format(outline.unseen, outline.elements)
        except PageStuckError:
            self.events.add("loading", texts.unreadable.format(settings.action_timeout))
            tab = await self.tab()
            frame = self.frame
        snapshot = "\n".join(lines)
        if is_suspect(snapshot):
            self.events.add("suspect", texts.suspect)
        for failure in self.proxy.take_failures():
            self.events.connection_failed(failure)
        found = kind(
            url=address(tab.page.url),
            title=one_line(title),
            frame=_frame_name(tab, frame),
            snapshot=snapshot,
            truncated=cut,
            pages=[PageInfo(one.name, address(one.page.url), one is tab) for one in self._tabs],
            notices=self.events.take(),
            downloads=self.events.take_downloads(),
            **more,
        )
        return found, left_out

    async def finish_downloads(self, downloads: DownloadFolder) -> None:
        """Saves finished downloads; slow ones are left to a later call."""
        await self.events.finish_downloads(
            downloads, self.owner, self._settings.download_bytes, self._settings.timeout
        )

    async def save_cookies(self, vault: StateVault) -> None:
        """Saves the cookies if they changed. Cheap enough for every call."""
        async with asyncio.timeout(CLOSE_SECONDS):
            cookies: list[Any] = list(await self.context.cookies())
        if cookies != self._memory["cookies"]:
            self._store(vault, {"cookies": cookies, "origins": self._memory["origins"]})

    def _store(self, vault: StateVault, memory: StorageState) -> None:
        vault.save(self.owner, memory, self._memory)
        self._memory = memory

    async def close(self, vault: StateVault) -> None:
        """Saves the storage state and closes the context."""
        from playwright.async_api import Error

        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                state: Any = await self.context.storage_state()
                self._store(vault, {"cookies": state["cookies"], "origins": state["origins"]})
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.context.close()
        self.is_over = True
        for tab in self._tabs:
            tab.lost()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.proxy.close()


def _frame_name(tab: Tab, frame: "Frame") -> str:
    number = tab.outliner.number_of(frame)
    return (one_line(frame.name, 60) or f"f{number}") if number else "main"


async def _close_page(page: "Page") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await page.close()


async def _drop(download: "Download") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await download.cancel()
        await download.delete()


async def _answer(dialog: "Dialog", accept: bool) -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):  # the page may be closed
        await (dialog.accept() if accept else dialog.dismiss())
