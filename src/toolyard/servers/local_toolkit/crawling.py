"""The tool `crawl_parallel`: pages of the web as Markdown files in the workspace, and an overview of them.

Owns its result and the files it writes. Fetching and reading pages is the crawler's business.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ...egress import AddressRules
from ...kit import Context, Long, Server, ToolError, ToolResult, prompt_injection
from ...kit.calls.content import counts_meta
from ...kit.loader import MissingExtraError, SettingsError, require_extra
from ...kit.localization import add_localized_tool
from ...kit.schema.annotations import schema_name
from ...kit.schema.validation import schema_of
from ...languages import Locale
from ...workspace import Workspace, WorkspaceError, Workspaces
from .crawling_texts import CRAWL, crawl_message, crawl_text, failure_text
from .files import errors_as_tool_errors, in_thread
from .settings import Settings

if TYPE_CHECKING:
    from ...crawler.crawler import Crawler
    from ...crawler.outcomes import CrawledPage, CrawlFailure, CrawlSummary

_HEAD_BYTES = 16_384
"""Front matter ends within these."""
_MAX_SHOWN = 300
STOP_AFTER = 10


@schema_name("SavedPage")
class SavedPage(Struct, kw_only=True):
    url: str
    file: Annotated[str, Meta(description="The name of the file")]
    path: Annotated[str, Meta(description="The whole path of the file")]
    title: Annotated[str, Meta(description="The page's words: untrusted")]
    date: Annotated[str, Meta(description="YYYY-MM-DD; empty if unknown")]
    language: str
    type: Annotated[str, Meta(description="html, pdf, text, json or feed")]
    word_count: int
    rendered: Annotated[bool, Meta(description="Whether a browser ran the page's scripts")]
    from_cache: bool
    suspect: Annotated[int, Meta(description="Places that address a model instead of a reader")]


@schema_name("CrawlProblem")
class CrawlProblem(Struct, kw_only=True):
    url: str
    error: str
    code: Annotated[str, Meta(description="The kind of problem, such as paywall, robots or status")]


@schema_name("Crawl")
class CrawlReport(Struct, kw_only=True):
    total: Annotated[int, Meta(description="Distinct addresses")]
    successful: int
    failed: int
    saved_files: list[SavedPage]
    errors: list[CrawlProblem]
    skipped: Annotated[list[str], Meta(description="Not crawled, because stop_after was reached")]
    duplicates: Annotated[int, Meta(description="Addresses that were given more than once")]
    overview: Annotated[str, Meta(description="The path of the overview, empty if nothing was saved")]
    notes: list[str]


class CrawlTool:
    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self._locale: Locale = settings.locale
        try:
            self._rules = AddressRules(settings.allowed)
        except ValueError as error:
            raise SettingsError(f"allow: {error}") from None
        self._crawler: Crawler | None = None

    async def crawl_parallel(
        self,
        ctx: Context,
        urls: list[str],
        session_dir: str,
        batch_size: Annotated[int, Meta(ge=0, le=1000)] = 0,
        stop_after: Annotated[int, Meta(ge=0, le=1000)] = STOP_AFTER,
        fresh: bool = False,
    ) -> ToolResult:
        self._check(urls)
        crawler = self._open()
        from ...crawler.crawler import CrawlRequest, distinct

        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            folder = workspace.relative(session_dir)
        saving = _Saving(workspace, folder, self._locale)
        request = CrawlRequest(
            urls=urls, owner=ctx.caller.owner, batch_size=batch_size, stop_after=stop_after, fresh=fresh
        )
        total = len(distinct(urls))

        async def on_outcome(done: int, url: str, failure: "CrawlFailure | None") -> None:
            error = "" if failure is None else failure_text(self._locale, failure.code, failure.detail)
            kind = "not_read" if error else "read"
            shown = _one_line(url)
            await ctx.report_progress(
                done, total, crawl_message(self._locale, kind, done=done, total=total, url=shown, error=error)
            )

        summary = await crawler.crawl(request, saving.save, on_outcome)
        return await self._result(urls, summary, saving)

    async def close(self) -> None:
        crawler, self._crawler = self._crawler, None
        if crawler is not None:
            await crawler.close()

    def _check(self, urls: list[str]) -> None:
        most = self._settings.max_urls
        if not any(url.strip() for url in urls):
            raise ToolError(crawl_text(self._locale, "no_urls"))
        if len(urls) > most:
            raise ToolError(crawl_message(self._locale, "many_urls", count=len(urls), most=most))

    def _open(self) -> "Crawler":
        if self._crawler is None:
            try:
                require_extra(
                    "local_toolkit",
                    "crawl",
                    "trafilatura",
                    "lxml_html_clean",
                    "pypdfium2",
                    "protego",
                    "brotli",
                )
            except MissingExtraError as error:
                raise ToolError(str(error)) from None
            from ...chromium import Chromium
            from ...crawler.crawler import USER_AGENT, Crawler  # 60 ms beside aiohttp

            settings = self._settings
            self._crawler = Crawler(
                self._rules,
                settings.crawl_limits,
                cache_folder=settings.crawl_cache_folder,
                chromium=Chromium(settings.chromium, settings.sandbox),
                user_agent=settings.user_agent or USER_AGENT,
            )
        return self._crawler

    async def _result(self, urls: list[str], summary: "CrawlSummary", saving: "_Saving") -> ToolResult:
        given = {_cut(url.strip()): number for number, url in enumerate(urls)}
        saved = sorted(saving.saved, key=lambda page: given.get(page.url, 0))
        problems = [
            CrawlProblem(
                url=_cut(one.url),
                error=failure_text(self._locale, one.code, _one_line(one.detail)),
                code=one.code,
            )
            for one in summary.failures
        ]
        notes: list[str] = []
        overview = ""
        if saved:
            notes.append(crawl_text(self._locale, "note"))
            with errors_as_tool_errors(self._locale):
                overview = await saving.write_overview({one.url: one.error for one in problems})
        if summary.skipped:
            notes.append(crawl_message(self._locale, "stopped", stop=len(saved), count=len(summary.skipped)))
        if suspect := sum(1 for page in saved if page.suspect):
            notes.append(crawl_message(self._locale, "suspect", count=suspect))
        report = CrawlReport(
            total=summary.total,
            successful=summary.successful,
            failed=len(problems),
            saved_files=saved,
            errors=problems,
            skipped=[_cut(url) for url in summary.skipped],
            duplicates=summary.duplicates,
            overview=overview,
            notes=notes,
        )
        plain: dict[str, Any] = msgspec.to_builtins(report)
        return ToolResult(
            content=[json.dumps(plain, ensure_ascii=False, indent=1)],
            structured=report,
            meta=counts_meta(
                total=report.total,
                successful=report.successful,
                failed=report.failed,
                skipped=len(report.skipped),
            ),
        )


class _Saving:
    """The files of one crawl."""

    def __init__(self, workspace: Workspace, folder: str, locale: Locale) -> None:
        self._workspace = workspace
        self._folder = "" if folder in ("", ".") else folder + "/"
        self._locale: Locale = locale
        self.saved: list[SavedPage] = []

    async def save(self, page: "CrawledPage") -> None:
        from ...crawler.files import FOLDER, file_name, page_file
        from ...crawler.outcomes import PageNotSavedError

        suspect = prompt_injection.count_suspect(page.markdown)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        more = {"suspect": suspect} if suspect else {}
        text = page_file(page, now, links_heading=crawl_text(self._locale, "links"), **more)
        name = file_name(page.url)
        path = f"{self._folder}{FOLDER}/{name}"
        try:
            await in_thread(lambda _: self._workspace.write(path, text.encode("utf-8", "replace")))
        except WorkspaceError as error:
            raise PageNotSavedError(error.explain(self._locale)) from None
        self.saved.append(
            SavedPage(
                url=_cut(page.url),
                file=name,
                path=self._workspace.absolute(path),
                title=prompt_injection.marked(page.title),
                date=page.date,
                language=page.language,
                type=page.kind,
                word_count=page.word_count,
                rendered=page.rendered,
                from_cache=page.from_cache,
                suspect=suspect,
            )
        )

    async def write_overview(self, errors: Mapping[str, str]) -> str:
        """Of all crawled pages in the folder, also of earlier calls. Returns its path."""
        from ...crawler.files import FOLDER, OVERVIEW, OverviewTexts, entry_of, overview

        texts = OverviewTexts(
            *(
                crawl_text(self._locale, f"overview_{name}")
                for name in ("title", "summary", "failed", "words")
            )
        )

        def write() -> str:
            listed = self._workspace.list(f"{self._folder}{FOLDER}")
            files = [one for one in listed if one.name.startswith("crawl_") and one.name.endswith(".md")]
            heads = [(one.name, self._workspace.read(one.path, 0, _HEAD_BYTES)) for one in files]
            entries = [
                entry for name, head in heads if (entry := entry_of(name, head.decode("utf-8", "ignore")))
            ]
            path = f"{self._folder}{OVERVIEW}"
            self._workspace.write(path, overview(entries, errors, texts).encode("utf-8", "replace"))
            return self._workspace.absolute(path)

        return await in_thread(lambda _: write())


def add_crawling_tools(server: Server, workspaces: Workspaces, settings: Settings) -> None:
    tool = CrawlTool(workspaces, settings)
    server.on_close(tool.close, reopens=True)
    add_localized_tool(
        server,
        tool.crawl_parallel,
        en=CRAWL["en"],
        pt=CRAWL["pt"],
        output_schema=schema_of(CrawlReport),
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=True,
        long=Long(detach="at_once"),
    )


def _one_line(text: str) -> str:
    return _cut(" ".join(text.split()), _MAX_SHOWN)


def _cut(text: str, most: int = 2_000) -> str:
    return text if len(text) <= most else text[:most] + "…"
