"""Title, date, author, description, site and language of an HTML page, from what the page says about itself.

Reads JSON-LD first, then `meta`, then the visible page. Every value is one line of limited length.
"""

import json
import re
from collections.abc import Iterator
from datetime import date
from typing import Any, cast

from msgspec import Struct

from .language import language_code

MAX_VALUE = 500
MAX_JSON = 500_000
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")
_SEPARATOR = re.compile(r"\s+[|·•—–»-]\s+")
_BY = re.compile(r"^(?:by|von|par|por|de|di|автор:?)\s+", re.IGNORECASE)
_DATES = (
    "article:published_time",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.created",
    "pubdate",
    "publish-date",
    "citation_publication_date",
    "sailthru.date",
    "og:article:published_time",
    "parsely-pub-date",
)
_AUTHORS = (
    "author",
    "article:author",
    "dc.creator",
    "dcterms.creator",
    "citation_author",
    "parsely-author",
    "sailthru.author",
)


class PageMetadata(Struct, frozen=True):
    title: str = ""
    date: str = ""
    """As YYYY-MM-DD."""
    author: str = ""
    description: str = ""
    site: str = ""
    language: str = ""
    is_free: bool = True
    """False if the page says that the whole text is for subscribers."""


def metadata_of(tree: Any) -> PageMetadata:
    said = _meta(tree)
    things = list(_things(tree))
    return PageMetadata(
        title=one_line(_title(tree, said, things)),
        date=_date(tree, said, things),
        author=one_line(_author(tree, said, things)),
        description=one_line(
            _first(said, "og:description", "description", "twitter:description", "dc.description")
        ),
        site=one_line(_first(said, "og:site_name", "application-name")),
        language=_language(tree, said),
        is_free=not any(str(thing.get("isAccessibleForFree", "")).lower() == "false" for thing in things),
    )


def one_line(text: str, most: int = MAX_VALUE) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def iso_date(text: str) -> str:
    """The day in a text that begins with an ISO date; empty if there is none, or none that exists."""
    found = _DATE.search(text[:40])
    if found is None:
        return ""
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
    except ValueError:
        return ""


def _meta(tree: Any) -> dict[str, str]:
    said: dict[str, str] = {}
    for element in tree.iter("meta"):
        name = (
            element.get("property")
            or element.get("name")
            or element.get("itemprop")
            or element.get("http-equiv")
        )
        content = element.get("content")
        if name and content and content.strip():
            said.setdefault(name.strip().lower(), content.strip()[: MAX_VALUE * 4])
    return said


def _things(tree: Any) -> Iterator[dict[str, Any]]:
    """The objects in JSON-LD, with those in `@graph`."""
    for script in tree.iter("script"):
        text = script.text or ""
        if "ld+json" not in (script.get("type") or "") or len(text) > MAX_JSON:
            continue
        try:
            waiting: list[Any] = [json.loads(text, strict=False)]
        except (ValueError, RecursionError):
            continue
        for _ in range(200):
            if not waiting:
                break
            one = waiting.pop(0)
            if isinstance(one, list):
                waiting += cast(list[Any], one)
            elif isinstance(one, dict):
                thing = cast(dict[str, Any], one)
                waiting += [thing[key] for key in ("@graph", "mainEntity") if key in thing]
                yield thing


def _first(said: dict[str, str], *names: str) -> str:
    return next((said[name] for name in names if name in said), "")


def _title(tree: Any, said: dict[str, str], things: list[dict[str, Any]]) -> str:
    for thing in things:
        if isinstance(headline := thing.get("headline"), str) and headline.strip():
            return headline
    if found := _first(said, "og:title", "citation_title", "dc.title", "twitter:title"):
        return found
    headings = [one_line("".join(one.itertext())).rstrip("¶§# ") for one in tree.iter("h1")]
    titles = [one_line("".join(one.itertext())) for one in tree.xpath("//head/title | //title[1]")]
    if len(headings) == 1 and 3 <= len(headings[0]) <= 200:
        return headings[0]
    if not titles:
        return next((heading for heading in headings if heading), "")
    # The longest part of `Headline | Section | Site`.
    return max(_SEPARATOR.split(titles[0]), key=len) if len(titles[0]) > 20 else titles[0]


def _date(tree: Any, said: dict[str, str], things: list[dict[str, Any]]) -> str:
    claims = [thing.get(name) for name in ("datePublished", "uploadDate", "dateCreated") for thing in things]
    claims += [said.get(name) for name in _DATES]
    claims += [one.get("datetime") or "".join(one.itertext()) for one in tree.iter("time")][:5]
    for claim in claims:
        if isinstance(claim, str) and (found := iso_date(claim.strip())):
            return found
    from htmldate import find_date  # loaded with trafilatura

    try:
        return find_date(tree, extensive_search=False, original_date=True) or ""
    except (ValueError, TypeError, AttributeError, OverflowError):  # hostile dates
        return ""


def _author(tree: Any, said: dict[str, str], things: list[dict[str, Any]]) -> str:
    for thing in things:
        if names := _names(thing.get("author")):
            return ", ".join(names)
    for name in _AUTHORS:
        if name in said and "://" not in said[name]:
            return _BY.sub("", said[name])
    paths = (
        '//*[@rel="author"]',
        '//*[@itemprop="author"]',
        '//*[contains(concat(" ", @class, " "), " author ")]',
        '//*[contains(@class, "byline")]',
    )
    for path in paths:
        for element in tree.xpath(path)[:1]:
            text = _BY.sub("", one_line("".join(element.itertext())))
            text = re.split(r"[,·|]|\s\d", text)[0].strip()
            if 2 < len(text) <= 80:
                return text
    return ""


def _names(author: Any) -> list[str]:
    listed = cast(list[Any], author) if isinstance(author, list) else [author]
    found: list[str] = []
    for one in listed[:10]:
        name = cast(dict[str, Any], one).get("name") if isinstance(one, dict) else one
        if isinstance(name, str) and name.strip() and "://" not in name:
            found.append(one_line(name, 100))
    return found


def _language(tree: Any, said: dict[str, str]) -> str:
    claims = [tree.get("lang"), tree.get("{http://www.w3.org/XML/1998/namespace}lang"), tree.get("xml:lang")]
    claims += [said.get("og:locale"), said.get("content-language"), said.get("dc.language")]
    return next((code for claim in claims if claim and (code := language_code(claim))), "")
