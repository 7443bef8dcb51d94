"""One open page (`Tab`) and its outline.

Knows when a page is loading, stuck or gone, draws the outline with references across frames, and finds the
element of a reference. `outline.js` draws one document; its numbering stays out of reach of the page's own
scripts.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, ElementHandle, Frame, JSHandle, Page, Request


SCRIPT = Path(__file__).with_name("outline.js").read_text("utf-8")
ELEMENT = """(state, number) => {
  const element = state.elements.get(number)?.deref();
  return element?.isConnected ? element : null;
}"""
MAX_FRAMES = 30
MAX_INDENT = 41
FRAME_SECONDS = 3.0
_REFERENCE = re.compile(r"(?:f(\d+))?e(\d+)")


Number = Annotated[int, Meta(ge=0, le=2**50)]


class Report(Struct):
    """The script's report. Untrusted: a page can replace built-in functions that the script uses."""

    lines: str = ""
    frames: list[tuple[Number, Number, Number]] = []
    next: Number = 0
    total: Number = 0
    seen: Number = 0
    full: bool = True
    title: str = ""


class Outline(Struct):
    lines: list[str]
    title: str
    is_cut: bool
    elements: int
    """Elements in the document."""
    unseen: int
    """Elements that the outline does not show."""


class Outliner:
    """Draws the outline of one page. Never reuses a number, so that an old reference finds nothing new."""

    def __init__(self) -> None:
        self._held: dict[Frame, JSHandle] = {}
        self._numbers: dict[Frame, int] = {}
        self._silent: set[Frame] = set()
        """Frames that did not answer, until they navigate."""
        self._last_frame = 0
        self._next = 1

    def forget(self, frame: "Frame") -> None:
        """Drops the state of a frame with a new document."""
        self._held.pop(frame, None)
        self._silent.discard(frame)

    def number_of(self, frame: "Frame") -> int:
        """The number in `f1`; 0 is the page itself."""
        if frame.parent_frame is None:
            return 0
        if frame not in self._numbers:
            self._last_frame += 1
            self._numbers[frame] = self._last_frame
        return self._numbers[frame]

    async def draw(self, frame: "Frame", start: int, limit: int) -> Outline:
        """Draws at most `limit` characters, from line `start` on."""
        drawn, handle = await self._draw(frame, start, limit)
        lines = drawn.lines[:limit].split("\n") if drawn.lines else []
        left = limit - sum(len(line) + 1 for line in lines)
        inside = await self._inside(frame, handle) if drawn.frames else {}
        added = 0
        for row, number, indent in drawn.frames[:MAX_FRAMES]:
            child = inside.get(number)
            if child is None or left < 200:
                continue
            part = await self._child(child, left)
            pad = "  " * min(indent, MAX_INDENT)
            lines[row + 1 + added : row + 1 + added] = [pad + line for line in part]
            added += len(part)
            left -= sum(len(line) + len(pad) + 1 for line in part)
        unseen = max(0, drawn.total - drawn.seen) if drawn.full else 0
        return Outline(lines, drawn.title, drawn.full, drawn.total, unseen)

    async def element(self, frames: "list[Frame]", reference: str) -> "ElementHandle | None":
        """Returns the element of a reference; raises ValueError for malformed ones."""
        found = _REFERENCE.fullmatch(reference)
        if found is None:
            raise ValueError(reference)
        number = int(found[1] or 0)
        frame = next((frame for frame in frames if self.number_of(frame) == number), None)
        held = self._held.get(frame) if frame is not None else None
        if held is None:
            return None
        return (await held.evaluate_handle(ELEMENT, int(found[2]))).as_element()

    async def _child(self, frame: "Frame", limit: int) -> list[str]:
        from playwright.async_api import Error

        if frame in self._silent or not frame.url or frame.url.startswith("chrome-error:"):
            return []
        try:
            async with asyncio.timeout(FRAME_SECONDS):
                drawn = await self.draw(frame, 0, limit)
        except Error:  # it was closed
            return []
        except TimeoutError:  # the browser does not let us read its content
            self._silent.add(frame)
            return []
        return [*drawn.lines, *(["- …"] if drawn.is_cut else [])]

    async def _draw(self, frame: "Frame", start: int, limit: int) -> "tuple[Report, JSHandle]":
        from playwright.async_api import Error

        number = self.number_of(frame)
        options = {
            "start": start,
            "limit": limit,
            "next": self._next,
            "prefix": f"f{number}" if number else "",
        }
        held = self._held.get(frame)
        try:
            handle = await frame.evaluate_handle(SCRIPT, [held, options])
        except Error:
            if held is None:
                raise
            # The document has changed since the last outline.
            handle = await frame.evaluate_handle(SCRIPT, [None, options])
        report = _checked(await handle.evaluate("state => state.report"))
        self._next = max(self._next, report.next)
        self._held[frame] = handle
        if held is not None:
            with contextlib.suppress(Error):
                await held.dispose()
        return report, handle

    async def _inside(self, frame: "Frame", held: "JSHandle") -> "dict[int, Frame]":
        """The frames of a document by the numbers of their elements."""
        from playwright.async_api import Error

        found: dict[int, Frame] = {}
        for child in frame.child_frames[:MAX_FRAMES]:
            with contextlib.suppress(Error):
                element = await child.frame_element()
                number = await held.evaluate("(state, el) => state.numbers.get(el) ?? 0", element)
                if isinstance(number, int):
                    found[number] = child
        return found


def _checked(report: Any) -> Report:
    """Returns an empty report if the page tampered with it."""
    try:
        return msgspec.convert(report, Report, strict=False)
    except msgspec.ValidationError:
        return Report()


FETCHES = ("fetch", "xhr", "script", "stylesheet")
STOP_SECONDS = 2.0
CLOSE_SECONDS = 5.0


class Tab:
    def __init__(self, page: "Page", number: int) -> None:
        self.page = page
        self.name = f"page:{number}"
        self.gone = asyncio.Event()
        """Set when the page has crashed or was closed."""
        self.outliner = Outliner()
        self._navigating: set[Request] = set()
        self._fetching: set[Request] = set()
        self._navigation_aborted = False
        """A navigation was requested and aborted, as downloads do."""
        self._opening = 0
        """Popups that the page has announced and that have not appeared yet."""
        self._changed = asyncio.Event()
        self._cdp: asyncio.Task[CDPSession] = asyncio.create_task(self._attach())
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_done)
        page.on("requestfailed", self._on_done)
        page.on("framenavigated", self._on_navigated)
        page.on("framedetached", self.outliner.forget)

    async def _attach(self) -> "CDPSession":
        """Attaches early: a stuck page accepts no new session."""
        session = await self.page.context.new_cdp_session(self.page)
        session.on("Page.windowOpen", self._on_opening)
        await session.send("Page.enable")  # pyright: ignore[reportUnknownMemberType]
        return session

    async def ready(self) -> None:
        await asyncio.wait({self._cdp}, timeout=STOP_SECONDS)

    def _on_opening(self, _: object) -> None:
        self._opening += 1

    def take_announced_popup(self) -> bool:
        """Returns whether this page had announced a popup, and counts it as appeared."""
        announced = self._opening > 0
        self._opening -= announced
        self._changed.set()
        return announced

    def take_navigation_aborted(self) -> bool:
        aborted, self._navigation_aborted = self._navigation_aborted, False
        return aborted

    def _on_request(self, request: "Request") -> None:
        if request.is_navigation_request():
            if _is_whole_page(request):
                self._navigating.add(request)
        elif request.resource_type in FETCHES:
            self._fetching.add(request)

    def _on_done(self, request: "Request") -> None:
        if request in self._navigating and request.failure and "ABORTED" in request.failure:
            self._navigation_aborted = True
        self._navigating.discard(request)
        self._fetching.discard(request)
        self._changed.set()

    def _on_navigated(self, frame: "Frame") -> None:
        self.outliner.forget(frame)
        if frame == self.page.main_frame:
            self._fetching.clear()
            self._navigating.clear()
        self._changed.set()

    async def begun(self, seconds: float) -> None:
        """Waits until a popup has a URL; some never get one."""
        await self._until(lambda: self.page.url not in ("", "about:blank"), seconds)

    async def settle(self, page_seconds: float, quiet_seconds: float) -> bool:
        """Waits for a navigation and then for quiet. Returns False if the page has not loaded yet."""
        # The page reacts to a click in a later turn of its event loop.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.gone.wait()
        arrived = await self._until(lambda: not self._navigating, page_seconds)
        arrived = arrived and await self.loaded("domcontentloaded", page_seconds)
        await self._until(lambda: not self._opening, quiet_seconds)
        self._opening = 0
        await self._until(lambda: not self._fetching, quiet_seconds)
        return arrived or self.gone.is_set()

    async def loaded(self, state: Literal["load", "domcontentloaded"], seconds: float) -> bool:
        from playwright.async_api import Error

        try:
            # Playwright's limit is longer; ours also ends the wait for a stuck page.
            async with asyncio.timeout(seconds):
                await self.page.wait_for_load_state(state, timeout=seconds * 2000)
        except (Error, TimeoutError):
            return False
        return True

    async def _until(self, check: Callable[[], bool], seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not check() and not self.gone.is_set():
                    self._changed.clear()
                    await self._changed.wait()
        return check()

    async def stop_script(self) -> bool:
        """Stops the script that blocks the page; returns whether the page answers now."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(STOP_SECONDS):
                session = await asyncio.shield(self._cdp)
                await session.send("Runtime.terminateExecution")  # pyright: ignore[reportUnknownMemberType]
            async with asyncio.timeout(STOP_SECONDS):
                await self.page.evaluate("1")
        except (Error, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        from playwright.async_api import Error

        self._cdp.cancel()
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.page.close()
        self.lost()

    def lost(self) -> None:
        self.gone.set()
        self._changed.set()
        self._cdp.cancel()


def _is_whole_page(request: "Request") -> bool:
    """Navigations of frames are not waited for."""
    from playwright.async_api import Error

    try:
        return request.frame.parent_frame is None
    except Error:  # its page does not exist yet
        return True
