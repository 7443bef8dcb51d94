"""The actions of tools and recipes on a page: open, find elements, click, fill, choose, run scripts, capture.

Turns Playwright's failures into errors that say what to do. Does not decide which page is active.
"""

import json
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from ...egress import UnfitAddressError, web_address
from ...kit import ToolError
from .page import Outliner, Tab
from .results import one_line
from .session import BrowserSession, PageStuckError
from .settings import Settings
from .texts import BrowserTexts

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Error, Frame, Locator, Page, Response

T = TypeVar("T")

WAIT_SECONDS = 2.0
"""Seconds to wait for any matching element."""


class Target(Struct, frozen=True, kw_only=True):
    """Names an element. The first one given counts: ref, text (with role), label, role, selector."""

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
    matching: int
    """How many elements match."""


async def find(target: Target, outliner: Outliner, frame: "Frame", texts: BrowserTexts) -> FoundElement:
    if target.ref:
        return FoundElement(await _element_of(target.ref, outliner, frame, texts), 1)
    from playwright.async_api import Error

    locators = _locators(target, frame)
    either = locators[0] if len(locators) == 1 else locators[0].or_(locators[1])
    try:
        await either.first.wait_for(state="attached", timeout=WAIT_SECONDS * 1000)
    except Error as error:
        if "Timeout" in error.message:
            raise ToolError(texts.not_found.format(target.shown)) from None
        raise ToolError(texts.bad_selector.format(target.shown, one_line(error.message, 200))) from None
    return await _choose(locators)


async def _choose(locators: "list[Locator]") -> FoundElement:
    """Prefers visible elements, whichever locator finds them."""
    for locator in locators:
        visible = locator.filter(visible=True)
        if count := await visible.count():
            return FoundElement(visible.first, count)
    for locator in locators[:-1]:
        if await locator.count():
            return FoundElement(locator.first, 1)
    return FoundElement(locators[-1].first, 1)


async def _element_of(ref: str, outliner: Outliner, frame: "Frame", texts: BrowserTexts) -> "ElementHandle":
    try:
        element = await outliner.element(frame.page.frames, ref.strip().removeprefix("ref="))
    except ValueError:
        raise ToolError(texts.bad_ref.format(ref[:100])) from None
    if element is None:
        raise ToolError(texts.stale_ref.format(ref))
    return element


def _locators(target: Target, frame: "Frame") -> "list[Locator]":
    """The locators of a target, the narrowest first."""
    if target.text and target.role:
        # Playwright's list of roles is for type checkers; it accepts any text.
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


VALUE = Path(__file__).with_name("value.js").read_text("utf-8")
OPTIONS = """el => el.tagName === "SELECT"
  ? [...el.options].slice(0, 100).flatMap((option) => [option.value, option.label.trim()]) : null"""
GRACE_SECONDS = 2.0
"""Lets Playwright's own limits end first, because their errors give the reason."""


class PageActions:
    def __init__(self, settings: Settings, texts: BrowserTexts) -> None:
        self._settings = settings
        self._texts = texts

    def address(self, url: str) -> str:
        texts = self._texts
        if not url.strip():
            raise ToolError(texts.no_url)
        try:
            return web_address(url)
        except UnfitAddressError as unfit:
            text = texts.bad_scheme.format(unfit.scheme) if unfit.scheme else texts.bad_url.format(url[:200])
            raise ToolError(text) from None

    async def go(self, session: BrowserSession, address: str) -> int | None:
        """Opens an address; returns the HTTP status, None without a response."""
        from playwright.async_api import Error

        tab = await session.tab()
        session.enter(None)
        session.proxy.failures.clear()
        try:
            response = await self._goto(session, tab, address)
        except PageStuckError:
            response = None
        except Error as error:
            if not await self._is_download(session, error):
                raise ToolError(self._not_opened(session, address, error)) from None
            return None
        if await session.settle(tab) and not tab.gone.is_set():
            await tab.loaded("load", self._settings.settle)
        return response.status if response is not None else None

    async def _goto(self, session: BrowserSession, tab: Tab, address: str) -> "Response | None":
        from playwright.async_api import Error

        seconds = self._settings.timeout
        for last in (False, True):
            going = tab.page.goto(address, wait_until="commit", timeout=seconds * 1000)
            try:
                return await session.within(tab, seconds + GRACE_SECONDS, going)
            except Error as error:
                if "interrupted by another navigation" not in error.message:
                    raise
                # The error page of an earlier address was late, or this page redirects by script.
                if last or "chrome-error:" not in error.message:
                    return None
        return None

    async def _is_download(self, session: BrowserSession, error: "Error") -> bool:
        begun = "Download is starting" in error.message or "ERR_ABORTED" in error.message
        return begun and await session.events.download_begins(self._settings.settle)

    def _not_opened(self, session: BrowserSession, address: str, error: "Error") -> str:
        texts = self._texts
        for failure in session.proxy.take_failures():
            session.events.connection_failed(failure)
        notices = [notice.text for notice in session.events.take()]
        if "ERR_TOO_MANY_REDIRECTS" in error.message:
            reason = texts.too_many_redirects
        elif "Timeout" in error.message:
            reason = texts.unreadable.format(self._settings.timeout)
        else:
            reason = "; ".join(notices) or _first_line(error).partition(" at ")[0]
        return texts.not_opened.format(one_line(address), reason)

    async def find(self, session: BrowserSession, target: Target, choice: str) -> FoundElement:
        """`choice` lists the other ways to name an element, for the error."""
        if session.is_blank:
            raise ToolError(self._texts.no_page)
        if not target.shown:
            raise ToolError(self._texts.no_target.format(choice))
        tab = await session.tab()
        looking = find(target, tab.outliner, session.frame, self._texts)
        try:
            found = await session.within(tab, self._settings.action_timeout + GRACE_SECONDS, looking)
        except PageStuckError:
            raise ToolError(self._texts.unreadable.format(self._settings.action_timeout)) from None
        if found.matching > 1:
            session.events.add("note", self._texts.many.format(found.matching))
        return found

    async def act(self, session: BrowserSession, what: str, action: Coroutine[Any, Any, T]) -> None:
        """Runs an action and waits for its effects."""
        from playwright.async_api import Error

        tab = await session.tab()
        seconds = self._settings.action_timeout
        try:
            await session.within(tab, seconds + GRACE_SECONDS, action)
        except PageStuckError:
            return  # done, but the page was blocked; a notice says so
        except Error as error:
            raise ToolError(self._texts.not_ready.format(what, seconds, _why(error))) from None
        await session.settle(tab)

    async def choose(self, session: BrowserSession, found: FoundElement, what: str, value: str) -> None:
        from playwright.async_api import Error

        tab = await session.tab()
        try:
            texts = await session.within(tab, self._settings.action_timeout, found.element.evaluate(OPTIONS))
            options = msgspec.convert(texts, list[str] | None)
        except (PageStuckError, Error, msgspec.ValidationError):
            options = None
        if options is not None and value not in options and len(options) < 200:
            names = ", ".join(repr(one_line(name, 60)) for name in options[1::2][:20])
            raise ToolError(self._texts.no_option.format(value, names))
        await self.act(session, what, found.element.select_option(value, timeout=self._milliseconds))

    async def evaluate(self, session: BrowserSession, script: str) -> tuple[Any, bool]:
        """Returns a script's value as plain data, and whether it was cut."""
        from playwright.async_api import Error

        tab = await session.tab()
        try:
            running = self._run(tab, session, script)
            report = await session.within(tab, self._settings.action_timeout, running)
        except PageStuckError:
            raise ToolError(self._texts.script_endless.format(self._settings.action_timeout)) from None
        except Error as error:
            raise ToolError(self._texts.script_failed.format(_first_line(error))) from None
        try:
            # A page can replace JSON.stringify, so the value is cut again. Escapes make texts longer.
            return json.loads(report["json"][: self._settings.content_chars * 8]), bool(report["cut"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ToolError(self._texts.script_failed.format(self._texts.not_json)) from None

    async def _run(self, tab: Tab, session: BrowserSession, script: str) -> Any:
        from playwright.async_api import Error

        frame = session.frame
        try:
            handle = await frame.evaluate_handle(script)
        except Error as error:
            # Statements with `return` need a function around them.
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
    """The line of Playwright's log that gives the reason."""
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
    """Whether the page continues below."""


class Screenshots:
    def __init__(self, settings: Settings, texts: BrowserTexts) -> None:
        self._settings = settings
        self._texts = texts

    async def of_element(self, element: "ElementHandle | Locator") -> Screenshot:
        return await self._take(element.screenshot, False)

    async def of_page(self, page: "Page", whole: bool) -> Screenshot:
        width, height = _sizes(await page.evaluate(SIZE))
        if not whole:
            return await self._take(page.screenshot, height > self._settings.height)
        if height <= MAX_HEIGHT:
            return await self._take(page.screenshot, False, full_page=True)
        wide = min(width, self._settings.width * 4)
        part = {"x": 0, "y": 0, "width": wide, "height": MAX_HEIGHT}
        return await self._take(page.screenshot, True, full_page=True, clip=part)

    async def _take(self, take: Callable[..., Any], is_cut: bool, **options: Any) -> Screenshot:
        """Takes a PNG, or a JPEG if that is too large."""
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
        raise ToolError(self._texts.too_big.format(most))


def _sizes(texts: Any) -> tuple[float, float]:
    """Reads the size that a page reports; 0 if it is not valid."""
    try:
        return msgspec.convert(texts, tuple[float, float])
    except msgspec.ValidationError:
        return 0, 0
