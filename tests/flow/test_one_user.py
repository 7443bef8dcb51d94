"""Composio's user is decided in one place: what uploads a file and what mails it act for the same one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.emulators.composio import ComposioEmulator
from toolyard import Client
from toolyard.app.gateway import Gateway
from toolyard.config import load
from toolyard.wire.call import Identity, Principal

CONFIG = """
[servers.composio]
type = "composio"
{composio}

[servers.local_toolkit]
module = "local_toolkit"
options = {{ workspace = "work", workbench = "composio"{toolkit} }}
"""
REPORT = "<h1>Tea</h1>"
ANA = Principal(tenant="acme", subject="ana", issuer="https://issuer.example", kind="jwt")


@pytest.fixture
async def composio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[ComposioEmulator]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEFAULT_USER_ID", raising=False)
    async with ComposioEmulator() as emulator:
        monkeypatch.setenv("COMPOSIO_API_KEY", emulator.api_key)
        monkeypatch.setenv("COMPOSIO_BASE_URL", emulator.url)
        yield emulator


@pytest.mark.parametrize(
    ("variable", "configured", "toolkit", "caller", "user"),
    [
        ("u42", "", "", Principal(), "u42"),
        ("u42", 'user_id = "{user}"', "", Principal(), "u42"),
        ("u42", 'user_id = "{tenant}-{thread}"', "", Principal(), "u42-t1"),
        ("u42", 'user_id = "team"', "", Principal(), "team"),
        ("u42", "", "", ANA, ANA.owner),
        ("u42", 'default_user = "u43"', "", Principal(), "u43"),
        ("", 'user_id = "of-{tenant}"', "", ANA, "of-acme"),
        ("", "", "", Principal(), "local"),
        ("u42", 'user_id = "team"', ', composio_user = "team"', Principal(), "team"),
    ],
)
async def test_the_user_who_uploads_a_file_is_the_one_who_mails_it(
    variable: str,
    configured: str,
    toolkit: str,
    caller: Principal,
    user: str,
    composio: ComposioEmulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable:
        monkeypatch.setenv("DEFAULT_USER_ID", variable)
    composio.connect(user, "gmail")
    path = tmp_path / "toolyard.toml"
    path.write_text(CONFIG.format(composio=configured, toolkit=toolkit))
    gateway = Gateway(load(path))
    await gateway.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(gateway.close)
        client = await stack.enter_async_context(Client(gateway.view(), identity=Identity(caller, "t1")))
        await client.call_tool("mcp__local_toolkit__write_local_file", {"path": "a.html", "content": REPORT})
        sent = {"local_path": "a.html", "remote_path": "/home/user/a.html"}
        await client.call_tool("mcp__local_toolkit__workbench_upload", sent)
        stored = await client.call_tool("mcp__local_toolkit__upload_to_composio", {"path": "a.html"})
        attachment = {name: stored.structured[name] for name in ("s3key", "mimetype", "name")}
        mail = {"recipient_email": "bo@example.com", "body": "See the file", "attachment": attachment}
        await client.call_tool("mcp__composio__GMAIL_SEND_EMAIL", mail)
    (mailed,) = composio.records["emails"]
    assert mailed["received"] == REPORT.encode()
    assert {box.user_id for box in composio.sandboxes.values()} == {user}
    users = [session.user_id for session in composio.sessions.values()]
    assert len(users) == 3, "the workbench, the mail, and the gateway's own to read lists"
    assert users.count(user) >= 2
