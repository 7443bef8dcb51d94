"""Pictures of pages and elements, small enough to send."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ...kit import ToolError
from .settings import Settings
from .texts import Texts

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Locator, Page

MAX_HEIGHT = 8000
SIZE = "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


class Picture(Struct, frozen=True):
    data: bytes
    mime_type: str
    width: int
    height: int
    is_cut: bool
    """Whether the page goes on below."""


class Pictures:
    def __init__(self, settings: Settings, said: Texts) -> None:
        self._settings = settings
        self._said = said

    async def of_element(self, element: "ElementHandle | Locator") -> Picture:
        return await self._taken(element.screenshot, False)

    async def of_page(self, page: "Page", whole: bool) -> Picture:
        width, height = _sizes(await page.evaluate(SIZE))
        if not whole:
            return await self._taken(page.screenshot, height > self._settings.height)
        if height <= MAX_HEIGHT:
            return await self._taken(page.screenshot, False, full_page=True)
        wide = min(width, self._settings.width * 4)
        part = {"x": 0, "y": 0, "width": wide, "height": MAX_HEIGHT}
        return await self._taken(page.screenshot, True, full_page=True, clip=part)

    async def _taken(self, take: Callable[..., Any], is_cut: bool, **options: Any) -> Picture:
        """As PNG, or as a JPEG where that would be too large."""
        options["timeout"] = self._settings.action_timeout * 1000
        exact: bytes = await take(type="png", **options)
        width, height = struct.unpack(">II", exact[16:24])
        most = self._settings.image_bytes
        if len(exact) <= most:
            return Picture(exact, "image/png", width, height, is_cut)
        for quality in (75, 40, 10):
            packed: bytes = await take(type="jpeg", quality=quality, **options)
            if len(packed) <= most:
                return Picture(packed, "image/jpeg", width, height, is_cut)
        raise ToolError(self._said.too_big.format(most))


def _sizes(said: Any) -> tuple[float, float]:
    """What a page says of itself; nothing where it says what is no size."""
    try:
        return msgspec.convert(said, tuple[float, float])
    except msgspec.ValidationError:
        return 0, 0
