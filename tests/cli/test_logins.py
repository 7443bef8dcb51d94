"""`toolyard logins`: local users and logins on the command line, and a gateway that is served with them."""

import asyncio
import json
import signal
from typing import Any

import pytest

from tests.authserver.authenticator import Authenticator, enrol
from tests.authserver.yard import Browser, HandMadeClient
from tests.cli.running import Toolyard

FILE = """
[gateway]
view = "all"

[auth]
required = true

[auth.server]
"""


@pytest.fixture
def yard(toolyard: Toolyard) -> Toolyard:
    toolyard.write("toolyard.toml", FILE)
    return toolyard


def test_a_user_is_added_logs_in_and_is_removed_with_its_logins(yard: Toolyard):
    added = yard("logins", "users", "add", "anna", "--group", "staff", stdin="long enough password\n")
    assert (added.status, added.out) == (0, "Added the user 'anna'.\n")
    assert "anna" in yard("logins", "users", "list").out
    with yard.serving() as served:
        base = served.url.removesuffix("/mcp")

        async def log_in() -> dict[str, Any]:
            async with Browser() as browser:
                body = {
                    "redirect_uris": ["http://127.0.0.1:1/cb"],
                    "client_name": "A client",
                    "token_endpoint_auth_method": "none",
                }
                async with browser.http.post(f"{base}/oauth/register", json=body) as answer:
                    registration = await answer.json()

                class Here:
                    resource = served.url

                Here.base = base  # pyright: ignore[reportAttributeAccessIssue]
                client = HandMadeClient(Here, registration, "http://127.0.0.1:1/cb")  # pyright: ignore[reportArgumentType]
                code = (await browser.allow(client.url(), "anna", "long enough password"))["code"]
                status, tokens = await client.redeem(code)
                assert status == 200
                return tokens

        asyncio.run(log_in())
        (login,) = json.loads(yard("logins", "list", "--json").out)
        assert (login["user"], login["client_name"], login["state"]) == ("anna", "A client", "valid")
        assert "A client" in yard("logins", "list").out
        removed = yard("logins", "users", "remove", "anna")
        assert removed.out == "Removed the user 'anna' and ended 1 login.\n"
        served.process.send_signal(signal.SIGTERM)
    (login,) = json.loads(yard("logins", "list", "--json").out)
    assert login["state"] == "revoked"
    assert "no login" in yard("logins", "revoke", login["id"]).err


def test_mistakes_are_named(yard: Toolyard):
    assert "No logins yet." in yard("logins", "list").out
    assert "No users yet." in yard("logins", "users", "list").out
    assert "10 to 1024" in yard("logins", "users", "add", "anna", stdin="short\n").err
    assert "no password" in yard("logins", "users", "add", "anna").err
    assert "no user 'anna'" in yard("logins", "users", "remove", "anna").err
    assert "name the logins to end, or a user" in yard("logins", "revoke").err
    assert "No login of 'anna' is valid." in yard("logins", "revoke", "--user", "anna").out


def test_a_user_without_a_password_gets_a_link_to_make_a_passkey(yard: Toolyard):
    added = yard("logins", "users", "add", "anna", "--passkey", "--expires", "2h")
    assert added.status == 0, added.err
    assert added.out.startswith("http://localhost:8321/oauth/enrol?ticket=tye_")
    assert added.out.count("\n") == 1
    assert "Added the user 'anna'." in added.err
    assert "within 2 h" in added.err
    assert "nothing yet" in yard("logins", "users", "list").out
    assert "No passkeys yet." in yard("logins", "passkeys", "list").out
    with yard.serving() as served:
        base = served.url.removesuffix("/mcp").replace("127.0.0.1", "localhost")
        authenticator = Authenticator(base)

        async def make(link: str) -> int:
            async with Browser() as browser:
                return (await enrol(browser, link, authenticator, name="my laptop")).status

        link = added.out.strip().replace("http://localhost:8321", base)
        assert asyncio.run(make(link)) == 200
        other = yard("logins", "passkeys", "add", "anna", "--url", base)
        assert other.out.startswith(f"{base}/oauth/enrol?ticket=tye_")
        served.process.send_signal(signal.SIGTERM)
    (passkey,) = json.loads(yard("logins", "passkeys", "list", "anna", "--json").out)
    assert (passkey["user"], passkey["name"], passkey["host"]) == ("anna", "my laptop", "localhost")
    assert "my laptop" in yard("logins", "passkeys", "list").out
    assert "1 passkey" in yard("logins", "users", "list").out
    refused = yard("logins", "passkeys", "remove", "anna", passkey["id"])
    assert (refused.status, "the only way in" in refused.err) == (2, True)
    removed = yard("logins", "passkeys", "remove", "anna", passkey["id"], "--lock-out")
    assert removed.out == f"Removed the passkey {passkey['id']} of 'anna'.\n"


def test_mistakes_with_passkeys_are_named(yard: Toolyard):
    assert "no user 'anna'" in yard("logins", "passkeys", "add", "anna").err
    assert "no user 'anna'" in yard("logins", "passkeys", "list", "anna").err
    assert "no user 'anna'" in yard("logins", "passkeys", "remove", "anna", "x").err
    assert "a second to a week" in yard("logins", "users", "add", "anna", "--passkey", "--expires", "9d").err
    for url in ("http://127.0.0.1:8321", "http://tools.example", "https://192.0.2.1"):
        refused = yard("logins", "users", "add", "anna", "--passkey", "--url", url)
        assert f"no passkeys at {url!r}" in refused.err
    assert "No users yet." in yard("logins", "users", "list").out
    yard("logins", "users", "add", "anna", stdin="long enough password\n")
    assert "the only way in" in yard("logins", "users", "password", "anna", "--remove").err
    assert "has no passkey 'x'" in yard("logins", "passkeys", "remove", "anna", "x").err
    assert "within 2 days" in yard("logins", "users", "add", "bo", "--passkey", "--expires", "2d").err
    assert "'bo' has no password" in yard("logins", "users", "password", "bo", "--remove").err
