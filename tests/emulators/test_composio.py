"""The official `composio` package works against the emulator as it is: the emulator can stand for Composio.

Every reply that the package gets here is checked against its own models of the API (see `official.py`).
"""

import base64
from typing import Any

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.emulators.peers import Official, Raised, called, mcp_client, open_in_browser

VERSION = "20260801_00"
MAIL = {"recipient_email": "bo@example.com", "subject": "Hello", "body": "Good morning."}

PUBLIC = "http://192.31.196.1"
"""Where presigned addresses point when the official package is to follow them.

It refuses to send files to addresses of private networks, loopback among them, and to fetch them there, and
has no setting against that. It does honour HTTP_PROXY, and then looks at the address only. So the files are
offered at an address of the public net (one of AS112, which exists to swallow what should never have been
sent), and the emulator is the proxy by which the package reaches it. No byte leaves loopback."""


async def test_a_session_is_created_resumed_changed_and_deleted(
    composio: ComposioEmulator, official: Official
) -> None:
    session = await official.do(composio, "create", user_id="ana", toolkits=["gmail", "hackernews"])
    assert session["config"]["toolkits"]["enabled"] == ["gmail", "hackernews"]
    assert session["mcp"]["headers"] == {"x-api-key": composio.api_key}
    resumed = await official.do(composio, "use", session=session["id"])
    assert resumed == {"id": session["id"], "user": "ana", "version": 1}
    assert await official.do(composio, "session_toolkits", session=session["id"]) == {
        "gmail": False,
        "hackernews": True,
    }
    changed = await official.do(
        composio, "change", session=session["id"], toolkits={"enable": ["github"]}, expected_config_version=1
    )
    assert changed["config"]["toolkits"]["enabled"] == ["github"]
    assert changed["history"] == [[2, True], [1, False]]
    with pytest.raises(Raised, match="SessionConfigConflictError"):
        await official.do(composio, "change", session=session["id"], tags=None, expected_config_version=1)
    deleted = await official.do(composio, "delete", session=session["id"])
    assert deleted == {"session_id": session["id"], "deleted": True}
    with pytest.raises(Raised, match="NotFoundError 404"):
        await official.do(composio, "use", session=session["id"])


async def test_what_a_search_found_is_executed_once_the_user_has_connected_the_app(
    composio: ComposioEmulator, official: Official
) -> None:
    session = (await official.do(composio, "create", user_id="ana"))["id"]
    found = await official.do(composio, "search", session=session, query="send an email")
    assert found["results"][0]["primary_tool_slugs"][0] == "GMAIL_SEND_EMAIL"
    assert found["tool_schemas"]["GMAIL_SEND_EMAIL"]["input_schema"]["required"] == [
        "recipient_email",
        "body",
    ]
    assert found["toolkit_connection_statuses"][0]["has_active_connection"] is False
    send = {"session": session, "slug": "GMAIL_SEND_EMAIL", "arguments": MAIL}
    with pytest.raises(Raised, match="404 No connected account found for user ID ana for toolkit gmail"):
        await official.do(composio, "execute", **send)

    request = await official.do(composio, "authorize", session=session, toolkit="gmail")
    assert await official.do(composio, "status", account=request["id"]) == "INITIATED"
    assert await open_in_browser(request["link"]) == 200
    assert await official.do(composio, "wait", account=request["id"]) == "ACTIVE"

    sent = await official.do(composio, "execute", **send)
    assert sent["result_type"] == "completed"
    assert sent["data"]["response_data"]["recipient_email"] == "bo@example.com"
    assert composio.records["emails"][0]["body"] == "Good morning."
    found = await official.do(composio, "search", session=session, query="send an email")
    assert found["toolkit_connection_statuses"][0]["has_active_connection"] is True
    connected = await official.do(composio, "session_toolkits", session=session, toolkits=["gmail", "slack"])
    assert connected == {"gmail": True, "slack": False}
    forwarded = await official.do(composio, "proxy", session=session, toolkit="gmail")
    assert forwarded["data"]["not_sent"]["endpoint"] == "/me"


async def test_the_tools_of_a_session_are_the_meta_tools_and_those_that_were_preloaded(
    composio: ComposioEmulator, official: Official
) -> None:
    session = await official.do(
        composio,
        "create",
        user_id="ana",
        preload={"tools": ["HACKERNEWS_GET_USER"]},
        sandbox={"enable": False},
        manage_connections={"enable": True, "wait_for_connections": True},
    )
    assert await official.do(composio, "session_tools", session=session["id"]) == [
        "COMPOSIO_SEARCH_TOOLS",
        "COMPOSIO_GET_TOOL_SCHEMAS",
        "COMPOSIO_MULTI_EXECUTE_TOOL",
        "COMPOSIO_MANAGE_CONNECTIONS",
        "COMPOSIO_WAIT_FOR_CONNECTIONS",
        "HACKERNEWS_GET_USER",
    ]


async def test_meta_tools_connect_and_execute_many_at_once(
    composio: ComposioEmulator, official: Official
) -> None:
    session = (await official.do(composio, "create", user_id="ana"))["id"]
    manage = {"slug": "COMPOSIO_MANAGE_CONNECTIONS", "arguments": {"toolkits": ["github", "tavily", "nope"]}}
    managed = (await official.do(composio, "execute_meta", session=session, **manage))["data"]["results"]
    assert [managed[name]["status"] for name in ("github", "tavily", "nope")] == [
        "initiated",
        "requires_parameters",
        "failed",
    ]
    assert await open_in_browser(managed["github"]["redirect_url"]) == 200

    listing = {"tool_slug": "GITHUB_LIST_ISSUES", "arguments": {"owner": "octo", "repo": "app"}}
    wrong = {"tool_slug": "GITHUB_LIST_ISSUES", "arguments": {"owner": "octo"}}
    both = {"slug": "COMPOSIO_MULTI_EXECUTE_TOOL", "arguments": {"tools": [listing, wrong]}}
    done = (await official.do(composio, "execute_meta", session=session, **both))["data"]
    assert [(result["tool_slug"], result["success"]) for result in done["results"]] == [
        ("GITHUB_LIST_ISSUES", True),
        ("GITHUB_LIST_ISSUES", False),
    ]
    assert len(done["results"][0]["response"]["data"]["issues"]) == 100
    assert (done["success_count"], done["error_count"]) == (1, 1)


async def test_tools_are_listed_and_executed_without_a_session(
    composio: ComposioEmulator, official: Official
) -> None:
    assert "SLACK_SEND_MESSAGE" in await official.do(composio, "tools", user_id="bo", toolkits=["slack"])
    assert (await official.do(composio, "tools", user_id="bo", search="headlines"))[0] == (
        "COMPOSIO_SEARCH_NEWS_SEARCH"
    )
    user = {"slug": "HACKERNEWS_GET_USER", "arguments": {"username": "pg"}, "user_id": "bo"}
    assert await official.do(composio, "run", **user, version=VERSION) == {
        "data": {"username": "pg", "karma": 2000, "about": "This is pg."},
        "error": None,
        "successful": True,
    }
    nobody = {**user, "arguments": {"username": "?"}, "version": VERSION}
    assert (await official.do(composio, "run", **nobody))["error"] == "No such user: '?'"
    with pytest.raises(Raised, match="BadRequestError 400"):
        await official.do(composio, "run", **{**nobody, "arguments": {"name": "pg"}})
    with pytest.raises(Raised, match="404 No connected account found for user ID bo for toolkit gmail"):
        await official.do(
            composio, "run", slug="GMAIL_SEND_EMAIL", arguments=MAIL, user_id="bo", version=VERSION
        )
    old = {"slug": "GMAIL_LIST_MESSAGES_OLD", "arguments": {}, "user_id": "bo", "version": VERSION}
    with pytest.raises(Raised, match=r"410.*deprecated"):
        await official.do(composio, "run", **old)
    with pytest.raises(Raised, match="Tool with slug GMAIL_TELEPORT not found"):
        await official.do(composio, "run", **{**old, "slug": "GMAIL_TELEPORT"})


async def test_toolkits_and_their_accounts_are_managed_without_a_session(
    composio: ComposioEmulator, official: Official
) -> None:
    toolkits = await official.do(composio, "toolkits", slug="tavily")
    assert {"gmail", "github", "codeinterpreter"} <= set(toolkits["all"])
    assert (toolkits["one"], toolkits["fields"]) == ("tavily", ["generic_api_key"])
    assert "project-management" in toolkits["categories"]

    request = await official.do(composio, "link", user="bo", toolkit="github")
    assert request["listed"] == [request["config"]]
    assert await official.do(composio, "accounts", user_ids=["bo"]) == [["bo", "github", "INITIATED"]]
    await open_in_browser(request["link"])
    assert await official.do(composio, "accounts", statuses=["ACTIVE"]) == [["bo", "github", "ACTIVE"]]

    key = {"type": "use_custom_auth", "authScheme": "API_KEY", "credentials": {}}
    state = {"authScheme": "API_KEY", "val": {"status": "ACTIVE", "generic_api_key": "tvly-1"}}
    made = await official.do(composio, "initiate", user="bo", toolkit="tavily", options=key, state=state)
    assert made == "ACTIVE"
    managed = {"type": "use_composio_managed_auth"}
    with pytest.raises(Raised, match="ComposioLegacyConnectedAccountsEndpointRetiredError"):
        await official.do(composio, "initiate", user="bo", toolkit="slack", options=managed, state=None)


async def test_an_mcp_server_of_chosen_tools_serves_each_user_at_an_address_of_its_own(
    composio: ComposioEmulator, official: Official
) -> None:
    composio.connect("bo", "github")
    server = await official.do(
        composio,
        "mcp_server",
        name="github-1a2b3c4d",
        toolkits=["github"],
        allowed=["GITHUB_GET_AN_ISSUE"],
        user="bo",
    )
    assert server["made"]["allowed_tools"] == ["GITHUB_GET_AN_ISSUE"]
    async with mcp_client(server["made"]["url"]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["GITHUB_GET_AN_ISSUE"]
        issue = {"owner": "octo", "repo": "app", "issue_number": 7}
        _, reply = await called(client, "GITHUB_GET_AN_ISSUE", issue)
    assert (reply["successful"], reply["data"]["title"]) == (True, "Issue 7 of octo/app")


async def test_files_travel_up_with_a_mail_and_down_with_an_attachment(official: Official) -> None:
    async with ComposioEmulator(storage=PUBLIC) as composio:
        reach = {"HTTP_PROXY": composio.url, "NO_PROXY": "127.0.0.1"}
        folder = official.home / "outbox"
        folder.mkdir()
        (folder / "report.txt").write_text("All is well.")
        settings = {
            "dangerously_allow_auto_upload_download_files": True,
            "file_upload_dirs": [str(folder)],
            "file_download_dir": str(official.home / "inbox"),
        }
        session = (await official.do(composio, "create", user_id="ana"))["id"]
        mounted = await official.do(
            composio, "mount", environment=reach, session=session, name="notes/day.txt", content="Sunny."
        )
        assert mounted == {"listed": ["notes/day.txt"], "read": "Sunny.", "left": 0}

        composio.connect("ana", "gmail")
        who = {"user_id": "ana", "version": VERSION, "settings": settings}
        mail = {**MAIL, "attachment": str(folder / "report.txt")}
        sent = await official.do(composio, "run", slug="GMAIL_SEND_EMAIL", arguments=mail, **who)
        key = "proj_emulated/gmail/GMAIL_SEND_EMAIL/report.txt"
        attached = {"name": "report.txt", "mimetype": "text/plain", "s3key": key}
        assert sent["data"]["response_data"]["attachment"] == attached
        assert composio.world.blobs[key].content == b"All is well."

        wanted = {"message_id": "m1", "attachment_id": "a1", "file_name": "reply.txt"}
        got = await official.do(composio, "run", slug="GMAIL_GET_ATTACHMENT", arguments=wanted, **who)
        path = official.home / "inbox" / "gmail" / "GMAIL_GET_ATTACHMENT" / "reply.txt"
        assert got["data"]["file"] == str(path)
        assert path.read_text() == "The attachment reply.txt of message m1.\n"


WRITER = """
import base64, os
path = '/home/user/work/report.bin'
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, 'wb') as f:
    f.write(base64.b64decode('{}'))
print('WRITTEN', os.path.getsize(path))
"""


async def test_the_seed_s_bridge_of_files_works_by_the_official_package(official: Official) -> None:
    """As universal_agent did it: a base64 writer up, CODEINTERPRETER_GET_FILE_CMD down, a key for a mail."""
    report = bytes(range(256)) * 40
    async with ComposioEmulator(storage=PUBLIC) as composio:
        reach = {"HTTP_PROXY": composio.url, "NO_PROXY": "127.0.0.1"}
        settings = {
            "dangerously_allow_auto_upload_download_files": True,
            "file_download_dir": str(official.home / "fetched"),
        }
        how = {
            "user_id": "ana",
            "dangerously_skip_version_check": True,
            "settings": settings,
            "environment": reach,
        }
        code = WRITER.format(base64.b64encode(report).decode())
        run = {"slug": "COMPOSIO_REMOTE_WORKBENCH", "arguments": {"code_to_execute": code}}
        ran = await official.do(composio, "run", **run, **how)
        assert (ran["successful"], ran["data"]["stdout"]) == (True, f"WRITTEN {len(report)}\n")
        wanted = {"file_path": "/home/user/work/report.bin"}
        got = await official.do(composio, "run", slug="CODEINTERPRETER_GET_FILE_CMD", arguments=wanted, **how)
        path = official.home / "fetched" / "codeinterpreter" / "CODEINTERPRETER_GET_FILE_CMD" / "report.bin"
        assert got["data"]["file"] == str(path)
        assert path.read_bytes() == report

        where: dict[str, Any] = {"tool": "GMAIL_SEND_EMAIL", "toolkit": "gmail"}
        stored = await official.do(composio, "upload", path=str(path), environment=reach, **where)
        key = "proj_emulated/gmail/GMAIL_SEND_EMAIL/report.bin"
        assert stored == {"name": "report.bin", "mimetype": "application/octet-stream", "s3key": key}
        composio.connect("ana", "gmail")
        mail = {"slug": "GMAIL_SEND_EMAIL", "arguments": {**MAIL, "attachment": stored}}
        await official.do(composio, "run", **mail, user_id="ana", dangerously_skip_version_check=True)
        assert composio.records["emails"][0]["received"] == report

        composio.corrupt("store.put")
        with pytest.raises(Raised, match=r"ErrorUploadingFile.*Status: 400"):
            await official.do(composio, "upload", path=str(path), environment=reach, **where)
        composio.stale()
        with pytest.raises(Raised, match=r"ErrorUploadingFile.*Status: 403"):
            await official.do(composio, "upload", path=str(path), environment=reach, **where)

        session = (await official.do(composio, "create", user_id="ana"))["id"]
        read = "print(open('/mnt/files/notes/day.txt').read())"
        ran = await official.do(
            composio,
            "mount_and_run",
            environment=reach,
            session=session,
            name="notes/day.txt",
            content="Sunny.",
            code=read,
        )
        assert ran["data"]["stdout"] == "Sunny.\n"


async def test_files_at_a_loopback_address_are_refused_by_the_official_client(
    composio: ComposioEmulator, official: Official
) -> None:
    """This is why the test above takes a detour."""
    session = (await official.do(composio, "create", user_id="ana"))["id"]
    with pytest.raises(Raised, match=r"BlockedInternalUrlError.*non-public address"):
        await official.do(composio, "mount", session=session, name="day.txt", content="Sunny.")


async def test_the_official_client_understands_what_goes_wrong(
    composio: ComposioEmulator, official: Official
) -> None:
    session = (await official.do(composio, "create", user_id="ana"))["id"]
    search = {"session": session, "query": "send an email"}
    with pytest.raises(Raised, match=r"AuthenticationError 401: .*Invalid API key"):
        await official.do(composio, "search", settings={"api_key": "ak_wrong"}, **search)

    composio.fail("search", 429, retry_after=0)
    assert (await official.do(composio, "search", **search))["success"]
    assert len(composio.asked("search")) == 2, "refused once, then asked again"

    composio.fail("search", 500, times=2)
    with pytest.raises(Raised, match="InternalServerError 500"):
        await official.do(composio, "search", **search)
    composio.drop("search", times=2)
    with pytest.raises(Raised, match="APIConnectionError"):
        await official.do(composio, "search", **search)
    composio.garble("search")
    with pytest.raises(Raised, match="APIResponseValidationError"):
        await official.do(composio, "search", **search)
    composio.empty("search")
    found = await official.do(composio, "search", **search)
    assert (found["success"], found["results"][0]["primary_tool_slugs"]) == (True, [])

    composio.expire(session)
    with pytest.raises(Raised, match=f"410 Session {session} has expired"):
        await official.do(composio, "search", **search)
