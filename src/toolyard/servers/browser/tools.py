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
from .texts import (
    CLICK,
    CLOSE,
    EVALUATE,
    NAVIGATE,
    READ,
    SCREENSHOT,
    SELECT,
    SNAPSHOT,
    SWITCH,
    TYPE,
    BrowserTexts,
)

if TYPE_CHECKING:
    from playwright.async_api import Locator


class RecipeRunner:
    """Runs a recipe for one call."""

    def __init__(
        self, name: str, recipe: Recipe, actions: PageActions, settings: Settings, texts: BrowserTexts
    ) -> None:
        self._name = name
        self._recipe = recipe
        self._actions = actions
        self._settings = settings
        self._texts = texts
        self._environ: Mapping[str, str] = {}
        self._done = 0

    async def run(self, session: BrowserSession, ctx: Context, given: Mapping[str, Any]) -> None:
        self._environ = self._variables()
        session.add_secrets(self._recipe.secrets(self._environ))
        await self._steps(session, ctx, self._recipe.steps, arguments_of(self._recipe, given))

    def _variables(self) -> dict[str, str]:
        found = {name: os.environ.get(name, "") for name in self._recipe.variables}
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise ToolError(self._texts.no_variables.format(", ".join(missing)))
        return found

    async def _steps(
        self,
        session: BrowserSession,
        ctx: Context,
        steps: tuple[RecipeStep, ...],
        arguments: Mapping[str, Any],
    ) -> bool:
        """Returns False if a step says that there is nothing left to do."""
        for step in steps:
            self._done += 1
            await ctx.report_progress(self._done, message=self._texts.step.format(self._done, step.verb))
            if not await self._run_explained(session, ctx, step, arguments):
                return False
        return True

    async def _run_explained(
        self, session: BrowserSession, ctx: Context, step: RecipeStep, arguments: Mapping[str, Any]
    ) -> bool:
        """Runs one step. An error quotes the step with the names of variables, not their values."""
        if step.verb == "if_present":
            wanted = filled(step.object, arguments, self._environ)
            there = await self._is_there(session, wanted, step.seconds)
            return await self._steps(session, ctx, step.steps, arguments) if there else True
        number = self._done
        try:
            return await self._step(session, step, arguments)
        except ToolError as error:
            why = str(redacted(str(error), session.secrets))
            text = self._texts.step_failed.format(
                number, self._name, step.verb, one_line(step.object, 100), why
            )
            raise ToolError(text) from None

    async def _step(self, session: BrowserSession, step: RecipeStep, arguments: Mapping[str, Any]) -> bool:
        wanted = filled(step.object, arguments, self._environ)
        value = filled(step.value, arguments, self._environ)
        if step.verb == "goto":
            await self._actions.go(session, self._actions.address(wanted))
        elif step.verb == "skip_if":
            if await self._is_there(session, wanted, step.seconds):
                session.events.add("note", self._texts.nothing_to_do.format(one_line(step.object, 100)))
                return False
        elif step.verb == "press":
            await self._press(session, wanted, filled(step.on, arguments, self._environ))
        else:
            await self._use(session, step, wanted, value)
        return True

    async def _use(self, session: BrowserSession, step: RecipeStep, wanted: str, value: str) -> None:
        """Waits for an element and acts on it."""
        if not await self._is_there(session, wanted, step.seconds or self._settings.action_timeout):
            raise ToolError(self._texts.not_found.format(repr(step.object)))
        element = await self._element(session, wanted)
        if step.verb == "wait_for":
            return
        limit = self._settings.action_timeout * 1000
        action = {
            "fill": lambda: element.fill(value, timeout=limit),
            "click": lambda: element.click(timeout=limit),
            "select": lambda: element.select_option(value, timeout=limit),
        }[step.verb]
        await self._actions.act(session, repr(step.object), action())

    async def _press(self, session: BrowserSession, key: str, on: str) -> None:
        tab = await session.tab()
        if on:
            element = await self._element(session, on)
            pressing = element.press(key, timeout=self._settings.action_timeout * 1000)
        else:
            pressing = tab.page.keyboard.press(key)
        await self._actions.act(session, repr(key), pressing)

    async def _element(self, session: BrowserSession, selector: str) -> "Locator":
        await session.tab()
        return session.frame.locator(selector).first

    async def _is_there(self, session: BrowserSession, selector: str, seconds: float | None) -> bool:
        """Whether the element is there now, or appears within the seconds."""
        from playwright.async_api import Error

        tab = await session.tab()
        limit = seconds or 0.05
        try:
            waiting = session.frame.locator(selector).first.wait_for(state="attached", timeout=limit * 1000)
            await session.within(tab, limit + self._settings.action_timeout, waiting)
        except Error as error:
            if "Timeout" in error.message:
                return False
            raise ToolError(self._texts.bad_selector.format(selector, one_line(error.message, 200))) from None
        return True


READING = Path(__file__).with_name("reading.js").read_text("utf-8")
MAX_READ = 1_000_000


class BrowserTools:
    def __init__(self, pool: BrowserPool, settings: Settings, texts: BrowserTexts) -> None:
        self._pool = pool
        self._settings = settings
        self._texts = texts
        self._actions = PageActions(settings, texts)
        self._pictures = Screenshots(settings, texts)
        self._recipes: list[Recipe] = []
        """The variables of all recipes: a site may show a typed secret in a later session too."""

    def add_to(self, server: Server) -> None:
        web: tuple[bool, bool, bool, bool] = (False, False, False, True)
        look, use, again = (
            (True, False, True, False),
            (False, False, False, False),
            (False, False, True, False),
        )
        self._add(server, self.navigate, NAVIGATE, Navigated, web)
        self._add(server, self.snapshot, SNAPSHOT, PageView, look)
        self._add(server, self.screenshot, SCREENSHOT, ScreenshotInfo, look)
        self._add(server, self.click, CLICK, PageView, use)
        self._add(server, self.type_text, TYPE, PageView, use)
        self._add(server, self.select_option, SELECT, PageView, use)
        self._add(server, self.read_content, READ, PageText, look)
        self._add(server, self.close, CLOSE, Closed, again)
        self._add(server, self.evaluate_js, EVALUATE, Evaluated, use)
        self._add(server, self.switch_frame, SWITCH, Frames, again)

    def _add(
        self,
        server: Server,
        function: Callable[..., Awaitable[ToolResult]],
        localized: tuple[LocalizedTool, LocalizedTool],
        kind: type[msgspec.Struct],
        hints: tuple[bool, bool, bool, bool],
    ) -> None:
        read_only, destructive, idempotent, open_world = hints
        add_localized_tool(
            server,
            function,
            en=localized[0],
            pt=localized[1],
            output_schema=schema_of(kind),
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
            bounded=True,
        )

    def add_recipe(self, server: Server, name: str, recipe: Recipe) -> None:
        self._recipes.append(recipe)

        async def run(arguments: dict[str, Any], ctx: Context) -> ToolResult:
            async with self._session(ctx) as session:
                runner = RecipeRunner(name, recipe, self._actions, self._settings, self._texts)
                await runner.run(session, ctx, arguments)
                return await self._shown(session)

        server.add_tool(
            run,
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

    async def navigate(self, ctx: Context, url: str) -> ToolResult:
        wanted = self._actions.address(url)
        async with self._session(ctx) as session:
            await ctx.report_progress(1, 3, self._texts.opening.format(one_line(wanted)))
            status = await self._actions.go(session, wanted)
            await ctx.report_progress(2, 3)
            return await self._shown(session, Navigated, status=status)

    async def snapshot(self, ctx: Context, start: int = 0) -> ToolResult:
        async with self._session(ctx) as session:
            self._need_page(session)
            return await self._shown(session, start=max(0, start))

    async def click(
        self, ctx: Context, text: str = "", selector: str = "", role: str = "", ref: str = ""
    ) -> ToolResult:
        target = Target(text=text, selector=selector, role=role, ref=ref)
        async with self._session(ctx) as session:
            found = await self._actions.find(session, target, "`text`, `role`, `selector`")
            await self._actions.act(session, target.shown, found.element.click(timeout=self._milliseconds))
            return await self._shown(session)

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
        async with self._session(ctx) as session:
            found = await self._actions.find(session, target, "`label`, `selector`")
            await self._actions.act(
                session, target.shown, found.element.fill(text, timeout=self._milliseconds)
            )
            if submit:
                pressing = found.element.press("Enter", timeout=self._milliseconds)
                await self._actions.act(session, target.shown, pressing)
            return await self._shown(session)

    async def select_option(self, ctx: Context, value: str, selector: str = "", ref: str = "") -> ToolResult:
        target = Target(selector=selector, ref=ref)
        async with self._session(ctx) as session:
            found = await self._actions.find(session, target, "`selector`")
            await self._actions.choose(session, found, target.shown, value)
            return await self._shown(session)

    async def read_content(self, ctx: Context, selector: str = "", start: int = 0) -> ToolResult:
        async with self._session(ctx) as session:
            self._need_page(session)
            tab = await session.tab()
            found = await self._actions.find(session, Target(selector=selector or "body"), "`selector`")
            text = await self._within_limit(session, tab, found.element.evaluate(READING, MAX_READ))
            text = text[:MAX_READ] if isinstance(text, str) else ""  # a page can replace built-in functions
            begin, most = max(0, start), self._settings.content_chars
            part = text[begin : begin + most]
            if is_suspect(part):
                session.events.add("suspect", self._texts.suspect)
            reading = PageText(
                url=address(tab.page.url),
                title=one_line(await self._within_limit(session, tab, tab.page.title())),
                text=part,
                start=begin,
                total=len(text),
                truncated=begin + len(part) < len(text),
                notices=session.events.take(),
            )
            left_out = self._texts.chars_left.format(len(part), begin, len(text), begin + len(part))
            return self._result(
                session, reading, reading_text(reading, self._texts, left_out if reading.truncated else "")
            )

    async def screenshot(
        self, ctx: Context, full_page: bool = False, selector: str = "", ref: str = ""
    ) -> ToolResult:
        target = Target(selector=selector, ref=ref)
        async with self._session(ctx) as session:
            self._need_page(session)
            tab = await session.tab()
            if target.shown:
                found = await self._actions.find(session, target, "`selector`")
                taking = self._pictures.of_element(found.element)
            else:
                taking = self._pictures.of_page(tab.page, full_page)
            picture = await self._within_limit(session, tab, taking)
            shot = ScreenshotInfo(
                url=address(tab.page.url),
                title=one_line(await self._within_limit(session, tab, tab.page.title())),
                width=picture.width,
                height=picture.height,
                mime_type=picture.mime_type,
                size=len(picture.data),
                truncated=picture.is_cut,
                notices=session.events.take(),
            )
            image = Image(picture.data, picture.mime_type)
            return self._result(session, shot, shot_text(shot, self._texts), image)

    async def evaluate_js(self, ctx: Context, script: str) -> ToolResult:
        async with self._session(ctx) as session:
            self._need_page(session)
            value, cut = await self._actions.evaluate(session, script)
            await session.settle(await session.tab())
            return await self._shown(session, Evaluated, value=value, value_truncated=cut)

    async def switch_frame(self, ctx: Context, name: str = "", list_frames: bool = False) -> ToolResult:
        async with self._session(ctx) as session:
            self._need_page(session)
            wanted = name.strip()
            if wanted and not list_frames:
                self._switch(session, await session.tab(), wanted)
            return await self._shown(session, Frames, frames=session.frames())

    async def close(self, ctx: Context) -> ToolResult:
        closed = await self._pool.close_one(ctx)
        return ToolResult(structured=Closed(closed=closed))

    @asynccontextmanager
    async def _session(self, ctx: Context) -> AsyncGenerator[BrowserSession]:
        """Lends the caller's session; turns Playwright's errors into readable ones."""
        async with self._pool.lease(ctx) as session:
            from playwright.async_api import Error

            try:
                yield session
            except ToolError as error:
                raise ToolError(redacted(str(error), self._secrets(session))) from None
            except Error as error:
                text = (
                    self._texts.gone
                    if session.is_over
                    else self._texts.failed.format(one_line(error.message))
                )
                raise ToolError(redacted(text, self._secrets(session))) from None

    def _need_page(self, session: BrowserSession) -> None:
        if session.is_blank:
            for notice in session.events.take():
                raise ToolError(f"{self._texts.no_page} ({notice.text})")
            raise ToolError(self._texts.no_page)

    async def _within_limit(self, session: BrowserSession, tab: Tab, work: Any) -> Any:
        try:
            return await session.within(tab, self._settings.action_timeout, work)
        except PageStuckError:
            raise ToolError(self._texts.unreadable.format(self._settings.action_timeout)) from None

    async def _shown(
        self, session: BrowserSession, kind: type[PageView] = PageView, start: int = 0, **more: Any
    ) -> ToolResult:
        await session.finish_downloads(self._pool.downloads)
        view, left_out = await session.view(kind, start, **more)
        return self._result(session, view, view_text(view, self._texts, left_out))

    def _result(self, session: BrowserSession, value: Any, text: str, *more: Image) -> ToolResult:
        secrets = self._secrets(session)
        return ToolResult(content=[redacted(text, secrets), *more], structured=redacted(value, secrets))

    def _secrets(self, session: BrowserSession) -> dict[str, str]:
        return {
            name: secret for recipe in self._recipes for name, secret in recipe.secrets(os.environ).items()
        } | session.secrets

    def _switch(self, session: BrowserSession, tab: Tab, wanted: str) -> None:
        other = session.tab_named(wanted)
        if other is not None:
            return session.turn_to(other)
        if wanted == "main":
            return session.enter(None)
        frames = [frame for frame in tab.page.frames if frame.parent_frame is not None]
        by_name = [frame for frame in frames if wanted in (frame.name, session.frame_name(frame))]
        by_number = [frame for frame in frames if f"f{tab.outliner.number_of(frame)}" == wanted]
        by_url = [frame for frame in frames if wanted in frame.url]
        for frame in [*by_name, *by_number, *by_url]:
            return session.enter(frame)
        names = ", ".join(frame.name for frame in session.frames())
        raise ToolError(self._texts.no_frame.format(wanted, names))

    @property
    def _milliseconds(self) -> float:
        return self._settings.action_timeout * 1000
