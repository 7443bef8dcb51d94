"""A crawler: fetches pages politely, reads their main content as Markdown, and names what stood in the way.

Takes addresses and rules, gives pages and failures. Needs the extra `crawl`. Writes no files.
"""

from .crawler import USER_AGENT, Crawler, CrawlLimits, CrawlRequest
from .outcomes import CrawledPage, CrawlError, CrawlFailure, CrawlSummary, FailureCode, PageNotSavedError

__all__ = [
    "USER_AGENT",
    "CrawlError",
    "CrawlFailure",
    "CrawlLimits",
    "CrawlRequest",
    "CrawlSummary",
    "CrawledPage",
    "Crawler",
    "FailureCode",
    "PageNotSavedError",
]
