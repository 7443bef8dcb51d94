"""The text and the metadata of a PDF, by pypdfium2: the fastest and the best of three that were measured.

Lines are put together into paragraphs. Pictures, and pages that are pictures, have no text here.
"""

import re
from collections import Counter
from importlib import import_module
from typing import Any

from msgspec import Struct

from .metadata import one_line

MAX_PAGES = 500
_DATE = re.compile(r"D:(\d{4})(\d{2})?(\d{2})?")
_END = re.compile(r"[.!?:;…。！？”\"]$")
_HYPHEN = re.compile(r"(?<=\w)[\u00ad\ufffe\u0002-]$")


class PdfTextError(Exception):
    """`broken`, `locked` (it needs a password) or `pictures` (no text in it)."""


class PdfText(Struct, frozen=True):
    title: str
    author: str
    date: str
    markdown: str
    pages: int
    is_cut: bool


def pdf_text(body: bytes) -> PdfText:
    pypdfium2: Any = import_module("pypdfium2")  # 40 ms; untyped

    try:
        document: Any = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        raise PdfTextError("locked" if "assword" in str(error) else "broken") from None
    try:
        pages = len(document)
        texts = [_page_text(document, number) for number in range(min(pages, MAX_PAGES))]
        said: dict[str, str] = document.get_metadata_dict()
    finally:
        document.close()
    lines = _without_running_heads([text.splitlines() for text in texts])
    markdown = "\n\n".join(part for page in lines if (part := _paragraphs(page)))
    if not markdown.strip():
        raise PdfTextError("pictures")
    return PdfText(
        title=one_line(said.get("Title", "")),
        author=one_line(said.get("Author", "")),
        date=_day(said.get("CreationDate", "")),
        markdown=markdown,
        pages=pages,
        is_cut=pages > MAX_PAGES,
    )


def _page_text(document: Any, number: int) -> str:
    pypdfium2: Any = import_module("pypdfium2")

    try:
        page = document[number]
        return page.get_textpage().get_text_bounded().replace("\r\n", "\n").replace("\r", "\n")
    except pypdfium2.PdfiumError:
        return ""  # a broken page in a document whose other pages are readable


def _without_running_heads(pages: list[list[str]]) -> list[list[str]]:
    """Drops the first and last line of pages where most pages have the same, apart from numbers."""
    if len(pages) < 4:
        return pages
    for place in (0, -1):
        marks = Counter(_mark(page[place]) for page in pages if page)
        mark, count = marks.most_common(1)[0] if marks else ("", 0)
        if count > len(pages) / 2:
            pages = [_without(page, place) if page and _mark(page[place]) == mark else page for page in pages]
    return pages


def _mark(line: str) -> str:
    return re.sub(r"\d+", "#", line.strip().lower())


def _without(page: list[str], place: int) -> list[str]:
    return page[1:] if place == 0 else page[:-1]


def _paragraphs(lines: list[str]) -> str:
    """Joins the lines of a paragraph: those about as long as the longest that end no sentence."""
    width = max((len(line) for line in lines), default=0)
    found: list[str] = []
    is_open = False
    for line in lines:
        text = line.strip()
        if not text:
            is_open = False
            continue
        if is_open:
            last = found[-1]
            found[-1] = (
                _HYPHEN.sub("", last) + text
                if _HYPHEN.search(last) and text[:1].islower()
                else f"{last} {text}"
            )
        else:
            found.append(text)
        is_open = len(text) > width * 0.6 and not (_END.search(text) and len(text) < width * 0.85)
    return "\n\n".join(found)


def _day(text: str) -> str:
    found = _DATE.match(text)
    return "-".join((found[1], found[2] or "01", found[3] or "01")) if found else ""
