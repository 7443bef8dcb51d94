"""What was recorded is answered again, without the servers: in the same order, for clients of both eras."""

from pathlib import Path

import pytest

from tests.recordings.yard import config, demo, recorded, replayed, text, workshop
from toolyard import Client
from toolyard.client.types import Elicitation
from toolyard.config import InProcess, ServerConfig
from toolyard.wire.errors import McpError
from toolyard.wire.versions import Era


def named(name: str) -> dict[str, object]:
    """The answer to `ask_name`."""
    return {"action": "accept", "content": {"name": name}}


async def test_equal_calls_get_their_answers_in_order_and_then_the_last_again(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    async with recorded(config(tmp_path, workshop()), file) as client:
        first = [await text(client, "shop__ring") for _ in range(2)]
    async with replayed(file) as (client, replay):
        assert [await text(client, "shop__ring") for _ in range(3)] == [*first, first[1]]
        assert [call.match for call in replay.calls] == ["exact", "exact", "repeated"]
        assert not replay.unused


async def test_arguments_are_compared_by_value_and_not_by_how_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    async with recorded(config(tmp_path), file) as client:
        await text(client, "demo__add", a=1, b=2)
    async with replayed(file) as (client, replay):
        assert await text(client, "demo__add", b=2.0, a=1.0)
        assert [call.match for call in replay.calls] == ["exact"]


async def test_a_call_that_was_not_recorded_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    async with recorded(config(tmp_path), file) as client:
        await text(client, "demo__echo", text="Lisbon in May")
        await text(client, "demo__echo", text="something else")
    async with replayed(file) as (client, replay):
        with pytest.raises(McpError) as caught:
            await text(client, "demo__echo", text="Lisbon in June")
        assert 'demo/echo with {"text":"Lisbon in June"} was not recorded' in caught.value.message
        assert "arguments.text is 'Lisbon in June', recorded 'Lisbon in May'" in caught.value.message
        with pytest.raises(McpError, match="nothing like it was"):
            await client.get_prompt("mcp__demo__explain", {"topic": "tides"})
        assert [call.name for call in replay.unmatched] == ["echo", "explain"]


async def test_a_lenient_replay_answers_with_the_most_alike_call_of_the_same_tool(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    async with recorded(config(tmp_path), file) as client:
        await text(client, "demo__echo", text="a storm at sea")
        await text(client, "demo__echo", text="Lisbon in May")
    async with replayed(file, lenient=True) as (client, replay):
        assert await text(client, "demo__echo", text="Lisbon in June") == "Lisbon in May"
        with pytest.raises(McpError, match="was not recorded"):
            await text(client, "demo__add", a=1, b=2)
        assert [call.match for call in replay.calls] == ["alike", "none"]


async def test_lists_resources_prompts_errors_and_progress_are_those_of_the_recording(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    settings = config(tmp_path, demo(deny=("swatch",), rename={"add": "plus"}), workshop())

    async def everything(client: Client) -> list[object]:
        seen: list[object] = [
            [tool.name for tool in await client.list_tools()],
            [resource.uri for resource in await client.list_resources()],
            [prompt.name for prompt in await client.list_prompts()],
            (await client.read_resource("demo://planets/mars")).contents[0],
            (await client.get_prompt("mcp__demo__explain", {"topic": "tides"})).messages,
            (await client.call_tool("mcp__shop__breaks", {"how": "badly"})).is_error,
        ]
        progress: list[object] = []
        built = await client.call_tool(
            "mcp__shop__build", {"parts": 3}, on_progress=lambda update: progress.append(update)
        )
        with pytest.raises(McpError) as caught:
            await client.read_resource("demo://planets/vulcan")
        return [*seen, built.content, progress, caught.value.message]

    async with recorded(settings, file) as client:
        before = await everything(client)
    async with replayed(file) as (client, replay):
        assert await everything(client) == before
        assert replay.unmatched == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("later", ["modern", "legacy"])
async def test_questions_are_put_again_whatever_the_era_of_the_client(
    tmp_path: Path, era: Era, later: Era
) -> None:
    file = tmp_path / "run.jsonl"
    asked: list[str] = []

    def answer(question: Elicitation) -> dict[str, object]:
        asked.append(question.message)
        return {"action": "accept", "content": {"name": "Ada", "manner": "formal"}}

    async with recorded(config(tmp_path), file, era=era, on_elicit=answer) as client:
        assert await text(client, "demo__ask_name") == "Good day, Ada."
    async with replayed(file, era=later, on_elicit=answer) as (client, replay):
        assert await text(client, "demo__ask_name") == "Good day, Ada."
        assert replay.unmatched == []
    assert asked == ["Server 'demo' asks: What should I call you?"] * 2


async def test_another_answer_to_a_question_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    async with recorded(
        config(tmp_path), file, era="legacy", on_elicit=lambda question: named("Ada")
    ) as client:
        await text(client, "demo__ask_name")
    async with replayed(file, era="legacy", on_elicit=lambda question: named("Eve")) as (client, _):
        with pytest.raises(McpError, match=r"content\.name is 'Eve', recorded 'Ada'"):
            await text(client, "demo__ask_name")


async def test_a_tool_that_appears_during_a_run_appears_in_the_replay_after_the_same_call(
    tmp_path: Path,
) -> None:
    file = tmp_path / "run.jsonl"

    async def opening(client: Client) -> list[list[str]]:
        before = [tool.name for tool in await client.list_tools()]
        async with client.listen(tools=True) as changes:
            await text(client, "shop__open_drawer")
            await anext(aiter(changes))
        after = [tool.name for tool in await client.list_tools()]
        return [before, after, [await text(client, "shop__hammer", nail="one")]]

    async with recorded(config(tmp_path, workshop()), file) as client:
        first = await opening(client)
    assert "mcp__shop__hammer" in first[1]
    assert "mcp__shop__hammer" not in first[0]
    async with replayed(file) as (client, _):
        assert await opening(client) == first


async def test_a_server_that_was_never_reached_is_down_in_the_replay(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    gone = ServerConfig(name="gone", where=InProcess(module="no.such.module"))
    async with recorded(config(tmp_path, demo(), gone), file) as client:
        await text(client, "demo__echo", text="hello")
    async with replayed(file) as (client, _):
        assert await text(client, "demo__echo", text="hello") == "hello"
        assert all(tool.name.startswith("mcp__demo__") for tool in await client.list_tools())


async def test_a_task_is_followed_to_its_end_in_the_replay(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"

    async def count(client: Client) -> object:
        task = await client.start_task("mcp__demo__countdown", {"steps": 1, "pause": 0})
        return (await task.result()).content

    async with recorded(config(tmp_path), file) as client:
        before = await count(client)
    async with replayed(file) as (client, replay):
        assert await count(client) == before
        assert replay.unmatched == []
