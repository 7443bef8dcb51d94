"""What a response's body is, and its text as Markdown: HTML, PDF, plain text, JSON, feeds.

Runs in a worker process (`worker`), since pages are hostile input for parsers. Owns the two structs that
travel between the processes. Knows nothing about networks.
"""

import json
import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .encodings import decoded
from .feeds import feed_of, is_feed
from .interstitials import Interstitial, interstitial
from .language import language_code, language_of
from .main_content import main_content, visible_text, word_count
from .metadata import metadata_of, one_line

Kind = Literal["html", "pdf", "text", "json", "feed"]
Unreadable = Literal["binary", "empty", "pdf_broken", "pdf_locked", "pdf_pictures"]

MAX_MARKDOWN = 2_000_000
SHELL_WORDS = 30
"""HTML of fewer words in its main content may be a shell that scripts fill."""
_HTML = re.compile(rb"<(?:!doctype html|html|head|body|title|div|p|h1|table|meta|script)[\s>]", re.IGNORECASE)
_TEXT_TYPES = (
    "text/",
    "application/xml",
    "application/javascript",
    "application/x-yaml",
    "application/yaml",
    "application/toml",
)
_SHELL = re.compile(
    r"""<div[^>]{0,100}id=["']?(?:root|app|__next|__nuxt|___gatsby|svelte|main-app|react-root|ember)\b|<app-root|ng-version=|data-reactroot""",
    re.IGNORECASE,
)


class Body(Struct, frozen=True, kw_only=True):
    """A response as it came, decompressed."""

    url: str
    data: bytes
    content_type: str = ""
    status: int = 200
    headers: dict[str, str] = {}
    rendered: bool = False
    """Whether a browser has run the page's scripts already."""


class Document(Struct, frozen=True, kw_only=True):
    """A body as it was read. `problem` says why there is no text; `wants_scripts`: a browser may help."""

    kind: Kind | None = None
    title: str = ""
    date: str = ""
    author: str = ""
    description: str = ""
    site: str = ""
    language: str = ""
    encoding: str = ""
    markdown: str = ""
    links: dict[str, str] = {}
    word_count: int = 0
    reader: str = ""
    is_cut: bool = False
    wants_scripts: bool = False
    problem: Interstitial | Unreadable | None = None


def read_body(body: Body) -> Document:
    media, charset = _media_type(body.content_type)
    data = body.data
    if b"%PDF-" in data[:1024]:
        return _pdf(data)
    if not data.strip():
        return Document(problem="empty", wants_scripts=False)
    if is_feed(data):
        feed = _feed(body, charset)
        if feed is not None:
            return feed
    if "json" in media and not _is_html(data):
        return _json(data, charset)
    if "html" in media or (not media.startswith("text/plain") and _is_html(data)):
        return _html(body, charset)
    if _is_binary(media, data):
        return Document(problem="binary")
    return _text(data, charset)


def _media_type(content_type: str) -> tuple[str, str]:
    media, _, rest = content_type.partition(";")
    found = re.search(r"""charset\s*=\s*["']?([\w:.-]+)""", rest, re.IGNORECASE)
    return media.strip().lower(), found[1] if found else ""


def _is_html(data: bytes) -> bool:
    return _HTML.search(data[:2048]) is not None


def _is_binary(media: str, data: bytes) -> bool:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    if b"\x00" in data[:8192]:
        return True
    return (
        bool(media)
        and not media.startswith(_TEXT_TYPES)
        and not media.endswith(("+xml", "json", "octet-stream"))
    )


def _html(body: Body, charset: str) -> Document:
    text, encoding = decoded(body.data, charset)
    tree = parsed(text)
    if tree is None:
        return Document(kind="html", encoding=encoding, problem="empty")
    try:
        content = main_content(tree, body.url)
        about = metadata_of(tree)
    except RecursionError:
        return Document(kind="html", encoding=encoding, problem="empty")
    words = word_count(content.markdown)
    shown = visible_text(tree)
    problem = interstitial(body.status, body.headers, text, about.title, shown, words, about.is_free)
    is_empty = words == 0
    return Document(
        kind="html",
        title=about.title,
        date=about.date,
        author=about.author,
        description=about.description,
        site=about.site,
        language=about.language or language_of(content.markdown),
        encoding=encoding,
        markdown=content.markdown[:MAX_MARKDOWN],
        links=content.links,
        word_count=words,
        reader=content.reader,
        is_cut=len(content.markdown) > MAX_MARKDOWN,
        wants_scripts=not body.rendered and _wants_scripts(text, tree, words, problem),
        problem=problem or ("empty" if is_empty else None),
    )


def parsed(text: str) -> Any:
    """The tree of HTML, None if there is no element."""
    from trafilatura import load_html  # 330 ms

    # lxml refuses texts that declare an encoding, since they are decoded already.
    return load_html(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))


def _wants_scripts(html: str, tree: Any, words: int, problem: str | None) -> bool:
    if problem == "javascript":
        return True
    if problem is not None or words >= SHELL_WORDS:
        return False
    has_scripts = next(tree.iter("script"), None) is not None
    return has_scripts and (words == 0 or _SHELL.search(html) is not None or html.count("<script") >= 3)


def _pdf(data: bytes) -> Document:
    from .pdf import PdfTextError, pdf_text

    try:
        found = pdf_text(data)
    except PdfTextError as error:
        problems: dict[str, Unreadable] = {
            "broken": "pdf_broken",
            "locked": "pdf_locked",
            "pictures": "pdf_pictures",
        }
        return Document(kind="pdf", problem=problems[str(error)])
    markdown = found.markdown[:MAX_MARKDOWN]
    return Document(
        kind="pdf",
        title=found.title or _first_line(markdown),
        date=found.date,
        author=found.author,
        language=language_of(markdown),
        markdown=markdown,
        word_count=word_count(markdown),
        reader="pypdfium2",
        is_cut=found.is_cut or len(found.markdown) > MAX_MARKDOWN,
    )


def _feed(body: Body, charset: str) -> Document | None:
    text, encoding = decoded(body.data, charset)
    feed = feed_of(text, body.url)
    if feed is None or not feed.markdown:
        return None
    return Document(
        kind="feed",
        title=feed.title,
        date=feed.date,
        author=feed.author,
        description=feed.description,
        language=language_code(feed.language) or language_of(feed.markdown),
        encoding=encoding,
        markdown=feed.markdown[:MAX_MARKDOWN],
        links=feed.links,
        word_count=word_count(feed.markdown),
        is_cut=len(feed.markdown) > MAX_MARKDOWN,
    )


def _json(data: bytes, charset: str) -> Document:
    text, encoding = decoded(data, charset)
    try:
        value: Any = json.loads(text)
        title = value.get("title") if isinstance(value, dict) else ""  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] (any JSON)
        shown = json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):  # lines of JSON, or broken: as it is
        title, shown = "", text.strip()
    cut = shown[:MAX_MARKDOWN]
    return Document(
        kind="json",
        title=one_line(title) if isinstance(title, str) else "",
        encoding=encoding,
        markdown=_fenced(cut, "json"),
        word_count=word_count(cut),
        is_cut=len(shown) > len(cut),
        problem=None if shown else "empty",
    )


def _text(data: bytes, charset: str) -> Document:
    text, encoding = decoded(data, charset)
    text = text.strip()
    cut = text[:MAX_MARKDOWN]
    return Document(
        kind="text",
        title=_first_line(cut),
        language=language_of(cut),
        encoding=encoding,
        markdown=cut,
        word_count=word_count(cut),
        is_cut=len(text) > len(cut),
        problem=None if cut else "empty",
    )


def _first_line(text: str) -> str:
    return one_line(text.lstrip("# \n").partition("\n")[0], 120)


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


_request = msgspec.msgpack.Decoder(Body)
_answer = msgspec.msgpack.Encoder()


def answer(request: bytes) -> bytes:
    """Both sides as MessagePack, for the worker."""
    return _answer.encode(read_body(_request.decode(request)))
