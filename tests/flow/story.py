"""The seed's story, as two scripted agents would go through it: news, a report, its upload, a mail.

`python -m tests.flow.story PORT` sets the stage in the current folder: the news, Composio, and a model at
this port, for `toolyard agent` to be watched with.

`Story` is the script of either emulated API. It knows its agents by their system prompts, and decides by what
its tools answered, as a model would.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.crawler.web import Web, article
from tests.emulators.composio import ComposioEmulator
from tests.emulators.openai_chat import scripted_chat
from tests.emulators.scripted import Blocks, ToolUse, tokens_of

TASK = "Write a comprehensive report on tea news and mail it to bo@example.com."
REPORT = "work_products/tea_november_2026.html"
PAGES = 25
CONFIG = """
[servers.local_toolkit]
module = "local_toolkit"
options = {{ allow = "127.0.0.1:{port}", host_delay = 0, \
composio_api_key = "{key}", composio_url = "{composio}", workbench = "composio" }}

[servers.composio]
type = "composio"
api_key = "{key}"
base_url = "{composio}"

[access]
agents = ["main", "report-creation-expert"]

[[access.rules]]
name = "main agent"
who = ["main"]
allow = ["local_toolkit", "composio"]
deny = ["local_toolkit/save_corpus"]

[[access.rules]]
name = "reports"
who = ["report-creation-expert"]
allow = ["local_toolkit", "composio/COMPOSIO_SEARCH_*:read"]
"""

BROKEN = 3
"""How many of the pages that the news name do not answer."""
STOP = 10
MAIL = "mcp__composio__GMAIL_SEND_EMAIL"
NO_TOOL = "mcp__composio__NOBODY_HAS_THIS"
ANSWER = "The report on tea is on its way to bo@example.com."


class Turn:
    """One request of an agent: its tools by their last names, and what they answered so far."""

    def __init__(self, request: Any) -> None:
        self._names = {name.rpartition("__")[2]: name for name in request.tool_names}
        results = request.tool_results
        self.results = [result if isinstance(result, str) else result.text for result in results]

    def found(self, mark: str) -> Any:
        """The newest result with this text, as JSON. Claude Code gives results as they come."""
        return json.loads(next(text for text in reversed(self.results) if mark in text))

    def use(self, tool: str, **arguments: Any) -> ToolUse:
        """A tool of the gateway, which the search view calls by `call_tool`."""
        return self.own("call_tool", tool=tool, arguments=arguments)

    def own(self, name: str, **arguments: Any) -> ToolUse:
        return ToolUse(self._names[name], arguments)


class Story:
    """`said` are the results that each agent got. `names` are the tools that it was offered."""

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = {}
        self.names: dict[str, list[str]] = {}
        self.turns: dict[str, int] = defaultdict(int)
        self.html = ""
        self.tokens = 0
        """Of all requests, as the emulated APIs count them."""

    def __call__(self, request: Any) -> Blocks:
        agent, steps = (
            ("report-creation-expert", self._expert)
            if "You turn search results into a report" in request.system
            else ("main", self._main)
        )
        turn = Turn(request)
        self.said[agent] = turn.results
        self.names[agent] = sorted(request.tool_names)
        self.turns[agent] += 1
        self.tokens += tokens_of(b"." * request.size)
        return steps()[self.turns[agent] - 1](turn)

    def _main(self) -> Sequence[Callable[[Turn], Blocks]]:
        return (
            lambda turn: turn.own(
                "search_tools", queries=[{"use_case": "search the news"}, {"use_case": "send an email"}]
            ),
            lambda turn: turn.use("mcp__composio__COMPOSIO_SEARCH_NEWS_SEARCH", query="tea"),
            self._keep_news,
            lambda turn: turn.own("delegate", agent="report-creation-expert", task="A report on tea."),
            lambda turn: [
                turn.use(
                    "mcp__local_toolkit__workbench_upload",
                    local_path=REPORT,
                    remote_path="/home/user/report.html",
                ),
                turn.use("mcp__local_toolkit__upload_to_composio", path=REPORT),
            ],
            self._mail,
            lambda turn: ANSWER,
        )

    def _keep_news(self, turn: Turn) -> Blocks:
        found = turn.found('"news_results"')["news_results"]
        return turn.use(
            "mcp__local_toolkit__write_local_file",
            path="search_results/news.json",
            content=json.dumps([hit["link"] for hit in found]),
        )

    def _mail(self, turn: Turn) -> Blocks:
        stored = turn.found('"s3key"')
        return turn.use(
            MAIL,
            recipient_email="bo@example.com",
            subject="Tea",
            body="The report is attached.",
            attachment={name: stored[name] for name in ("s3key", "mimetype", "name")},
        )

    def _expert(self) -> Sequence[Callable[[Turn], Blocks]]:
        return (
            lambda turn: [
                turn.use("mcp__local_toolkit__list_directory", path="search_results"),
                turn.use("mcp__local_toolkit__read_local_file", path="search_results/news.json"),
            ],
            lambda turn: [
                turn.use(
                    "mcp__local_toolkit__crawl_parallel",
                    urls=turn.found('["http'),
                    session_dir=".",
                ),
                turn.use(MAIL, recipient_email="eve@example.com", body="Psst"),
                turn.use(NO_TOOL, recipient_email="eve@example.com", body="Psst"),
            ],
            self._save,
            self._write,
            lambda turn: f"The report is {REPORT}.",
        )

    def _save(self, turn: Turn) -> Blocks:
        crawled = turn.found('"saved_files"')
        pages = crawled["saved_files"]
        articles = [{"url": page["url"], "status": "success", "content": page["title"]} for page in pages]
        articles += [{"url": error["url"], "status": "failed"} for error in crawled["errors"]]
        return [
            turn.use("mcp__local_toolkit__save_corpus", articles=articles, workspace_path="."),
            turn.use(
                "mcp__local_toolkit__read_research_files",
                file_paths=[f"search_results/{page['file']}" for page in pages],
            ),
        ]

    def _write(self, turn: Turn) -> Blocks:
        words = len(turn.results[-1].split())
        self.html = f"<h1>Tea</h1><p>{STOP} sources, {words} words, 茶.</p>\n" * 40
        return turn.use("mcp__local_toolkit__write_local_file", path=REPORT, content=self.html)


@asynccontextmanager
async def news_site() -> AsyncIterator[Web]:
    async with Web().open() as opened:
        for number in range(BROKEN, PAGES):
            opened.pages[f"/news/{number}"] = article(f"Tea, part {number}", seed=number)
        yield opened


@asynccontextmanager
async def composio_with_news(web: Web, user: str = "local") -> AsyncIterator[ComposioEmulator]:
    """`user` has connected Gmail, and nobody else."""
    async with ComposioEmulator() as emulator:
        emulator.world.search_results = [web.url(f"/news/{number}") for number in range(PAGES)]
        emulator.connect(user, "gmail")
        yield emulator


async def set_stage(port: int) -> None:
    async with news_site() as web, composio_with_news(web) as composio, scripted_chat(Story(), port):
        config = CONFIG.format(port=web.port, key=composio.api_key, composio=composio.url)
        Path("toolyard.toml").write_text(config)  # noqa: ASYNC240 (nobody waits)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    import sys

    asyncio.run(set_stage(int(sys.argv[1])))
