"""The emulated Composio by itself: what it refuses, how it fails on request, its older forms, its MCP."""

import asyncio
import hashlib
import json
import subprocess
import sys
from typing import Any

import aiohttp
import pytest
from mcp.shared.exceptions import MCPError

from tests.emulators.composio import ComposioEmulator
from tests.emulators.peers import ROOT, Plain, called, mcp_client, open_in_browser, plain

NEW = "/api/v3.1/tool_router/session"
OLD = "/api/v3/tool_router/session"
MAIL = {"recipient_email": "bo@example.com", "body": "Good morning."}
UPLOAD = {
    "toolkit_slug": "gmail",
    "tool_slug": "GMAIL_SEND_EMAIL",
    "filename": "a.txt",
    "mimetype": "text/plain",
    "md5": hashlib.md5(b"hello").hexdigest(),
}
EMAIL_QUERY = {"queries": [{"use_case": "send an email"}]}


async def begun(api: Plain, user: str = "ana", root: str = NEW, **config: Any) -> str:
    """A new session; its path."""
    made = await api.post(root, {"user_id": user, **config})
    return f"{root}/{made['session_id']}"


REFUSED = {
    "a session without a user": ("POST", NEW, {}, 400, "user_id"),
    "a session with an empty user": ("POST", NEW, {"user_id": ""}, 400, "user_id"),
    "a field that is not documented": ("POST", NEW, {"user_id": "a", "ttl": 60}, 400, "ttl"),
    "a newer field in the older API": ("POST", OLD, {"user_id": "a", "search": {}}, 400, "search"),
    "both enable and disable": (
        *("POST", NEW, {"user_id": "a", "toolkits": {"enable": [], "disable": []}}, 400, "toolkits"),
    ),
    "an unknown hint": ("POST", NEW, {"user_id": "a", "tags": ["harmless"]}, 400, "tags"),
    "an unknown toolkit": (
        "POST",
        NEW,
        {"user_id": "a", "toolkits": {"enable": ["myspace"]}},
        404,
        "myspace",
    ),
    "an unknown session": ("GET", NEW + "/trs_1", None, 404, "trs_1"),
    "a search without queries": ("POST", "{session}/search", {}, 400, "queries"),
    "a search for nothing": ("POST", "{session}/search", {"queries": []}, 400, "queries"),
    "a search in the form of a string": ("POST", "{session}/search", {"queries": ["mail"]}, 400, "queries.0"),
    "a use case that is too long": (
        *("POST", "{session}/search", {"queries": [{"use_case": "x" * 1025}]}, 400, "queries.0.use_case"),
    ),
    "known fields as an object": (
        *(
            "POST",
            "{session}/search",
            {"queries": [{"use_case": "x", "known_fields": {}}]},
            400,
            "known_fields",
        ),
    ),
    "an execution without a tool": ("POST", "{session}/execute", {"arguments": {}}, 400, "tool_slug"),
    "an execution of an unknown tool": ("POST", "{session}/execute", {"tool_slug": "X_Y"}, 404, "X_Y"),
    "an execution outside the session": (
        *(
            "POST",
            "{session}/execute",
            {"tool_slug": "SLACK_LIST_ALL_CHANNELS"},
            403,
            "SLACK_LIST_ALL_CHANNELS",
        ),
    ),
    "an execution without its arguments": (
        *("POST", "{session}/execute", {"tool_slug": "HACKERNEWS_GET_USER"}, 400, "username"),
    ),
    "a meta tool that is none": ("POST", "{session}/execute_meta", {"slug": "GMAIL_SEND_EMAIL"}, 400, "slug"),
    "a link without a toolkit": (
        "POST",
        "{session}/link",
        {"callback_url": "https://a.example"},
        400,
        "toolkit",
    ),
    "a link for what needs none": ("POST", "{session}/link", {"toolkit": "hackernews"}, 400, "hackernews"),
    "a mount path that is missing": (
        "POST",
        "{session}/mounts/files/upload_url",
        {},
        400,
        "mount_relative_path",
    ),
    "a file that is not there": (
        *("POST", "{session}/mounts/files/download_url", {"mount_relative_path": "a.txt"}, 404, "a.txt"),
    ),
    "an unknown parameter": ("GET", "/api/v3.1/tools?page=2", None, 400, "page"),
    "a page that is too big": ("GET", "/api/v3.1/tools?limit=1001", None, 400, "limit"),
    "a cursor of another's": ("GET", "/api/v3.1/tools?cursor=abc", None, 400, "cursor"),
    "a toolkit search of two letters": ("GET", "/api/v3/toolkits?search=gm", None, 400, "search"),
    "text and arguments": (
        *("POST", "/api/v3/tools/execute/HACKERNEWS_GET_USER", {"arguments": {}, "text": "x"}, 400, "text"),
    ),
    "neither text nor arguments": ("POST", "/api/v3/tools/execute/HACKERNEWS_GET_USER", {}, 400, "arguments"),
    "an execution in nobody's name": (
        *("POST", "/api/v3/tools/execute/GMAIL_SEND_EMAIL", {"arguments": MAIL}, 400, "user_id"),
    ),
    "a version that never was": (
        "POST",
        "/api/v3/tools/execute/HACKERNEWS_GET_USER",
        {"arguments": {"username": "pg"}, "version": "20200101_00"},
        404,
        "20200101_00",
    ),
    "an auth config without a toolkit": ("POST", "/api/v3/auth_configs", {"toolkit": {}}, 400, "slug"),
    "managed auth that Composio has not": (
        *("POST", "/api/v3/auth_configs", {"toolkit": {"slug": "tavily"}}, 400, "tavily"),
    ),
    "a link without an auth config": (
        "POST",
        "/api/v3/connected_accounts/link",
        {"user_id": "a"},
        400,
        "auth",
    ),
    "a status that is none": ("GET", "/api/v3/connected_accounts?statuses=READY", None, 400, "READY"),
    "an MCP server with a short name": (
        *("POST", "/api/v3/mcp/servers", {"name": "abc", "auth_config_ids": []}, 400, "name"),
    ),
    "an upload with a wrong digest": (
        "POST",
        "/api/v3/files/upload/request",
        UPLOAD | {"md5": "?"},
        400,
        "md5",
    ),
    "a fork's session of neither form": ("POST", "/api/v3/labs/tool_router/session", {}, 400, "body"),
    "a fork's search without queries": ("POST", "/api/v3/labs/tool_router/search-tools", {}, 400, "queries"),
    "an endpoint that does not exist": ("POST", "/api/v3/tool_router/sessions", {}, 404, "sessions"),
    "the newer search in the older API": ("POST", "{old}/search", EMAIL_QUERY, 404, "search"),
}


async def test_a_wrong_request_is_refused_in_the_documented_form(api: Plain) -> None:
    session = await begun(api, toolkits={"disable": ["slack"]})
    for what, (method, path, body, expected, named) in REFUSED.items():
        path = path.format(session=session, old=session.replace("v3.1", "v3"))
        status, answer, _ = await api.ask(method, path, body)
        assert status == expected, (what, answer)
        error = answer["error"]
        assert {"message", "code", "status", "request_id", "suggested_fix"} <= set(error), what
        assert (error["status"], named in error["message"]) == (expected, True), (what, error)


async def test_a_body_that_is_not_json_and_a_key_that_is_not_ours_are_refused(
    composio: ComposioEmulator, api: Plain
) -> None:
    status, answer, _ = await api.ask("POST", NEW, data=b"user_id=ana")
    assert (status, "JSON" in answer["error"]["message"]) == (400, True)
    for headers in ({"x-api-key": "ak_wrong"}, {"x-api-key": ""}):
        status, answer, _ = await api.ask("GET", "/api/v3/toolkits", headers=headers)
        assert (status, answer["error"]["status"]) == (401, 401)
    _, _, headers = await api.ask("GET", "/api/v3/toolkits")
    assert headers["X-RateLimit"] == "600"
    assert headers["X-RateLimit-Window-Size"] == "60"


async def test_long_lists_come_in_pages(api: Plain) -> None:
    seen: list[str] = []
    page = await api.get("/api/v3.1/tools?limit=30")
    while True:
        seen += [item["slug"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        page = await api.get("/api/v3.1/tools", params={"cursor": page["next_cursor"]})
    assert (page["current_page"], page["total_pages"]) == (3, 3)
    assert len(seen) == len(set(seen)) == page["total_items"]


async def test_faults_strike_as_often_as_they_were_asked_to(composio: ComposioEmulator, api: Plain) -> None:
    search = await begun(api) + "/search"
    composio.fail("search", 401)
    composio.fail("session.search", 429, retry_after=7)
    composio.fail("*", 503, times=2)
    seen = [await api.ask("POST", search, EMAIL_QUERY) for _ in range(5)]
    assert [status for status, _, _ in seen] == [401, 429, 503, 503, 200]
    assert seen[1][2]["Retry-After"] == "7"
    assert [record.operation for record in composio.asked("search")] == ["session.search"] * 5
    assert composio.requests[-1].body == EMAIL_QUERY

    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    composio.fail("tools/list", 401)
    place = f"/tool_router/{search.split('/')[-2]}/mcp"
    status, answer, _ = await api.ask("POST", place, listing)
    assert (status, answer["error"]["status"]) == (401, 401)

    with pytest.raises(ValueError, match="no operation is called 'serach'"):
        composio.fail("serach")

    composio.empty("search")
    assert (await api.post(search, EMAIL_QUERY))["results"][0]["primary_tool_slugs"] == []
    composio.garble("search")
    with pytest.raises(json.JSONDecodeError):
        await api.post(search, EMAIL_QUERY)
    composio.drop("search")
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await api.post(search, EMAIL_QUERY)


async def test_a_slow_request_is_held_until_it_is_released(composio: ComposioEmulator, api: Plain) -> None:
    search = await begun(api) + "/search"
    fault = composio.slow("search")
    held = asyncio.create_task(api.post(search, EMAIL_QUERY))
    await fault.arrived.wait()
    assert (await api.post(search, EMAIL_QUERY))["success"], "only the next one is held"
    assert not held.done()
    fault.release()
    assert (await held)["success"]


@pytest.mark.parametrize("status", [401, 410, 400])
async def test_an_expired_session_says_so_wherever_it_is_named(
    composio: ComposioEmulator, api: Plain, status: int
) -> None:
    session, other = await begun(api), await begun(api)
    composio.expire(session.rsplit("/", 1)[1], status)
    for method, path, body in (
        ("GET", session, None),
        ("POST", session + "/search", EMAIL_QUERY),
        ("POST", session.replace("/api/v3.1", "").replace("/session", "") + "/mcp", {"jsonrpc": "2.0"}),
    ):
        got, answer, _ = await api.ask(method, path, body)
        assert (got, "has expired" in answer["error"]["message"]) == (status, True)
    assert (await api.post(other + "/search", EMAIL_QUERY))["success"], "the other one lives"


async def test_without_the_newer_api_the_older_one_does_the_same_work() -> None:
    async with ComposioEmulator(v31=False) as composio, plain(composio) as api:
        status, _, _ = await api.ask("POST", NEW, {"user_id": "ana"})
        assert status == 404
        session = await begun(api, root=OLD, toolkits={"enable": ["gmail"]})
        told = await api.get(session)
        assert told["config"]["toolkits"] == {"enabled": ["gmail"]}
        assert "config_version" not in told
        search = {"slug": "COMPOSIO_SEARCH_TOOLS", "arguments": EMAIL_QUERY}
        found = await api.post(session + "/execute_meta", search)
        assert found["data"]["results"][0]["primary_tool_slugs"][0] == "GMAIL_SEND_EMAIL"
        link = await api.post(session + "/link", {"toolkit": "gmail"})
        await open_in_browser(link["redirect_url"])
        sent = await api.post(session + "/execute", {"tool_slug": "GMAIL_SEND_EMAIL", "arguments": MAIL})
        assert (sent["error"], set(sent)) == (None, {"data", "error", "log_id"})


async def test_searches_can_reply_in_the_form_of_november_2025() -> None:
    async with ComposioEmulator(shape="2025") as composio, plain(composio) as api:
        reply = await api.post(await begun(api) + "/search", EMAIL_QUERY)
    assert (reply["successful"], reply["error"]) == (True, None)
    assert reply["data"]["results"][0]["main_tool_slugs"][0] == "GMAIL_SEND_EMAIL"
    status = reply["data"]["toolkit_connection_statuses"][0]
    assert (status["toolkit"], status["active_connection"]) == ("gmail", False)


async def test_the_endpoints_of_the_suna_fork_answer_in_its_forms(
    composio: ComposioEmulator, api: Plain
) -> None:
    session = (await api.post("/api/v3/labs/tool_router/session", {"generate_id": True}))["session"]
    assert (session["ttl"], session["generated"]) == (3600, True)
    body = {"queries": [{"use_case": "send an email"}], "limit": 2, "session": {"id": session["id"]}}
    reply = await api.post("/api/v3/labs/tool_router/search-tools", body)
    assert reply["session"]["id"] == session["id"]
    group = reply["results"][0]
    assert [item["toolkit_slug"] for item in group["results"]] == ["gmail", "outlook"]
    assert group["results"][0]["composio_managed_auth_schemes"] == ["OAUTH2"]

    user = {"user_id": "ana", "config": {"toolkits": [{"toolkit": "gmail"}]}}
    legacy = await api.post("/api/v3/labs/tool_router/session", user)
    assert legacy["chat_session_mcp_url"] == legacy["tool_router_instance_mcp_url"]
    status, _, _ = await api.ask("POST", "/api/v3/labs/tool_router/session", user)
    assert status == 409, "the same again"

    key = {"x-api-key": composio.api_key}
    async with mcp_client(
        legacy["chat_session_mcp_url"], **key, **{"x-composio-session-id": session["id"]}
    ) as client:
        assert (await client.list_tools()).tools
        composio.expire(session["id"])
        with pytest.raises(MCPError):
            await called(client, "COMPOSIO_SEARCH_TOOLS", EMAIL_QUERY)


async def test_accounts_belong_to_one_user_each(composio: ComposioEmulator, api: Plain) -> None:
    composio.connect("ana", "slack")
    call = {"tool_slug": "SLACK_SEND_MESSAGE", "arguments": {"channel": "general", "text": "Hi"}}
    done = await api.post(await begun(api, "ana") + "/execute", call)
    assert done["error"] is None
    status, answer, _ = await api.ask("POST", await begun(api, "bo") + "/execute", call)
    assert (status, answer["error"]["code"]) == (404, 1803)
    account = next(iter(composio.accounts))
    body = {"user_id": "bo", "connected_account_id": account, "arguments": call["arguments"]}
    status, _, _ = await api.ask("POST", "/api/v3/tools/execute/SLACK_SEND_MESSAGE", body)
    assert status == 403
    await api.ask("PATCH", f"/api/v3/connected_accounts/{account}/status", {"enabled": False})
    status, _, _ = await api.ask(
        "POST", "/api/v3/tools/execute/SLACK_SEND_MESSAGE", body | {"user_id": "ana"}
    )
    assert status == 422


async def test_a_presigned_address_takes_only_what_it_was_signed_for(api: Plain) -> None:
    grant = await api.post("/api/v3/files/upload/request", UPLOAD)
    url = grant["new_presigned_url"]
    for kind, expected in (("application/pdf", 403), ("text/plain", 200)):
        status, _, _ = await api.ask("PUT", url, data=b"hello", headers={"Content-Type": kind})
        assert status == expected
    status, _, _ = await api.ask("GET", url)
    assert status == 403, "it was signed for PUT"
    assert (await api.get("/api/v3/files/list"))["items"][0]["filename"] == "a.txt"


async def test_a_store_that_knows_its_files_says_what_is_there_already() -> None:
    async with ComposioEmulator(knows_files=True) as composio, plain(composio) as api:
        grant = await api.post("/api/v3/files/upload/request", UPLOAD)
        await api.ask(
            "PUT", grant["new_presigned_url"], data=b"hello", headers={"Content-Type": "text/plain"}
        )
        again = await api.post("/api/v3/files/upload/request", UPLOAD)
        assert (again["type"], await api.get(again["existing_url"])) == ("existing", b"hello")
        other = await api.post("/api/v3/files/upload/request", UPLOAD | {"md5": "1" * 32})
        assert (other["type"], other["key"]) == ("update", grant["key"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_session_is_an_mcp_server_whose_meta_tools_do_the_whole_flow(
    composio: ComposioEmulator, api: Plain, mode: str
) -> None:
    waiting = {"enable_wait_for_connections": True}
    made = await api.post(NEW, {"user_id": "ana", "manage_connections": waiting})
    with pytest.raises(BaseExceptionGroup):
        async with mcp_client(made["mcp"]["url"], mode) as stranger:
            await stranger.list_tools()

    async with mcp_client(made["mcp"]["url"], mode, **{"x-api-key": composio.api_key}) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed == made["tool_router_tools"]
        _, found = await called(client, "COMPOSIO_SEARCH_TOOLS", EMAIL_QUERY)
        related = found["data"]["results"][0]["related_tool_slugs"]
        _, schemas = await called(client, "COMPOSIO_GET_TOOL_SCHEMAS", {"tool_slugs": [*related, "NO_SUCH"]})
        assert set(schemas["data"]["tool_schemas"]) == set(related)
        assert schemas["data"]["not_found"] == ["NO_SUCH"]

        _, managed = await called(client, "COMPOSIO_MANAGE_CONNECTIONS", {"toolkits": ["gmail"]})
        link = managed["data"]["results"]["gmail"]["redirect_url"]
        fault = composio.slow("mcp.tools/call.COMPOSIO_WAIT_FOR_CONNECTIONS")
        wait = called(client, "COMPOSIO_WAIT_FOR_CONNECTIONS", {"toolkits": ["gmail"], "timeout_seconds": 30})
        waiter = asyncio.create_task(wait)
        await fault.arrived.wait()
        fault.release()
        await open_in_browser(link)
        _, waited = await waiter
        assert waited["data"]["connection_statuses"] == [{"toolkit": "gmail", "status": "active"}]

        send = {"tools": [{"tool_slug": "GMAIL_SEND_EMAIL", "arguments": MAIL}]}
        is_error, sent = await called(client, "COMPOSIO_MULTI_EXECUTE_TOOL", send)
        assert (is_error, sent["successful"], sent["data"]["success_count"]) == (False, True, 1)
        assert composio.records["emails"][0]["recipient_email"] == "bo@example.com"

        _, ran = await called(client, "COMPOSIO_REMOTE_WORKBENCH", {"code_to_execute": "print('hi', 2)"})
        assert ran["data"]["stdout"] == "hi 2\n"
        _, ran = await called(client, "COMPOSIO_REMOTE_WORKBENCH", {"code_to_execute": "x = 6\n1/0"})
        assert "ZeroDivisionError" in ran["data"]["error"]
        _, ran = await called(client, "COMPOSIO_REMOTE_WORKBENCH", {"code_to_execute": "print(x * 7)"})
        assert ran["data"]["stdout"] == "42\n", "its state stays"
        _, ran = await called(client, "COMPOSIO_REMOTE_BASH_TOOL", {"command": "echo hello"})
        assert ran["data"]["stdout"] == "hello\n"

        is_error, wrong = await called(client, "COMPOSIO_SEARCH_TOOLS", {"query": "mail"})
        assert (is_error, wrong["successful"]) == (True, False)
        composio.expire(made["session_id"], 200)
        is_error, over = await called(client, "COMPOSIO_SEARCH_TOOLS", EMAIL_QUERY)
        assert (is_error, over["error"]) == (True, f"Session {made['session_id']} has expired")


async def test_it_runs_as_a_process_that_prints_where_it_is() -> None:
    program = [sys.executable, "-m", "tests.emulators.composio", "--no-v31", "--api-key", "ak_mine"]
    process = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        where = json.loads(await process.stdout.readline())
        async with (
            aiohttp.ClientSession(headers={"x-api-key": "ak_mine"}) as http,
            http.post(where["url"] + OLD, json={"user_id": "ana"}) as answer,
        ):
            assert answer.status == 201
    finally:
        process.terminate()
        await process.wait()
