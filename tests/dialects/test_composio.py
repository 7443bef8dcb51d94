"""Composio's prompts, and Rube's: search, connect, execute."""

from typing import Any

import aiohttp
import pytest

from tests.dialects.talking import Place, gateway
from tests.emulators.composio import ComposioEmulator


@pytest.mark.parametrize(("dialect", "prefix"), [("composio", "COMPOSIO"), ("rube", "RUBE")])
async def test_search_connect_and_execute_as_the_prompts_say(dialect: str, prefix: str):
    async with (
        ComposioEmulator() as composio,
        gateway(dialect, composio=composio) as place,
        place.talk() as talk,
    ):
        found = await talk.call(
            f"{prefix}_SEARCH_TOOLS",
            queries=[{"use_case": "send an email", "known_fields": ""}],
            session={"generate_id": True},
        )
        result = found.data["results"][0]
        assert result["index"] == 1
        assert "GMAIL_SEND_EMAIL" in result["primary_tool_slugs"]
        assert "gmail" in result["toolkits"]
        schema = found.data["tool_schemas"]["GMAIL_SEND_EMAIL"]
        assert schema["toolkit"] == "gmail"
        (status,) = [one for one in found.data["toolkit_connection_statuses"] if one["toolkit"] == "gmail"]
        assert status["has_active_connection"] is False
        session = found.data["session"]["id"]

        schemas = await talk.call(
            f"{prefix}_GET_TOOL_SCHEMAS", tool_slugs=["GMAIL_SEND_EMAIL", "NO_SUCH"], session_id=session
        )
        assert "recipient_email" in str(schemas.data["tool_schemas"]["GMAIL_SEND_EMAIL"]["input_schema"])
        assert list(schemas.data["not_found"]) == ["NO_SUCH"]

        managed = await talk.call(f"{prefix}_MANAGE_CONNECTIONS", toolkits=["gmail"], session_id=session)
        entry = managed.data["results"]["gmail"]
        assert entry["status"] == "initiated"
        assert f"{prefix}_WAIT_FOR_CONNECTIONS" in entry["instruction"]
        async with aiohttp.ClientSession() as browser, browser.get(entry["redirect_url"]) as page:
            assert page.status == 200
        waited = await talk.call(
            f"{prefix}_WAIT_FOR_CONNECTIONS", toolkits=["gmail"], timeout_seconds=20, session_id=session
        )
        assert [one["status"] for one in waited.data["connection_statuses"]] == ["active"]
        again = await talk.call(f"{prefix}_MANAGE_CONNECTIONS", toolkits=["gmail"], session_id=session)
        assert again.data["results"]["gmail"]["status"] == "active"

        done = await talk.call(
            f"{prefix}_MULTI_EXECUTE_TOOL",
            tools=[
                {
                    "tool_slug": "GMAIL_SEND_EMAIL",
                    "arguments": {"recipient_email": "ann@example.com", "body": "Hello", "subject": "Hi"},
                },
                {"tool_slug": "mcp__notes__add_note", "arguments": {"text": "sent"}},
            ],
            memory={},
            session_id=session,
        )
        sent, noted = done.data["results"]
        assert sent["success"]
        assert sent["response"]["successful"]
        assert noted["response"]["data"] == {"noted": "sent"}
        assert done.data["success_count"] == 2
        (mail,) = composio.records["emails"]
        assert mail["recipient_email"] == "ann@example.com"


async def test_what_only_composio_has_is_passed_on_where_it_offers_it(quiet: Place):
    async with quiet.talk() as talk:
        assert "COMPOSIO_REMOTE_WORKBENCH" not in await talk.tools()
        said = await talk.call("COMPOSIO_REMOTE_WORKBENCH", code_to_execute="print(1)")
        assert said.failed
        assert "exist only at Composio" in said.text
    async with (
        ComposioEmulator() as composio,
        gateway("composio", "rube", composio=composio) as place,
        place.talk() as talk,
    ):
        listed = await talk.tools()
        for name in ("COMPOSIO_REMOTE_WORKBENCH", "RUBE_REMOTE_WORKBENCH"):
            assert "code_to_execute" in str(listed[name].input_schema)
            assert "forty-two" in (await talk.call(name, code_to_execute="print('forty-two')")).text


async def test_one_failure_of_many_harms_no_other(quiet: Place):
    async with quiet.talk() as talk:
        said = await talk.call(
            "COMPOSIO_MULTI_EXECUTE_TOOL",
            tools=[
                {"tool_slug": "mcp__notes__list-notes", "arguments": {}},
                {"tool_slug": "mcp__notes__add_note", "arguments": {"words": 1}},
                {"tool_slug": "NO_SUCH_TOOL", "arguments": {}},
            ],
        )
        assert not said.failed
        assert said.json["error"] == "2 out of 3 tools failed"
        read, misused, unknown = said.json["data"]["results"]
        assert read["response"]["data"] == {"text": "milk"}
        assert not misused["success"]
        assert "'text'" in misused["error"]
        assert "'NO_SUCH_TOOL'" in unknown["error"]


async def test_a_tool_that_destroys_is_run_only_when_that_is_allowed(quiet: Place):
    async with quiet.talk() as talk:
        said = await talk.call("COMPOSIO_EXECUTE_TOOL", tool_slug="burn_notes", arguments={})
        assert said.failed
        assert "allow_destructive" in said.json["error"]
        said = await talk.call(
            "COMPOSIO_EXECUTE_TOOL", tool_slug="burn_notes", arguments={}, allow_destructive=True
        )
        assert said.data == {"response": {"text": "ashes"}}
        # Two servers have it, so the bare name means neither.
        said = await talk.call("COMPOSIO_EXECUTE_TOOL", tool_slug="add_note", arguments={"text": "milk"})
        assert said.failed
        assert "mcp__notes__add_note" in said.json["error"]


async def test_mounted_servers_are_toolkits_without_composio(quiet: Place):
    async with quiet.talk() as talk:
        toolkits = (await talk.call("RUBE_LIST_TOOLKITS", no_auth_only=True)).data["toolkits"]
        assert {one["slug"]: one["tools_count"] for one in toolkits} == {"notes": 3, "board": 1}
        some = (await talk.call("RUBE_LIST_TOOLKITS", min_tools=2)).data["toolkits"]
        assert [one["slug"] for one in some] == ["notes"]
        managed = await talk.call("RUBE_MANAGE_CONNECTIONS", toolkits=["notes", {"name": "gmail"}])
        assert managed.data["results"]["notes"]["status"] == "active"
        assert managed.data["results"]["gmail"]["status"] == "failed"
        assert managed.data["summary"] == {"total": 2, "active": 1, "failed": 1}
        needed = await talk.call("RUBE_GET_REQUIRED_PARAMETERS", toolkit="notes")
        assert needed.data == {"has_default_credentials": True, "required_parameters": []}
        begun = await talk.call("RUBE_INITIATE_CONNECTION", toolkit="notes", parameters={})
        assert begun.data["response_data"]["status"] == "active"


async def test_a_plan_says_what_each_tool_needs(quiet: Place):
    async with quiet.talk() as talk:
        plan = await talk.call(
            "COMPOSIO_CREATE_PLAN",
            use_case="note and read",
            primary_tool_slugs=["mcp__notes__add_note", "mcp__notes__list-notes"],
            known_fields="title:x",
        )
        steps = plan.data["workflow_instructions"]["steps"]
        assert steps == [
            "1. run mcp__notes__add_note with text (find out first: text)",
            "2. run mcp__notes__list-notes",
        ]


async def test_a_session_goes_on_on_another_connection():
    async with (
        ComposioEmulator() as composio,
        gateway("composio", composio=composio) as place,
        place.talk(thread="") as talk,
    ):
        composio.connect("acme", "github")
        search = {"queries": [{"use_case": "open an issue on GitHub"}]}
        first = await talk.call("COMPOSIO_SEARCH_TOOLS", **search, session={"generate_id": True})
        second = await talk.call("COMPOSIO_SEARCH_TOOLS", **search, session={"generate_id": True})
        session = first.data["session"]["id"]
        assert second.data["session"]["id"] != session
        async with place.talk(thread="") as other:
            again = await other.call("COMPOSIO_SEARCH_TOOLS", **search, session={"id": session})
            assert again.data["session"]["id"] == session
            step = {
                "tool_slug": "GITHUB_CREATE_AN_ISSUE",
                "arguments": {"owner": "acme", "repo": "site", "title": "It is slow"},
            }
            done = await other.call("COMPOSIO_MULTI_EXECUTE_TOOL", tools=[step], session_id=session)
            assert done.data["success_count"] == 1
        assert [issue["title"] for issue in composio.records["issues"]] == ["It is slow"]


async def test_arguments_may_be_written_as_models_write_them(quiet: Place):
    async with quiet.talk() as talk:
        for arguments in (
            {"use_case": "write a note down", "difficulty": "medium"},
            {"queries": '[{"use_case": "write a note down"}]', "session": None, "unheard_of": 1},
        ):
            found = await talk.call("RUBE_SEARCH_TOOLS", **arguments)
            assert found.data["results"][0]["primary_tool_slugs"][0] == "mcp__notes__add_note"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("SEARCH_TOOLS", {}, "queries"),
    ("SEARCH_TOOLS", {"queries": [{"known_fields": "a:b"}]}, "use_case' is required"),
    ("GET_TOOL_SCHEMAS", {"tool_slugs": []}, "'tool_slugs'"),
    ("MULTI_EXECUTE_TOOL", {"tools": [{"arguments": {}}]}, "tool_slug' is required"),
    ("MULTI_EXECUTE_TOOL", {"tools": [{"tool_slug": "x"}] * 51}, "50"),
    ("MANAGE_CONNECTIONS", {"toolkits": "gmail"}, "'toolkits': expected `array"),
    ("WAIT_FOR_CONNECTION", {"toolkits": ["gmail"], "mode": "some"}, "'mode'"),
]


async def test_arguments_that_do_not_fit_are_answered_with_a_right_call(quiet: Place):
    async with quiet.talk() as talk:
        for tool, arguments, fault in WRONG:
            for prefix in ("COMPOSIO", "RUBE"):
                said = await talk.call(f"{prefix}_{tool}", **arguments)
                assert said.failed, (tool, arguments)
                assert said.json["successful"] is False
                assert fault in said.json["error"]
                assert f"Valid example: {prefix}_{tool}({{" in said.json["error"]
