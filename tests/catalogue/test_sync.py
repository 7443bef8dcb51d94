"""Last known good: what is kept on disk, and read again when it changes or its upstream comes back."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.app.speaker import TOOLS_CHANGED, Exchange, Speaker, free_port, silent, speaking, tool
from tests.app.yard import Yard, at, yard
from tests.serving import initialize
from tests.waiting import PATIENCE
from toolyard.catalogue import sync
from toolyard.catalogue.catalogue import Catalogue
from toolyard.catalogue.items import KINDS

ECHO = "mcp__up__echo"


async def seen(url: str, state: Path, **options: Any) -> list[str]:
    """Start, list, and end: what is known then is on disk."""
    async with yard(at(url, **options), state=str(state)) as front:
        return await front.tools()


def hold_everything(speaker: Speaker) -> None:
    async def hold(exchange: Exchange) -> bool:
        await speaker.held(exchange)
        return True

    speaker.before = hold


# The first wait


async def test_one_that_never_answers_is_waited_for_once_and_by_nobody_after_that():
    catalogue = Catalogue()
    catalogue.add(at("http://127.0.0.1:9/mcp"))
    await catalogue.wait_settled(0.05)
    again = asyncio.create_task(catalogue.wait_settled(0.05))
    await asyncio.sleep(0)
    assert again.done()


async def test_those_who_come_together_wait_together():
    catalogue = Catalogue()
    server = catalogue.add(at("http://127.0.0.1:9/mcp"))
    waiting = [asyncio.create_task(catalogue.wait_settled(3600.0)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    server.settled.set()
    await asyncio.gather(*waiting)


async def test_a_server_that_is_still_starting_is_named_wherever_servers_are_missing():
    with silent() as url:
        async with yard(at(url, "slow"), list_wait=0.05) as front:
            told = (await front.modern("server/discover")).result
            assert "## Not available now\n- slow: it is still starting" in told["instructions"]
            refused = (await front.call("mcp__slow__anything")).error
            assert refused["message"].startswith("Server 'slow': it is still starting (for ")
            assert "so 'mcp__slow__anything' is not known yet; try again in a while" in refused["message"]
            assert refused["data"]["retryAfterMs"] == 5000


async def test_a_name_that_a_known_server_lacks_is_still_compared_with_those_that_it_has(tmp_path: Path):
    async with speaking(Speaker("modern", [tool("echo")])) as url:
        await seen(url, tmp_path)
    async with yard(at(url), state=str(tmp_path)) as front:
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "down")
        assert "did you mean 'mcp__up__echo'?" in (await front.call("mcp__up__ecko")).error["message"]


# On disk


async def test_a_restarted_gateway_lists_at_once_while_its_upstream_hangs(tmp_path: Path):
    speaker = Speaker("modern", [tool("a"), tool("b")])
    async with speaking(speaker) as url:
        listed = await seen(url, tmp_path)
        hold_everything(speaker)
        async with yard(at(url), state=str(tmp_path), list_wait=3600.0) as front:
            assert await front.tools() == listed == ["mcp__up__a", "mcp__up__b"]
            discovered = (await front.modern("server/discover")).result
            assert "tools" in discovered["capabilities"]


async def test_everything_that_was_listed_is_the_same_after_a_restart(tmp_path: Path):
    offered = [tool("a", title="é", annotations={"readOnlyHint": True}, _meta={"x/y": [1]})]
    speaker = Speaker("legacy", offered)
    speaker.instructions = "Handle with care."
    async with speaking(speaker) as url:
        async with yard(at(url), state=str(tmp_path)) as front:
            before = (await front.modern("tools/list")).result["tools"]
            told = (await front.modern("server/discover")).result["instructions"]
        hold_everything(speaker)
        async with yard(at(url), state=str(tmp_path)) as front:
            assert (await front.modern("tools/list")).result["tools"] == before
            assert (await front.modern("server/discover")).result["instructions"] == told
    assert before == [{**offered[0], "name": "mcp__up__a"}]
    assert "Handle with care." in told


async def test_what_is_known_of_another_address_does_not_count(tmp_path: Path):
    async with speaking(Speaker("modern", [tool("old")])) as url:
        await seen(url, tmp_path)
    async with speaking(Speaker("modern", [tool("new")])) as url:
        assert await seen(url, tmp_path) == ["mcp__up__new"]


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"format":1}', b"\xff\xfe", b'{"format":99,"where":"","identity":{},"lists":{}}'],
)
async def test_a_damaged_file_counts_for_nothing(tmp_path: Path, damage: bytes):
    async with speaking(Speaker("modern")) as url:
        assert await seen(url, tmp_path) == [ECHO]
        (file,) = (tmp_path / "catalogue").iterdir()
        file.write_bytes(damage)
        assert await seen(url, tmp_path) == [ECHO]
        assert json.loads(file.read_bytes())["lists"]["tools"]


async def test_a_file_with_an_item_that_cannot_be_used_counts_for_nothing(tmp_path: Path):
    async with speaking(Speaker("modern")) as url:
        await seen(url, tmp_path)
        (file,) = (tmp_path / "catalogue").iterdir()
        saved = json.loads(file.read_bytes())
        saved["lists"]["tools"].append({"name": "no schema"})
        file.write_text(json.dumps(saved))
        assert await seen(url, tmp_path) == [ECHO]


async def test_names_that_differ_only_in_odd_characters_have_files_of_their_own(tmp_path: Path):
    async with (
        speaking(Speaker("modern", [tool("a")])) as url,
        speaking(Speaker("modern", [tool("b")])) as other,
    ):
        for _ in range(2):
            async with yard(at(url, "x-y"), at(other, "x.y"), state=str(tmp_path)) as front:
                listed = await front.tools()
                assert len(listed) == 2
    assert len(list((tmp_path / "catalogue").iterdir())) == 2


async def test_a_folder_that_cannot_be_used_is_told_once_and_all_else_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    blocked = tmp_path / "state"
    blocked.write_text("a file is in the way")
    caplog.set_level(logging.WARNING)
    async with (
        speaking(Speaker("modern")) as url,
        speaking(Speaker("modern")) as other,
        yard(at(url), at(other, "too"), state=str(blocked)) as front,
    ):
        assert await front.tools() == [ECHO, "mcp__too__echo"]
        assert await front.says(ECHO, {"text": "works"}) == "works"
    warnings = [record for record in caplog.records if "the lists of servers" in record.getMessage()]
    assert len(warnings) == 1


async def test_what_is_kept_is_for_its_owner_only_and_has_no_headers(tmp_path: Path):
    async with speaking(Speaker("modern")) as url:
        await seen(url, tmp_path / "state", headers={"Authorization": "Bearer sesame"})
    (file,) = (tmp_path / "state" / "catalogue").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert b"sesame" not in file.read_bytes()


async def test_denied_tools_come_back_from_disk_when_they_are_allowed_again(tmp_path: Path):
    speaker = Speaker("modern", [tool("a"), tool("b")])
    async with speaking(speaker) as url:
        assert await seen(url, tmp_path, deny=("b",)) == ["mcp__up__a"]
        hold_everything(speaker)
        assert await seen(url, tmp_path) == ["mcp__up__a", "mcp__up__b"]


# Changes


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_changed_list_is_read_first_and_then_told_to_clients_of_both_eras(era: str):
    speaker = Speaker(era)
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == [ECHO]
        modern = await front.listen(toolsListChanged=True)
        session = await front.legacy()
        legacy = await session.listen()
        await speaker.until_listened()
        speaker.tools = [tool("echo"), tool("new")]
        await speaker.tell(TOOLS_CHANGED)
        assert (await modern.next_message())["method"] == TOOLS_CHANGED
        assert await front.tools() == [ECHO, "mcp__up__new"]
        assert (await legacy.next_message())["method"] == TOOLS_CHANGED
        listed = (await session.request("tools/list")).result["tools"]
        assert [item["name"] for item in listed] == [ECHO, "mcp__up__new"]


async def test_only_those_who_see_a_server_are_told_of_its_changes():
    first, second = Speaker("modern"), Speaker("modern")
    async with (
        speaking(first) as url,
        speaking(second) as other,
        yard(at(url, "one"), at(other, "two")) as front,
    ):
        await front.tools()
        line = await front.listen("/mcp/two", toolsListChanged=True)
        await first.until_listened()
        await second.until_listened()
        first.tools = [tool("x")]
        await first.tell(TOOLS_CHANGED)
        await front.until_health(lambda health: front.gateway.catalogue.all(KINDS[0]))
        second.tools = [tool("y"), tool("z")]
        await second.tell(TOOLS_CHANGED)
        # The first thing that comes is about the second server: by then its list is the new one.
        assert (await line.next_message())["method"] == TOOLS_CHANGED
        assert await front.tools("/mcp/two") == ["y", "z"]


async def test_a_list_that_flaps_is_not_read_each_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sync, "FLAPPING_SECONDS", 0.5)
    speaker = Speaker("modern")
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.tools()
        await speaker.until_listened()
        for number in range(300):
            speaker.tools = [tool(f"t{number}")]
            await speaker.tell(TOOLS_CHANGED)
            await asyncio.sleep(0.002)  # an upstream that floods us, not we who wait
        assert await front.says("t", {"text": "works"}, path="/mcp/up") == "works"
        assert len(speaker.heard("tools/list")) < 30
        await until_tools(front, ["mcp__up__t299"])


async def until_tools(front: Yard, wanted: list[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await front.tools() != wanted:  # noqa: ASYNC110  seen as a client sees it
            await asyncio.sleep(0.05)


async def test_a_list_that_was_good_for_a_while_is_read_again_when_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sync, "SHORTEST_TTL", 0.1)
    speaker = Speaker("modern")

    async def listing(exchange: Exchange) -> None:
        await exchange.result({"tools": speaker.tools, "ttlMs": 100, "cacheScope": "private"})

    speaker.on["tools/list"] = listing
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == [ECHO]
        speaker.tools = [tool("silently-new")]
        await until_tools(front, ["mcp__up__silently-new"])


async def test_a_list_that_is_good_for_long_is_not_read_again_by_looking():
    speaker = Speaker("modern")
    async with speaking(speaker) as url, yard(at(url)) as front:
        for _ in range(20):
            await front.tools()
    assert len(speaker.heard("tools/list")) == 1


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_changed_list_that_cannot_be_read_leaves_the_old_one_and_is_read_when_it_can(era: str):
    speaker = Speaker(era)
    well = True

    async def listing(exchange: Exchange) -> None:
        if well:
            await exchange.result({"tools": speaker.tools})
        else:
            await exchange.plain(500, "oh")

    speaker.on["tools/list"] = listing
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == [ECHO]
        await speaker.until_listened()
        well = False
        speaker.tools = [tool("echo"), tool("new")]
        await speaker.tell(TOOLS_CHANGED)
        await speaker.until(lambda: len(speaker.heard("tools/list")) > 1)
        assert await front.tools() == [ECHO]
        assert await front.says(ECHO, {"text": "works"}) == "works"
        well = True
        await until_tools(front, [ECHO, "mcp__up__new"])


# Away and back


async def test_a_server_that_comes_back_is_read_again_and_its_changes_are_told():
    port = free_port()
    async with AsyncExitStack() as stack:
        gone = await stack.enter_async_context(AsyncExitStack())
        await gone.enter_async_context(speaking(Speaker("modern"), port))
        front = await stack.enter_async_context(yard(at(f"http://127.0.0.1:{port}/mcp")))
        assert await front.tools() == [ECHO]
        line = await front.listen(toolsListChanged=True)
        await gone.aclose()
        health = await front.until_health(lambda health: "reason" in health["servers"]["up"])
        assert health["status"] == "degraded"
        assert await front.tools() == [ECHO]
        await stack.enter_async_context(speaking(Speaker("modern", [tool("newer")]), port))
        assert (await line.next_message())["method"] == TOOLS_CHANGED
        assert await front.tools() == ["mcp__up__newer"]
        assert (await front.health())["status"] == "ok"


async def test_why_a_server_is_missing_is_told_by_health_and_by_the_instructions():
    async with (
        speaking(Speaker("modern")) as url,
        yard(
            at(f"http://127.0.0.1:{free_port()}/mcp", "gone"),
            at(url),
            instructions="House rules.",
            list_wait=2,
        ) as front,
    ):
        discovered = (await front.modern("server/discover")).result["instructions"]
        reason = (await front.server("gone"))["reason"]
        assert "onnect" in reason
        assert discovered.startswith("House rules.")
        assert "gone: " + reason[:100] in discovered
        told = await front.client.post(*initialize())
        assert reason[:100] in told.result["instructions"]


async def test_why_it_is_missing_is_logged_again_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    server = at(f"http://127.0.0.1:{free_port()}/mcp", connect_timeout=1)
    for _ in range(2):
        caplog.clear()
        async with yard(server, state=str(tmp_path), list_wait=2) as front:
            await front.until_health(lambda health: "cannot be reached" in caplog.text)


async def test_why_it_was_missing_is_known_after_a_restart(tmp_path: Path):
    server = at(f"http://127.0.0.1:{free_port()}/mcp", connect_timeout=1)
    async with yard(server, state=str(tmp_path), list_wait=2) as front:
        await front.tools()
        reason = (await front.server())["reason"]
    async with yard(server, state=str(tmp_path), list_wait=3600) as front:
        assert await front.tools() == []
        assert (await front.server())["reason"] == reason
