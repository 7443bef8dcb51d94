"""From what a call says of an element (reference, text, role, label, selector) to the element."""

from typing import TYPE_CHECKING

from msgspec import Struct

from ...kit import ToolError
from .outline import Outliner
from .results import one_line
from .texts import Texts

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, Locator

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


class Found(Struct):
    element: "ElementHandle | Locator"
    fitting: int
    """How many there were to choose from."""


async def find(target: Target, outliner: Outliner, frame: "Frame", said: Texts) -> Found:
    if target.ref:
        return Found(await _referred(target.ref, outliner, frame, said), 1)
    from playwright.async_api import Error

    ways = _ways(target, frame)
    any_way = ways[0] if len(ways) == 1 else ways[0].or_(ways[1])
    try:
        await any_way.first.wait_for(state="attached", timeout=WAIT_SECONDS * 1000)
    except Error as error:
        if "Timeout" in error.message:
            raise ToolError(said.not_found.format(target.shown)) from None
        raise ToolError(said.bad_selector.format(target.shown, one_line(error.message, 200))) from None
    return await _chosen(ways)


async def _chosen(ways: "list[Locator]") -> Found:
    """What can be seen comes first, in whichever way it is found."""
    for locator in ways:
        visible = locator.filter(visible=True)
        if count := await visible.count():
            return Found(visible.first, count)
    for locator in ways[:-1]:
        if await locator.count():
            return Found(locator.first, 1)
    return Found(ways[-1].first, 1)


async def _referred(ref: str, outliner: Outliner, frame: "Frame", said: Texts) -> "ElementHandle":
    try:
        element = await outliner.element(frame.page.frames, ref.strip().removeprefix("ref="))
    except ValueError:
        raise ToolError(said.bad_ref.format(ref[:100])) from None
    if element is None:
        raise ToolError(said.stale_ref.format(ref))
    return element


def _ways(target: Target, frame: "Frame") -> "list[Locator]":
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
