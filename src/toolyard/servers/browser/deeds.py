"""What can be done to a page (go, click, fill, choose, press, run a script), with its failures explained.

The tools and the recipes are made of these.
"""

import json
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ...kit import ToolError
from .addresses import Unfit, web_address
from .results import one_line
from .settings import Settings
from .tab import Tab
from .targets import Found, Target, find
from .texts import Texts
from .visit import Stuck, Visit

if TYPE_CHECKING:
    from playwright.async_api import Error, Response

T = TypeVar("T")
VALUE = Path(__file__).with_name("value.js").read_text("utf-8")
OPTIONS = """el => el.tagName === "SELECT"
  ? [...el.options].slice(0, 100).flatMap((option) => [option.value, option.label.trim()]) : null"""
GRACE_SECONDS = 2.0
"""Playwright's own limits come first: they know why."""


class Deeds:
    def __init__(self, settings: Settings, said: Texts) -> None:
        self._settings = settings
        self._said = said

    def address(self, url: str) -> str:
        said = self._said
        if not url.strip():
            raise ToolError(said.no_url)
        try:
            return web_address(url)
        except Unfit as unfit:
            text = said.bad_scheme.format(unfit.scheme) if unfit.scheme else said.bad_url.format(url[:200])
            raise ToolError(text) from None

    async def go(self, visit: Visit, address: str) -> int | None:
        """The status of the answer; None where there is none."""
        from playwright.async_api import Error

        tab = await visit.tab()
        visit.enter(None)
        visit.door.troubles.clear()
        try:
            response = await self._gone(visit, tab, address)
        except Stuck:
            response = None
        except Error as error:
            if not await self._is_download(visit, error):
                raise ToolError(self._not_opened(visit, address, error)) from None
            return None
        if await visit.settle(tab) and not tab.gone.is_set():
            await tab.loaded("load", self._settings.settle)
        return response.status if response is not None else None

    async def _gone(self, visit: Visit, tab: Tab, address: str) -> "Response | None":
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

    async def _is_download(self, visit: Visit, error: "Error") -> bool:
        begun = "Download is starting" in error.message or "ERR_ABORTED" in error.message
        return begun and await visit.happenings.download_begins(self._settings.settle)

    def _not_opened(self, visit: Visit, address: str, error: "Error") -> str:
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

    async def find(self, visit: Visit, target: Target, choice: str) -> Found:
        """`choice` says how else an element can be named."""
        if visit.is_blank:
            raise ToolError(self._said.no_page)
        if not target.shown:
            raise ToolError(self._said.no_target.format(choice))
        tab = await visit.tab()
        looking = find(target, tab.outliner, visit.frame, self._said)
        try:
            found = await visit.within(tab, self._settings.action_timeout + GRACE_SECONDS, looking)
        except Stuck:
            raise ToolError(self._said.unreadable.format(self._settings.action_timeout)) from None
        if found.fitting > 1:
            visit.happenings.add("note", self._said.many.format(found.fitting))
        return found

    async def act(self, visit: Visit, what: str, deed: Coroutine[Any, Any, T]) -> None:
        """Do it, and wait for what comes of it."""
        from playwright.async_api import Error

        tab = await visit.tab()
        seconds = self._settings.action_timeout
        try:
            await visit.within(tab, seconds + GRACE_SECONDS, deed)
        except Stuck:
            return  # done, but the page was busy with it: a notice says so
        except Error as error:
            raise ToolError(self._said.not_ready.format(what, seconds, _why(error))) from None
        await visit.settle(tab)

    async def choose(self, visit: Visit, found: Found, what: str, value: str) -> None:
        from playwright.async_api import Error

        tab = await visit.tab()
        try:
            said = await visit.within(tab, self._settings.action_timeout, found.element.evaluate(OPTIONS))
            options = msgspec.convert(said, list[str] | None)
        except (Stuck, Error, msgspec.ValidationError):
            options = None
        if options is not None and value not in options and len(options) < 200:
            names = ", ".join(repr(one_line(name, 60)) for name in options[1::2][:20])
            raise ToolError(self._said.no_option.format(value, names))
        await self.act(visit, what, found.element.select_option(value, timeout=self._milliseconds))

    async def evaluate(self, visit: Visit, script: str) -> tuple[Any, bool]:
        """What a script gives, as plain data, and whether that was cut."""
        from playwright.async_api import Error

        tab = await visit.tab()
        try:
            running = self._run(tab, visit, script)
            report = await visit.within(tab, self._settings.action_timeout, running)
        except Stuck:
            raise ToolError(self._said.script_endless.format(self._settings.action_timeout)) from None
        except Error as error:
            raise ToolError(self._said.script_failed.format(_first_line(error))) from None
        try:
            # A page can change what scripts are made of, JSON.stringify for one. Escapes make texts longer.
            return json.loads(report["json"][: self._settings.content_chars * 8]), bool(report["cut"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ToolError(self._said.script_failed.format(self._said.not_json)) from None

    async def _run(self, tab: Tab, visit: Visit, script: str) -> Any:
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
