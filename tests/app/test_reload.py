"""A changed configuration is taken over while the gateway runs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import TOOLS_CHANGED, Exchange, Speaker, free_port, speaking, text, tool
from tests.app.yard import Yard, at, yard
from tests.serving import PATIENCE
from toolyard.app import watch
from toolyard.config import Config, ConfigError, ServerConfig, load


async def change(front: Yard, *servers: ServerConfig) -> None:
    await front.gateway.reload(replace(front.gateway.config, servers=servers))


def connections(speaker: Speaker) -> int:
    """How often somebody introduced themselves to it."""
    return len(speaker.heard("server/discover")) + len(speaker.openings)


async def test_an_added_server_is_served_and_clients_are_told():
    async with speaking(Speaker("modern")) as a, speaking(Speaker("modern")) as b, yard(at(a, "a")) as front:
        assert await front.tools() == ["mcp__a__echo"]
        line = await front.listen(toolsListChanged=True)
        await change(front, at(a, "a"), at(b, "b"))
        assert (await front.says("mcp__b__echo", {"text": "at once"})) == "at once"
        assert await front.tools() == ["mcp__a__echo", "mcp__b__echo"]
        assert (await line.next_message())["method"] == TOOLS_CHANGED


async def test_a_removed_server_is_unknown_everywhere_and_clients_are_told():
    async with (
        speaking(Speaker("modern")) as a,
        speaking(Speaker("modern")) as b,
        yard(at(a, "a"), at(b, "b")) as front,
    ):
        await front.tools()
        line = await front.listen(toolsListChanged=True)
        await change(front, at(a, "a"))
        assert (await line.next_message())["method"] == TOOLS_CHANGED
        assert await front.tools() == ["mcp__a__echo"]
        assert (await front.call("mcp__b__echo")).error["code"] == -32602
        assert (await front.modern("tools/list", path="/mcp/b")).status == 404
        assert set((await front.health())["servers"]) == {"a"}


async def test_a_server_that_did_not_change_is_not_connected_to_again():
    same, gone, new = Speaker("legacy"), Speaker("modern"), Speaker("modern")
    async with (
        speaking(same) as a,
        speaking(gone) as b,
        speaking(new) as c,
        yard(at(a, "same"), at(b, "gone")) as front,
    ):
        await front.says("mcp__same__echo")
        before = connections(same)
        await change(front, at(c, "new"), at(a, "same"))
        assert await front.says("mcp__same__echo", {"text": "still"}) == "still"
        assert await front.says("mcp__new__echo", {"text": "too"}) == "too"
    assert connections(same) == before


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"rename": {"echo": "repeat"}}, ["mcp__up__repeat", "mcp__up__write"]),
        ({"deny": ("write",)}, ["mcp__up__echo"]),
        ({"allow": ("write",)}, ["mcp__up__write"]),
        ({"timeout": 7.0}, ["mcp__up__echo", "mcp__up__write"]),
        ({"concurrency": 1}, ["mcp__up__echo", "mcp__up__write"]),
    ],
    ids=["rename", "deny", "allow", "timeout", "concurrency"],
)
async def test_what_we_make_of_a_server_changes_without_connecting_again(options: Any, shown: list[str]):
    speaker = Speaker("legacy", [tool("echo"), tool("write")])
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == ["mcp__up__echo", "mcp__up__write"]
        before = connections(speaker)
        line = await front.listen(toolsListChanged=True)
        await change(front, at(url, **options))
        assert await front.tools() == shown
        assert await front.says(shown[0], {"text": "works"}) == "works"
        assert (await line.next_message())["method"] == TOOLS_CHANGED
    assert connections(speaker) == before


async def test_a_shorter_time_limit_is_kept_from_the_next_call_on():
    speaker = Speaker("modern")

    async def hold(exchange: Exchange) -> None:
        await speaker.held(exchange)

    speaker.on["tools/call"] = hold
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.tools()
        await change(front, at(url, timeout=0.2))
        assert "0.2 s" in (await front.call("mcp__up__echo")).error["message"]


@pytest.mark.parametrize("after", ["removed", "moved", "renamed"])
async def test_calls_under_way_finish(after: str):
    speaker, elsewhere = Speaker("modern"), Speaker("modern")
    go_on = asyncio.Event()

    async def call(exchange: Exchange) -> None:
        await go_on.wait()
        await exchange.result(text("finished"))

    speaker.on["tools/call"] = call
    async with speaking(speaker) as url, speaking(elsewhere) as other, yard(at(url)) as front:
        await front.tools()
        calling = asyncio.create_task(front.says("mcp__up__echo"))
        await speaker.until_heard("tools/call")
        servers = {"removed": [], "moved": [at(other)], "renamed": [at(url, rename={"echo": "x"})]}
        await change(front, *servers[after])
        if after == "moved":
            assert await front.says("mcp__up__echo", {"text": "new"}) == "new"
        go_on.set()
        assert await asyncio.wait_for(calling, PATIENCE) == "finished"


async def test_a_server_that_moved_is_read_at_its_new_address():
    async with (
        speaking(Speaker("modern", [tool("old")])) as a,
        speaking(Speaker("legacy", [tool("new")])) as b,
        yard(at(a)) as front,
    ):
        assert await front.tools() == ["mcp__up__old"]
        await change(front, at(b))
        assert await front.tools() == ["mcp__up__new"]
        assert await front.says("new", {"text": "there"}, path="/mcp/up") == "there"


async def test_the_connection_of_a_removed_server_is_let_go():
    speaker = Speaker("legacy")
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.says("mcp__up__echo")
        await change(front)
        await speaker.until(lambda: not speaker.sessions)


async def test_a_server_that_was_down_is_forgotten_when_it_is_removed():
    async with yard(at(f"http://127.0.0.1:{free_port()}/mcp"), list_wait=1) as front:
        await front.tools()
        assert (await front.health())["status"] == "degraded"
        await change(front)
        assert (await front.health())["status"] == "ok"
        assert "instructions" not in (await front.modern("server/discover")).result


# The file


@asynccontextmanager
async def watched(front: Yard, path: Path, again: asyncio.Event | None = None) -> AsyncIterator[None]:
    watching = asyncio.create_task(watch(front.gateway, path, reload_now=again, interval=0.02))
    await asyncio.sleep(0)  # it looks at the file for the first time
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def write(path: Path, *servers: tuple[str, str]) -> None:
    tables = [f'[servers.{name}]\nurl = "{url}"' for name, url in servers]
    settings = f'[gateway]\nview = "all"\nstate_dir = "{path.parent}"\n[results]\nshape = false'
    path.write_text("\n".join([settings, *tables]))


def as_written(path: Path) -> Any:
    """The gateway of a file."""
    return yard(*load(path).servers, state=str(path.parent))


async def test_a_changed_file_is_taken_over_and_a_broken_one_is_not(tmp_path: Path):
    path = tmp_path / "toolyard.toml"
    async with speaking(Speaker("modern")) as a, speaking(Speaker("modern")) as b:
        write(path, ("a", a))
        async with as_written(path) as front, watched(front, path):
            assert await front.tools() == ["mcp__a__echo"]
            write(path, ("a", a), ("b", b))
            await front.until_health(lambda health: "b" in health["servers"])
            path.write_text("[servers.a\n")
            health = await front.until_health(lambda health: "config" in health)
            assert health["status"] == "degraded"
            assert "toolyard.toml" in health["config"]
            assert set(health["servers"]) == {"a", "b"}
            assert await front.says("mcp__a__echo", {"text": "as before"}) == "as before"
            write(path, ("b", b))
            health = await front.until_health(lambda health: "config" not in health)
            assert set(health["servers"]) == {"b"}


async def test_a_file_that_is_gone_for_a_moment_changes_nothing_and_the_log_says_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "toolyard.app")
    path = tmp_path / "toolyard.toml"
    async with speaking(Speaker("modern")) as a:
        write(path, ("a", a))
        async with as_written(path) as front:
            front.gateway.config = load(path)
            async with watched(front, path):
                path.unlink()
                health = await front.until_health(lambda health: "config" in health)
                assert set(health["servers"]) == {"a"}
                write(path, ("a", a))
                await front.until_health(lambda health: "config" not in health)
    said = [record.getMessage() for record in caplog.records if "configuration" in record.getMessage()]
    assert said[0].startswith("the changed configuration is not used: ")
    assert said[1:] == ["the configuration can be used again, and is what is served"]


async def test_a_change_that_came_before_it_was_watched_is_taken_over(tmp_path: Path):
    path = tmp_path / "toolyard.toml"
    async with speaking(Speaker("modern")) as a, speaking(Speaker("modern")) as b:
        write(path, ("a", a))
        async with as_written(path) as front:
            write(path, ("a", a), ("b", b))
            async with watched(front, path):
                await front.until_health(lambda health: "b" in health["servers"])


async def test_an_included_file_is_watched_too(tmp_path: Path):
    path, included = tmp_path / "toolyard.toml", tmp_path / "mcp.json"
    async with speaking(Speaker("modern")) as a:
        included.write_text('{"mcpServers": {}}')
        path.write_text(
            'include = ["mcp.json"]\n[results]\nshape = false\n'
            f'[gateway]\nview = "all"\nstate_dir = "{tmp_path}"\n'
        )
        async with as_written(path) as front:
            front.gateway.config = load(path)
            async with watched(front, path):
                included.write_text(json.dumps({"mcpServers": {"a": {"url": a}}}))
                await front.until_health(lambda health: "a" in health["servers"])


async def test_a_file_of_variables_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLYARD_TEST_PLACE", "")  # so that it is gone afterwards
    monkeypatch.delenv("TOOLYARD_TEST_PLACE")
    path, variables = tmp_path / "toolyard.toml", tmp_path / ".env"
    async with speaking(Speaker("modern")) as a, speaking(Speaker("modern", [tool("other")])) as b:
        variables.write_text(f"TOOLYARD_TEST_PLACE={a}")
        write(path, ("up", "${TOOLYARD_TEST_PLACE}"))
        path.write_text(f'env_file = ".env"\n{path.read_text()}')
        async with as_written(path) as front:
            front.gateway.config = load(path)
            async with watched(front, path):
                assert await front.tools() == ["mcp__up__echo"]
                line = await front.listen(toolsListChanged=True)
                variables.write_text(f"TOOLYARD_TEST_PLACE={b}")
                assert (await line.next_message())["method"] == TOOLS_CHANGED
                assert await front.tools() == ["mcp__up__other"]


async def test_an_entry_that_cannot_be_used_is_named_and_the_others_go_on(tmp_path: Path):
    path = tmp_path / "toolyard.toml"
    async with speaking(Speaker("modern")) as a:
        write(path, ("a", a))
        async with as_written(path) as front, watched(front, path):
            write(path, ("a", a), ("b", "http://localhost/${NO_SUCH_VARIABLE_HERE}"))
            health = await front.until_health(lambda health: "b" in health["servers"])
            assert health["servers"]["b"]["state"] == "broken"
            assert "NO_SUCH_VARIABLE_HERE" in health["servers"]["b"]["reason"]
            assert await front.says("mcp__a__echo", {"text": "goes on"}) == "goes on"


async def test_a_read_is_forced_though_nothing_seems_changed(tmp_path: Path):
    path = tmp_path / "toolyard.toml"
    path.write_text("")
    again, read = asyncio.Event(), asyncio.Event()

    def reading(path: Path) -> Config:
        read.set()
        raise ConfigError("seen")

    async with yard() as front:
        watching = asyncio.create_task(watch(front.gateway, path, reading, again, interval=60))
        again.set()
        await asyncio.wait_for(read.wait(), PATIENCE)
        await front.until_health(lambda health: health.get("config") == "seen")
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
