"""Files between the workspace, a workbench and Composio's store, through the tools of the local toolkit."""

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.emulators.composio import ComposioEmulator
from tests.programs import needs
from toolyard import Client
from toolyard.config import Composio, InProcess, ServerConfig
from toolyard.kit.loader import LoadError, load
from toolyard.wire.call import Principal

MODULE = "toolyard.servers.local_toolkit"
REPORT = "<h1>Relatório</h1>\n" * 50
LARGE = random.Random(3).randbytes(5_500_000)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's own key or folder is used here."""
    for name in ("COMPOSIO_API_KEY", "COMPOSIO_BASE_URL", "DEFAULT_USER_ID", "TOOLYARD_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
async def composio() -> AsyncIterator[ComposioEmulator]:
    async with ComposioEmulator() as emulator:
        yield emulator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "report.html").write_text(REPORT)
    return tmp_path / "work"


@asynccontextmanager
async def toolkit(
    folder: Path, composio: ComposioEmulator | None = None, **options: Any
) -> AsyncIterator[Client]:
    if composio is not None:
        options |= {
            "composio_api_key": composio.api_key,
            "composio_url": composio.url,
            "composio_user": "ana",
        }
    server = load(MODULE, options={"workspace": str(folder), **options})
    try:
        async with Client(server) as client:
            yield client
    finally:
        await server.close()


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    """The structured content of a result and its text."""
    result = await client.call_tool(tool, arguments)
    return result.structured, result.text


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    raw = await client.request("tools/call", {"name": tool, "arguments": arguments})
    assert raw["isError"], raw
    return raw["content"][0]["text"]


def listed(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def sandbox(composio: ComposioEmulator, user: str = "ana") -> dict[str, bytes]:
    boxes = [box for (owner, _), box in composio.sandboxes.items() if owner == user]
    return {path: data for box in boxes for path, data in box.files.items()}


# The seed's file flow


def mounted(folder: Path, composio: ComposioEmulator, **options: Any) -> list[ServerConfig]:
    """The toolkit and Composio behind one gateway, for the same users."""
    options |= {"composio_api_key": composio.api_key, "composio_url": composio.url, "workspace": str(folder)}
    where = Composio(api_key=composio.api_key, base_url=composio.url)
    return [
        ServerConfig(name="local_toolkit", where=InProcess(module=MODULE, options=options)),
        ServerConfig(name="composio", where=where, timeout=60),
    ]


def identify(headers: Any) -> Principal:
    return Principal(tenant=dict(headers).get(b"x-tenant", b"acme").decode())


async def done(gateway: Yard, tool: str, **arguments: Any) -> Any:
    """Call a tool as an agent does in the view that only searches."""
    asked = {"tool": tool, "arguments": arguments}
    answer = await gateway.call("call_tool", asked, headers={"x-toolyard-thread": "t"})
    assert not answer.result.get("isError"), answer.result
    return answer.result


@pytest.mark.parametrize("workbench", ["composio", "local"])
async def test_a_report_is_written_uploaded_attached_and_mailed_and_arrives_byte_for_byte(
    composio: ComposioEmulator, tmp_path: Path, workbench: str
) -> None:
    composio.connect("acme", "gmail")
    servers = mounted(tmp_path / "work", composio, workbench=workbench)
    async with yard(*servers, identify=identify, view="search") as gateway:
        tool = "mcp__local_toolkit__{}".format
        written = await done(
            gateway, tool("write_local_file"), path="work_products/report.html", content=REPORT
        )
        assert f"Successfully wrote {len(REPORT)} chars to " in written["content"][0]["text"]

        remote = "/home/user/report.html"
        uploaded = await done(
            gateway, tool("workbench_upload"), local_path="work_products/report.html", remote_path=remote
        )
        source = uploaded["structuredContent"]["local_path"]
        assert uploaded["content"][0]["text"] == f"Successfully uploaded {source} to {remote}."
        assert uploaded["structuredContent"]["workbench"] == workbench
        if workbench == "composio":
            assert sandbox(composio, "acme") == {remote: REPORT.encode()}
        else:
            read = await done(gateway, tool("read_local_file"), path="report.html")
            assert read["structuredContent"]["content"] == REPORT, "the workbench's home is the workspace"
            assert not composio.sandboxes

        attached = (await done(gateway, tool("upload_to_composio"), path="work_products/report.html"))[
            "structuredContent"
        ]
        assert attached["s3key"] == "proj_emulated/gmail/GMAIL_SEND_EMAIL/report.html"
        attachment = {name: attached[name] for name in ("s3key", "mimetype", "name")}
        mail = {"recipient_email": "bo@example.com", "subject": "The report", "body": "See the attachment."}
        await done(gateway, "mcp__composio__GMAIL_SEND_EMAIL", **mail, attachment=attachment)
        (received,) = composio.records["emails"]
        assert received["user_id"] == "acme"
        assert received["received"] == REPORT.encode()

        back = await done(
            gateway, tool("workbench_download"), remote_path=remote, local_path="back/copy.html"
        )
        local = back["structuredContent"]["local_path"]
        assert (
            back["content"][0]["text"] == f"Successfully downloaded {remote} to {local}. Local path: {local}"
        )
        assert content(local) == REPORT.encode()


@needs("bubblewrap")
async def test_code_in_the_local_workbench_works_on_an_uploaded_file_and_its_result_is_mailed(
    composio: ComposioEmulator, tmp_path: Path
) -> None:
    composio.connect("acme", "gmail")
    folder = {"workspace": str(tmp_path / "work")}
    box = InProcess(module="toolyard.servers.workbench", options=folder)
    servers = [
        *mounted(tmp_path / "work", composio, workbench="local"),
        ServerConfig(name="workbench", where=box, timeout=60),
    ]
    async with yard(*servers, identify=identify, view="search") as gateway:
        tool = "mcp__local_toolkit__{}".format
        await done(gateway, tool("write_local_file"), path="work_products/report.html", content=REPORT)
        up = {"local_path": "work_products/report.html", "remote_path": "/home/user/in/report.html"}
        await done(gateway, tool("workbench_upload"), **up)
        code = "data = open('in/report.html', 'rb').read(); open('out.bin', 'wb').write(data[::-1])"
        ran = await done(gateway, "mcp__workbench__REMOTE_WORKBENCH", code_to_execute=code)
        assert not ran["structuredContent"].get("error"), ran
        down = {"remote_path": "/home/user/out.bin", "local_path": "work_products/out.bin"}
        await done(gateway, tool("workbench_download"), **down)
        attached = await done(gateway, tool("upload_to_composio"), path="work_products/out.bin")
        attachment = {name: attached["structuredContent"][name] for name in ("s3key", "mimetype", "name")}
        mail = {"recipient_email": "bo@example.com", "body": "Backwards.", "attachment": attachment}
        await done(gateway, "mcp__composio__GMAIL_SEND_EMAIL", **mail)
        assert composio.records["emails"][0]["received"] == REPORT.encode()[::-1]


async def test_a_session_of_the_gateway_s_own_search_names_the_workbench_of_composio_s_tools(
    composio: ComposioEmulator, tmp_path: Path
) -> None:
    servers = mounted(tmp_path / "work", composio)
    async with yard(*servers, identify=identify, view="search") as gateway:
        asked = {"queries": [{"use_case": "run python code"}]}
        thread = {"x-toolyard-thread": "t"}
        answer = (await gateway.call("search_tools", asked, headers=thread)).result
        session = answer["_meta"]["toolyard/search"]["session"]["id"]
        await done(gateway, "mcp__local_toolkit__write_local_file", path="a.txt", content="from here")
        await done(
            gateway,
            "mcp__local_toolkit__workbench_upload",
            local_path="a.txt",
            remote_path="/home/user/a.txt",
            session_id=session,
        )
        code = "print(open('/home/user/a.txt').read())"
        ran = await done(gateway, "mcp__composio__COMPOSIO_REMOTE_WORKBENCH", code_to_execute=code)
        assert ran["structuredContent"]["stdout"] == "from here\n"


async def test_tenants_and_conversations_have_workbenches_of_their_own(
    composio: ComposioEmulator, tmp_path: Path
) -> None:
    async with yard(*mounted(tmp_path / "work", composio), identify=identify) as gateway:

        async def call(tool: str, tenant: str, thread: str = "t", **arguments: Any) -> Any:
            headers = {"x-tenant": tenant, "x-toolyard-thread": thread}
            return (await gateway.call(f"mcp__local_toolkit__{tool}", arguments, headers=headers)).result

        await call("write_local_file", "acme", path="a.txt", content="of acme")
        await call("workbench_upload", "acme", local_path="a.txt", remote_path="/home/user/a.txt")
        (session,) = [id for id, one in composio.sessions.items() if one.user_id == "acme"]
        theirs = {"remote_path": "/home/user/a.txt", "local_path": "stolen.txt"}
        for tenant, thread, named in (
            ("globex", "t", {"session_id": session}),
            ("globex", "t", {}),
            ("acme", "other", {}),
        ):
            answer = await call("workbench_download", tenant, thread, **theirs, **named)
            assert answer["isError"], answer
        answer = await call("workbench_download", "acme", "other", **theirs, session_id=session)
        assert not answer.get("isError"), "the same user may name the session of another conversation"


# The tools alone


async def test_the_results_have_the_seeds_sentences_and_fields(
    composio: ComposioEmulator, folder: Path
) -> None:
    async with toolkit(folder, composio) as client:
        up, text = await said(
            client, "workbench_upload", local_path="report.html", remote_path="/home/user/r.html"
        )
        local = str(folder / "report.html")
        assert text == f"Successfully uploaded {local} to /home/user/r.html."
        assert up == {
            "success": True,
            "local_path": local,
            "remote_path": "/home/user/r.html",
            "size": len(REPORT.encode()),
            "workbench": "composio",
        }
        down, text = await said(
            client, "workbench_download", remote_path="/home/user/r.html", local_path="deep/er/copy.html"
        )
        copy = str(folder / "deep" / "er" / "copy.html")
        assert text == f"Successfully downloaded /home/user/r.html to {copy}. Local path: {copy}"
        assert (down["local_path"], down["size"]) == (copy, len(REPORT.encode()))
        assert content(copy) == REPORT.encode()

        stored, text = await said(client, "upload_to_composio", path="report.html")
        assert json.loads(text) == stored
        key = "proj_emulated/gmail/GMAIL_SEND_EMAIL/report.html"
        assert (stored["s3key"], stored["s3_key"]) == (key, key)
        assert (stored["mimetype"], stored["name"], stored["local_path"]) == (
            "text/html",
            "report.html",
            local,
        )
        assert "?" not in stored["s3_url"]
        assert composio.world.blobs[key].content == REPORT.encode()


async def test_older_forms_of_the_upload_choose_a_type_and_copy_to_a_session(
    composio: ComposioEmulator, folder: Path
) -> None:
    async with toolkit(folder, composio) as client:
        await said(client, "workbench_upload", local_path="report.html", remote_path="/home/user/first.html")
        (session,) = composio.sessions
        stored, _ = await said(
            client, "upload_to_composio", path="report.html", mime_type="text/plain", session_id=session
        )
        assert (stored["mimetype"], stored["remote_path"]) == ("text/plain", "/home/user/report.html")
        assert sandbox(composio)["/home/user/report.html"] == REPORT.encode()
        other, _ = await said(
            client, "upload_to_composio", path="report.html", tool_slug="GMAIL_CREATE_EMAIL_DRAFT"
        )
        assert other["s3key"] == "proj_emulated/gmail/GMAIL_CREATE_EMAIL_DRAFT/report.html"


async def test_without_a_key_the_same_tools_use_the_local_workbench(folder: Path) -> None:
    async with toolkit(folder) as client:
        up, text = await said(
            client, "workbench_upload", local_path="report.html", remote_path="/home/user/r.html"
        )
        assert text == f"Successfully uploaded {folder / 'report.html'} to /home/user/r.html."
        assert up["workbench"] == "local"
        assert (folder / "r.html").read_text() == REPORT
        await said(client, "workbench_download", remote_path="/home/user/r.html", local_path="again.html")
        assert (folder / "again.html").read_text() == REPORT
        text = await refused(client, "upload_to_composio", path="report.html")
        assert "COMPOSIO_API_KEY" in json.loads(text)["error"]
        assert "no file" in await refused(
            client, "workbench_download", remote_path="/home/user/none", local_path="x"
        )
        for outside in ("/etc/passwd", "/home/user/../../etc/passwd", "/srv/x", "../x"):
            text = await refused(client, "workbench_download", remote_path=outside, local_path="x")
            assert "cannot be used in the workbench" in text
            text = await refused(client, "workbench_upload", local_path="report.html", remote_path=outside)
            assert "cannot be used in the workbench" in text


async def test_the_variables_of_composio_s_clients_are_read(
    composio: ComposioEmulator, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSIO_API_KEY", composio.api_key)
    monkeypatch.setenv("COMPOSIO_BASE_URL", composio.url)
    monkeypatch.setenv("DEFAULT_USER_ID", "the-default")
    async with toolkit(folder) as client:
        await said(client, "workbench_upload", local_path="report.html", remote_path="r.html")
    assert [session.user_id for session in composio.sessions.values()] == ["the-default"]


def test_settings_that_do_not_fit_are_named(folder: Path) -> None:
    with pytest.raises(LoadError, match="set COMPOSIO_API_KEY"):
        load(MODULE, options={"workbench": "composio"})
    with pytest.raises(LoadError, match="'composio_url'"):
        load(MODULE, options={"composio_api_key": "ak_1", "composio_url": "backend.composio.dev"})
    with pytest.raises(LoadError, match="allow"):
        load(MODULE, options={"composio_api_key": "ak_1", "allow": "http://x/"})


# Bad input


@pytest.fixture
def traps(folder: Path, tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path)
    (folder / "dir").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "-rf").write_text("named like an option")
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(200_000_000)
    return folder


LOCAL_TRAPS = {
    "/etc/passwd": "outside",
    "../secret.txt": "outside",
    "dir/../../secret.txt": "outside",
    "link": "link",
    "out/secret.txt": "link",
    "missing.txt": "no 'missing.txt'",
    "dir": "not a file",
    "fifo": "not a file",
    "huge.bin": "too large",
    "": "cannot be the name",
    "a\nb": "cannot be the name",
}


@pytest.mark.parametrize(("path", "reason"), LOCAL_TRAPS.items())
async def test_a_local_path_that_may_not_be_sent_is_refused_before_anything_is(
    composio: ComposioEmulator, traps: Path, path: str, reason: str
) -> None:
    async with toolkit(traps, composio) as client:
        text = await refused(client, "workbench_upload", local_path=path, remote_path="/home/user/x")
        assert reason in text
        text = await refused(client, "upload_to_composio", path=path)
        assert reason in json.loads(text)["error"]
    assert composio.requests == []


@pytest.mark.parametrize("path", ["/etc/cron.d/x", "../x", "link", "out/x", "dir", "fifo"])
async def test_a_download_writes_nothing_outside_the_workspace(
    composio: ComposioEmulator, traps: Path, tmp_path: Path, path: str
) -> None:
    before = listed(tmp_path)
    async with toolkit(traps, composio) as client:
        await said(client, "workbench_upload", local_path="report.html", remote_path="/home/user/r.html")
        await refused(client, "workbench_download", remote_path="/home/user/r.html", local_path=path)
    assert (tmp_path / "secret.txt").read_text() == "secret"
    assert listed(tmp_path) == before


async def test_a_name_that_is_an_option_is_a_name(composio: ComposioEmulator, traps: Path) -> None:
    async with toolkit(traps, composio) as client:
        await said(client, "workbench_upload", local_path="-rf", remote_path="/home/user/--help")
        assert sandbox(composio) == {"/home/user/--help": b"named like an option"}
        stored, _ = await said(client, "upload_to_composio", path="-rf")
        assert stored["name"] == "-rf"


async def test_a_failed_download_leaves_the_old_file_as_it_was(
    composio: ComposioEmulator, folder: Path
) -> None:
    (folder / "kept.bin").write_bytes(b"old")
    (folder / "large.bin").write_bytes(LARGE)
    async with toolkit(folder, composio) as client:
        await said(client, "workbench_upload", local_path="large.bin", remote_path="/home/user/large.bin")
        composio.cut("store.get")
        text = await refused(
            client, "workbench_download", remote_path="/home/user/large.bin", local_path="kept.bin"
        )
        assert "broke off" in text
        assert (folder / "kept.bin").read_bytes() == b"old"
        assert listed(folder) == ["kept.bin", "large.bin", "report.html"]


async def test_a_cancelled_download_leaves_nothing(composio: ComposioEmulator, folder: Path) -> None:
    async with toolkit(folder, composio) as client:
        await said(client, "workbench_upload", local_path="report.html", remote_path="/home/user/r.html")
        held = composio.slow("store.get")
        call = asyncio.create_task(
            said(client, "workbench_download", remote_path="/home/user/r.html", local_path="new.html")
        )
        await held.arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        held.release()
    assert listed(folder) == ["report.html"]


async def test_a_download_over_the_limit_is_refused(composio: ComposioEmulator, folder: Path) -> None:
    (folder / "large.bin").write_bytes(LARGE)
    async with toolkit(folder, composio) as client:
        await said(client, "workbench_upload", local_path="large.bin", remote_path="/home/user/large.bin")
    async with toolkit(folder, composio, transfer_bytes=1_000_000) as client:
        (session,) = composio.sessions
        large = {"remote_path": "/home/user/large.bin", "local_path": "copy.bin", "session_id": session}
        assert "at most 1 MB" in await refused(client, "workbench_download", **large)
    assert not (folder / "copy.bin").exists()


FAILURES = {
    "a lie": ("did not arrive", "não chegou"),
    "no session": ("no session 'trs_nobodys' of yours", "nenhuma sessão sua 'trs_nobodys'"),
    "rate limit": ("rate limit", "limite de requisições"),
    "wrong key": ("Check COMPOSIO_API_KEY", "Verifique COMPOSIO_API_KEY"),
    "server error": ("Composio failed", "A Composio falhou"),
    "garbage": ("not valid", "não é válida"),
}


@pytest.mark.parametrize("locale", ["en", "pt"])
@pytest.mark.parametrize("failure", FAILURES)
async def test_failures_say_what_to_do_in_both_languages(
    composio: ComposioEmulator, folder: Path, failure: str, locale: str
) -> None:
    more: dict[str, str] = {}
    async with toolkit(folder, composio, locale=locale) as client:
        if failure == "a lie":
            composio.lie("execute_meta")
        elif failure == "no session":
            more["session_id"] = "trs_nobodys"
        elif failure == "rate limit":
            composio.fail("execute_meta", 429, retry_after=100)
        elif failure == "wrong key":
            composio.fail("session.create", 401, message=f"bad key {composio.api_key}")
        elif failure == "server error":
            composio.fail("execute_meta", 500)
        else:
            composio.garble("execute_meta")
        text = await refused(
            client, "workbench_upload", local_path="report.html", remote_path="/home/user/r", **more
        )
        assert FAILURES[failure][locale == "pt"] in text
        assert composio.api_key not in text


async def test_an_unknown_tool_of_an_attachment_is_named_with_what_to_do(
    composio: ComposioEmulator, folder: Path
) -> None:
    async with toolkit(folder, composio) as client:
        text = await refused(client, "upload_to_composio", path="report.html", tool_slug="GMAIL_TELEPORT")
        assert "GMAIL_TELEPORT" in json.loads(text)["error"]
        assert "tool_slug" in await refused(client, "upload_to_composio", path="report.html", tool_slug="a/b")
        composio.stale(2)
        text = await refused(client, "upload_to_composio", path="report.html")
        assert "may have expired" in json.loads(text)["error"]


async def test_a_large_upload_goes_on_as_a_task_and_a_small_one_is_answered_at_once(
    composio: ComposioEmulator, folder: Path
) -> None:
    (folder / "large.bin").write_bytes(LARGE)
    async with toolkit(folder, composio) as client:
        task = await client.start_task(
            "workbench_upload", {"local_path": "large.bin", "remote_path": "/home/user/large.bin"}
        )
        assert (await task.result()).structured["size"] == len(LARGE)
        assert sandbox(composio) == {"/home/user/large.bin": LARGE}


async def test_progress_grows_to_the_whole_size(composio: ComposioEmulator, folder: Path) -> None:
    (folder / "large.bin").write_bytes(LARGE)
    told: list[float] = []

    async def on_progress(progress: Any) -> None:
        told.append(progress.progress)

    async with toolkit(folder, composio) as client:
        for tool, arguments in (
            ("workbench_upload", {"local_path": "large.bin", "remote_path": "/home/user/large.bin"}),
            ("workbench_download", {"remote_path": "/home/user/large.bin", "local_path": "copy.bin"}),
            ("upload_to_composio", {"path": "large.bin"}),
        ):
            told.clear()
            await client.call_tool(tool, arguments, on_progress=on_progress)
            assert told == sorted(set(told))
            assert told[-1] == len(LARGE)
