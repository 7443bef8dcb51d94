"""`call_tool`: what is checked before anything leaves, where names lead, and what comes back."""

import json
from typing import Any

import pytest

from tests.app.speaker import Exchange, Speaker, silent, speaking, text, tool
from tests.app.yard import at
from tests.meta.office import front, office, text_of
from tests.serving import PREFIX
from toolyard.config import InProcess, ServerConfig

TASKS = {"extensions": {PREFIX + "tasks": {}}}


async def test_arguments_that_do_not_fit_are_named_with_what_is_expected_and_nothing_leaves():
    async with office() as (client, place):
        result = await client.through("mcp__office__send_email", {"subject": 5, "urgency": "high", "cc": "x"})
        assert result["isError"] is True
        lines = text_of(result).splitlines()
        assert lines[0] == "The arguments do not fit 'mcp__office__send_email'; nothing was sent."
        told = "\n".join(lines[1:])
        assert "- 'to' is missing; expected " in told
        assert "Address of the recipient" in told
        assert '\'subject\': 5 is not of type "string"; expected {"' in told
        assert "'urgency'" in told
        assert "'cc' not known; the tool takes 'to', 'subject', 'urgency'" in told
        assert place.sent == []
        assert text_of(await client.through("mcp__office__send_email", {"to": "ann"})) == "sent to ann"
        # Written as a text, as models sometimes do.
        given = {"tool": "mcp__office__send_email", "arguments": json.dumps({"to": "bob"})}
        assert text_of(await client.meta("call_tool", given)) == "sent to bob"
        assert place.sent == ["ann", "bob"]


async def test_a_name_that_leads_nowhere_is_answered_with_near_ones_and_the_advice_to_search():
    async with office(server={"deny": ("delete*",)}) as (client, _):
        wrong = {"mcp__office__sendemail": "mcp__office__send_email", "list_message": "list_messages"}
        for name, near in wrong.items():
            result = await client.through(name)
            assert result["isError"] is True
            assert text_of(result).startswith(f"Tool function {name!r} not found.")
            assert near in text_of(result)
            assert "search" in text_of(result)
        # What is denied is as unknown as what is not there, called by its name or through another.
        denied = text_of(await client.through("mcp__office__delete_message", {"number": 1}))
        assert "'mcp__office__delete_message' not found" in denied
        assert "mcp__office__delete_message" not in denied.partition("not found")[2]
        direct = await client.call("mcp__office__delete_message", {"number": 1})
        assert direct.error["code"] == -32602
        assert "'mcp__office__delete_message' not found" in direct.error["message"]
        assert "mcp__office__delete_message" not in await client.names("delete a message", limit=25)


async def test_meta_tools_that_call_others_do_not_call_each_other():
    async with office() as (client, _):
        inner = {"tool": "mcp__office__send_email", "arguments": {"to": "ann"}}
        result = await client.through("call_tool", inner)
        assert result["isError"] is True
        assert "call it directly" in text_of(result)
        done = await client.meta("call_tools", {"calls": [{"tool": "call_tool", "arguments": inner}]})
        assert done["isError"] is True
        assert "call it directly" in done["structuredContent"]["results"][0]["error"]


async def test_a_meta_tool_that_is_not_listed_is_called_by_call_tool_as_by_its_name():
    async with office() as (client, office_):
        given = {"tools": ["mcp__office__send_email"]}
        through = await client.through("describe_tools", given)
        assert (
            through["structuredContent"] == (await client.meta("describe_tools", given))["structuredContent"]
        )
        status = await client.through("manage_connections", {})
        assert [one["server"] for one in status["structuredContent"]["connections"]] == ["office"]
        calls = [{"tool": "mcp__office__send_email", "arguments": {"to": "ann"}}]
        done = await client.through("call_tools", {"calls": calls})
        assert (done["structuredContent"]["succeeded"], office_.sent) == (1, ["ann"])
        wrong = await client.through("describe_tools", {"tools": 3})
        assert wrong["isError"] is True
        assert "Valid example" in text_of(wrong)


async def test_arguments_that_do_not_fit_are_answered_with_the_signature():
    async with office() as (client, _):
        told = text_of(await client.through("mcp__office__send_email", {"urgency": "high"}))
        assert told.endswith(
            "It takes: mcp__office__send_email(to, subject?, urgency=1)\n"
            "  to: Address of the recipient\n  urgency: From 1 to 5"
        )


async def test_a_tool_that_was_not_searched_for_answers_to_its_full_name_and_its_error_is_its_own():
    async with office() as (client, _):
        assert (await client.call("mcp__office__send_email", {"to": "ann"})).result["content"][0] == {
            "type": "text",
            "text": "sent to ann",
        }
        failed = await client.through("mcp__office__delete_message", {"number": 7})
        assert (failed["isError"], text_of(failed)) == (True, "there is no message 7")


async def test_a_server_that_is_down_is_told_in_words_that_a_model_reads():
    speaker = Speaker("modern")

    async def refuse(exchange: Exchange) -> None:
        await exchange.plain(500, "no")

    speaker.on["tools/call"] = refuse
    async with speaking(speaker) as url, front(at(url, retries=0)) as client:
        result = await client.through("mcp__up__echo")
        assert result["isError"] is True
        assert text_of(result).startswith("Server 'up': ")


async def test_a_long_tool_becomes_a_task_for_who_can_follow_it_and_a_plain_answer_for_who_cannot():
    async with office() as (client, _):
        assert text_of(await client.through("mcp__office__audit")) == "the books are in order"
        begun = await client.through("mcp__office__audit", capabilities=TASKS)
        assert begun["resultType"] == "task"
        while True:
            task = (await client.modern("tasks/get", {"taskId": begun["taskId"]}, capabilities=TASKS)).result
            if task["status"] != "working":
                break
        assert task["result"]["content"][0]["text"] == "the books are in order"
        legacy = await client.legacy()
        answer = await legacy.request(
            "tools/call", {"name": "call_tool", "arguments": {"tool": "mcp__office__audit"}}
        )
        assert text_of(answer.result) == "the books are in order"


async def test_arguments_that_a_tool_mirrors_in_headers_are_mirrored_from_the_inner_call():
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    speaker = Speaker("modern", [tool("deploy", inputSchema=schema)])
    async with speaking(speaker) as url, front(at(url)) as client:
        await client.through("mcp__up__deploy", {"region": "west"})
        (exchange,) = speaker.heard("tools/call")
        assert exchange.headers["mcp-param-region"] == "west"
        assert exchange.headers["mcp-name"] == "deploy"
        assert exchange.params["arguments"] == {"region": "west"}


def _doubling(steps: int) -> dict[str, Any]:
    """Each of its definitions refers to the next one twice."""
    parts: dict[str, Any] = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(steps)}
    return {"$ref": "#/$defs/d0", "$defs": parts | {f"d{steps}": {"type": "object"}}}


def _nested(steps: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(steps):
        schema = {"unevaluatedProperties": False, "allOf": [schema]}
    return schema


def _deep(steps: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(steps):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


HOSTILE: dict[str, dict[str, Any]] = {
    "doubles_its_work": _doubling(64),
    "looks_again_and_again": _nested(40),
    "refers_to_itself": {"$ref": "#"},
    "refers_elsewhere": {"$ref": "http://127.0.0.1:9/schema.json"},
    "is_of_a_kind_of_its_own": {"$schema": "http://127.0.0.1:9/kind", "type": "object"},
    "is_nonsense": {"type": "nonsense", "properties": []},
    "is_deep": _deep(50),
    "is_huge": {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(4000)}},
    "backtracks": {"properties": {"a": {"pattern": "^(?=(a+)+$)(a|aa)+$"}}},
    "names_what_is_not_there": {"$ref": "#/$defs/missing"},
}


async def test_schemas_made_to_do_harm_neither_hang_nor_fetch_nor_crash_and_their_tools_can_be_called():
    tools = [tool(name, inputSchema={"type": "object"} | schema) for name, schema in HOSTILE.items()]
    speaker = Speaker("modern", tools)

    async def answer(exchange: Exchange) -> None:
        await exchange.result(text(exchange.name))

    speaker.on["tools/call"] = answer
    async with speaking(speaker) as url, front(at(url, timeout=5)) as client:
        for name in HOSTILE:
            result = await client.through(f"mcp__up__{name}", {"a": "a" * 60 + "b"})
            told = text_of(result)
            # Two of them have something to say against these arguments, and say it.
            assert result.get("isError", False) is (name in ("backtracks", "is_deep")), told
            assert told == name or "'a'" in told
        assert await client.names("doubles its work")


def _halved(steps: int) -> dict[str, Any]:
    return {"anyOf": [_halved(steps - 1)] * 2} if steps else {"type": "string"}


WIDE: dict[str, dict[str, Any]] = {
    "one_of_a_thousand": {"items": {"anyOf": [{"const": at} for at in range(1000)]}},
    "one_of_a_thousand_for_the_whole": _halved(10),
    "a_thousand_patterns": {"items": {"anyOf": [{"pattern": f"^(a*)*\\1b{at}$"} for at in range(1000)]}},
}


async def test_alternatives_by_the_thousand_for_values_by_the_thousand_hold_nobody_up():
    tools = [tool(name, inputSchema={"type": "object", "properties": {"a": WIDE[name]}}) for name in WIDE]
    speaker = Speaker("modern", tools)

    async def answer(exchange: Exchange) -> None:
        await exchange.result(text(exchange.name))

    speaker.on["tools/call"] = answer
    async with speaking(speaker) as url, front(at(url, timeout=5)) as client:
        for name in WIDE:
            for values in ([{"x": at} for at in range(300)], ["a" * 500] * 300, [{"x": 1}] * 5_000):
                told = text_of(await client.through(f"mcp__up__{name}", {"a": values}))
                assert told == name or "compare them with the tool's input schema" in told
        # The same schema tells what is wrong with few of them.
        told = text_of(await client.through("mcp__up__one_of_a_thousand", {"a": [5, 1000]}))
        assert "'a.1': 1000 is not valid under any of the schemas" in told


async def test_recursive_schemas_that_mean_no_harm_are_checked():
    node = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
    }
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    speaker = Speaker("modern", [tool("grow", inputSchema=schema)])
    async with speaking(speaker) as url, front(at(url)) as client:
        wrong = {"tree": {"name": "oak", "parts": [{"name": "branch", "parts": [{"name": 5}]}]}}
        told = text_of(await client.through("mcp__up__grow", wrong))
        assert "'tree.parts.0.parts.0.name': 5 is not of type \"string\"" in told
        assert speaker.calls("grow") == 0


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_in_process_is_called_in_the_same_way(era: str):
    demo = ServerConfig(name="demo", where=InProcess(module="toolyard.servers.demo:server"))
    async with front(demo) as client:
        if era == "modern":
            result = await client.through("mcp__demo__add", {"a": 1, "b": 2})
            assert result["resultType"] == "complete"
        else:
            legacy = await client.legacy()
            given = {"tool": "mcp__demo__add", "arguments": {"a": 1, "b": 2}}
            result = (await legacy.request("tools/call", {"name": "call_tool", "arguments": given})).result
        assert result["structuredContent"] == {"sum": 3.0}


async def test_a_tool_of_a_server_that_is_still_starting_is_said_to_be_its():
    with silent() as url:
        async with front(at(url, "slow"), list_wait=0.05) as client:
            result = await client.meta("call_tool", {"tool": "mcp__slow__dig", "arguments": {}})
            assert result["isError"] is True
            assert text_of(result).startswith("Server 'slow': it is still starting (for ")
            described = await client.meta("describe_tools", {"tools": ["mcp__slow__dig"]})
            told = described["structuredContent"]["unknown"]["mcp__slow__dig"]
            assert "Server 'slow': it is still starting" in told
            assert "'slow': it is still starting" in (await client.call("mcp__slow__dig")).error["message"]
