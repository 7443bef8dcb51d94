"""A browser session: the context of one thread of one owner, its pages, and which of them is active.

Collects what happens without a call (dialogs, popups, downloads, crashes) until the next answer reports it.
One call at a time holds a session.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from ...kit import ToolError
from ...kit.prompt_injection import is_suspect
from .page import Tab
from .proxy import ConnectionFailure, EgressProxy
from .results import DownloadedFile as Told
from .results import FrameInfo, NoticeKind, PageInfo, PageNotice, PageView, address, one_line
from .settings import Settings
from .storage import BrowserOwner, DownloadFolder, StateVault, StorageState, merged
from .texts import BrowserTexts

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Frame, Page


MAX_NOTICES = 20
MAX_DIALOGS = 3
MAX_DOWNLOADS = 20
"""At a time; what a page would bring beyond is not kept."""
AGAIN_SECONDS = 0.5
"""For a download that was waited for before."""


class BrowserEvents:
    def __init__(self, said: BrowserTexts) -> None:
        self._said = said
        self._notices: list[PageNotice] = []
        self._dialogs = 0
        self._told: list[Told] = []
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
        """False when there are too many already."""
        if len(self._downloading) >= MAX_DOWNLOADS:
            self.add("failed", self._said.downloads_many.format(MAX_DOWNLOADS))
            return False
        self._downloading.append(download)
        self._download_came.set()
        return True

    async def download_begins(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._download_came.wait()
        return bool(self._downloading)

    def trouble(self, trouble: ConnectionFailure) -> None:
        said = self._said
        text = {
            "refused": said.refused,
            "unknown": said.unknown,
            "unreachable": said.unreachable,
            "too_much": said.too_much,
        }[trouble.kind]
        kind = "refused" if trouble.kind == "refused" else "failed"
        self.add(kind, text.format(one_line(trouble.host, 100), trouble.port))

    def take(self) -> list[PageNotice]:
        if self._dialogs > MAX_DIALOGS:
            self.add("dialog", self._said.dialogs_more.format(self._dialogs - MAX_DIALOGS))
        found, self._notices, self._dialogs = self._notices, [], 0
        return found

    def take_downloads(self) -> list[Told]:
        found, self._told = self._told, []
        return found

    async def finish_downloads(
        self, shelf: DownloadFolder, owner: BrowserOwner, most: int, seconds: float
    ) -> None:
        """Wait that long for new ones, all together; those that took longer are only asked again."""
        waiting, self._downloading = self._downloading, []
        self._download_came.clear()
        await asyncio.gather(*(self._finish(one, shelf, owner, most, seconds) for one in waiting))

    async def _finish(
        self, download: "Download", shelf: DownloadFolder, owner: BrowserOwner, most: int, seconds: float
    ) -> None:
        try:
            async with asyncio.timeout(min(seconds, AGAIN_SECONDS) if download in self._late else seconds):
                await self._keep(download, shelf, owner, most)
            self._late.discard(download)
        except TimeoutError:
            self._downloading.append(download)
            self._late.add(download)
            self.add("note", self._said.downloading.format(_download_name(download)))

    async def _keep(
        self, download: "Download", shelf: DownloadFolder, owner: BrowserOwner, most: int
    ) -> None:
        from playwright.async_api import Error

        try:
            came = await download.path()
            size = came.stat().st_size
            if size > most:
                self.add("failed", self._said.download_too_big.format(_download_name(download), most))
            else:
                path = shelf.place(owner, download.suggested_filename)
                await download.save_as(path)
                uri = f"browser://downloads/{quote(path.name)}"
                self._told.append(Told(path.name, uri, str(path), one_line(download.url), size))
        except (Error, OSError):
            self.add("failed", self._said.download_failed.format(_download_name(download)))
        with contextlib.suppress(Error):
            await download.delete()


def _download_name(download: "Download") -> str:
    return repr(one_line(download.suggested_filename, 100))


T = TypeVar("T")
CLOSE_SECONDS = 5.0
MAX_FRAMES = 100
"""That are listed."""


class PageStuckError(Exception):
    """A page that did not answer in time; it does again, or there is another one."""


class BrowserSession:
    def __init__(
        self,
        owner: BrowserOwner,
        context: "BrowserContext",
        door: EgressProxy,
        memory: StorageState,
        settings: Settings,
        said: BrowserTexts,
    ) -> None:
        self.owner = owner
        self.lock = asyncio.Lock()
        self.used_at = 0.0
        self.is_over = False
        self.context = context
        self.door = door
        self.happenings = BrowserEvents(said)
        self.secrets: dict[str, str] = {}
        """What recipes typed here, by the names of their variables: kept out of every answer."""
        self._memory = memory
        self._settings = settings
        self._said = said
        self._tabs: list[Tab] = []
        self._opened = 0
        self._ours = 0
        """Pages that we are opening ourselves: the next to appear is no popup."""
        self._tab: Tab | None = None
        self._frame: Frame | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        context.on("page", self._on_page)
        context.on("close", self._on_close)

    # The pages

    async def tab(self) -> Tab:
        """The active page; a new one where there is none."""
        if self._tab is None:
            self._ours += 1
            await self.context.new_page()  # _on_page makes a tab of it
            tab = self._tabs[-1]
            await tab.ready()
            return tab
        return self._tab

    @property
    def is_blank(self) -> bool:
        return self._tab is None

    @property
    def frame(self) -> "Frame":
        """The active one: where elements are looked for and scripts run."""
        assert self._tab is not None
        if self._frame is not None and self._frame.is_detached():
            self._frame = None
            self.happenings.add("frame", self._said.frame_gone)
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

    # What happens by itself

    def _on_page(self, page: "Page") -> None:
        ours = self._ours > 0
        self._ours -= ours
        if len(self._tabs) >= self._settings.max_pages and not ours:
            _ = any(other.has_opened() for other in self._tabs)
            self.happenings.add("popup", self._said.popups_closed.format(self._settings.max_pages))
            self._start(_closed(page))
            return
        self._opened += 1
        tab = Tab(page, self._opened)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("crash", lambda _: self._lose(tab, crashed=True))
        page.on("close", lambda _: self._lose(tab, crashed=False))
        self._tabs.append(tab)
        if not ours and self._tab is not None:
            _ = any(other.has_opened() for other in self._tabs)
            self.happenings.add("popup", self._said.popup.format(tab.name, self._tab.name))
        self.turn_to(tab)

    def _lose(self, tab: Tab, crashed: bool) -> None:
        tab.lost()
        if tab not in self._tabs:
            return
        self._tabs.remove(tab)
        if crashed:
            self.happenings.add("crashed", self._said.crashed)
            self._start(tab.close())
        if self._tab is tab:
            self._tab, self._frame = (self._tabs[-1] if self._tabs else None), None

    def _on_dialog(self, dialog: "Dialog") -> None:
        # "Leave this page?": to stay would keep us from where we were sent.
        accept = self._settings.dialogs == "accept" or dialog.type == "beforeunload"
        if dialog.type != "beforeunload":
            said = self._said.dialog_accepted if accept else self._said.dialog_dismissed
            self.happenings.dialog(said.format(dialog.type, repr(one_line(dialog.message, 200))))
        self._start(_answered(dialog, accept))

    def _on_download(self, download: "Download") -> None:
        if not self.happenings.download(download):
            self._start(_dropped(download))

    def _on_close(self, _: "BrowserContext") -> None:
        self.is_over = True
        for tab in [*self._tabs]:
            self._lose(tab, crashed=False)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Doing something with a page that may be hostile

    async def within(self, tab: Tab, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Do it, unless the page is lost or takes longer: then it is made to answer again (Stuck)."""
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
            raise ToolError(self._said.gone if self.is_over else self._said.crashed)
        await self._free(tab)
        raise PageStuckError()

    async def _free(self, tab: Tab) -> None:
        if await tab.stop_script():
            self.happenings.add("stopped", self._said.stopped)
        else:
            self.happenings.add("stopped", self._said.replaced)
            await tab.close()

    async def settle(self, tab: Tab) -> bool:
        """Wait for what a deed set off in a page, and in one that it opened; whether the page is there."""
        arrived = await self._settled(tab)
        if tab.was_left:
            tab.was_left = False
            await self.happenings.download_begins(self._settings.settle)
        opened = self._tab
        if opened is not None and opened is not tab:
            await opened.begun(self._settings.settle)
            await self._settled(opened)
        return arrived

    async def _settled(self, tab: Tab) -> bool:
        arrived = await tab.settle(self._settings.timeout, self._settings.settle)
        if not arrived:
            self.happenings.add("loading", self._said.loading.format(self._settings.timeout))
        return arrived

    async def view(
        self, kind: type[PageView] = PageView, start: int = 0, **more: Any
    ) -> "tuple[PageView, str]":
        """The active page as it is now, and a line on what is left out."""
        tab, frame = await self.tab(), self.frame
        settings, said = self._settings, self._said
        lines, title, left_out, cut = [], "", "", False
        try:
            drawing = tab.outliner.draw(frame, start, settings.snapshot_chars)
            outline = await self.within(tab, settings.action_timeout, drawing)
            lines, title, cut = outline.lines, outline.title, outline.is_cut
            if cut:
                left_out = said.lines_left.format(len(lines), start, start + len(lines))
                left_out += " " + said.elements_left.format(outline.unseen, outline.elements)
        except PageStuckError:
            self.happenings.add("loading", said.unreadable.format(settings.action_timeout))
            tab = await self.tab()
            frame = self.frame
        snapshot = "\n".join(lines)
        if is_suspect(snapshot):
            self.happenings.add("suspect", said.suspect)
        for trouble in self.door.take_troubles():
            self.happenings.trouble(trouble)
        found = kind(
            url=address(tab.page.url),
            title=one_line(title),
            frame=_frame_name(tab, frame),
            snapshot=snapshot,
            truncated=cut,
            pages=[PageInfo(one.name, address(one.page.url), one is tab) for one in self._tabs],
            notices=self.happenings.take(),
            downloads=self.happenings.take_downloads(),
            **more,
        )
        return found, left_out

    async def finish_downloads(self, shelf: DownloadFolder) -> None:
        """Put what came on the shelf; what takes longer than a page stays for a later call."""
        await self.happenings.finish_downloads(
            shelf, self.owner, self._settings.download_bytes, self._settings.timeout
        )

    # Remembering

    async def remember(self, vault: StateVault) -> None:
        """Keep the cookies if they changed. Cheap enough for every call."""
        async with asyncio.timeout(CLOSE_SECONDS):
            cookies: list[Any] = list(await self.context.cookies())
        if cookies != self._memory["cookies"]:
            self._store(vault, {"cookies": cookies, "origins": self._memory["origins"]})

    def _store(self, vault: StateVault, memory: StorageState) -> None:
        vault.save(self.owner, merged(vault.load(self.owner), memory, self._memory))
        self._memory = memory

    async def close(self, vault: StateVault) -> None:
        """Remember everything, and end."""
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
        await self.door.close()


def _frame_name(tab: Tab, frame: "Frame") -> str:
    number = tab.outliner.number_of(frame)
    return (one_line(frame.name, 60) or f"f{number}") if number else "main"


async def _closed(page: "Page") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await page.close()


async def _dropped(download: "Download") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await download.cancel()
        await download.delete()


async def _answered(dialog: "Dialog", accept: bool) -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):  # the page may have gone with it
        await (dialog.accept() if accept else dialog.dismiss())
