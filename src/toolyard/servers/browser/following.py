"""Follows a recipe's steps on a caller's page."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...kit import Context, ToolError
from .deeds import Deeds
from .recipes import Recipe, Step, arguments_of, filled
from .results import one_line
from .secrecy import concealed
from .settings import Settings
from .texts import Texts
from .visit import Visit

if TYPE_CHECKING:
    from playwright.async_api import Locator


class Follower:
    """Of one call."""

    def __init__(self, name: str, recipe: Recipe, deeds: Deeds, settings: Settings, said: Texts) -> None:
        self._name = name
        self._recipe = recipe
        self._deeds = deeds
        self._settings = settings
        self._said = said
        self._done = 0

    async def follow(self, visit: Visit, ctx: Context, given: Mapping[str, Any]) -> None:
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
        self, visit: Visit, ctx: Context, steps: tuple[Step, ...], arguments: Mapping[str, Any]
    ) -> bool:
        """False when a step says that there is nothing more to do."""
        for step in steps:
            self._done += 1
            await ctx.report_progress(self._done, message=self._said.step.format(self._done, step.verb))
            if not await self._explained(visit, ctx, step, arguments):
                return False
        return True

    async def _explained(self, visit: Visit, ctx: Context, step: Step, arguments: Mapping[str, Any]) -> bool:
        """One step; what fails is told with the step's own words, where variables still go by their names."""
        if step.verb == "if_present":
            wanted = filled(step.object, arguments, visit.secrets)
            there = await self._is_there(visit, wanted, step.seconds)
            return await self._steps(visit, ctx, step.steps, arguments) if there else True
        number = self._done
        try:
            return await self._step(visit, step, arguments)
        except ToolError as error:
            why = str(concealed(str(error), visit.secrets))
            text = self._said.step_failed.format(
                number, self._name, step.verb, one_line(step.object, 100), why
            )
            raise ToolError(text) from None

    async def _step(self, visit: Visit, step: Step, arguments: Mapping[str, Any]) -> bool:
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

    async def _use(self, visit: Visit, step: Step, wanted: str, value: str) -> None:
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

    async def _press(self, visit: Visit, key: str, on: str) -> None:
        tab = await visit.tab()
        if on:
            element = await self._element(visit, on)
            pressing = element.press(key, timeout=self._settings.action_timeout * 1000)
        else:
            pressing = tab.page.keyboard.press(key)
        await self._deeds.act(visit, repr(key), pressing)

    async def _element(self, visit: Visit, selector: str) -> "Locator":
        await visit.tab()
        return visit.frame.locator(selector).first

    async def _is_there(self, visit: Visit, selector: str, seconds: float | None) -> bool:
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
