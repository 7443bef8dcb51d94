"""Outlines of pages with references, across frames, and from a reference back to its element.

The script beside this file draws one document; here the documents of frames are put where their frames are.
What it remembers (which number is which element) lives in the page but is held from here, so that the page's
own scripts have no name for it.
"""

import asyncio
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, JSHandle

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
    """What the script says. A page can change what scripts are made of: nothing of it is taken on trust."""

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
    """In the document."""
    unseen: int
    """Those that the outline does not speak of."""


class Outliner:
    """Of one page. Numbers are never used twice in its life, so that an old reference finds nothing new."""

    def __init__(self) -> None:
        self._held: dict[Frame, JSHandle] = {}
        self._numbers: dict[Frame, int] = {}
        self._mute: set[Frame] = set()
        """Frames that gave no answer, until they show something else."""
        self._last_frame = 0
        self._next = 1

    def forget(self, frame: "Frame") -> None:
        """Its document is another one now."""
        self._held.pop(frame, None)
        self._mute.discard(frame)

    def number_of(self, frame: "Frame") -> int:
        """The n of `fN`; 0 is the page itself."""
        if frame.parent_frame is None:
            return 0
        if frame not in self._numbers:
            self._last_frame += 1
            self._numbers[frame] = self._last_frame
        return self._numbers[frame]

    async def draw(self, frame: "Frame", start: int, limit: int) -> Outline:
        """Not more than `limit` characters, from line `start` on."""
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
        """What a reference of an outline stands for; ValueError when it is not one."""
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

        if frame in self._mute or not frame.url or frame.url.startswith("chrome-error:"):
            return []
        try:
            async with asyncio.timeout(FRAME_SECONDS):
                drawn = await self.draw(frame, 0, limit)
        except Error:  # it went away
            return []
        except TimeoutError:  # it shows what the browser does not let us read
            self._mute.add(frame)
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
            # Another document came between two looks.
            handle = await frame.evaluate_handle(SCRIPT, [None, options])
        report = _checked(await handle.evaluate("state => state.report"))
        self._next = max(self._next, report.next)
        self._held[frame] = handle
        if held is not None:
            with contextlib.suppress(Error):
                await held.dispose()
        return report, handle

    async def _inside(self, frame: "Frame", held: "JSHandle") -> "dict[int, Frame]":
        """The frames of a document, by the numbers of their elements."""
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
    """An empty one where the page had its hands in it."""
    try:
        return msgspec.convert(report, Report, strict=False)
    except msgspec.ValidationError:
        return Report()
