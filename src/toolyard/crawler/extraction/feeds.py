"""RSS, Atom and RDF feeds as Markdown: the feed's title, then every entry with date, link and text."""

import re
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any

from msgspec import Struct

from .markdown import MarkdownWriter
from .metadata import iso_date, one_line

MAX_ENTRIES = 200
_START = re.compile(
    rb"\s*+(?:(?:(?><!--.{0,2000}?-->)|(?><\?[^>]{0,500}\?>)|<!DOCTYPE[^>]{0,500}+>)\s*+)*"
    rb"<(?:rss|feed|rdf:RDF|channel)[\s>]",
    re.DOTALL,
)
"""Each part of it ends in one place only: a page of forty comments would take for ever."""


class Feed(Struct, frozen=True):
    title: str
    description: str
    date: str
    language: str
    author: str
    markdown: str
    links: dict[str, str]


def is_feed(body: bytes) -> bool:
    return _START.match(body[:8192].removeprefix(b"\xef\xbb\xbf")) is not None


def feed_of(text: str, base: str) -> Feed | None:
    """None if the text is no feed."""
    etree: Any = import_module("lxml.etree")  # untyped

    # No entities and no network: a feed may define entities that grow without end, or name files.
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=False)
    root = etree.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text).encode("utf-8", "replace"), parser)
    if root is None:
        return None
    channel = next((one for one in root.iter() if _name(one) == "channel"), root)
    entries = [one for one in root.iter() if _name(one) in ("item", "entry")][:MAX_ENTRIES]
    writer = MarkdownWriter(base)
    parts = [part for entry in entries for part in _entry(entry, writer)]
    return Feed(
        title=_child(channel, "title"),
        description=_child(channel, "description", "subtitle"),
        date=_day(_child(channel, "pubDate", "updated", "lastBuildDate", "date")),
        language=_child(channel, "language")[:20],
        author=_child(channel, "managingEditor", "author", "creator"),
        markdown="\n\n".join(parts),
        links=writer.links,
    )


def _entry(entry: Any, writer: MarkdownWriter) -> list[str]:
    title = _child(entry, "title") or "—"
    link = _link(entry)
    if link:
        writer.links.setdefault(link, title)
    day = _day(_child(entry, "pubDate", "published", "updated", "date"))
    author = _child(entry, "creator", "author")
    facts = " · ".join(part for part in (day, author, link) if part)
    text = _content(entry, writer)
    return [f"## {title}", *([facts] if facts else []), *([text] if text else [])]


def _content(entry: Any, writer: MarkdownWriter) -> str:
    """The longest of content and summary; both are HTML more often than not."""
    texts = [_raw(one) for one in entry if _name(one) in ("encoded", "content", "description", "summary")]
    best = max(texts, key=len, default="")
    if "<" not in best:
        return " ".join(best.split())
    html: Any = import_module("lxml.html")

    try:
        return writer.write(html.fromstring(f"<div>{best}</div>"))
    except (ValueError, AssertionError):
        return ""


def _raw(element: Any) -> str:
    """Text, or the markup inside in Atom's xhtml form."""
    etree: Any = import_module("lxml.etree")  # untyped

    if len(element):
        inner = [etree.tostring(child, encoding="unicode") for child in element]
        return (element.text or "") + "".join(inner)
    return element.text or ""


def _link(entry: Any) -> str:
    for one in entry:
        if _name(one) == "link":
            href = one.get("href") or (one.text or "")
            if (
                href.strip().startswith(("http://", "https://"))
                and one.get("rel", "alternate") == "alternate"
            ):
                return href.strip()[:2000]
    return ""


def _child(element: Any, *names: str) -> str:
    for name in names:
        for one in element:
            if _name(one) == name and (text := one_line(" ".join(one.itertext()))):
                return text
    return ""


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _day(text: str) -> str:
    if found := iso_date(text):
        return found
    try:
        return parsedate_to_datetime(text).date().isoformat() if text else ""
    except (ValueError, TypeError, IndexError):
        return ""
