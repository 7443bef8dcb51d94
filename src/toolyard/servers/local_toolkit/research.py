"""The tools for research: save a corpus, read many files in batches, and sum up a session's material.

Owns the files `expanded_corpus.json` and `research_summary.md`. Crawling writes those in `search_results`.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from ...kit import Context, Server, ToolResult, prompt_injection
from ...kit.localization import add_localized_tool
from ...kit.schema.annotations import schema_name
from ...kit.schema.validation import schema_of
from ...languages import Locale
from ...workspace import Workspace, WorkspaceEntry, WorkspaceError, Workspaces
from .files import errors_as_failures, errors_as_tool_errors, failure, in_thread
from .reading import LOOKED_AT, decoded, nature_of
from .settings import Settings
from .texts import CORPUS, FINALIZE, READ_MANY, message

CORPUS_FILE = "expanded_corpus.json"
SUMMARY_FILE = "research_summary.md"
OVERVIEW_FILE = "research_overview.md"
RESULTS_FOLDER = "search_results"
MAX_WORDS = 25_000
"""Words that one call of `read_research_files` returns."""
BATCH_SAFE_WORDS = 2_500
LARGE_WORDS = 5_000
MAX_PATHS = 500
MAX_ARTICLES = 5_000
MAX_FOUND_FILES = 2_000
MAX_URLS = 2_000
_FILE_BYTES = 8 * 1024 * 1024
"""How much of one file is read; 25,000 words are far less."""
_JSON_BYTES = 32 * 1024 * 1024
_DEPTH = 40
_ADDRESS_KEYS = frozenset({"url", "link", "href", "source_url", "sourceurl"})

ReadingSize = Literal["batch_safe", "medium", "large"]


class Corpus(Struct, kw_only=True):
    success: bool
    corpus_path: str
    articles_saved: int
    successful: int
    failed: int
    total_content_bytes: Annotated[int, Meta(description="Characters of the successful articles' content")]


@schema_name("ResearchFile")
class ResearchFile(Struct, kw_only=True):
    path: str
    words: int
    size: Annotated[
        ReadingSize, Meta(description="batch_safe: under 2,500 words; large: over 5,000, best read alone")
    ]
    truncated: Annotated[bool, Meta(description="Whether only the first words are here")] = False


@schema_name("ResearchProblem")
class ResearchProblem(Struct, kw_only=True):
    path: str
    error: str


class ResearchBatch(Struct, kw_only=True):
    files_read: list[ResearchFile]
    files_left: Annotated[list[str], Meta(description="Not read: the limit was reached; ask for them next")]
    errors: list[ResearchProblem]
    total_words: int
    word_limit: int
    suspect: Annotated[
        int,
        Meta(description="How many parts look like instructions to a model; each is shown as ⟦suspect: …⟧"),
    ]
    content: str


@schema_name("ResearchSource")
class ResearchSource(Struct, kw_only=True):
    path: str
    title: str
    source: str
    date: str
    words: int
    size: ReadingSize


class ResearchSummary(Struct, kw_only=True):
    success: bool
    summary_path: str
    search_files: Annotated[int, Meta(description="JSON files with search results")]
    urls_found: int
    crawled: Annotated[int, Meta(description="Pages that were crawled and saved")]
    not_crawled: Annotated[
        list[str], Meta(description="Addresses of the search results without a saved page")
    ]
    total_words: int
    files: list[ResearchSource]
    batches: Annotated[list[list[str]], Meta(description="Files to read together with read_research_files")]
    corpus_path: str | None = None
    overview_path: str | None = None
    errors: list[ResearchProblem] = []


class ResearchTools:
    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._locale: Locale = settings.locale

    async def save_corpus(
        self,
        ctx: Context,
        articles: Annotated[list[dict[str, Any]], Meta(max_length=MAX_ARTICLES)],
        workspace_path: str = ".",
    ) -> Corpus:
        good = [article for article in articles if article.get("status") == "success"]
        contents = [article.get("content") for article in good]
        if not all(isinstance(content, str) for content in contents):
            raise failure(message(self._locale, "no_content"))
        corpus = {
            "extraction_timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "total_articles": len(articles),
            "successful": len(good),
            "failed": len(articles) - len(good),
            "articles": articles,
        }
        with errors_as_failures(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            path = _inside(workspace, workspace_path, CORPUS_FILE)
            data = msgspec.json.format(msgspec.json.encode(corpus), indent=2)
            await in_thread(lambda _: workspace.write(path, data))
        return Corpus(
            success=True,
            corpus_path=workspace.absolute(path),
            articles_saved=len(articles),
            successful=len(good),
            failed=len(articles) - len(good),
            total_content_bytes=sum(len(content) for content in contents if isinstance(content, str)),
        )

    async def read_research_files(
        self, ctx: Context, file_paths: Annotated[list[str], Meta(max_length=MAX_PATHS)]
    ) -> ToolResult:
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            batch = await in_thread(lambda _: self._read_batch(workspace, file_paths))
        return ToolResult(content=[batch.content], structured=batch)

    def _read_batch(self, workspace: Workspace, paths: list[str]) -> ResearchBatch:
        read: list[ResearchFile] = []
        problems: list[ResearchProblem] = []
        parts: list[str] = []
        total = suspect = 0
        waiting = list(dict.fromkeys(paths))
        while waiting:
            path = waiting[0]
            try:
                text = _text_of(workspace, path)
            except WorkspaceError as error:
                problems.append(ResearchProblem(path=path, error=error.explain(self._locale)))
                waiting.pop(0)
                continue
            words = _count_words(text)
            if read and total + words > MAX_WORDS:
                break
            waiting.pop(0)
            is_cut = words > MAX_WORDS
            read.append(ResearchFile(path=path, words=words, size=size_of(words), truncated=is_cut))
            shown = _first_words(text, MAX_WORDS) if is_cut else text
            kind = "research_cut" if is_cut else "research_file"
            head = message(self._locale, kind, path=path, words=words, limit=MAX_WORDS)
            # Pages of strangers: what speaks to the model is marked as such.
            suspect += prompt_injection.count_suspect(shown)
            parts.append(f"{head}\n\n{prompt_injection.marked(shown.strip())}")
            total += min(words, MAX_WORDS)
        report = [message(self._locale, "research_read", count=len(read), words=total, limit=MAX_WORDS)]
        if waiting:
            report.append(
                message(self._locale, "research_left", count=len(waiting), paths=", ".join(waiting))
            )
        if suspect:
            report.append(message(self._locale, "suspect", count=suspect))
        report += [f"- {problem.error}" for problem in problems]
        return ResearchBatch(
            files_read=read,
            files_left=waiting,
            errors=problems,
            total_words=total,
            word_limit=MAX_WORDS,
            suspect=suspect,
            content="\n\n".join(["\n".join(report), *parts]),
        )

    async def finalize_research(self, ctx: Context, session_dir: str = ".") -> ToolResult:
        with errors_as_failures(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            summary, text = await in_thread(lambda _: self._sum_up(workspace, session_dir))
        return ToolResult(content=[text], structured=summary)

    def _sum_up(self, workspace: Workspace, session_dir: str) -> tuple[ResearchSummary, str]:
        base = workspace.relative(session_dir)
        folder = _inside(workspace, base, RESULTS_FOLDER)
        entries = [entry for entry in workspace.list(folder, MAX_FOUND_FILES) if entry.kind == "file"]
        problems: list[ResearchProblem] = []
        searches = [entry for entry in entries if entry.name.endswith(".json")]
        addresses = _addresses(workspace, searches, problems, self._locale)
        sources = _sources(workspace, entries, problems, self._locale)
        crawled = {_same(source.source) for source in sources}
        summary = ResearchSummary(
            success=True,
            summary_path=workspace.absolute(_inside(workspace, base, SUMMARY_FILE)),
            search_files=len(searches),
            urls_found=len(addresses),
            crawled=len(sources),
            not_crawled=[address for address in addresses if _same(address) not in crawled],
            total_words=sum(source.words for source in sources),
            files=sources,
            batches=batches_of(sources),
            corpus_path=_present(workspace, _inside(workspace, base, CORPUS_FILE)),
            overview_path=_present(workspace, _inside(workspace, base, OVERVIEW_FILE)),
            errors=problems,
        )
        text = _markdown(summary, self._locale)
        workspace.write(_inside(workspace, base, SUMMARY_FILE), text.encode(errors="replace"))
        return summary, text


def size_of(words: int) -> ReadingSize:
    if words < BATCH_SAFE_WORDS:
        return "batch_safe"
    return "large" if words > LARGE_WORDS else "medium"


def batches_of(sources: list[ResearchSource]) -> list[list[str]]:
    """Files that fit into one call of `read_research_files` together; a large one has its own."""
    batches = [[source.path] for source in sources if source.size == "large"]
    current: list[str] = []
    words = 0
    for source in sources:
        if source.size == "large":
            continue
        if current and words + source.words > MAX_WORDS:
            batches.append(current)
            current, words = [], 0
        current.append(source.path)
        words += source.words
    return [*batches, current] if current else batches


def _inside(workspace: Workspace, folder: str, name: str) -> str:
    base = workspace.relative(folder)
    return name if base == "." else f"{base}/{name}"


def _present(workspace: Workspace, path: str) -> str | None:
    try:
        return path if workspace.stat(path).kind == "file" else None
    except WorkspaceError:
        return None


def _text_of(workspace: Workspace, path: str) -> str:
    with workspace.open_read(path) as file:
        data = file.read(min(_FILE_BYTES, os.fstat(file.fileno()).st_size))
    nature = nature_of(path, data[:LOOKED_AT])
    if nature.encoding is None:
        raise WorkspaceError("failed", path, detail=nature.mime_type)
    return decoded(data, nature.encoding)


def _count_words(text: str) -> int:
    return len(text.split())


def _first_words(text: str, count: int) -> str:
    """The text up to that many words, with its white space as it is."""
    end = 0
    in_word = False
    for position, character in enumerate(text):
        if character.isspace():
            in_word = False
        elif not in_word:
            in_word = True
            count -= 1
            if count < 0:
                return text[:end]
        end = position + 1
    return text


def _addresses(
    workspace: Workspace, searches: list[WorkspaceEntry], problems: list[ResearchProblem], locale: Locale
) -> list[str]:
    """The addresses in files with search results, each once, in their order."""
    found: dict[str, str] = {}
    for entry in searches:
        try:
            if entry.size > _JSON_BYTES:
                raise WorkspaceError("too_large", entry.path, limit=_JSON_BYTES)
            value: Any = msgspec.json.decode(workspace.read(entry.path))
        except WorkspaceError as error:
            problems.append(ResearchProblem(path=entry.path, error=error.explain(locale)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = message(locale, "not_json", path=entry.path, reason=str(error)[:200])
            problems.append(ResearchProblem(path=entry.path, error=reason))
        else:
            for address in _addresses_in(value, _DEPTH):
                if len(found) < MAX_URLS:
                    found.setdefault(_same(address), address)
    return list(found.values())


def _addresses_in(value: Any, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, list):
        for item in cast(list[Any], value):
            yield from _addresses_in(item, depth - 1)
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            if isinstance(item, str):
                if key.lower() in _ADDRESS_KEYS and item.startswith(("http://", "https://")):
                    yield item
            else:
                yield from _addresses_in(item, depth - 1)


def _same(address: str) -> str:
    """An address without what does not matter to which page it is."""
    return address.partition("#")[0].rstrip("/")


def _sources(
    workspace: Workspace, entries: list[WorkspaceEntry], problems: list[ResearchProblem], locale: Locale
) -> list[ResearchSource]:
    found: list[ResearchSource] = []
    for entry in entries:
        if not entry.name.endswith(".md") or entry.name == OVERVIEW_FILE:
            continue
        try:
            text = _text_of(workspace, entry.path)
        except WorkspaceError as error:
            problems.append(ResearchProblem(path=entry.path, error=error.explain(locale)))
            continue
        fields, body = _front_matter(text)
        words = _count_words(body)
        found.append(
            ResearchSource(
                path=entry.path,
                title=fields.get("title") or entry.name,
                source=fields.get("source") or fields.get("url") or "",
                date=fields.get("date", ""),
                words=words,
                size=size_of(words),
            )
        )
    return found


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """The `name: value` lines between two `---`, and the text after them."""
    if not text.startswith("---\n"):
        return {}, text
    head, end, body = text[4:].partition("\n---\n")
    if not end:
        return {}, text
    fields: dict[str, str] = {}
    for line in head.split("\n"):
        name, colon, value = line.partition(":")
        if colon and name and not name[0].isspace():
            fields[name.strip().lower()] = _unquoted(value.strip())[:500]
    return fields, body


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return msgspec.json.decode(value, type=str)
        except msgspec.DecodeError:
            pass
    return value.strip("\"'")


def _markdown(summary: ResearchSummary, locale: Locale) -> str:
    lines = [
        message(locale, "summary_title"),
        "",
        message(
            locale,
            "summary_counts",
            searches=summary.search_files,
            urls=summary.urls_found,
            crawled=summary.crawled,
            words=summary.total_words,
        ),
    ]
    if summary.files:
        lines += ["", message(locale, "summary_head"), "|---|---|---|---:|---|"]
        rows = [(one.title, one.source, one.date, str(one.words), one.path) for one in summary.files]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    if summary.batches:
        lines += ["", message(locale, "summary_batches"), ""]
        lines += [f"{number}. {', '.join(batch)}" for number, batch in enumerate(summary.batches, 1)]
    if summary.not_crawled:
        lines += ["", message(locale, "summary_missing", count=len(summary.not_crawled)), ""]
        lines += [f"- {address}" for address in summary.not_crawled]
    if summary.errors:
        lines += ["", message(locale, "summary_errors"), "", *(f"- {one.error}" for one in summary.errors)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def add_research_tools(server: Server, workspaces: Workspaces, settings: Settings) -> None:
    tools = ResearchTools(workspaces, settings)
    rows: tuple[tuple[Callable[..., Awaitable[Any]], Any, type[Struct], bool], ...] = (
        (tools.save_corpus, CORPUS, Corpus, False),
        (tools.read_research_files, READ_MANY, ResearchBatch, True),
        (tools.finalize_research, FINALIZE, ResearchSummary, False),
    )
    for function, localized, result, read_only in rows:
        add_localized_tool(
            server,
            function,
            en=localized["en"],
            pt=localized["pt"],
            output_schema=schema_of(result),
            read_only=read_only,
            destructive=not read_only,  # an existing file is replaced
            idempotent=True,
            open_world=False,
            bounded=read_only,
        )
