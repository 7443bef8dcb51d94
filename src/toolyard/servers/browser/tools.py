"""The ten tools, and one for each recipe."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ...kit import Context, Image, Server, ToolError, ToolResult
from ...kit.languages import Face, add_tool
from ...kit.schema import schema_of
from ...kit.suspicion import is_suspect
from . import faces
from .deeds import Deeds
from .following import Follower
from .pictures import Pictures
from .recipes import Recipe
from .results import (
    Closed,
    Evaluated,
    Frames,
    Navigated,
    Reading,
    Shot,
    View,
    address,
    one_line,
    reading_text,
    shot_text,
    view_text,
)
from .secrecy import concealed
from .settings import Settings
from .tab import Tab
from .targets import Target
from .texts import Texts
from .visit import Stuck, Visit
from .visits import Visits

READING = Path(__file__).with_name("reading.js").read_text("utf-8")
MAX_READ = 1_000_000


class Tools:
    def __init__(self, visits: Visits, settings: Settings, said: Texts) -> None:
        self._visits = visits
        self._settings = settings
        self._said = said
        self._deeds = Deeds(settings, said)
        self._pictures = Pictures(settings, said)
        self._variables: list[str] = []
        """Of all recipes: what one typed, a site may show in a later visit as well."""

    def add_to(self, server: Server) -> None:
        web: tuple[bool, bool, bool, bool] = (False, False, False, True)
        look, use, again = (
            (True, False, True, False),
            (False, False, False, False),
            (False, False, True, False),
        )
        self._add(server, self.navigate, faces.NAVIGATE, Navigated, web)
        self._add(server, self.snapshot, faces.SNAPSHOT, View, look)
        self._add(server, self.screenshot, faces.SCREENSHOT, Shot, look)
        self._add(server, self.click, faces.CLICK, View, use)
        self._add(server, self.type_text, faces.TYPE, View, use)
        self._add(server, self.select_option, faces.SELECT, View, use)
        self._add(server, self.read_content, faces.READ, Reading, look)
        self._add(server, self.close, faces.CLOSE, Closed, again)
        self._add(server, self.evaluate_js, faces.EVALUATE, Evaluated, use)
        self._add(server, self.switch_frame, faces.SWITCH, Frames, again)

    def _add(
        self,
        server: Server,
        function: Callable[..., Awaitable[ToolResult]],
        face: tuple[Face, Face],
        kind: type[msgspec.Struct],
        hints: tuple[bool, bool, bool, bool],
    ) -> None:
        read_only, destructive, idempotent, open_world = hints
        add_tool(
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
                follower = Follower(name, recipe, self._deeds, self._settings, self._said)
                await follower.follow(visit, ctx, arguments)
                return await self._shown(visit)

        server.add_tool(
            follow,
            name=name,
            title=recipe.title or None,
            description=recipe.description or recipe.title or name,
            input_schema=recipe.input_schema,
            output_schema=schema_of(View),
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
            reading = Reading(
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
            shot = Shot(
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
    async def _visiting(self, ctx: Context) -> AsyncGenerator[Visit]:
        """The caller's pages; what goes wrong in the browser becomes an error that can be read."""
        async with self._visits.of(ctx) as visit:
            from playwright.async_api import Error

            try:
                yield visit
            except ToolError as error:
                raise ToolError(concealed(str(error), self._secrets(visit))) from None
            except Error as error:
                text = self._said.gone if visit.is_over else self._said.failed.format(one_line(error.message))
                raise ToolError(concealed(text, self._secrets(visit))) from None

    def _need_page(self, visit: Visit) -> None:
        if visit.is_blank:
            for notice in visit.happenings.take():
                raise ToolError(f"{self._said.no_page} ({notice.text})")
            raise ToolError(self._said.no_page)

    async def _timely(self, visit: Visit, tab: Tab, work: Any) -> Any:
        try:
            return await visit.within(tab, self._settings.action_timeout, work)
        except Stuck:
            raise ToolError(self._said.unreadable.format(self._settings.action_timeout)) from None

    async def _shown(self, visit: Visit, kind: type[View] = View, start: int = 0, **more: Any) -> ToolResult:
        await visit.finish_downloads(self._visits.shelf)
        view, left_out = await visit.view(kind, start, **more)
        return self._result(visit, view, view_text(view, self._said, left_out))

    def _result(self, visit: Visit, value: Any, text: str, *more: Image) -> ToolResult:
        plain, secrets = msgspec.to_builtins(value), self._secrets(visit)
        return ToolResult(content=[concealed(text, secrets), *more], structured=concealed(plain, secrets))

    def _secrets(self, visit: Visit) -> dict[str, str]:
        return {name: os.environ.get(name, "") for name in self._variables} | visit.secrets

    def _turn(self, visit: Visit, tab: Tab, wanted: str) -> None:
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
