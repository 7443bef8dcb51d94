"""A big repository and a big folder, behind servers that others wrote: an agent's client answers a question
about them with one look at what was stored, and never sees the rest."""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.yard import toml
from tests.flow.process import Agent, agent, started
from tests.reading import text_of
from tests.thirdparty.mounting import npm, pypi

pytestmark = pytest.mark.timeout(120)

COMMITS = 400
AUTHORS = ("Ada", "Grace", "Edsger", "Barbara")
FILES = 300


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by one process: every fourth commit is Grace's."""
    path = tmp_path_factory.mktemp("big") / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    lines: list[str] = []
    for at in range(COMMITS):
        who = f"{AUTHORS[at % 4]} <{AUTHORS[at % 4].lower()}@example.com> {1_700_000_000 + at * 60} +0000"
        message, content = f"Change number {at}", f"version {at}\n"
        lines += ["commit refs/heads/main", f"author {who}", f"committer {who}"]
        lines += [
            f"data {len(message)}",
            message,
            "M 100644 inline file.txt",
            f"data {len(content)}",
            content,
        ]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input="\n".join(lines), text=True, check=True)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full")
    for at in range(FILES):
        place = path / f"part {at % 10}"
        place.mkdir(exist_ok=True)
        (place / f"{at}.{('txt', 'md', 'log')[at % 3]}").write_text("x")
    return path


@asynccontextmanager
async def in_front_of(servers: dict[str, dict[str, Any]], place: Path, view: str) -> AsyncIterator[Agent]:
    config = toml(servers, list_wait=15.0, view=view, state_dir=str(place / "state"))
    config = config.replace("shape = false", "shape = true")
    async with started(place, config) as gateway, agent(gateway) as one:
        yield one


async def test_in_the_search_view_one_query_answers_a_question_about_a_big_repository(
    repository: Path, tmp_path: Path
):
    async with in_front_of({"git": pypi("mcp-server-git")}, tmp_path, "search") as one:
        found = await one.search("show the commits of a git repository")
        names = [tool["tool"] for tool in found["results"][0]["results"]]
        assert "mcp__git__git_log" in names
        log = await one.calls("mcp__git__git_log", repo_path=str(repository), max_count=COMMITS)
        assert log["truncated"] is True
        assert log["summary"]["kind"] == "text"
        assert log["summary"]["line_count"] > COMMITS
        assert len(json.dumps(log)) < 5000 < log["summary"]["approx_size_bytes"]
        id = log["storage"]["resource"].rpartition("/")[2]
        assert f"call_tool(tool='read_result', arguments=dict(id='{id}'))" in log["hint"]
        answer = await one.does(
            "read_result", id=id, sql="SELECT count(*) AS n FROM result WHERE text LIKE 'Author:%Grace%'"
        )
        assert answer["rows"] == [{"n": COMMITS // 4}]


async def test_in_the_search_view_one_query_answers_a_question_about_a_big_folder(
    folder: Path, tmp_path: Path
):
    files = {"files": npm("server-filesystem/dist/index.js", str(folder))}
    async with in_front_of(files, tmp_path, "search") as one:
        tree = await one.calls("mcp__files__directory_tree", path=str(folder))
        assert tree["truncated"] is True
        answer = await one.does(
            "read_result",
            id=tree["storage"]["resource"],
            query="length([].children[?ends_with(name, '.md')][])",
        )
        assert answer["value"] == FILES // 3


async def test_in_the_view_of_everything_the_whole_is_read_as_a_resource(
    repository: Path, folder: Path, tmp_path: Path
):
    servers = {"git": pypi("mcp-server-git"), "files": npm("server-filesystem/dist/index.js", str(folder))}
    async with in_front_of(servers, tmp_path, "all") as one:
        await one.client.list_tools()
        log = await one.does("mcp__git__git_log", repo_path=str(repository), max_count=COMMITS)
        tree = await one.does("mcp__files__directory_tree", path=str(folder))
        assert log["hint"].startswith("resources/read of toolyard://results/")
        whole = text_of((await one.client.read_resource(log["storage"]["resource"])).contents[0])
        assert (
            sum(line.startswith("Author:") and "Grace" in line for line in whole.splitlines()) == COMMITS // 4
        )
        page = await one.client.read_resource(log["storage"]["resource"] + "?offset=0&limit=8")
        assert any("Change number 399" in line for line in json.loads(text_of(page.contents[0]))["lines"])
        stored = text_of((await one.client.read_resource(tree["storage"]["resource"])).contents[0])
        assert sum(len(part["children"]) for part in json.loads(stored)) == FILES
