"""What happened in a context since the last answer, until the next one tells it: notices and downloads."""

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import quote

from .door import Trouble
from .downloads import Shelf
from .results import Download as Told
from .results import Kind, Notice, one_line
from .texts import Texts
from .vault import Owner

if TYPE_CHECKING:
    from playwright.async_api import Download

MAX_NOTICES = 20
MAX_DIALOGS = 3
MAX_DOWNLOADS = 20
"""At a time; what a page would bring beyond is not kept."""
AGAIN_SECONDS = 0.5
"""For a download that was waited for before."""


class Happenings:
    def __init__(self, said: Texts) -> None:
        self._said = said
        self._notices: list[Notice] = []
        self._dialogs = 0
        self._told: list[Told] = []
        self._downloading: list[Download] = []
        self._late: set[Download] = set()
        self._download_came = asyncio.Event()

    def add(self, kind: Kind, text: str) -> None:
        notice = Notice(kind, text)
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

    def trouble(self, trouble: Trouble) -> None:
        said = self._said
        text = {
            "refused": said.refused,
            "unknown": said.unknown,
            "unreachable": said.unreachable,
            "too_much": said.too_much,
        }[trouble.kind]
        kind = "refused" if trouble.kind == "refused" else "failed"
        self.add(kind, text.format(one_line(trouble.host, 100), trouble.port))

    def take(self) -> list[Notice]:
        if self._dialogs > MAX_DIALOGS:
            self.add("dialog", self._said.dialogs_more.format(self._dialogs - MAX_DIALOGS))
        found, self._notices, self._dialogs = self._notices, [], 0
        return found

    def take_downloads(self) -> list[Told]:
        found, self._told = self._told, []
        return found

    async def finish_downloads(self, shelf: Shelf, owner: Owner, most: int, seconds: float) -> None:
        """Wait that long for new ones, all together; those that took longer are only asked again."""
        waiting, self._downloading = self._downloading, []
        self._download_came.clear()
        await asyncio.gather(*(self._finish(one, shelf, owner, most, seconds) for one in waiting))

    async def _finish(
        self, download: "Download", shelf: Shelf, owner: Owner, most: int, seconds: float
    ) -> None:
        try:
            async with asyncio.timeout(min(seconds, AGAIN_SECONDS) if download in self._late else seconds):
                await self._keep(download, shelf, owner, most)
            self._late.discard(download)
        except TimeoutError:
            self._downloading.append(download)
            self._late.add(download)
            self.add("note", self._said.downloading.format(_name(download)))

    async def _keep(self, download: "Download", shelf: Shelf, owner: Owner, most: int) -> None:
        from playwright.async_api import Error

        try:
            came = await download.path()
            size = came.stat().st_size
            if size > most:
                self.add("failed", self._said.download_too_big.format(_name(download), most))
            else:
                path = shelf.place(owner, download.suggested_filename)
                await download.save_as(path)
                uri = f"browser://downloads/{quote(path.name)}"
                self._told.append(Told(path.name, uri, str(path), one_line(download.url), size))
        except (Error, OSError):
            self.add("failed", self._said.download_failed.format(_name(download)))
        with contextlib.suppress(Error):
            await download.delete()


def _name(download: "Download") -> str:
    return repr(one_line(download.suggested_filename, 100))
