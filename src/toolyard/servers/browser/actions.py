"""What tools and recipes do to a page: open it, find elements, click, fill, choose, run scripts, capture it.

Turns Playwright's failures into errors that say what to do. Does not decide which page is active.
"""

import json
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from ...kit import ToolError
from .page import Outliner, Tab
from .proxy import UnfitAddressError, web_address
from .results import one_line
from .session import BrowserSession, PageStuckError
from .settings import Settings
from .texts import BrowserTexts

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Error, Frame, Locator, Page, Response


WAIT_SECONDS = 2.0
"""For something to fit at all: what is on its way is waited for, what is not there is not."""


class Target(Struct, frozen=True, kw_only=True):
    """The first that is said counts: ref, then text (with a role if there is one), label, role, selector."""

    ref: str = ""
    text: str = ""
    label: str = ""
    role: str = ""
    selector: str = ""

    @property
    def shown(self) -> str:
        names = [name for name in self.__struct_fields__ if getattr(self, name)]
        return ", ".join(f"{name}={one_line(getattr(self, name), 100)!r}" for name in names)


class FoundElement(Struct):
    element: "ElementHandle | Locator"
    fitting: int
    """How many there were to choose from."""


async def find(target: Target, outliner: Outliner, frame: "Frame", said: BrowserTexts) -> FoundElement:
    if target.ref:
        return FoundElement(await _referred(target.ref, outliner, frame, said), 1)
    from playwright.async_api import Error

    ways = _locators(target, frame)
    any_way = ways[0] if len(ways) == 1 else ways[0].or_(ways[1])
    try:
        await any_way.first.wait_for(state="attached", timeout=WAIT_SECONDS * 1000)
    except Error as error:
        if "Timeout" in error.message:
            raise ToolError(said.not_found.format(target.shown)) from None
        raise ToolError(said.bad_selector.format(target.shown, one_line(error.message, 200))) from None
    return await _chosen(ways)


async def _chosen(ways: "list[Locator]") -> FoundElement:
    """What can be seen comes first, in whichever way it is found."""
    for locator in ways:
        visible = locator.filter(visible=True)
        if count := await visible.count():
            return FoundElement(visible.first, count)
    for locator in ways[:-1]:
        if await locator.count():
            return FoundElement(locator.first, 1)
    return FoundElement(ways[-1].first, 1)


async def _referred(ref: str, outliner: Outliner, frame: "Frame", said: BrowserTexts) -> "ElementHandle":
    try:
        element = await outliner.element(frame.page.frames, ref.strip().removeprefix("ref="))
    except ValueError:
        raise ToolError(said.bad_ref.format(ref[:100])) from None
    if element is None:
        raise ToolError(said.stale_ref.format(ref))
    return element


def _locators(target: Target, frame: "Frame") -> "list[Locator]":
    """To look for it, the narrower ones first."""
    if target.text and target.role:
        # Playwright's list of roles is for type checkers; any text is one.
        return [frame.get_by_role(target.role, name=target.text)]  # pyright: ignore[reportArgumentType]
    if target.text:
        exact = frame.get_by_text(target.text, exact=True)
        return [
            exact.or_(frame.get_by_role("button", name=target.text, exact=True)),
            frame.get_by_text(target.text),
        ]
    if target.label:
        label = frame.get_by_label(target.label)
        return [
            label.or_(frame.get_by_placeholder(target.label)),
            frame.locator(f"[name={_quoted(target.label)}]"),
        ]
    if target.role:
        return [frame.get_by_role(target.role)]  # pyright: ignore[reportArgumentType] (as above)
    return [frame.locator(target.selector)]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


T = TypeVar("T")
VALUE = Path(__file__).with_name("value.js").read_text("utf-8")
OPTIONS = """el => el.tagName === "SELECT"
  ? [...el.options].slice(0, 100).flatMap((option) => [option.value, option.label.trim()]) : null"""
GRACE_SECONDS = 2.0
"""Playwright's own limits come first: they know why."""


class PageActions:
    def __init__(self, settings: Settings, said: BrowserTexts) -> None:
        self._settings = settings
        self._said = said

    def address(self, url: str) -> str:
        said = self._said
        if not url.strip():
            raise ToolError(said.no_url)
        try:
            return web_address(url)
        except UnfitAddressError as unfit:
            text = said.bad_scheme.format(unfit.scheme) if unfit.scheme else said.bad_url.format(url[:200])
            raise ToolError(text) from None

    async def go(self, visit: BrowserSession, address: str) -> int | None:
        """The status of the answer; None where there is none."""
        from playwright.async_api import Error

        tab = await visit.tab()
        visit.enter(None)
        visit.door.troubles.clear()
        try:
            response = await self._gone(visit, tab, address)
        except PageStuckError:
            response = None
        except Error as error:
            if not await self._is_download(visit, error):
                raise ToolError(self._not_opened(visit, address, error)) from None
            return None
        if await visit.settle(tab) and not tab.gone.is_set():
            await tab.loaded("load", self._settings.settle)
        return response.status if response is not None else None

    async def _gone(self, visit: BrowserSession, tab: Tab, address: str) -> "Response | None":
        from playwright.async_api import Error

        seconds = self._settings.timeout
        for last in (False, True):
            going = tab.page.goto(address, wait_until="commit", timeout=seconds * 1000)
            try:
                return await visit.within(tab, seconds + GRACE_SECONDS, going)
            except Error as error:
                if "interrupted by another navigation" not in error.message:
                    raise
                # The error page of an earlier address came late; or this page sends us on by itself.
                if last or "chrome-error:" not in error.message:
                    return None
        return None

    async def _is_download(self, visit: BrowserSession, error: "Error") -> bool:
        begun = "Download is starting" in error.message or "ERR_ABORTED" in error.message
        return begun and await visit.happenings.download_begins(self._settings.settle)

    def _not_opened(self, visit: BrowserSession, address: str, error: "Error") -> str:
        said = self._said
        for trouble in visit.door.take_troubles():
            visit.happenings.trouble(trouble)
        notices = [notice.text for notice in visit.happenings.take()]
        if "ERR_TOO_MANY_REDIRECTS" in error.message:
            reason = said.too_many_redirects
        elif "Timeout" in error.message:
            reason = said.unreadable.format(self._settings.timeout)
        else:
            reason = "; ".join(notices) or _first_line(error).partition(" at ")[0]
        return said.not_opened.format(one_line(address), reason)

    async def find(self, visit: BrowserSession, target: Target, choice: str) -> FoundElement:
        """`choice` says how else an element can be named."""
        if visit.is_blank:
            raise ToolError(self._said.no_page)
        if not target.shown:
            raise ToolError(self._said.no_target.format(choice))
        tab = await visit.tab()
        looking = find(target, tab.outliner, visit.frame, self._said)
        try:
            found = await visit.within(tab, self._settings.action_timeout + GRACE_SECONDS, looking)
        except PageStuckError:
            raise ToolError(self._said.unreadable.format(self._settings.action_timeout)) from None
        if found.fitting > 1:
            visit.happenings.add("note", self._said.many.format(found.fitting))
        return found

    async def act(self, visit: BrowserSession, what: str, deed: Coroutine[Any, Any, T]) -> None:
        """Do it, and wait for what comes of it."""
        from playwright.async_api import Error

        tab = await visit.tab()
        seconds = self._settings.action_timeout
        try:
            await visit.within(tab, seconds + GRACE_SECONDS, deed)
        except PageStuckError:
            return  # done, but the page was busy with it: a notice says so
        except Error as error:
            raise ToolError(self._said.not_ready.format(what, seconds, _why(error))) from None
        await visit.settle(tab)

    async def choose(self, visit: BrowserSession, found: FoundElement, what: str, value: str) -> None:
        from playwright.async_api import Error

        tab = await visit.tab()
        try:
            said = await visit.within(tab, self._settings.action_timeout, found.element.evaluate(OPTIONS))
            options = msgspec.convert(said, list[str] | None)
        except (PageStuckError, Error, msgspec.ValidationError):
            options = None
        if options is not None and value not in options and len(options) < 200:
            names = ", ".join(repr(one_line(name, 60)) for name in options[1::2][:20])
            raise ToolError(self._said.no_option.format(value, names))
        await self.act(visit, what, found.element.select_option(value, timeout=self._milliseconds))

    async def evaluate(self, visit: BrowserSession, script: str) -> tuple[Any, bool]:
        """What a script gives, as plain data, and whether that was cut."""
        from playwright.async_api import Error

        tab = await visit.tab()
        try:
            running = self._run(tab, visit, script)
            report = await visit.within(tab, self._settings.action_timeout, running)
        except PageStuckError:
            raise ToolError(self._said.script_endless.format(self._settings.action_timeout)) from None
        except Error as error:
            raise ToolError(self._said.script_failed.format(_first_line(error))) from None
        try:
            # A page can change what scripts are made of, JSON.stringify for one. Escapes make texts longer.
            return json.loads(report["json"][: self._settings.content_chars * 8]), bool(report["cut"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ToolError(self._said.script_failed.format(self._said.not_json)) from None

    async def _run(self, tab: Tab, visit: BrowserSession, script: str) -> Any:
        from playwright.async_api import Error

        frame = visit.frame
        try:
            handle = await frame.evaluate_handle(script)
        except Error as error:
            # Statements with a `return` are the body of a function.
            if "SyntaxError" not in error.message:
                raise
            handle = await frame.evaluate_handle(f"async () => {{ {script}\n }}")
        try:
            return await handle.evaluate(VALUE, self._settings.content_chars)
        finally:
            if not tab.gone.is_set():
                await handle.dispose()

    @property
    def _milliseconds(self) -> float:
        return self._settings.action_timeout * 1000


def _first_line(error: "Error") -> str:
    text = error.message.strip().partition("\n")[0]
    name, _, rest = text.partition(": ")
    return one_line(rest if "." in name and " " not in name else text)


def _why(error: "Error") -> str:
    """The line of Playwright's log that says what was in the way."""
    lines = [line.strip(" -") for line in error.message.splitlines()]
    clues = (
        "intercepts pointer",
        "not visible",
        "not enabled",
        "not editable",
        "outside of the viewport",
        "not attached",
    )
    clue = next((line for line in reversed(lines) if any(part in line for part in clues)), "")
    return one_line(clue) or _first_line(error)


MAX_HEIGHT = 8000
SIZE = "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


class Screenshot(Struct, frozen=True):
    data: bytes
    mime_type: str
    width: int
    height: int
    is_cut: bool
    """Whether the page goes on below."""


class Screenshots:
    def __init__(self, settings: Settings, said: BrowserTexts) -> None:
        self._settings = settings
        self._said = said

    async def of_element(self, element: "ElementHandle | Locator") -> Screenshot:
        return await self._taken(element.screenshot, False)

    async def of_page(self, page: "Page", whole: bool) -> Screenshot:
        width, height = _sizes(await page.evaluate(SIZE))
        if not whole:
            return await self._taken(page.screenshot, height > self._settings.height)
        if height <= MAX_HEIGHT:
            return await self._taken(page.screenshot, False, full_page=True)
        wide = min(width, self._settings.width * 4)
        part = {"x": 0, "y": 0, "width": wide, "height": MAX_HEIGHT}
        return await self._taken(page.screenshot, True, full_page=True, clip=part)

    async def _taken(self, take: Callable[..., Any], is_cut: bool, **options: Any) -> Screenshot:
        """As PNG, or as a JPEG where that would be too large."""
        options["timeout"] = self._settings.action_timeout * 1000
        exact: bytes = await take(type="png", **options)
        width, height = struct.unpack(">II", exact[16:24])
        most = self._settings.image_bytes
        if len(exact) <= most:
            return Screenshot(exact, "image/png", width, height, is_cut)
        for quality in (75, 40, 10):
            packed: bytes = await take(type="jpeg", quality=quality, **options)
            if len(packed) <= most:
                return Screenshot(packed, "image/jpeg", width, height, is_cut)
        raise ToolError(self._said.too_big.format(most))


def _sizes(said: Any) -> tuple[float, float]:
    """What a page says of itself; nothing where it says what is no size."""
    try:
        return msgspec.convert(said, tuple[float, float])
    except msgspec.ValidationError:
        return 0, 0
