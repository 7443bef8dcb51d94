"""Results through a whole gateway: in every view, from every kind of upstream, for clients of both eras."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.app.speaker import Exchange, Speaker, speaking, text, tool
from tests.app.yard import Yard, at, yard
from tests.bridge.test_modern_servers import OldTasks
from tests.reading import text_of
from tests.results.shelf import records
from tests.results.stock import mounted
from tests.serving import Line, modern
from toolyard.config import Config, GatewayConfig, ResultLimits, ResultsConfig, ServerResults, StoreConfig
from toolyard.wire.call import Principal

ON = ResultsConfig()
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
WAYS = ["inprocess", "modern", "legacy"]
VIEWS = {"all": ("/mcp", "mcp__up__"), "bare": ("/mcp/up", ""), "search": ("/mcp", "mcp__up__")}


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def answer_of(result: dict[str, Any]) -> dict[str, Any]:
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result["structuredContent"]


@pytest.mark.parametrize("way", WAYS)
async def test_big_results_are_shaped_whatever_they_come_from(way: str):
    async with mounted(way) as up, yard(up, results=ON) as front:
        things = answer_of((await front.call("mcp__up__things")).result)
        assert things["summary"]["item_count"] == 300
        assert things["preview"] == records(10)
        assert things["tool_name"] == "mcp__up__things"
        words = answer_of((await front.call("mcp__up__words", {"lines": 900})).result)
        assert words["summary"]["line_count"] == 900
        assert (await front.says("mcp__up__words", {"lines": 21})).count("\n") == 20, "a summary costs more"
        assert (await front.says("mcp__up__words", {"lines": 20})).count("\n") == 19
        few = (await front.call("mcp__up__things", {"count": 3})).result
        assert few["structuredContent"] == {"result": records(3)}
        failed = (await front.call("mcp__up__fails")).result
        assert failed["isError"] is True
        assert "reason 29" in failed["content"][0]["text"]
        picture = (await front.call("mcp__up__picture")).result
        assert [block["type"] for block in picture["content"]] == ["text", "resource_link", "image"]
        session = await front.legacy()
        legacy = (await session.call("mcp__up__things")).result
        assert answer_of(legacy)["summary"]["item_count"] == 300
        assert "resultType" not in legacy


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_asked_of_a_result_is_taken_out_of_the_arguments(way: str):
    async with mounted(way) as up, yard(up, results=ON) as front:
        some = answer_of((await front.call("mcp__up__things", {"_fields": "id"})).result)
        assert some["truncated"] is True
        few = answer_of(
            (await front.call("mcp__up__things", {"count": 5, "_fields": ["id", "state"]})).result
        )
        assert few["result"] == [{"id": one["id"], "state": one["state"]} for one in records(5)]
        whole = (await front.call("mcp__up__things", {"_max_bytes": 90_000})).result
        assert whole["structuredContent"] == {"result": records(300)}
        assert await front.says("mcp__up__picky", {"_fields": "mine"}) == "given 'mine'"
        wrong = (await front.call("mcp__up__things", {"_max_bytes": -1})).error
        assert "_max_bytes is a number of bytes" in wrong["message"]


async def test_in_process_results_that_are_no_json_are_told_as_errors():
    async with mounted("inprocess") as up, yard(up, results=ON) as front:
        cyclic = (await front.call("mcp__up__cyclic")).result
        assert cyclic["isError"] is True
        odd = (await front.call("mcp__up__odd")).result
        assert odd.get("isError") is True or answer_of(odd)["summary"]["key_count"] == 32


# Views, and the validation of the `mcp` client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("view", VIEWS)
async def test_the_mcp_client_takes_shaped_results_for_valid(view: str, mode: str):
    path, prefix = VIEWS[view]
    schemas = {
        "strict": {
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "required": ["id"],
            "additionalProperties": False,
        },
        "tree": {
            "type": "object",
            "properties": {"root": {"$ref": "#/$defs/node"}},
            "required": ["root"],
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        },
        "named": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.com/named",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "required": ["a"],
            "$defs": {"a": {"type": "string"}},
        },
    }
    small = {"strict": {"id": 1}, "tree": {"root": {"next": {}}}, "named": {"a": "x"}}
    speaker = Speaker("modern", [tool(name, outputSchema=schema) for name, schema in schemas.items()])

    async def answer(exchange: Exchange) -> None:
        big = {"id": 1, "more": records(300)} if exchange.arguments.get("big") else small[exchange.name]
        await exchange.result(
            {"content": [{"type": "text", "text": json.dumps(big)}], "structuredContent": big}
        )

    speaker.on["tools/call"] = answer
    pinned: dict[str, Any] = {"pinned": tuple(schemas)} if view == "search" else {}
    served = "search" if view == "search" else "all"
    async with (
        speaking(speaker) as url,
        yard(at(url, **pinned), results=ON, view=served) as front,
        Client(f"http://127.0.0.1:{front.client.port}{path}", mode=mode) as client,
    ):
        listed = {one.name: one for one in (await client.list_tools()).tools}
        shaped: Any = None
        for name in schemas:
            assert listed[prefix + name].output_schema["type"] == "object"
            fits = await client.call_tool(prefix + name, {})
            assert fits.structured_content == small[name]
            shaped = await client.call_tool(prefix + name, {"big": True})
            assert shaped.structured_content["truncated"] is True
            read = await client.read_resource(shaped.structured_content["storage"]["resource"])
            assert json.loads(text_of(read.contents[0])) == {"id": 1, "more": records(300)}
        templates = (await client.list_resource_templates()).resource_templates
        assert "toolyard://results/{id}{?start,length,offset,limit}" in [
            one.uri_template for one in templates
        ]
        hint = shaped.structured_content["hint"]
        assert (
            "call_tool(tool='read_result'" if view == "search" else "resources/read of toolyard://results/"
        ) in hint


async def test_in_the_search_view_a_model_finds_calls_and_reads_on():
    async with mounted("inprocess") as up, yard(up, results=ON, view="search") as front:
        shaped = answer_of(
            (await front.call("call_tool", {"tool": "mcp__up__things", "arguments": {"count": 199}})).result
        )
        id = shaped["storage"]["resource"]
        read = (await front.call("read_result", {"id": id, "offset": 190})).result["structuredContent"]
        assert read["items"] == records(199)[190:]
        few = {"tool": "mcp__up__things", "arguments": {"count": 99, "_fields": "id", "_max_bytes": 9000}}
        only = answer_of((await front.call("call_tool", few)).result)
        assert only["result"] == [{"id": one} for one in range(99)]
        calls = [
            {"tool": "mcp__up__things", "arguments": {"count": 150}},
            {"tool": "mcp__up__words", "arguments": {"lines": 3}},
        ]
        both = (await front.call("call_tools", {"calls": calls})).result["structuredContent"]["results"]
        assert both[0]["result"]["structuredContent"]["summary"]["item_count"] == 150
        assert both[1]["result"]["content"][0]["text"] == "line 0\nline 1\nline 2"
        unknown = (await front.call("read_result", {"id": "0" * 32})).result
        assert unknown["isError"] is True


# Resources and links


async def test_a_stored_result_is_a_resource_with_ranges():
    async with mounted("inprocess") as up, yard(up, results=ON) as front:
        things = answer_of((await front.call("mcp__up__things", {"count": 2000})).result)
        uri = things["storage"]["resource"]

        async def read(range: str = "") -> tuple[str, dict[str, Any]]:
            (contents,) = (await front.modern("resources/read", {"uri": uri + range})).result["contents"]
            assert contents["uri"] == uri + range
            return contents["text"], contents.get("_meta", {}).get("toolyard/range", {})

        whole, told = await read()
        assert json.loads(whole) == records(2000)
        assert told == {"start": 0, "end": len(whole), "size": len(whole)}
        some, told = await read("?start=10&length=20")
        assert some == whole[10:30]
        assert told["next"] == f"{uri}?start=30"
        page, _ = await read("?offset=1990&limit=5")
        assert json.loads(page)["items"] == records(2000)[1990:1995]
        for wrong in ("?offset=x", "?start=-1", "?nope=1", "?limit=0"):
            refused = await front.modern("resources/read", {"uri": uri + wrong})
            assert refused.error["code"] == -32602
        for unknown in ("0" * 32, "../" + uri[-32:], uri[-32:].upper(), ""):
            refused = await front.modern("resources/read", {"uri": f"toolyard://results/{unknown}"})
            assert "not found" in refused.error["message"]


async def test_ranges_of_bytes_cut_no_letter_in_two_and_always_go_on():
    words = "é☃\U0001f600\n" * 1500
    async with speaking(Speaker()) as url, yard(at(url), results=ON) as front:
        uri = answer_of((await front.call("mcp__up__echo", {"text": words})).result)["storage"]["resource"]
        found, next = "", uri + "?length=1"
        while next:
            (contents,) = (await front.modern("resources/read", {"uri": next + "&length=500"})).result[
                "contents"
            ]
            found += contents["text"]
            next = contents["_meta"]["toolyard/range"].get("next", "")
        assert found == words


async def test_another_tenant_knows_nothing_of_a_result():
    def identify(headers: Any) -> Principal:
        return Principal(dict(headers).get(b"x-tenant", b"").decode() or "acme")

    async with mounted("inprocess") as up, yard(up, results=ON, identify=identify, view="search") as front:
        other = {"X-Tenant": "other"}
        answer = answer_of((await front.call("call_tool", {"tool": "mcp__up__things"})).result)
        uri = answer["storage"]["resource"]
        assert (await front.modern("resources/read", {"uri": uri})).result
        theirs = (await front.modern("resources/read", {"uri": uri}, headers=other)).error
        never = (await front.modern("resources/read", {"uri": uri[:-32] + "0" * 32}, headers=other)).error
        assert theirs["message"].replace(uri[-32:], "") == never["message"].replace("0" * 32, "")
        read = (await front.call("read_result", {"id": uri}, headers=other)).result
        assert read["isError"] is True
        assert "expired or never existed" in read["content"][0]["text"]


# Settings


async def test_limits_are_a_servers_and_a_tools_own_and_follow_the_configuration():
    mine = ServerResults(
        max_items=150,
        tools={"words": ResultLimits(max_bytes=90_000, max_lines=800), "picture": ResultLimits(shape=False)},
    )
    async with mounted("inprocess", results=mine) as up, yard(up, results=ON) as front:
        assert "truncated" not in str(
            (await front.call("mcp__up__things", {"count": 70})).result["structuredContent"]
        )
        assert answer_of((await front.call("mcp__up__things", {"count": 151})).result)["truncated"] is True
        assert (await front.says("mcp__up__words", {"lines": 800})).count("\n") == 799
        assert answer_of((await front.call("mcp__up__words", {"lines": 801})).result)["truncated"] is True
        assert len((await front.call("mcp__up__picture")).result["content"]) == 2
        async with mounted("inprocess") as plain:
            settings = GatewayConfig(view="all", state_dir=front.gateway.config.gateway.state_dir)
            changed = Config(
                servers=(plain,), gateway=settings, results=ResultsConfig(exempt=("mcp__up__wor*",))
            )
            await front.gateway.reload(changed)
            assert (
                answer_of((await front.call("mcp__up__things", {"count": 100})).result)["truncated"] is True
            )
            assert (await front.says("mcp__up__words", {"lines": 900})).count("\n") == 899
            assert front.gateway.needs_restart == []
            settings = Config(servers=(plain,), gateway=settings, results=ResultsConfig(shape=False))
            await front.gateway.reload(settings)
            assert front.gateway.needs_restart == ["results.shape"]


async def test_a_long_result_of_an_exempt_tool_passes_whole():
    words = "words and more\n" * 200_000
    speaker = Speaker("legacy")

    async def answer(exchange: Exchange) -> None:
        await exchange.result(text(words))

    speaker.on["tools/call"] = answer
    exempt = ResultsConfig(exempt=("*__echo",))
    async with speaking(speaker) as url, yard(at(url), results=exempt) as front:
        assert await front.says("mcp__up__echo") == words
    async with speaking(speaker) as url, yard(at(url), results=ON) as front:
        found = answer_of((await front.call("mcp__up__echo")).result)
        assert found["summary"]["line_count"] == 200_000
        page = await front.modern("resources/read", {"uri": found["storage"]["resource"] + "?start=2999990"})
        assert page.result["contents"][0]["text"] == words[-10:]


async def test_a_range_has_whole_letters_wherever_it_begins_and_ends():
    async with mounted("inprocess") as up, yard(up, results=ON) as front:
        uri = answer_of((await front.call("mcp__up__letters")).result)["storage"]["resource"]
        for start in range(11):
            for length in range(4, 12):
                read = await front.modern("resources/read", {"uri": f"{uri}?start={start}&length={length}"})
                (some,) = read.result["contents"]
                told = some["_meta"]["toolyard/range"]
                assert start <= told["start"] <= told["end"] <= start + length
                whole = ("aé€😀\n" * 1500).encode()
                assert some["text"].encode() == whole[told["start"] : told["end"]]


async def test_a_store_that_cannot_be_written_to_costs_the_link_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").write_text("not a folder")
    tables = {"store": StoreConfig(url=f"local:{tmp_path / 'file'}")}
    async with mounted("inprocess") as up, yard(up, results=ON, tables=tables) as front:
        result = (await front.call("mcp__up__things")).result
        answer = answer_of(result)
        assert answer["preview"] == records(10)
        assert answer["storage"]["error"].startswith("The full result was not stored: ")
        assert len(result["content"]) == 1
    assert "was not stored" in caplog.text


async def test_who_cancels_a_long_call_leaves_nothing_in_the_store(tmp_path: Path):
    speaker = Speaker("modern")
    begun, leave = asyncio.Event(), asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.head(200, "application/json")
        await exchange.write(
            b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % exchange.id
        )
        for _ in range(30):
            await exchange.write(b"words and words " * 10_000)
        begun.set()
        await leave.wait()

    speaker.on["tools/call"] = answer
    tables = {"store": StoreConfig(url=f"local:{tmp_path}")}
    async with speaking(speaker) as url, yard(at(url), results=ON, tables=tables) as front:
        calling = asyncio.create_task(front.call("mcp__up__echo"))
        await begun.wait()
        calling.cancel()
        leave.set()
        await asyncio.gather(calling, return_exceptions=True)
    assert files_in(tmp_path) == []


# Tasks


@pytest.mark.parametrize("way", ["inprocess", "modern"])
async def test_the_result_of_a_task_fits_too_and_is_stored_once(way: str, tmp_path: Path):
    tables = {"store": StoreConfig(url=f"local:{tmp_path}")}
    async with mounted(way) as up, yard(up, results=ON, tables=tables) as front:
        task = (await front.call("mcp__up__report", {"lines": 500}, capabilities=TASKS)).result
        state: dict[str, Any] = {}
        while state.get("status") != "completed":
            state = (await front.modern("tasks/get", {"taskId": task["taskId"]}, capabilities=TASKS)).result
        answer = answer_of(state["result"])
        assert answer["tool_name"] == "mcp__up__report"
        assert answer["summary"]["line_count"] == 500
        again = (await front.modern("tasks/get", {"taskId": task["taskId"]}, capabilities=TASKS)).result
        assert again["result"] == state["result"]
        line = await _listening(front, task["taskId"])
        told = await line.next_message()
        assert told["params"]["result"] == state["result"]
        short = (await front.call("mcp__up__report", {"lines": 3}, capabilities=TASKS)).result
        while (
            state := (await front.modern("tasks/get", {"taskId": short["taskId"]}, capabilities=TASKS)).result
        )["status"] != "completed":
            pass
        assert state["result"]["content"][0]["text"].count("\n") == 2
    assert len(files_in(tmp_path)) == 2, "one result, and what is known of it"


async def _listening(front: Yard, task: str) -> Line:
    headers, message = modern(
        "subscriptions/listen", {"notifications": {"taskIds": [task]}}, id=77, capabilities=TASKS
    )
    line = await front.client.open(headers, message)
    assert (await line.next_message())["method"] == "notifications/subscriptions/acknowledged"
    return line


async def test_the_result_of_a_task_only_tool_of_a_legacy_server_fits_and_heeds_what_is_asked():
    tasks = OldTasks()
    tasks.done.set()
    value = {"items": records(300)}

    async def result(exchange: Exchange) -> None:
        assert exchange.params == {"taskId": "old-1"}
        await exchange.result({"content": [], "structuredContent": value})

    tasks.speaker.on["tasks/result"] = result
    async with speaking(tasks.speaker) as url, yard(at(url), results=ON) as front:
        assert answer_of((await front.call("mcp__up__slow")).result)["summary"]["path"] == "items"
        some = (await front.call("mcp__up__slow", {"_fields": "id", "_max_bytes": 9000})).result
        assert answer_of(some)["result"] == {"items": [{"id": one} for one in range(300)]}
