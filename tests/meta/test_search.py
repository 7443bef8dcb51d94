"""`search_tools` and `describe_tools`: what is answered, to whom it is shown, and what is said of faults."""

import asyncio
import json
from typing import Any

import bpe_openai
import pytest
from msgspec.structs import replace

from tests.app.speaker import TOOLS_CHANGED, Exchange, Speaker, silent, speaking, tool
from tests.app.yard import at, yard
from tests.meta.office import Front, found_in, front, in_thread, office, text_of
from tests.serving import PATIENCE, Line, modern
from toolyard.config import ResultsConfig, SearchConfig, ServerConfig, Stdio

META = ["search_tools", "call_tool"]
LISTING = SearchConfig(list_found=True)
GONE = ServerConfig(name="gone", where=Stdio(command="/nowhere/to/be/found"))


async def test_every_query_has_an_entry_in_its_place_and_all_of_it_is_as_the_contract_says():
    async with office() as (client, _):
        result = await client.meta(
            "search_tools",
            {
                "queries": [
                    {
                        "use_case": "write an invoice for a customer",
                        "known_fields": "to:Ann",
                        "limit": 1,
                    },
                    {"use_case": "send an email to somebody"},
                ]
            },
        )
        assert text_of(result).split("\n") == [
            "# write an invoice for a customer",
            "mcp__office__create_invoice(customer, amount: number) Write an invoice for a customer",
            "# send an email to somebody",
            "mcp__office__send_email(to, subject?, urgency=1) Send an email to somebody",
            "  to: Address of the recipient",
            "  urgency: From 1 to 5",
            "mcp__office__delete_message(number: integer) [destructive] Delete an email",
            "mcp__office__photograph() Take a picture of the office",
            "mcp__office__list_messages(folder=inbox) [read] Show the emails of a folder",
            "mcp__office__create_invoice (see above)",
        ]
        told = result["structuredContent"]["results"]
        assert [one["need"] for one in told] == [
            "write an invoice for a customer",
            "send an email to somebody",
        ]
        lines = [line for one in told for line in (f"# {one['need']}", *one["tools"])]
        assert "\n".join(lines) == text_of(result)
        answer = found_in(result)
        assert list(answer) == ["results", "session", "source", "missing"]
        invoice, mail = answer["results"]
        assert invoice["query"] == {
            "use_case": "write an invoice for a customer",
            "known_fields": "to:Ann",
            "limit": 1,
        }
        assert [one["tool"] for one in invoice["results"]] == ["mcp__office__create_invoice"]
        assert invoice["total_results"] >= 1
        best = mail["results"][0]
        shown = "tool server title description score recommended connected auth"
        assert list(best) == shown.split()
        assert best["tool"] == "mcp__office__send_email"
        assert (best["server"], best["title"], best["auth"]) == ("office", "Send an email", "none")
        assert best["recommended"] is best["connected"] is True
        assert 0.5 < best["score"] <= 1
        assert len(mail["results"]) <= 5
        session = answer["session"]
        assert list(session) == ["id", "ttl", "expires_at", "generated", "source"]
        assert session["id"].startswith("local-")
        assert (answer["source"], answer["missing"]) == ("local", [])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "'queries' is required"),
        ({"queries": []}, "length >= 1"),
        ({"queries": 3}, "expected `array`"),
        ({"queries": [{"use_case": " "}]}, "use_case"),
        ({"queries": [{"query": "send an email"}]}, "use_case' is required"),
        ({"queries": [{"use_case": "x", "limit": 0}]}, ">= 1"),
        ({"queries": [{"use_case": "x", "known_fields": "k:v, " * 1000}]}, "known_fields"),
        ({"queries": [{"use_case": "x", "category": "c" * 201}]}, "category"),
        ({"queries": [{"use_case": "x"}] * 21}, "length <= 20"),
    ],
)
async def test_queries_that_cannot_be_understood_are_answered_with_right_ones(arguments: Any, fault: str):
    async with front() as client:
        result = await client.meta("search_tools", arguments)
        assert result["isError"] is True
        assert fault in text_of(result)
        assert '{"queries":["send an email to a customer"]}' in text_of(result)
        assert "structuredContent" not in result


async def test_an_answer_says_when_nothing_that_was_found_fits_well():
    async with office() as (client, _):
        for use_case, fits in (("send an email to somebody", True), ("translate a poem into Latin", False)):
            text = text_of(await client.meta("search_tools", {"queries": [{"use_case": use_case}]}))
            assert ("Nothing fits well" not in text) is fits, text


async def test_definitions_and_instructions_take_300_tokens_at_most_and_no_upstream_tool_is_listed():
    tools = [tool(f"tool_{number}", description="does a thing " * 20) for number in range(300)]
    async with speaking(Speaker("modern", tools)) as url, front(at(url), results=ResultsConfig()) as client:
        page = (await client.modern("tools/list")).result
        assert [item["name"] for item in page["tools"]] == META
        encode = bpe_openai.get_encoding("o200k_base").encode
        about = (await client.modern("server/discover")).result
        assert "Servers: up" in about["instructions"]
        definitions = json.dumps(page["tools"], separators=(",", ":"))
        assert len(encode(definitions)) + len(encode(about["instructions"])) <= 300
        always = [item["name"] for item in page["tools"] if item["_meta"] == {"anthropic/alwaysLoad": True}]
        assert always == META
        assert "resources" not in about["capabilities"]


async def test_whole_schemas_come_by_describe_tools():
    async with office(SearchConfig(schema_tokens=40)) as (client, _):
        without = (await client.names("send an email to somebody", limit=5))[1:]
        assert without
        described = (await client.meta("describe_tools", {"tools": [*without, "mcp__office__send_emails"]}))[
            "structuredContent"
        ]
        assert [one["tool"] for one in described["tools"]] == without
        assert all(one["input_schema"]["type"] == "object" for one in described["tools"])
        assert "mcp__office__send_email'" in described["unknown"]["mcp__office__send_emails"]
        assert described["instructions"] == {"office": "Mails leave at once."}


async def test_an_answer_has_an_end_however_much_is_asked_and_however_long_tools_are():
    wordy = {"type": "object", "properties": {f"word{at}": {"type": "string"} for at in range(1_500)}}
    tools = [
        tool(f"send_mail_{at}", description=f"Send mail to customers, way {at}.", inputSchema=wordy)
        for at in range(60)
    ]
    async with speaking(Speaker("modern", tools)) as url, front(at(url)) as client:
        queries = [{"use_case": "send mail to customers", "limit": 25}] * 20
        answer = await client.meta("search_tools", {"queries": queries})
        assert len(text_of(answer)) < 50_000
        found = found_in(answer)["results"]
        assert [len(one["results"]) for one in found] == [5] * 20
        assert all(one["total_results"] >= 20 for one in found)
        names = [f"mcp__up__send_mail_{number}" for number in range(10)]
        result = await client.meta("describe_tools", {"tools": names})
        described = result["structuredContent"]
        assert len(text_of(result)) < 110_000
        shown = [one["tool"] for one in described["tools"]]
        assert shown
        assert described["left_out"]["tools"] == names[len(shown) :]
        assert "separately" in described["left_out"]["reason"]


async def test_a_session_s_id_brought_back_elsewhere_goes_on_with_the_same_conversation():
    async with office(LISTING) as (client, _):
        mine = (await client.search("send an email", headers=in_thread("mine")))["session"]["id"]
        others = (await client.search("send an email", headers=in_thread("other's")))["session"]["id"]
        nobodys = (await client.search("send an email"))["session"]["id"]
        assert len({mine, others, nobodys}) == 3
        again = await client.search("write an invoice", headers=in_thread("new"), session=mine)
        assert again["session"]["id"] == mine
        assert "mcp__office__create_invoice" in await client.listed(headers=in_thread("mine"))
        assert "mcp__office__create_invoice" not in await client.listed(headers=in_thread("new"))
        named = (await client.search("write an invoice", session="my own"))["session"]
        assert (await client.search("write", headers=in_thread("my own")))["session"] == named


async def test_what_a_conversation_finds_is_listed_by_setting_for_it_alone_and_only_it_is_told():
    async with office(LISTING) as (client, _):
        follow: Any = {"toolsListChanged": True, "promptsListChanged": True}
        streams = [await client.listen(headers=in_thread(thread), **follow) for thread in ("mine", "other's")]
        await client.search("send an email", headers=in_thread("mine"))
        assert (await streams[0].next_message())["method"] == TOOLS_CHANGED
        found = await client.listed(headers=in_thread("mine"))
        assert list(found)[: len(META)] == META
        assert found["mcp__office__send_email"]["inputSchema"]["required"] == ["to"]
        assert list(await client.listed(headers=in_thread("other's"))) == META
        # The other hears nothing before all lists change, and then of none that it does not see.
        (server,) = client.gateway.config.servers
        changed = replace(client.gateway.config, servers=(replace(server, rename={"wait": "stay"}),))
        await client.gateway.reload(changed)
        assert (await streams[1].next_message())["method"] == "notifications/prompts/list_changed"
        assert (await streams[0].next_message())["method"] == TOOLS_CHANGED


async def heard_before(line: Line, method: str) -> list[str]:
    """What a subscription is told before this."""
    told: list[str] = []
    while (one := (await line.next_message())["method"]) != method:
        told.append(one)
    return told


PROMPTS_CHANGED = "notifications/prompts/list_changed"


@pytest.mark.parametrize("list_found", [False, True])
async def test_a_client_that_names_no_conversation_has_one_menu_whatever_is_searched(list_found: bool):
    async with office(SearchConfig(list_found=list_found)) as (client, _):
        before = (await client.modern("tools/list")).result["tools"]
        line = await client.listen(toolsListChanged=True, promptsListChanged=True)
        for use_case in ("send an email", "write an invoice", "delete a message", "show the emails"):
            assert await client.names(use_case)
            assert (await client.modern("tools/list")).result["tools"] == before
        # Brought back by name, what was found in the nameless conversation is still none that is known.
        session = (await client.search("take a picture"))["session"]["id"]
        await client.search("sign a letter", session=session)
        assert (await client.modern("tools/list")).result["tools"] == before
        assert "sent to ann" in text_of(await client.through("mcp__office__send_email", {"to": "ann"}))
        # Nothing of all this was told: the next word is about a change of other lists.
        (server,) = client.gateway.config.servers
        other = replace(client.gateway.config, servers=(replace(server, rename={"wait": "stay"}),))
        await client.gateway.reload(other)
        assert await heard_before(line, PROMPTS_CHANGED) == []


async def test_the_menu_of_a_named_conversation_stays_as_it_is_unless_it_is_set_otherwise():
    mine = in_thread("mine")
    async with office() as (client, _):
        await client.search("send an email", headers=mine)
        assert list(await client.listed(headers=mine)) == META
        await client.gateway.reload(replace(client.gateway.config, search=LISTING))
        assert "mcp__office__send_email" in await client.listed(headers=mine)
        await client.gateway.reload(replace(client.gateway.config, search=SearchConfig()))
        assert list(await client.listed(headers=mine)) == META


async def test_a_thread_in_meta_names_a_conversation_too():
    async with office(LISTING) as (client, _):

        async def ask(method: str, params: dict[str, Any], thread: str) -> Any:
            headers, message = modern(method, params)
            message["params"]["_meta"]["toolyard/thread"] = thread
            return (await client.client.post(headers, message)).result

        queries = {"queries": [{"use_case": "send an email"}]}
        await ask("tools/call", {"name": "search_tools", "arguments": queries}, "mine")
        mine, others = [
            [tool["name"] for tool in (await ask("tools/list", {}, thread))["tools"]]
            for thread in ("mine", "another")
        ]
        assert "mcp__office__send_email" in mine
        assert others == META


async def test_a_legacy_session_is_a_conversation_and_what_it_finds_is_listed_by_setting():
    async with office(LISTING) as (client, _):
        session, stranger = await client.legacy(), await client.legacy()
        queries = {"queries": [{"use_case": "send an email"}]}
        await session.request("tools/call", {"name": "search_tools", "arguments": queries})
        listed = (await session.request("tools/list", {})).result["tools"]
        assert "mcp__office__send_email" in [tool["name"] for tool in listed]
        others = (await stranger.request("tools/list", {})).result["tools"]
        assert [tool["name"] for tool in others] == META
        await client.gateway.reload(replace(client.gateway.config, search=SearchConfig()))
        listed = (await session.request("tools/list", {})).result["tools"]
        assert [tool["name"] for tool in listed] == META


async def test_who_follows_the_list_of_a_conversation_is_told_when_the_setting_changes_it():
    async with office() as (client, _):
        line = await client.listen(headers=in_thread("mine"), toolsListChanged=True)
        await client.gateway.reload(replace(client.gateway.config, search=LISTING))
        assert (await line.next_message())["method"] == TOOLS_CHANGED


async def test_the_list_of_a_conversation_stays_short_however_much_it_finds():
    tools = [tool(f"paint_{number}", description=f"paint wall {number}") for number in range(60)]
    async with (
        speaking(Speaker("modern", tools)) as url,
        front(at(url), search=LISTING, page_size=7) as client,
    ):
        for number in range(0, 60, 2):
            await client.search(f"paint wall {number}", limit=3, headers=in_thread("painter"))
        names = await client.tools(headers=in_thread("painter"))
        assert names[: len(META)] == META
        assert 3 <= len(names) - len(META) <= 24
        assert len(set(names)) == len(names)
        assert "mcp__up__paint_58" in names


async def test_pinned_tools_are_always_listed_and_a_change_of_them_is_told():
    speaker = Speaker("modern", [tool("one"), tool("two"), tool("three")])
    async with (
        speaking(speaker) as url,
        front(at(url, pinned=("two", "three"), rename={"three": "tres"})) as client,
    ):
        assert list(await client.listed()) == [*META, "mcp__up__two", "mcp__up__tres"]
        line = await client.listen(toolsListChanged=True)
        speaker.tools = [tool("three"), tool("four")]
        await speaker.until_listened()
        await speaker.tell(TOOLS_CHANGED)
        assert (await line.next_message())["method"] == "notifications/tools/list_changed"
        assert list(await client.listed()) == [*META, "mcp__up__tres"]


async def test_a_server_that_is_missing_is_named_and_one_that_has_gone_is_marked_and_sinks():
    twin = [tool("send_email", description="Send an email to somebody.")]
    dying = Speaker("modern", twin)

    async def refuse(exchange: Exchange) -> bool:
        await exchange.plain(503)
        return True

    async with (
        speaking(Speaker("modern", twin)) as well,
        speaking(dying) as url,
        front(at(url, "a", retries=0), at(well, "b"), GONE) as client,
    ):
        answer = await client.search("send an email")
        assert [one["server"] for one in answer["missing"]] == ["gone"]
        assert answer["missing"][0]["reason"]
        assert [one["server"] for one in answer["results"][0]["results"]] == ["a", "b"]
        dying.before = refuse
        while (await client.server("a"))["state"] != "down":
            await client.call("mcp__a__send_email")
        answer = await client.search("send an email")
        best, other = answer["results"][0]["results"]
        assert (best["server"], best["connected"]) == ("b", True)
        assert (other["server"], other["connected"]) == ("a", False)
        assert {one["server"] for one in answer["missing"]} == {"a", "gone"}


async def test_a_server_that_is_still_coming_is_named_and_one_with_a_bad_tool_is_not_missing():
    release = asyncio.Event()
    slow = Speaker("modern", [tool("send_letter")])

    async def wait(exchange: Exchange) -> bool:
        await release.wait()
        return False

    slow.before = wait
    odd = Speaker("modern", [tool("send_email"), {"name": "no_schema"}])
    async with (
        speaking(slow) as url,
        speaking(odd) as well,
        front(at(url, "slow"), at(well, "odd"), list_wait=0.01) as client,
    ):
        await client.gateway.catalogue.servers["odd"].settled.wait()
        answer = await client.search("send an email")
        assert answer["missing"] == [{"server": "slow", "reason": "it is still starting"}]
        assert [one["tool"] for one in answer["results"][0]["results"]] == ["mcp__odd__send_email"]
        release.set()


async def test_a_search_waits_for_nobody_and_names_who_is_still_starting():
    with silent() as url:
        async with yard(at(url, "slow"), view="search", list_wait=3600.0) as opened:
            answer = await Front(opened.gateway, opened.client).search("send an email")
        assert answer["missing"] == [{"server": "slow", "reason": "it is still starting"}]


async def test_only_the_server_that_was_asked_for_is_searched_and_an_unknown_one_is_said_to_be_unknown():
    twin = [tool("send_email", description="Send an email to somebody.")]
    async with (
        speaking(Speaker("modern", twin)) as first,
        speaking(Speaker("modern", twin)) as second,
        front(at(first, "a"), at(second, "b")) as client,
    ):
        assert await client.names("send an email", server="b") == ["mcp__b__send_email"]
        answer = await client.search("send an email", server="c")
        assert answer["results"][0]["results"] == []
        assert answer["missing"] == [{"server": "c", "reason": "unknown server; available: a, b"}]


async def test_what_is_mounted_or_changed_while_it_runs_is_found_at_once_and_what_is_denied_never():
    speaker = Speaker("modern", [tool("paint_wall", description="Paint a wall.")])
    mine = in_thread("mine")
    async with speaking(speaker) as url, front(at(url), search=LISTING) as client:
        assert await client.names("paint a wall", headers=mine) == ["mcp__up__paint_wall"]
        assert "mcp__up__mow_lawn" not in await client.names("mow the lawn", headers=mine)
        line = await client.listen(headers=mine, toolsListChanged=True, promptsListChanged=True)
        await client.search("paint a wall", headers=mine)  # it is followed from here on
        speaker.tools = [tool("mow_lawn", description="Mow the lawn.")]
        await speaker.until_listened()
        await speaker.tell(TOOLS_CHANGED)
        async with asyncio.timeout(PATIENCE):
            while (await line.next_message())["method"] != "notifications/tools/list_changed":
                pass
        assert await client.names("mow the lawn") == ["mcp__up__mow_lawn"]
        assert "mcp__up__paint_wall" not in await client.names("paint a wall")
        config = client.gateway.config
        await client.gateway.reload(replace(config, servers=(at(url, deny=("mow*",)),)))
        assert await client.names("mow the lawn") == []
        assert "not found" in text_of(await client.through("mcp__up__mow_lawn"))
        await client.gateway.reload(replace(config, servers=()))
        assert await client.names("mow the lawn") == []
        assert (await client.gateway.search.context.index()).servers == []
