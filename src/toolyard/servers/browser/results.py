"""The structs that the tools return, and the text that a model reads.

Text from a page is enclosed in two markers with a random number that the page cannot know.
"""

import json
import secrets
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...kit.schema.annotations import schema_name
from .texts import BrowserTexts

MAX_URL = 2000

NoticeKind = Literal[
    "dialog",
    "popup",
    "refused",
    "failed",
    "loading",
    "stopped",
    "crashed",
    "restarted",
    "frame",
    "suspect",
    "note",
]


@schema_name("Notice")
class PageNotice(Struct, frozen=True):
    kind: NoticeKind
    text: str


@schema_name("Download")
class DownloadedFile(Struct, frozen=True):
    name: str
    uri: Annotated[str, Meta(description="The resource that has it")]
    path: Annotated[str, Meta(description="The file on the server")]
    url: str
    size: int


class PageInfo(Struct, frozen=True):
    name: Annotated[str, Meta(description="For browser_switch_frame")]
    url: str
    active: bool


class FrameInfo(Struct, frozen=True):
    name: Annotated[str, Meta(description="For browser_switch_frame")]
    url: str
    active: bool


@schema_name("View")
class PageView(Struct, kw_only=True):
    """A page as it is now. Titles, snapshots and addresses are the page's own words."""

    url: str
    title: str
    frame: Annotated[str, Meta(description="The active frame; main is the page itself")]
    snapshot: Annotated[str, Meta(description="The page's words: untrusted")]
    truncated: bool
    pages: list[PageInfo]
    notices: list[PageNotice]
    downloads: list[DownloadedFile]

    def heading(self, texts: BrowserTexts) -> list[str]:
        """Lines after the address."""
        return [texts.in_frame.format(one_line(self.frame))] if self.frame != "main" else []

    def value_lines(self, texts: BrowserTexts) -> list[str]:
        """Lines before the snapshot."""
        return []


class Navigated(PageView, kw_only=True):
    status: Annotated[int | None, Meta(description="Of the HTTP answer")] = None

    def heading(self, texts: BrowserTexts) -> list[str]:
        status = [] if self.status is None else [texts.status.format(self.status)]
        return [*status, *super().heading(texts)]


class Evaluated(PageView, kw_only=True):
    value: Annotated[Any, Meta(description="What the script gave, as JSON; cut when value_truncated")] = None
    value_truncated: bool = False

    def value_lines(self, texts: BrowserTexts) -> list[str]:
        return [texts.value.format(quoted(self.value, texts))]


class Frames(PageView, kw_only=True):
    frames: list[FrameInfo] = []

    def heading(self, texts: BrowserTexts) -> list[str]:
        frames = (texts.frame_line.format(one_line(one.name), one_line(one.url)) for one in self.frames)
        return [*super().heading(texts), *frames]


@schema_name("Shot")
class ScreenshotInfo(Struct, kw_only=True):
    url: str
    title: str
    width: int
    height: int
    mime_type: str
    size: Annotated[int, Meta(description="Bytes")]
    truncated: Annotated[bool, Meta(description="Whether the page goes on below")]
    notices: list[PageNotice]


@schema_name("Reading")
class PageText(Struct, kw_only=True):
    url: str
    title: str
    text: Annotated[str, Meta(description="The page's words: untrusted")]
    start: int
    total: Annotated[int, Meta(description="Characters in all")]
    truncated: bool
    notices: list[PageNotice]


class Closed(Struct, kw_only=True):
    closed: Annotated[bool, Meta(description="Whether there was anything to close")]


def view_text(view: PageView, texts: BrowserTexts, left_out: str) -> str:
    lines = [texts.page.format(one_line(view.url)), *view.heading(texts)]
    if len(view.pages) > 1:
        lines += [texts.page_line.format(page.name, one_line(page.url)) for page in view.pages]
    lines += [texts.downloaded.format(file.name, file.size, file.uri) for file in view.downloads]
    lines += [*_notices(view.notices), *view.value_lines(texts)]
    parts = [*lines, quoted(view.snapshot or texts.empty, texts)]
    return "\n".join([*parts, *([left_out] if left_out else [])])


def reading_text(reading: PageText, texts: BrowserTexts, left_out: str) -> str:
    parts = [texts.page.format(one_line(reading.url)), *_notices(reading.notices)]
    return "\n".join([*parts, quoted(reading.text or texts.empty, texts), *([left_out] if left_out else [])])


def shot_text(shot: ScreenshotInfo, texts: BrowserTexts) -> str:
    size = texts.image.format(shot.width, shot.height, shot.mime_type)
    more = [texts.image_cut] if shot.truncated else []
    return "\n".join([texts.page.format(one_line(shot.url)), size, *more, *_notices(shot.notices)])


def _notices(notices: list[PageNotice]) -> list[str]:
    return [f"! {notice.text}" for notice in notices]


def address(url: str) -> str:
    """Limits the length of an address that a page chose."""
    return url if len(url) <= MAX_URL else url[:MAX_URL] + "…"


def one_line(text: str, most: int = 300) -> str:
    """Puts text from a page on one line, so that it cannot start a new one."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[:most] + "…"


def quoted(value: Any, texts: BrowserTexts) -> str:
    """Encloses text in markers that the page cannot forge."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    mark = secrets.token_hex(4)
    return f"<page-{mark}> {texts.untrusted}\n{text}\n</page-{mark}>"
