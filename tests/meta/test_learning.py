"""What comes of tools moves later rankings a little; what is mounted is found again after a restart."""

from pathlib import Path

import pytest

from tests.app.speaker import Exchange, Speaker, speaking, text, tool
from tests.app.yard import at
from tests.meta.office import Front, front, in_thread
from toolyard.config import ResultsConfig, SearchConfig

NEEDS_X = {"type": "object", "required": ["x"]}
TWINS = [
    tool("fetch_a", description="Fetch the weather report of a city.", inputSchema=NEEDS_X),
    tool("fetch_b", description="Fetch the weather report of a city."),
]
ASKED = "fetch the weather report"


async def best(client: Front, thread: str = "new") -> str:
    return (await client.names(ASKED, headers=in_thread(thread)))[0]


@pytest.mark.parametrize("learn", [True, False])
async def test_success_lifts_a_tool_and_failure_sinks_it_unless_nothing_is_to_be_learnt(learn: bool):
    speaker = Speaker("modern", TWINS)

    async def answer(exchange: Exchange) -> None:
        await exchange.result(text("rain", isError=exchange.name == "fetch_a"))

    speaker.on["tools/call"] = answer
    async with speaking(speaker) as url, front(at(url), search=SearchConfig(learn=learn)) as client:
        headers = in_thread("t")
        before = await client.search(ASKED, headers=headers)
        scores = {one["tool"]: one["score"] for one in before["results"][0]["results"]}
        assert await best(client) == "mcp__up__fetch_a"
        for _ in range(3):
            await client.through("mcp__up__fetch_b", headers=headers)
            await client.call("mcp__up__fetch_a", {"x": 1}, headers=headers)
            await client.through("mcp__up__fetch_a", {}, headers=headers)
        assert await best(client) == ("mcp__up__fetch_b" if learn else "mcp__up__fetch_a")
        after = await client.search(ASKED, headers=in_thread("new"))
        for one in after["results"][0]["results"]:
            assert abs(one["score"] - scores[one["tool"]]) <= 0.101


async def test_a_tool_is_learnt_for_the_last_search_of_its_own_conversation_and_not_for_anybodys():
    speaker = Speaker("modern", [tool("fetch_a", description=ASKED), tool("fetch_b", description=ASKED)])

    async def answer(exchange: Exchange) -> None:
        await exchange.result(text("rain"))

    async def score(client: Front) -> float:
        (found,) = (await client.search(ASKED, headers=in_thread("new")))["results"]
        return next(one["score"] for one in found["results"] if one["tool"] == "mcp__up__fetch_b")

    speaker.on["tools/call"] = answer
    async with speaking(speaker) as url, front(at(url)) as client:
        before = await score(client)
        for headers, rises in ({}, False), (in_thread("t"), True):
            # Found is the first of the two alone; the other is called by its name.
            assert await client.names(ASKED, limit=1, headers=headers) == ["mcp__up__fetch_a"]
            await client.call("mcp__up__fetch_b", headers=headers)
            assert (await score(client) > before) is rises


async def test_tools_whose_results_are_heavy_sink():
    speaker = Speaker("modern", [tool("fetch_a", description=ASKED), tool("fetch_b", description=ASKED)])

    async def answer(exchange: Exchange) -> None:
        await exchange.result(text("rain" * (250_000 if exchange.name == "fetch_a" else 1)))

    speaker.on["tools/call"] = answer
    async with (
        speaking(speaker) as url,
        front(at(url), search=SearchConfig(learn=False), results=ResultsConfig()) as client,
    ):
        assert await best(client) == "mcp__up__fetch_a"
        await client.call("mcp__up__fetch_a")
        await client.call("mcp__up__fetch_b")
        assert await best(client) == "mcp__up__fetch_b"


async def test_after_a_restart_what_was_mounted_is_found_before_its_server_is_there(tmp_path: Path):
    async with speaking(Speaker("modern", TWINS)) as url, front(at(url), state=str(tmp_path)) as client:
        assert await best(client) == "mcp__up__fetch_a"
    (saved,) = _saved(tmp_path)
    for spoil in (lambda: None, lambda: saved.write_bytes(b"not an index")):
        spoil()  # a file that cannot be used costs nothing but time
        async with front(at(url, connect_timeout=1), state=str(tmp_path)) as client:
            assert set(await client.names(ASKED)) == {"mcp__up__fetch_a", "mcp__up__fetch_b"}


def _saved(folder: Path) -> list[Path]:
    return list(folder.glob("search-*.index"))
