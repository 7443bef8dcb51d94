"""Suna's prompts: find a server, make a profile, have it authorised, discover, enable, call."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import MCPError

from tests.dialects.talking import Place, Talk, gateway
from tests.emulators.composio import ComposioEmulator

FORK_ITEM = {
    "name",
    "toolkit_slug",
    "description",
    "logo_url",
    "auth_schemes",
    "managed_auth_schemes",
    "supports_managed_auth",
    "tags",
    "categories",
    "tools",
}
PLAIN_ITEM = FORK_ITEM - {"managed_auth_schemes", "supports_managed_auth", "tools"}


async def _authorise(link: str) -> None:
    """The user opens the link and agrees."""
    async with aiohttp.ClientSession() as browser, browser.get(link) as page:
        assert page.status == 200


async def _profile(talk: Talk, slug: str, name: str) -> str:
    made = await talk.well("create_credential_profile", toolkit_slug=slug, profile_name=name)
    if "connection_link" in made:
        await _authorise(made["connection_link"])
    profiles = (await talk.well("get_credential_profiles", toolkit_slug=slug))["profiles"]
    return next(one["profile_id"] for one in profiles if one["profile_name"] == name)


async def _enabled(talk: Talk, slug: str, name: str, *tools: str) -> Any:
    profile = await _profile(talk, slug, name)
    return await talk.well("configure_profile_for_agent", profile_id=profile, enabled_tools=list(tools))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_whole_flow_of_the_seed(mode: str):
    async with (
        ComposioEmulator() as composio,
        gateway("suna", composio=composio) as place,
        place.talk(mode=mode) as talk,
    ):
        queries = [{"use_case": "send an email to a customer"}, {"use_case": "note", "app_slug": "notes"}]
        found = await talk.well("search_mcp_servers", queries=queries, session={"generate_id": True})
        assert set(found) == {"source", "session", "results", "total_results"}
        assert found["source"] == "composio"
        assert set(found["session"]) == {"id", "ttl", "expires_at", "generated", "source"}
        mail, note = found["results"]
        assert set(mail["results"][0]) == FORK_ITEM
        assert mail["results"][0]["toolkit_slug"] == "gmail"
        assert "mcp__composio__GMAIL_SEND_EMAIL" in mail["results"][0]["tools"]
        assert [one["toolkit_slug"] for one in note["results"]] == ["notes"]
        assert found["total_results"] == len(mail["results"]) + 1

        made = await talk.well("create_credential_profile", toolkit_slug="gmail", profile_name="Work")
        assert made["profile"]["auth_required"]
        assert not made["profile"]["is_connected"]
        assert made["connection_link"] in made["instructions"]
        (listed,) = (await talk.well("get_credential_profiles"))["profiles"]
        assert not listed["is_connected"]
        early = await talk.call("discover_user_mcp_servers", profile_id=listed["profile_id"])
        assert early.failed
        assert "connect the profile first" in early.text

        await _authorise(made["connection_link"])
        found = await talk.well("discover_user_mcp_servers", profile_id=listed["profile_id"])
        assert found["profile_info"] == {
            "profile_name": "Work",
            "toolkit_name": "Gmail",
            "toolkit_slug": "gmail",
            "is_connected": True,
        }
        names = [tool["name"] for tool in found["tools"]]
        assert {"GMAIL_SEND_EMAIL", "GMAIL_FETCH_EMAILS"} <= set(names)
        assert all(name.startswith("GMAIL_") for name in names)
        assert found["total_tools"] == len(names)

        done = await talk.well(
            "configure_profile_for_agent",
            profile_id=listed["profile_id"],
            enabled_tools=["GMAIL_SEND_EMAIL"],
        )
        assert done["runtime_registration"] == "success"
        assert done["callable_as"] == {"GMAIL_SEND_EMAIL": "GMAIL_SEND_EMAIL"}
        shown = (await talk.tools())["GMAIL_SEND_EMAIL"]
        assert shown.description.endswith("(MCP Server: Gmail)")

        mails = ("GMAIL_SEND_EMAIL", "custom_gmail_GMAIL_SEND_EMAIL", "mcp__composio__GMAIL_SEND_EMAIL")
        for name in mails:
            assert not (await talk.call(name, recipient_email="ann@example.com", body=name)).failed
        assert len(composio.records["emails"]) == len(mails)


async def test_the_plain_search_finds_servers_by_name_and_by_what_they_do():
    async with gateway("suna") as place, place.talk() as talk:
        found = await talk.well("search_mcp_servers", query="notes")
        assert [one["toolkit_slug"] for one in found] == ["notes"]
        assert set(found[0]) == PLAIN_ITEM
        assert found[0]["name"] == "Notes"
        found = await talk.well("search_mcp_servers", query="pin a message", limit=1)
        assert [one["toolkit_slug"] for one in found] == ["board"]
        found = await talk.well("search_mcp_servers_for_agent", search_query="notes")
        assert found["toolkits"][0]["slug"] == "notes"
        assert found["total_found"] == len(found["toolkits"])
        details = await talk.well("get_app_details", toolkit_slug="notes")
        assert details["toolkit"]["description"] == "Keeps short notes."
        assert details["supports_oauth"] is False
        details = await talk.well("get_mcp_server_details", toolkit_slug="notes")
        assert details["toolkit"]["slug"] == "notes"
        wrong = await talk.call("get_app_details", toolkit_slug="note")
        assert wrong.failed
        assert "'notes'" in wrong.text


async def test_a_search_that_composio_cannot_answer_falls_back():
    async with ComposioEmulator() as composio:
        composio.fail("search", 500, times=100)
        async with gateway("suna", composio=composio) as place, place.talk() as talk:
            queries = [{"use_case": "write a note down"}]
            found = await talk.well("search_mcp_servers_for_agent", queries=queries)
            assert found["source"] == "fallback"
            assert found["results"][0]["results"][0]["toolkit_slug"] == "notes"
            assert found["session"]["id"].startswith("local-")


async def test_a_mounted_server_is_a_toolkit_that_needs_no_authorisation():
    async with gateway("suna") as place, place.talk() as talk:
        made = await talk.well(
            "create_credential_profile_for_agent", toolkit_slug="notes", profile_name="Mine"
        )
        assert made["requires_authentication"] is False
        found = await talk.well("discover_mcp_tools_for_agent", profile_name="Mine")
        assert found["tool_names"] == ["add_note", "list-notes", "burn_notes"]
        await talk.well(
            "configure_agent_integration",
            agent_id="default",
            profile_name="Mine",
            enabled_tools=["list-notes"],
        )
        async with place.talk(thread="another") as other:
            assert "list_notes" in await other.tools()
            assert (await other.call("list_notes")).text == "milk"
        async with place.talk(agent="clerk") as clerk:
            assert "list_notes" not in await clerk.tools()


async def test_two_tools_of_one_short_name_are_told_apart():
    async with gateway("suna") as place, place.talk() as talk:
        await _enabled(talk, "notes", "Mine", "add_note")
        second = await _enabled(talk, "board", "Ours", "add_note")
        assert second["callable_as"] == {"add_note": "custom_board_add_note"}
        listed = await talk.tools()
        assert listed["add_note"].description.endswith("(MCP Server: Notes)")
        assert listed["custom_board_add_note"].description.endswith("(MCP Server: Board)")
        for name in ("add_note", "custom_notes_add_note", "mcp__notes__add_note"):
            assert await talk.well(name, text="milk") == {"noted": "milk"}
        assert await talk.well("custom_board_add_note", text="milk") == {"pinned": "milk"}
        again = await _enabled(talk, "notes", "Once more", "add_note")
        assert again["callable_as"] == {"add_note": "add_note"}
        assert set(await talk.tools()) == set(listed)


async def test_what_is_enabled_belongs_to_its_conversation_and_goes_with_its_profile():
    async with gateway("suna") as place, place.talk() as talk:
        await _enabled(talk, "notes", "Mine", "add_note")
        async with place.talk(thread="another") as other:
            assert "add_note" not in await other.tools()
            with pytest.raises(MCPError, match="not found"):
                await other.call("custom_notes_add_note", text="milk")
        profile = await _profile(talk, "notes", "Second")
        assert len((await talk.well("get_credential_profiles"))["profiles"]) == 2
        first = (await talk.well("get_credential_profiles"))["profiles"][0]["profile_id"]
        gone = await talk.well("delete_credential_profile", profile_id=first)
        assert gone["deleted_profile"] == {"profile_name": "Mine", "toolkit_name": "Notes"}
        assert "add_note" not in await talk.tools()
        with pytest.raises(MCPError, match="not found"):
            await talk.call("custom_notes_add_note", text="milk")
        assert (await talk.call("delete_credential_profile", profile_id=first)).failed
        left = (await talk.well("get_credential_profiles"))["profiles"]
        assert [one["profile_id"] for one in left] == [profile]


async def test_what_an_agent_was_given_is_there_in_a_conversation_that_never_searched(tmp_path: Path):
    state = f"sqlite:///{tmp_path / 'state.db'}"
    async with ComposioEmulator() as composio:
        async with gateway("suna", composio=composio, state=state) as place, place.talk() as talk:
            made = await talk.well(
                "create_credential_profile_for_agent", toolkit_slug="codeinterpreter", profile_name="Code"
            )
            assert made["requires_authentication"] is False
            await talk.well(
                "configure_agent_integration",
                agent_id="coder",
                profile_name="Code",
                enabled_tools=["CODEINTERPRETER_EXECUTE_CODE"],
            )
        # Another process, another conversation: the tool is asked for anew.
        short = "interpreter_CODEINTERPRETER_EXECUTE_CODE"
        async with gateway("suna", composio=composio, state=state) as place:
            async with place.talk("other", agent="coder") as coder:
                assert "forty-two" in (await coder.call(short, code_to_execute="print('forty-two')")).text
            async with place.talk("third", agent="coder") as coder:
                assert short in await coder.tools()
            async with place.talk("other") as stranger:
                assert short not in await stranger.tools()


async def test_two_profiles_of_one_app_are_connected_each_for_itself():
    async with (
        ComposioEmulator() as composio,
        gateway("suna", composio=composio) as place,
        place.talk() as talk,
    ):
        await _profile(talk, "gmail", "Work")
        second = await talk.well("create_credential_profile", toolkit_slug="gmail", profile_name="Work")
        assert second["profile"]["profile_name"] == "Work (2)"
        standing = {
            one["profile_name"]: one["is_connected"]
            for one in (await talk.well("get_credential_profiles"))["profiles"]
        }
        assert standing == {"Work": True, "Work (2)": False}
        await _authorise(second["connection_link"])
        standing = [one["is_connected"] for one in (await talk.well("get_credential_profiles"))["profiles"]]
        assert standing == [True, True]


async def test_who_follows_the_list_is_told_of_what_was_enabled():
    async with gateway("suna") as place, place.talk() as talk, talk.watching() as changed:
        await _enabled(talk, "notes", "Mine", "add_note")
        await changed()
        assert "add_note" in await talk.tools()


async def test_tenants_do_not_see_each_others_profiles():
    async with gateway("suna") as place, place.talk() as ours, place.talk(tenant="rival") as theirs:
        profile = await _profile(ours, "notes", "Secret")
        assert (await theirs.well("get_credential_profiles"))["profiles"] == []
        for tool in ("discover_user_mcp_servers", "delete_credential_profile"):
            refused = await theirs.call(tool, profile_id=profile)
            assert refused.failed
            assert "not found" in refused.text
        refused = await theirs.call(
            "configure_profile_for_agent", profile_id=profile, enabled_tools=["add_note"]
        )
        assert "not found" in refused.text
        assert len((await ours.well("get_credential_profiles"))["profiles"]) == 1


async def test_what_is_enabled_survives_a_restart(tmp_path: Path):
    state = f"sqlite:///{tmp_path / 'state.db'}"
    async with gateway("suna", state=state) as place, place.talk() as talk:
        await _enabled(talk, "notes", "Mine", "list-notes")
    async with gateway("suna", state=state) as place, place.talk() as talk:
        assert (await talk.call("list_notes")).text == "milk"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search_mcp_servers", {}, "neither `queries` nor `query`"),
    ("search_mcp_servers", {"queries": []}, "'queries'"),
    ("search_mcp_servers", {"queries": "mail"}, "'queries': expected `array"),
    ("search_mcp_servers", {"queries": [{"category": "crm"}]}, "use_case"),
    ("create_credential_profile", {"toolkit_slug": "gmail"}, "'profile_name' is required"),
    ("configure_profile_for_agent", {"profile_id": "x"}, "enabled_tools"),
    ("discover_user_mcp_servers", {}, "profile_id"),
]


async def test_arguments_that_do_not_fit_are_answered_with_a_right_call(quiet: Place):
    async with quiet.talk() as talk:
        for tool, arguments, fault in WRONG:
            said = await talk.call(tool, **arguments)
            assert said.failed, (tool, arguments)
            assert fault in said.text
            assert f"Valid example: {tool}({{" in said.text


async def test_a_tool_that_the_discovery_did_not_give_cannot_be_enabled(quiet: Place):
    async with quiet.talk(thread="strange") as talk:
        profile = await _profile(talk, "notes", "Strange")
        said = await talk.call(
            "configure_profile_for_agent", profile_id=profile, enabled_tools=["add_note", "make_coffee"]
        )
        assert said.failed
        assert "'make_coffee'" in said.text
        assert "add_note" not in await talk.tools()


# First search, then enable, then call

NEITHER = "has neither found nor enabled it. Call search_mcp_servers first"
MAIL = {"recipient_email": "ann@example.com", "body": "Hello"}
MAILING = "mcp__composio__GMAIL_SEND_EMAIL"


async def test_a_tool_that_was_never_searched_nor_enabled_is_refused():
    async with ComposioEmulator() as composio, gateway("suna", composio=composio) as place:
        composio.connect("acme", "gmail")
        async with place.talk() as talk:
            for name in (MAILING, "GMAIL_SEND_EMAIL"):
                said = await talk.call(name, **MAIL)
                assert said.failed
                assert NEITHER in said.text
                assert f"{MAILING!r} not found" in said.text
                assert said.structured == {"error": said.text, "successful": False}
            assert NEITHER in (await talk.call("mcp__notes__add_note", text="milk")).text
        assert not composio.records.get("emails")
        async with place.talk() as talk:
            queries = [{"use_case": "send an email"}, {"use_case": "note", "app_slug": "notes"}]
            await talk.well("search_mcp_servers", queries=queries)
            assert not (await talk.call(MAILING, **MAIL)).failed
            assert await talk.well("mcp__notes__add_note", text="milk") == {"noted": "milk"}
            async with place.talk("another") as other:
                assert NEITHER in (await other.call(MAILING, **MAIL)).text


async def test_what_was_only_discovered_is_refused_until_it_is_enabled():
    async with gateway("suna") as place, place.talk() as talk:
        profile = await _profile(talk, "notes", "Mine")
        await talk.well("discover_user_mcp_servers", profile_id=profile)
        for name in ("mcp__notes__add_note", "mcp__notes__list-notes"):
            assert NEITHER in (await talk.call(name, text="milk")).text
        await talk.well("configure_profile_for_agent", profile_id=profile, enabled_tools=["add_note"])
        assert not (await talk.call("mcp__notes__add_note", text="milk")).failed
        assert NEITHER in (await talk.call("mcp__notes__list-notes")).text


async def test_a_tool_found_at_one_gateway_is_called_at_another(tmp_path: Path):
    state = f"sqlite:///{tmp_path / 'state.db'}"
    async with gateway("suna", state=state) as first, gateway("suna", state=state) as second:
        async with first.talk() as talk:
            queries = [{"use_case": "pin a message", "app_slug": "board"}]
            await talk.well("search_mcp_servers", queries=queries)
        async with second.talk() as talk:
            assert not (await talk.call("mcp__board__add_note", text="milk")).failed
            assert NEITHER in (await talk.call("mcp__notes__add_note", text="milk")).text


async def test_whoever_names_no_conversation_calls_what_a_search_in_a_new_session_found():
    async with gateway("suna") as place, place.talk(thread="") as talk:
        queries = [{"use_case": "write a note down"}]
        await talk.well("search_mcp_servers", queries=queries, session={"generate_id": True})
        assert not (await talk.call("mcp__notes__add_note", text="milk")).failed


async def test_pinned_tools_and_calls_of_servers_need_no_search():
    pinned = {"notes": ("list-notes",), "relay": ("pass_on",)}
    async with gateway("suna", own=("notes", "relay"), pinned=pinned) as place, place.talk() as talk:
        assert (await talk.call("mcp__notes__list-notes")).text == "milk"
        assert "noted" in (await talk.call("mcp__relay__pass_on", text="milk")).text
        assert NEITHER in (await talk.call("mcp__notes__add_note", text="milk")).text


async def test_a_gateway_may_be_configured_not_to_want_a_search():
    async with gateway("suna", search_first=False) as place, place.talk() as talk:
        assert await talk.well("mcp__notes__add_note", text="milk") == {"noted": "milk"}


async def test_a_search_says_which_tools_of_an_app_are_enabled():
    async with gateway("suna") as place, place.talk() as talk:
        queries = [{"use_case": "write a note down"}, {"use_case": "pin a message to the board"}]
        before = await talk.well("search_mcp_servers", queries=queries)
        assert not any("enabled_tools" in one for group in before["results"] for one in group["results"])
        await _enabled(talk, "notes", "Mine", "list-notes")
        after = await talk.well("search_mcp_servers", queries=queries)
        enabled = {
            one["toolkit_slug"]: one.get("enabled_tools")
            for group in after["results"]
            for one in group["results"]
        }
        assert enabled == {"notes": ["list-notes"], "board": None}


async def test_an_app_that_a_fallback_finds_by_name_comes_alone():
    async with ComposioEmulator() as composio, gateway("suna", composio=composio) as place:
        composio.fail("search", 500, times=100)
        async with place.talk() as talk:
            found = await talk.well("search_mcp_servers", queries=[{"use_case": "github"}])
            assert found["source"] == "fallback"
            assert [one["toolkit_slug"] for one in found["results"][0]["results"]] == ["github"]
