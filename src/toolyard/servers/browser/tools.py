"""The ten tools, and one tool for each recipe.

A tool acts through `actions` on the caller's session and answers with a struct of `results`. Secrets that
recipes typed are redacted from every answer.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...kit import Context, Image, Server, ToolError, ToolResult
from ...kit.localization import LocalizedTool, add_localized_tool
from ...kit.prompt_injection import is_suspect
from ...kit.schema.validation import schema_of
from . import texts
from .actions import PageActions, Screenshots, Target
from .page import Tab
from .pool import BrowserPool
from .recipes import Recipe, RecipeStep, arguments_of, filled, redacted
from .results import (
    Closed,
    Evaluated,
    Frames,
    Navigated,
    PageText,
    PageView,
    ScreenshotInfo,
    address,
    one_line,
    reading_text,
    shot_text,
    view_text,
)
from .session import BrowserSession, PageStuckError
from .settings import Settings
from .texts import BrowserTexts

if TYPE_CHECKING:
    from playwright.async_api import Locator


class RecipeRunner:
    """Of one call."""

    def __init__(
        self, name: str, recipe: Recipe, deeds: PageActions, settings: Settings, said: BrowserTexts
    ) -> None:
        self._name = name
        self._recipe = recipe
        self._deeds = deeds
        self._settings = settings
        self._said = said
        self._done = 0

    async def follow(self, visit: BrowserSession, ctx: Context, given: Mapping[str, Any]) -> None:
        secrets = self._secrets()
        visit.secrets |= secrets
        await self._steps(visit, ctx, self._recipe.steps, arguments_of(self._recipe, given))

    def _secrets(self) -> dict[str, str]:
        found = {name: os.environ.get(name, "") for name in self._recipe.variables}
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise ToolError(self._said.no_variables.format(", ".join(missing)))
        return found

    async def _steps(
        self, visit: BrowserSession, ctx: Context, steps: tuple[RecipeStep, ...], arguments: Mapping[str, Any]
    ) -> bool:
        """False when a step says that there is nothing more to do."""
        for step in steps:
            self._done += 1
            await ctx.report_progress(self._done, message=self._said.step.format(self._done, step.verb))
            if not await self._explained(visit, ctx, step, arguments):
                return False
        return True

    async def _explained(
        self, visit: BrowserSession, ctx: Context, step: RecipeStep, arguments: Mapping[str, Any]
    ) -> bool:
        """One step; what fails is told with the step's own words, where variables still go by their names."""
        if step.verb == "if_present":
            wanted = filled(step.object, arguments, visit.secrets)
            there = await self._is_there(visit, wanted, step.seconds)
            return await self._steps(visit, ctx, step.steps, arguments) if there else True
        number = self._done
        try:
            return await self._step(visit, step, arguments)
        except ToolError as error:
            why = str(redacted(str(error), visit.secrets))
            text = self._said.step_failed.format(
                number, self._name, step.verb, one_line(step.object, 100), why
            )
            raise ToolError(text) from None

    async def _step(self, visit: BrowserSession, step: RecipeStep, arguments: Mapping[str, Any]) -> bool:
        wanted = filled(step.object, arguments, visit.secrets)
        value = filled(step.value, arguments, visit.secrets)
        if step.verb == "goto":
            await self._deeds.go(visit, self._deeds.address(wanted))
        elif step.verb == "skip_if":
            if await self._is_there(visit, wanted, step.seconds):
                visit.happenings.add("note", self._said.nothing_to_do.format(one_line(step.object, 100)))
                return False
        elif step.verb == "press":
            await self._press(visit, wanted, filled(step.on, arguments, visit.secrets))
        else:
            await self._use(visit, step, wanted, value)
        return True

    async def _use(self, visit: BrowserSession, step: RecipeStep, wanted: str, value: str) -> None:
        """An element, once it is there."""
        if not await self._is_there(visit, wanted, step.seconds or self._settings.action_timeout):
            raise ToolError(self._said.not_found.format(repr(step.object)))
        element = await self._element(visit, wanted)
        if step.verb == "wait_for":
            return
        limit = self._settings.action_timeout * 1000
        deed = {
            "fill": lambda: element.fill(value, timeout=limit),
            "click": lambda: element.click(timeout=limit),
            "select": lambda: element.select_option(value, timeout=limit),
        }[step.verb]
        await self._deeds.act(visit, repr(step.object), deed())

    async def _press(self, visit: BrowserSession, key: str, on: str) -> None:
        tab = await visit.tab()
        if on:
            element = await self._element(visit, on)
            pressing = element.press(key, timeout=self._settings.action_timeout * 1000)
        else:
            pressing = tab.page.keyboard.press(key)
        await self._deeds.act(visit, repr(key), pressing)

    async def _element(self, visit: BrowserSession, selector: str) -> "Locator":
        await visit.tab()
        return visit.frame.locator(selector).first

    async def _is_there(self, visit: BrowserSession, selector: str, seconds: float | None) -> bool:
        """Now, or within so many seconds."""
        from playwright.async_api import Error

        tab = await visit.tab()
        limit = seconds or 0.05
        try:
            waiting = visit.frame.locator(selector).first.wait_for(state="attached", timeout=limit * 1000)
            await visit.within(tab, limit + self._settings.action_timeout, waiting)
        except Error as error:
            if "Timeout" in error.message:
                return False
            raise ToolError(self._said.bad_selector.format(selector, one_line(error.message, 200))) from None
        return True


READING = Path(__file__).with_name("reading.js").read_text("utf-8")
MAX_READ = 1_000_000


class BrowserTools:
    def __init__(self, visits: BrowserPool, settings: Settings, said: BrowserTexts) -> None:
        self._visits = visits
        self._settings = settings
        self._said = said
        self._deeds = PageActions(settings, said)
        self._pictures = Screenshots(settings, said)
        self._variables: list[str] = []
        """Of all recipes: what one typed, a site may show in a later visit as well."""

    def add_to(self, server: Server) -> None:
        web: tuple[bool, bool, bool, bool] = (False, False, False, True)
        look, use, again = (
            (True, False, True, False),
            (False, False, False, False),
            (False, False, True, False),
        )
        self._add(server, self.navigate, texts.NAVIGATE, Navigated, web)
        self._add(server, self.snapshot, texts.SNAPSHOT, PageView, look)
        self._add(server, self.screenshot, texts.SCREENSHOT, ScreenshotInfo, look)
        self._add(server, self.click, texts.CLICK, PageView, use)
        self._add(server, self.type_text, texts.TYPE, PageView, use)
        self._add(server, self.select_option, texts.SELECT, PageView, use)
        self._add(server, self.read_content, texts.READ, PageText, look)
        self._add(server, self.close, texts.CLOSE, Closed, again)
        self._add(server, self.evaluate_js, texts.EVALUATE, Evaluated, use)
        self._add(server, self.switch_frame, texts.SWITCH, Frames, again)

    def _add(
        self,
        server: Server,
        function: Callable[..., Awaitable[ToolResult]],
        face: tuple[LocalizedTool, LocalizedTool],
        kind: type[msgspec.Struct],
        hints: tuple[bool, bool, bool, bool],
    ) -> None:
        read_only, destructive, idempotent, open_world = hints
        add_localized_tool(
            server,
            self._settings.locale,
            function,
            en=face[0],
            pt=face[1],
            output_schema=schema_of(kind),
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
            bounded=True,
        )

    def add_recipe(self, server: Server, name: str, recipe: Recipe) -> None:
        self._variables += recipe.variables

        async def follow(arguments: dict[str, Any], ctx: Context) -> ToolResult:
            async with self._visiting(ctx) as visit:
                follower = RecipeRunner(name, recipe, self._deeds, self._settings, self._said)
                await follower.follow(visit, ctx, arguments)
                return await self._shown(visit)

        server.add_tool(
            follow,
            name=name,
            title=recipe.title or None,
            description=recipe.description or recipe.title or name,
            input_schema=recipe.input_schema,
            output_schema=schema_of(PageView),
            read_only=False,
            destructive=False,
            idempotent=False,
            open_world=True,
            bounded=True,
        )

    # The tools

    async def navigate(self, ctx: Context, url: str) -> ToolResult:
        wanted = self._deeds.address(url)
        async with self._visiting(ctx) as visit:
            await ctx.report_progress(1, 3, self._said.opening.format(one_line(wanted)))
            status = await self._deeds.go(visit, wanted)
            await ctx.report_progress(2, 3)
            return await self._shown(visit, Navigated, status=status)

    async def snapshot(self, ctx: Context, start: int = 0) -> ToolResult:
        async with self._visiting(ctx) as visit:
            self._need_page(visit)
            return await self._shown(visit, start=max(0, start))

    async def click(
        self, ctx: Context, text: str = "", selector: str = "", role: str = "", ref: str = ""
    ) -> ToolResult:
        target = Target(text=text, selector=selector, role=role, ref=ref)
        async with self._visiting(ctx) as visit:
            found = await self._deeds.find(visit, target, "`text`, `role`, `selector`")
            await self._deeds.act(visit, target.shown, found.element.click(timeout=self._milliseconds))
            return await self._shown(visit)

    async def type_text(
        self,
        ctx: Context,
        text: str,
        label: str = "",
        selector: str = "",
        ref: str = "",
        submit: bool = False,
    ) -> ToolResult:
        target = Target(label=label, selector=selector, ref=ref)
        async with self._visiting(ctx) as visit:
            found = await self._deeds.find(visit, target, "`label`, `selector`")
            await self._deeds.act(visit, target.shown, found.element.fill(text, timeout=self._milliseconds))
            if submit:
                pressing = found.element.press("Enter", timeout=self._milliseconds)
                await self._deeds.act(visit, target.shown, pressing)
            return await self._shown(visit)

    async def select_option(self, ctx: Context, value: str, selector: str = "", ref: str = "") -> ToolResult:
        target = Target(selector=selector, ref=ref)
        async with self._visiting(ctx) as visit:
            found = await self._deeds.find(visit, target, "`selector`")
            await self._deeds.choose(visit, found, target.shown, value)
            return await self._shown(visit)

    async def read_content(self, ctx: Context, selector: str = "", start: int = 0) -> ToolResult:
        async with self._visiting(ctx) as visit:
            self._need_page(visit)
            tab = await visit.tab()
            found = await self._deeds.find(visit, Target(selector=selector or "body"), "`selector`")
            text = await self._timely(visit, tab, found.element.evaluate(READING, MAX_READ))
            text = (
                text[:MAX_READ] if isinstance(text, str) else ""
            )  # a page can change what scripts are made of
            begin, most = max(0, start), self._settings.content_chars
            part = text[begin : begin + most]
            if is_suspect(part):
                visit.happenings.add("suspect", self._said.suspect)
            reading = PageText(
                url=address(tab.page.url),
                title=one_line(await self._timely(visit, tab, tab.page.title())),
                text=part,
                start=begin,
                total=len(text),
                truncated=begin + len(part) < len(text),
                notices=visit.happenings.take(),
            )
            left_out = self._said.chars_left.format(len(part), begin, len(text), begin + len(part))
            return self._result(
                visit, reading, reading_text(reading, self._said, left_out if reading.truncated else "")
            )

    async def screenshot(
        self, ctx: Context, full_page: bool = False, selector: str = "", ref: str = ""
    ) -> ToolResult:
        target = Target(selector=selector, ref=ref)
        async with self._visiting(ctx) as visit:
            self._need_page(visit)
            tab = await visit.tab()
            if target.shown:
                found = await self._deeds.find(visit, target, "`selector`")
                taking = self._pictures.of_element(found.element)
            else:
                taking = self._pictures.of_page(tab.page, full_page)
            picture = await self._timely(visit, tab, taking)
            shot = ScreenshotInfo(
                url=address(tab.page.url),
                title=one_line(await self._timely(visit, tab, tab.page.title())),
                width=picture.width,
                height=picture.height,
                mime_type=picture.mime_type,
                size=len(picture.data),
                truncated=picture.is_cut,
                notices=visit.happenings.take(),
            )
            image = Image(picture.data, picture.mime_type)
            return self._result(visit, shot, shot_text(shot, self._said), image)

    async def evaluate_js(self, ctx: Context, script: str) -> ToolResult:
        async with self._visiting(ctx) as visit:
            self._need_page(visit)
            value, cut = await self._deeds.evaluate(visit, script)
            await visit.settle(await visit.tab())
            return await self._shown(visit, Evaluated, value=value, value_truncated=cut)

    async def switch_frame(self, ctx: Context, name: str = "", list_frames: bool = False) -> ToolResult:
        async with self._visiting(ctx) as visit:
            self._need_page(visit)
            wanted = name.strip()
            if wanted and not list_frames:
                self._turn(visit, await visit.tab(), wanted)
            return await self._shown(visit, Frames, frames=visit.frames())

    async def close(self, ctx: Context) -> ToolResult:
        closed = await self._visits.close_one(ctx)
        return ToolResult(structured=Closed(closed=closed))

    # What they share

    @asynccontextmanager
    async def _visiting(self, ctx: Context) -> AsyncGenerator[BrowserSession]:
        """The caller's pages; what goes wrong in the browser becomes an error that can be read."""
        async with self._visits.of(ctx) as visit:
            from playwright.async_api import Error

            try:
                yield visit
            except ToolError as error:
                raise ToolError(redacted(str(error), self._secrets(visit))) from None
            except Error as error:
                text = self._said.gone if visit.is_over else self._said.failed.format(one_line(error.message))
                raise ToolError(redacted(text, self._secrets(visit))) from None

    def _need_page(self, visit: BrowserSession) -> None:
        if visit.is_blank:
            for notice in visit.happenings.take():
                raise ToolError(f"{self._said.no_page} ({notice.text})")
            raise ToolError(self._said.no_page)

    async def _timely(self, visit: BrowserSession, tab: Tab, work: Any) -> Any:
        try:
            return await visit.within(tab, self._settings.action_timeout, work)
        except PageStuckError:
            raise ToolError(self._said.unreadable.format(self._settings.action_timeout)) from None

    async def _shown(
        self, visit: BrowserSession, kind: type[PageView] = PageView, start: int = 0, **more: Any
    ) -> ToolResult:
        await visit.finish_downloads(self._visits.shelf)
        view, left_out = await visit.view(kind, start, **more)
        return self._result(visit, view, view_text(view, self._said, left_out))

    def _result(self, visit: BrowserSession, value: Any, text: str, *more: Image) -> ToolResult:
        plain, secrets = msgspec.to_builtins(value), self._secrets(visit)
        return ToolResult(content=[redacted(text, secrets), *more], structured=redacted(plain, secrets))

    def _secrets(self, visit: BrowserSession) -> dict[str, str]:
        return {name: os.environ.get(name, "") for name in self._variables} | visit.secrets

    def _turn(self, visit: BrowserSession, tab: Tab, wanted: str) -> None:
        other = visit.tab_named(wanted)
        if other is not None:
            return visit.turn_to(other)
        if wanted == "main":
            return visit.enter(None)
        frames = [frame for frame in tab.page.frames if frame.parent_frame is not None]
        by_name = [frame for frame in frames if wanted in (frame.name, visit.frame_name(frame))]
        by_number = [frame for frame in frames if f"f{tab.outliner.number_of(frame)}" == wanted]
        by_url = [frame for frame in frames if wanted in frame.url]
        for frame in [*by_name, *by_number, *by_url]:
            return visit.enter(frame)
        names = ", ".join(frame.name for frame in visit.frames())
        raise ToolError(self._said.no_frame.format(wanted, names))

    @property
    def _milliseconds(self) -> float:
        return self._settings.action_timeout * 1000
