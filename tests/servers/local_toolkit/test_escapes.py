"""Every way out of a workspace, through every tool that takes a path, and as a resource."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.servers.local_toolkit.talking import Bench, User
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.app import Gateway
from toolyard.config import load
from toolyard.wire.errors import McpError

ESCAPES = [
    "../outside/secret.txt",
    "a/../../outside/secret.txt",
    "/etc/passwd",
    "{outside}/secret.txt",
    "{work}/../outside/secret.txt",
    "~/.ssh/id_rsa",
    "link/secret.txt",
    "link.txt",
    "loop/loop/a.txt",
    "file:///etc/passwd",
    "..\\outside\\secret.txt",
    "\uff0e\uff0e/outside/secret.txt",
    "\u2025/outside",
    "a\uff0f..\uff0foutside",
    "a\0/../../outside",
    "a\n",
    ".toolyard/x/y/a.txt",
    "x" * 300,
    "fifo",
    "",
]


def acts(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("read_local_file", {"path": path}),
        ("write_local_file", {"path": path, "content": "overwritten"}),
        ("compress_files", {"files": [path], "output_archive": "a.zip"}),
        ("compress_files", {"files": ["good.txt"], "output_archive": path}),
        ("save_corpus", {"articles": [], "workspace_path": path}),
        ("finalize_research", {"session_dir": path}),
    ]


def prepared(bench: Bench) -> User:
    outside = bench.folder.parent / "outside"
    bench.folder.mkdir()
    (bench.folder / "good.txt").write_text("good")
    (bench.folder / "link").symlink_to(outside)
    (bench.folder / "link.txt").symlink_to(outside / "secret.txt")
    (bench.folder / "loop").symlink_to(".")
    os.mkfifo(bench.folder / "fifo")
    return bench.user()


@pytest.mark.parametrize("escape", ESCAPES)
async def test_no_tool_follows_a_path_out(bench: Bench, escape: str):
    ana = prepared(bench)
    before = {path.name for path in bench.folder.rglob("*")}
    path = escape.format(outside=bench.folder.parent / "outside", work=bench.folder)
    for tool, arguments in acts(path):
        async with asyncio.timeout(PATIENCE):
            assert "anybody" not in await ana.refused(tool, **arguments)
    if path != "":
        found = (await ana.good("read_research_files", file_paths=[path, "good.txt"])).structured
        assert [one["path"] for one in found["files_read"]] == ["good.txt"]
        assert [one["path"] for one in found["errors"]] == [path]
        with pytest.raises(McpError):
            await ana.read(f"workspace:///{path}")
    assert (bench.folder.parent / "outside" / "secret.txt").read_text() == "not for anybody here"
    assert [entry.name for entry in (bench.folder.parent / "outside").iterdir()] == ["secret.txt"]
    assert {found.name for found in bench.folder.rglob("*")} == before


async def test_encoded_dots_in_a_uri_are_dots(bench: Bench):
    ana = prepared(bench)
    for uri in (
        "workspace:///%2e%2e/outside/secret.txt",
        "workspace:///..%2foutside%2fsecret.txt",
        "workspace:///%2fetc%2fpasswd",
        "workspace:///link%2Fsecret.txt",
        "workspace:///..%2foutside%2fsecret.txt?start=0&size=10",
        "workspace:////etc/passwd",
    ):
        with pytest.raises(McpError):
            await ana.read(uri)


async def test_nobody_reads_the_files_of_another_user_or_conversation(bench: Bench):
    server = bench.server()
    ana = bench.user(server, "ana", "one")
    await ana.write("private.txt", "of ana")
    [root] = [path.parent for path in bench.folder.parent.rglob("private.txt")]
    beside = f"../{root.relative_to(bench.folder.parent)}"
    for other in (bench.user(server), bench.user(server, "ana", "two"), bench.user(server, "rui", "one")):
        assert await other.names() == []
        for path in ("private.txt", f"{root}/private.txt", f"{beside}/private.txt"):
            await other.refused("read_local_file", path=path)
            with pytest.raises(McpError):
                await other.read(f"workspace:///{path}")
    assert (await ana.good("read_local_file", path=f"{root}/private.txt")).text == "of ana"


async def test_conversations_share_files_if_the_settings_say_so(bench: Bench):
    server = bench.server(shared=True)
    await bench.user(server, "ana", "one").write("a.txt", "x")
    assert await bench.user(server, "ana", "two").names() == ["a.txt"]
    assert await bench.user(server, "rui", "two").names() == []


async def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    bench = Bench(tmp_path / "file" / "work")
    assert "Not a directory" in await bench.user().refused("list_directory")
    await bench.close()


def _line(folder: str) -> str:
    return f'options = {{ workspace = "{folder}" }}'


@pytest.mark.parametrize("tool", ["save_corpus", "write_local_file", "crawl_parallel"])
async def test_an_absolute_path_outside_is_refused_with_the_line_that_allows_it(
    tool: str, bench: Bench, tmp_path: Path
):
    sessions = tmp_path / "sessions"
    arguments: dict[str, Any] = {
        "save_corpus": {"articles": [], "workspace_path": str(sessions / "one")},
        "write_local_file": {"path": str(sessions / "report.html"), "content": "<p>"},
        "crawl_parallel": {"urls": ["file:///x"], "session_dir": str(sessions / "one")},
    }[tool]
    refusal = await bench.user().refused(tool, **arguments)
    assert "outside the workspace" in refusal
    line = _line(str(sessions))
    assert line in refusal.replace('\\"', '"')  # save_corpus answers with JSON

    config = tmp_path / "toolyard.toml"
    config.write_text(f'[servers.local_toolkit]\nmodule = "local_toolkit"\n{line}\n')
    gateway = Gateway(load(config))
    await gateway.start()
    async with Client(gateway.view()) as client:
        allowed = await client.call_tool(f"mcp__local_toolkit__{tool}", arguments)
    await gateway.close()
    assert not allowed.is_error, allowed.text


async def test_no_line_is_named_where_none_would_help(bench: Bench, tmp_path: Path):
    server = bench.server()
    for user, path in (
        (bench.user(server, "ana", "one"), str(tmp_path / "elsewhere" / "a.txt")),  # has a folder of her own
        (bench.user(server), "../a.txt"),
        (bench.user(server), "/"),
        (bench.user(server), "~/a.txt"),
        (bench.user(server), "/tmp/\u202etxt.exe/a.txt"),
    ):
        assert "options = " not in await user.refused("read_local_file", path=path)


async def test_the_line_is_named_in_portuguese_too(bench: Bench):
    refusal = await bench.user(locale="pt").refused("read_local_file", path="/etc/passwd")
    assert refusal.endswith(f"com esta linha na tabela dele na configuração: {_line('/etc')}")
