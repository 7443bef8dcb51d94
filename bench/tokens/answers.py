"""What tools answer, in tokens: directly, and through a gateway that keeps results small.

Owns the servers, what is asked of them, and both ways. The servers are those that come with Toolyard and six
that people begin with, from npm and PyPI, each a process of its own, once for each way. Every answer is
counted as a client reads it that shows its model the text, and as one that shows the structured content.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp import Client, StdioServerParameters

import toolyard
from bench.process import ROOT
from scripts.bootstrap import missing_program
from tests.results.shelf import seen
from tests.servers.sessions.archive import session
from tests.servers.warehouse import fill_sqlite
from tests.thirdparty.mounting import fetch, npm, pypi, web_page
from toolyard.app import Gateway
from toolyard.config import Config, GatewayConfig, InProcess, ServerConfig, Stdio
from toolyard.kit.loader import load
from toolyard.servers.sessions.recording import record
from toolyard.wire.call import ClientInfo

KEY = b"for what tools answer, in tokens"
FORMS = ("text", "structured")
MOST_MORE = 1.03
COMMITS = 60
PAGES = ("guides/results.md", "guides/search.md", "concepts/search.md", "concepts/tokens.md")
THINGS = [
    {
        "name": f"Person {at}",
        "entityType": "person",
        "observations": [f"Works at Acme, desk {at}", "Likes tea"],
    }
    for at in range(25)
]
NOTE = "---\ntitle: Note {0}\nkind: note\n---\nThe customer of order {0} wants to be called back on Monday.\n"

Count = Callable[[str], int]
Result = dict[str, Any]
Calls = Callable[[str, dict[str, Any]], Awaitable[Result]]
Ask = tuple[str, str, dict[str, Any]]
"""What it is called in the table, the tool, its arguments."""


class Answer(NamedTuple):
    server: str
    asked: str
    tool: str
    tokens: Mapping[str, tuple[int, int]]
    """By form: directly, and through the gateway."""

    @property
    def ratio(self) -> float:
        """The worse of the two."""
        return max(through / max(1, direct) for direct, through in self.tokens.values())


class Server(NamedTuple):
    name: str
    where: Stdio | InProcess
    asks: Sequence[Ask]


async def answers(count: Count, progress: Callable[[str], None]) -> list[Answer]:
    with tempfile.TemporaryDirectory() as folder, _site() as site:
        # Of one length: addresses of files are among what is answered.
        servers = await _servers(Path(folder) / "one", site)
        direct: list[Result] = []
        for server in servers:
            progress(f"{server.name}, directly")
            async with _connected(server) as call:
                direct += [await _answer(call, server, ask, "") for ask in server.asks]
        through: list[Result] = []
        async with _gateway(servers := await _servers(Path(folder) / "two", site)) as call:
            for server in servers:
                progress(f"{server.name}, through the gateway")
                through += [await _answer(call, server, ask, f"mcp__{server.name}__") for ask in server.asks]
    asked = [(server.name, ask[0], ask[1]) for server in servers for ask in server.asks]
    return [
        Answer(*what, {form: (count(seen(came, form)), count(seen(went, form))) for form in FORMS})
        for what, came, went in zip(asked, direct, through, strict=True)
    ]


async def _answer(call: Calls, server: Server, ask: Ask, prefix: str) -> Result:
    result = await call(prefix + ask[1], ask[2])
    if result.get("isError"):
        raise RuntimeError(f"{server.name}: {ask[1]} failed: {result['content']}")
    return result


@asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[Calls]:
    where = server.where
    if isinstance(where, InProcess):
        made = load(where.module, options=where.options)
        try:
            async with toolyard.Client(made, timeout=None) as client:
                yield _plainly(client)
        finally:
            await made.close()
        return
    program = StdioServerParameters(command=where.command, args=list(where.args), env=dict(where.env) or None)
    async with Client(program) as client:

        async def call(tool: str, arguments: dict[str, Any]) -> Result:
            result = await client.call_tool(tool, arguments)
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

        yield call


def _plainly(client: toolyard.Client) -> Calls:
    async def call(tool: str, arguments: dict[str, Any]) -> Result:
        return (await client.call_tool(tool, arguments)).raw

    return call


@asynccontextmanager
async def _gateway(servers: Sequence[Server]) -> AsyncIterator[Calls]:
    mounted = [ServerConfig(name=one.name, where=one.where, connect_timeout=60) for one in servers]
    with tempfile.TemporaryDirectory() as state:
        settings = GatewayConfig(view="all", state_dir=state, list_wait=60.0)
        gateway = Gateway(Config(servers=tuple(mounted), gateway=settings), KEY)
        await gateway.start()
        try:
            view, bench = gateway.view(), ClientInfo("bench", "1")
            async with toolyard.Client(view, info=bench, timeout=None) as client:
                await client.list_tools()
                yield _plainly(client)
        finally:
            await gateway.close()


# The servers, and what is asked of them


async def _servers(folder: Path, site: str) -> list[Server]:
    work = folder / "work"
    work.mkdir(parents=True)
    _fill(work)
    database = folder / "shop.db"
    fill_sqlite(database)
    conversations = f"sqlite:{folder / 'sessions.db'}"
    for at in range(30):
        said = (f"Why is order {at} late?", f"The carrier lost parcel {at}; a new one is on its way.")
        await record(
            session(f"order-{at}", *said, title=f"Order {at}"), tenant="local", user="", url=conversations
        )
    repo = {"repo_path": str(work / "repository")}
    remembering = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
    first = "SELECT id, name FROM customers ORDER BY id LIMIT 13"
    servers = [
        _program(
            "filesystem",
            npm("server-filesystem/dist/index.js", str(work)),
            ("a file of 25 lines", "read_text_file", {"path": str(work / "lines.txt")}),
            ("a guide", "read_text_file", {"path": str(work / "results.md")}),
            ("three guides", "read_multiple_files", {"paths": [str(work / Path(p).name) for p in PAGES[:3]]}),
            ("a folder", "list_directory", {"path": str(work)}),
            ("its sizes", "list_directory_with_sizes", {"path": str(work)}),
            ("a folder of 80 files", "list_directory", {"path": str(work / "many")}),
            ("all folders", "directory_tree", {"path": str(work)}),
            ("a search", "search_files", {"path": str(work), "pattern": "**/*.md"}),
            ("one file's facts", "get_file_info", {"path": str(work / "lines.txt")}),
            ("what is allowed", "list_allowed_directories", {}),
        ),
        _program(
            "memory",
            npm("server-memory/dist/index.js", env=remembering),
            ("25 people", "create_entities", {"entities": THINGS}),
            ("everything", "read_graph", {}),
            ("one person", "open_nodes", {"names": ["Person 3"]}),
            ("a search", "search_nodes", {"query": "desk 1"}),
        ),
        _program(
            "everything",
            npm("server-everything/dist/index.js", "stdio"),
            ("a word", "echo", {"message": "hello"}),
            ("a sum", "get-sum", {"a": 2, "b": 3}),
            ("structured content", "get-structured-content", {"location": "New York"}),
            ("links", "get-resource-links", {"count": 5}),
        ),
        _program(
            "git",
            pypi("mcp-server-git"),
            ("status", "git_status", repo),
            ("10 commits", "git_log", {**repo, "max_count": 10}),
            (f"{COMMITS} commits", "git_log", {**repo, "max_count": COMMITS}),
            ("a commit", "git_show", {**repo, "revision": "HEAD"}),
            ("a difference", "git_diff", {**repo, "target": f"HEAD~{COMMITS - 1}"}),
        ),
        _program(
            "time",
            pypi("mcp-server-time", "--local-timezone=UTC"),
            ("now", "get_current_time", {"timezone": "Asia/Tokyo"}),
            (
                "elsewhere",
                "convert_time",
                {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            ),
        ),
        _program(
            "fetch",
            fetch(),
            ("a page", "fetch", {"url": site, "max_length": 5000}),
            ("a long page", "fetch", {"url": site, "max_length": 50_000}),
        ),
        _bundled(
            "sql",
            {"database": f"sqlite:{database}"},
            ("13 rows x 2 columns", "query_sql", {"sql": first}),
            ("a count", "query_sql", {"sql": "SELECT count(*) AS shipments FROM shipments"}),
            ("100 rows", "query_sql", {"sql": "SELECT * FROM shipments ORDER BY id LIMIT 100"}),
            ("25 rows", "query_sql", {"sql": "SELECT id, status, price FROM shipments ORDER BY id LIMIT 25"}),
        ),
        _bundled(
            "schema",
            {},
            ("tables", "describe_table", {}),
            ("a table", "describe_table", {"table": "orders"}),
            ("relationships", "draw_relationships", {}),
        ),
        _bundled(
            "notes",
            {"url": f"sqlite:{folder / 'notes.db'}"},
            *(
                (f"note {at}", "save_memory", {"path": f"/memories/note-{at}.md", "content": NOTE.format(at)})
                for at in range(2)
            ),
            ("a note", "view_memories", {"path": "/memories/note-1.md"}),
            ("all notes", "list_memories", {}),
            ("a search", "search_memories", {"query": "customer"}),
            module="memory",
        ),
        _bundled(
            "sessions",
            {"url": conversations},
            ("the last", "list_recent_sessions", {"limit": 20}),
            ("a search", "search_sessions", {"query": "carrier", "limit": 20}),
        ),
        _bundled(
            "render",
            {},
            ("status", "service_status", {}),
            ("logs", "search_logs", {"limit": 100}),
            ("errors", "find_errors", {}),
        ),
        _bundled(
            "demo",
            {},
            ("a word", "echo", {"text": "hello"}),
            ("a sum", "add", {"a": 2, "b": 3}),
            ("words", "text_statistics", {"text": "one two two three three three"}),
        ),
        _bundled(
            "browser",
            {"folder": str(folder / "browser"), "allow": site.removeprefix("http://").rstrip("/")},
            ("a page", "browser_navigate", {"url": site}),
            ("a snapshot", "browser_snapshot", {}),
            ("its text", "browser_read_content", {}),
            ("closed", "browser_close", {}),
        ),
    ]
    return [one for one in servers if one.name != "browser" or missing_program("chromium") is None]


def _program(name: str, entry: dict[str, Any], *asks: Ask) -> Server:
    where = Stdio(command=entry["command"], args=tuple(entry["args"]), env=entry.get("env", {}))
    return Server(name, where, asks)


def _bundled(name: str, options: dict[str, Any], *asks: Ask, module: str = "") -> Server:
    return Server(name, InProcess(module=f"toolyard.servers.{module or name}", options=options), asks)


def _fill(work: Path) -> None:
    (work / "lines.txt").write_text("".join(f"line {at}\n" for at in range(25)))
    for page in PAGES:
        (work / Path(page).name).write_text(_page(page))
    many = work / "many"
    many.mkdir()
    for at in range(80):
        (many / f"report-{at:03}.txt").write_text("x")
    _repository(work / "repository")


def _page(name: str) -> str:
    """Without the tables that such runs write, so that the next one reads the same."""
    lines = (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("|"))


def _repository(path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    lines: list[str] = []
    for at in range(COMMITS):
        who = f"Ada <ada@example.com> {1_700_000_000 + at * 3_600} +0000"
        message = f"Change number {at}\n\nIt makes part {at} of the report say what it should."
        content = "".join(f"Part {part} was changed {max(0, at - part)} times\n" for part in range(40))
        lines += ["commit refs/heads/main", f"author {who}", f"committer {who}", f"data {len(message)}"]
        lines += [message, "M 100644 inline report.txt", f"data {len(content)}", content]
    stream = "\n".join(lines)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=stream, text=True, check=True)
    subprocess.run(["git", "checkout", "-q", "-f", "main"], cwd=path, check=True)


@contextmanager
def _site() -> Iterator[str]:
    """A long page with links and buttons."""
    rows = "".join(
        f"<tr><td>{at}</td><td><a href='/order/{at}'>Order {at}</a></td><td>{at * 7.5:.2f}</td></tr>"
        for at in range(200)
    )
    prose = "".join(f"<p>{line}</p>" for line in _page(PAGES[0]).splitlines() if line)
    body = f"<h1>Orders</h1><button>New order</button><table>{rows}</table>{prose}"
    with web_page(f"<html><head><title>Orders</title></head><body>{body}</body></html>") as url:
        yield url
