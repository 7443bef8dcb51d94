"""What becomes of each address of a crawl: a page, or a failure whose code says why. No texts for people."""

from typing import Literal

from msgspec import Struct

from .extraction.document import Kind

FailureCode = Literal[
    # the address
    "address",
    "scheme",
    "credentials",
    "private",
    # the connection
    "unknown_host",
    "unreachable",
    "tls",
    "broken",
    "timeout",
    "out_of_time",
    # the answer
    "status",
    "rate_limited",
    "too_many_redirects",
    "redirect_loop",
    "too_large",
    "compression",
    "robots",
    "robots_unreachable",
    # a page in front of the page
    "cloudflare",
    "captcha",
    "blocked",
    "consent",
    "login",
    "paywall",
    "javascript",
    # the body
    "binary",
    "empty",
    "pdf_broken",
    "pdf_locked",
    "pdf_pictures",
    "unreadable",
    "not_saved",
]


class CrawledPage(Struct, frozen=True, kw_only=True):
    url: str
    """As it was asked for."""
    final_url: str
    """After redirects."""
    kind: Kind
    title: str
    date: str
    """As YYYY-MM-DD, empty if unknown."""
    author: str
    description: str
    site: str
    language: str
    """As `pt`, empty if unknown."""
    encoding: str
    markdown: str
    links: dict[str, str]
    """Addresses in the main content, with their texts."""
    word_count: int
    is_cut: bool
    rendered: bool
    """Whether a browser ran the page's scripts."""
    from_cache: bool


class CrawlFailure(Struct, frozen=True):
    url: str
    code: FailureCode
    detail: str = ""
    """A fact for the sentence: a status, a host, a limit."""


class CrawlError(Exception):
    """Ends the work on one address."""

    def __init__(self, code: FailureCode, detail: object = "") -> None:
        super().__init__(code, detail)
        self.code: FailureCode = code
        self.detail = str(detail)


class PageNotSavedError(Exception):
    """Raised by the function that a crawl gives its pages to; the text says why."""


class CrawlSummary(Struct, frozen=True, kw_only=True):
    total: int
    """Distinct addresses."""
    successful: int
    failures: list[CrawlFailure]
    skipped: list[str]
    """Not tried, or left behind, because enough pages were found."""
    duplicates: int
