"""The structs that the tools return, and the text that a model reads.

Text from a page stands between two markers with a random number that the page cannot know.
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


class Navigated(PageView, kw_only=True):
    status: Annotated[int | None, Meta(description="Of the HTTP answer")] = None


class Evaluated(PageView, kw_only=True):
    value: Annotated[Any, Meta(description="What the script gave, as JSON; cut when value_truncated")] = None
    value_truncated: bool = False


class Frames(PageView, kw_only=True):
    frames: list[FrameInfo] = []


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


def view_text(view: PageView, said: BrowserTexts, left_out: str) -> str:
    value = [said.value.format(quoted(view.value, said))] if isinstance(view, Evaluated) else []
    parts = [*_heading(view, said), *value, quoted(view.snapshot or said.empty, said)]
    return "\n".join([*parts, *([left_out] if left_out else [])])


def reading_text(reading: PageText, said: BrowserTexts, left_out: str) -> str:
    parts = [said.page.format(one_line(reading.url)), *_notices(reading.notices)]
    return "\n".join([*parts, quoted(reading.text or said.empty, said), *([left_out] if left_out else [])])


def shot_text(shot: ScreenshotInfo, said: BrowserTexts) -> str:
    size = said.image.format(shot.width, shot.height, shot.mime_type)
    more = [said.image_cut] if shot.truncated else []
    return "\n".join([said.page.format(one_line(shot.url)), size, *more, *_notices(shot.notices)])


def _heading(view: PageView, said: BrowserTexts) -> list[str]:
    lines = [said.page.format(one_line(view.url))]
    if isinstance(view, Navigated) and view.status is not None:
        lines.append(said.status.format(view.status))
    if view.frame != "main":
        lines.append(said.in_frame.format(one_line(view.frame)))
    if isinstance(view, Frames):
        lines += [said.frame_line.format(one_line(frame.name), one_line(frame.url)) for frame in view.frames]
    if len(view.pages) > 1:
        lines += [said.page_line.format(page.name, one_line(page.url)) for page in view.pages]
    lines += [said.downloaded.format(file.name, file.size, file.uri) for file in view.downloads]
    return lines + _notices(view.notices)


def _notices(notices: list[PageNotice]) -> list[str]:
    return [f"! {notice.text}" for notice in notices]


def address(url: str) -> str:
    """As long as a page may make it, and no longer."""
    return url if len(url) <= MAX_URL else url[:MAX_URL] + "…"


def one_line(text: str, most: int = 300) -> str:
    """The page's words in a line of ours: they cannot begin another."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[:most] + "…"


def quoted(value: Any, said: BrowserTexts) -> str:
    """Between marks that the page could not have written itself."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    mark = secrets.token_hex(4)
    return f"<page-{mark}> {said.untrusted}\n{text}\n</page-{mark}>"
