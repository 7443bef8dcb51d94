"""The flow of Suna's document under its own names: search → session → execution, with a session refused in
the middle and a result that is far too big for the agent's context."""

import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.emulators.composio import ComposioEmulator
from tests.emulators.supabase import SupabaseEmulator
from tests.emulators.supabase.emulator import SERVICE_KEY
from tests.flow.process import Agent, agent, authorise, configured, started

ISSUES = "GITHUB_LIST_ISSUES"
SPEAKS = 'dialects = ["suna"]'
STORED = '[store]\nurl = "supabase:"\nlinks = "public"\noptions = {{ url = "{url}", key = "{key}" }}'


async def test_an_agent_searches_connects_enables_and_calls_while_its_session_is_renewed(tmp_path: Path):
    async with ComposioEmulator() as composio:
        with SupabaseEmulator() as supabase:
            store = STORED.format(url=supabase.url, key=SERVICE_KEY)
            config = configured(composio, tmp_path, f"{SPEAKS}\n{store}")
            async with (
                started(tmp_path, config) as gateway,
                agent(gateway, **{"X-Toolyard-Thread": "conversation-7"}) as one,
            ):
                await _flow(one, composio, supabase)


async def _flow(one: Agent, composio: ComposioEmulator, supabase: SupabaseEmulator) -> None:
    begun = await _search(one)
    assert begun["source"] == "composio"
    session = begun["session"]
    assert (session["id"].startswith("trs_"), session["ttl"] > 0) == (True, True)
    (found,) = begun["results"]
    assert found["query"]["use_case"] == "list the open issues of a repository"
    hub = next(item for item in found["results"] if item["toolkit_slug"] == "github")
    assert hub["auth_schemes"]

    made = await one.says("create_credential_profile", toolkit_slug="github", profile_name="Work")
    await authorise(made["connection_link"])
    (profile,) = (await one.says("get_credential_profiles", toolkit_slug="github"))["profiles"]
    assert profile["is_connected"]
    discovered = await one.says("discover_user_mcp_servers", profile_id=profile["profile_id"])
    assert ISSUES in [tool["name"] for tool in discovered["tools"]]
    await one.says("configure_profile_for_agent", profile_id=profile["profile_id"], enabled_tools=[ISSUES])
    assert ISSUES in await one.tools()

    # Composio refuses the session of this conversation: nobody notices but Composio.
    composio.expire((await _search(one))["session"]["id"], 401)
    sessions = len(composio.sessions)
    answer = await one.says(ISSUES, owner="acme", repo="shop")
    assert len(composio.sessions) == sessions + 1
    (executed,) = composio.world.executions
    assert executed["tool"] == ISSUES
    assert (await _search(one))["session"]["id"] != session["id"]

    # The agent gets a summary, a preview and a link; the whole lies in the bucket of the document.
    assert answer["truncated"] is True
    assert answer["summary"]["item_count"] > 20
    assert answer["preview"]
    assert len(json.dumps(answer)) < answer["summary"]["approx_size_bytes"]
    assert list(supabase.bucket("tool-outputs").objects)
    async with aiohttp.ClientSession() as browser, browser.get(answer["storage"]["url"]) as page:
        whole = json.loads(await page.read())
    assert page.status == 200
    assert len(_longest_list(whole)) == answer["summary"]["item_count"]


async def _search(one: Agent) -> Any:
    queries = [{"use_case": "list the open issues of a repository", "app_slug": "github"}]
    return await one.says("search_mcp_servers", queries=queries)


def _longest_list(value: Any) -> list[Any]:
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    found = [value] if isinstance(value, list) else []
    return max([*found, *map(_longest_list, inside)], key=len, default=[])
