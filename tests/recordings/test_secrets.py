"""No secret is in a recording: neither a configured one, in whatever form, nor what looks like one."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recordings.yard import WORKSHOP, config, recorded, replayed, text
from toolyard.config import Composio, Config, Http, InProcess, ServerConfig, Stdio
from toolyard.config.callers import AuditConfig
from toolyard.config.secrets import possible_secrets
from toolyard.config.server_auth import OAuthAuth
from toolyard.recordings.format import HeaderLine, RecordingWriter
from toolyard.recordings.recorder import TrafficRecorder
from toolyard.recordings.secrets import SecretRemover, secrets_of_process

PASSWORD = 'p"ss wörd/42\\n'
KEYS = {
    "openai": "sk-proj-" + "a1B2c3D4e5F6g7H8i9",
    "anthropic": "sk-ant-api03-" + "Zz9Yy8Xx7Ww6Vv5Uu4",
    "github": "ghp_" + "0123456789abcdefABCDEF0123",
    "aws": "AKIA" + "ABCDEFGHIJKLMNOP",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstu",
    "slack": "xoxb-" + "123456789012-abcdefABCDEF",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "grant": "tyg_" + "abcdefgh12345678",
    "key": "ty_" + "k3j2h1g0f9e8_AbCdEfGh1234",
}
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc123\n-----END RSA PRIVATE KEY-----"


async def test_a_recording_has_none_of_the_secrets_that_passed(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    variable = "hunter2-of-the-shop"
    shop = ServerConfig(
        name="shop", where=InProcess(module=WORKSHOP, options={}), description=f"with {variable}"
    )
    other = ServerConfig(
        name="other",
        where=Stdio(command="no-such-program", env={"SHOP_SETTING": variable, "MODE": "production"}),
    )
    bearer = "opaque-credential-of-somebody"
    away = ServerConfig(
        name="away",
        where=Http(url="http://127.0.0.1:9/mcp?api_key=in-the-query-77", headers={"X-Auth": PASSWORD}),
    )
    forms = {
        "plain": variable,
        "json": json.dumps({"k": PASSWORD}),
        "json twice": json.dumps(json.dumps({"k": PASSWORD})),
        "url": f"https://example.com/?q={quote(PASSWORD)}",
        "base64": base64.b64encode(f"user:{PASSWORD}".encode()).decode(),
        "urlsafe": base64.urlsafe_b64encode(f"xx{variable}yy".encode()).decode(),
        "hex": variable.encode().hex(),
        "header": f"Authorization: Bearer {bearer}",
        "cookie": "Set-Cookie: session=cookie-monster-1; Path=/",
        "userinfo": "postgres://me:userinfo-password@db/x",
        "pem": PEM,
        **KEYS,
    }
    async with recorded(config(tmp_path, shop, other, away), file) as client:
        for value in forms.values():
            await text(client, "shop__says", text=value)
        await client.call_tool("mcp__shop__says", {"text": "x", "password": "named-by-its-key-9"})
        await text(client, "shop__says", text="and again: named-by-its-key-9")
    written = file.read_text()
    secrets = [
        variable,
        bearer,
        "in-the-query-77",
        "cookie-monster-1",
        "userinfo-password",
        "named-by-its-key-9",
        "MIIEpAIBAAKCAQEA7",
        *KEYS.values(),
    ]
    for secret in secrets:
        assert secret not in written
        assert secret.encode().hex() not in written
        assert _core(secret) not in written
    for form in (PASSWORD, json.dumps(PASSWORD)[1:-1], quote(PASSWORD), forms["base64"], forms["urlsafe"]):
        assert form not in written
        assert json.dumps(form)[1:-1] not in written
    async with replayed(file) as (client, replay):
        for value in forms.values():
            await text(client, "shop__says", text=value)
        assert replay.unmatched == []


def _core(secret: str) -> str:
    """A part of its base64 that does not depend on what is around it."""
    return base64.b64encode(secret.encode()).decode().rstrip("=")[:-2]


def test_a_recorder_knows_what_is_secret_in_a_configuration(tmp_path: Path) -> None:
    auth = OAuthAuth(client_secret="secret-of-the-client")
    shop = ServerConfig(name="shop", where=Http(url="https://h/mcp"), auth=auth)
    audit = AuditConfig(webhook_headers={"Authorization": "Bearer secret-of-the-webhook"})
    recorder = TrafficRecorder(RecordingWriter(tmp_path / "run.jsonl", HeaderLine(command=("test",))))
    recorder.configured(Config(servers=(shop,), audit=audit))
    assert recorder.secrets.text("secret-of-the-client secret-of-the-webhook") == "<secret:1> <secret:2>"


def test_one_secret_has_one_placeholder_and_two_have_two() -> None:
    remover = SecretRemover(["first-secret-1", "second-secret-2"])
    found = remover.json(["second-secret-2", {"a": "first-secret-1 and second-secret-2"}])
    assert found == ["<secret:1>", {"a": "<secret:2> and <secret:1>"}]


def test_a_number_that_is_a_secret_is_removed_and_json_stays_valid() -> None:
    raw = SecretRemover(["12345678"]).raw(b'{"pin": 12345678, "other": 12345.50}')
    assert msgspec.json.decode(raw) == {"pin": "<secret:1>", "other": 12345.5}


def test_numbers_are_written_as_they_came_where_nothing_is_removed() -> None:
    raw = SecretRemover().raw(b'{ "big": 123456789012345678901234567890,\n "exact": 1.10 }')
    assert bytes(raw) == b'{"big":123456789012345678901234567890,"exact":1.10}'


@pytest.mark.parametrize(
    "harmless",
    [
        "The token is counted by the model.",
        "Basic tools for a start",
        "max_tokens and nextPageToken",
        "a password of at least 8 characters",
        "https://example.com/path?page=2",
        "risk-assessment-of-the-year-2026 and task-manager-for-all-of-us",
    ],
)
def test_ordinary_texts_stay_as_they_are(harmless: str) -> None:
    assert SecretRemover().text(harmless) == harmless


def test_explanations_of_tools_keep_their_words() -> None:
    schema = {"properties": {"token": {"type": "string"}}, "description": "password: the one of the user"}
    assert SecretRemover().json(schema, definitions=True) == schema


def test_what_is_configured_for_a_server_is_known() -> None:
    def found(where: Stdio | Http | InProcess | Composio) -> set[str]:
        return set(possible_secrets(ServerConfig(name="x", where=where)))

    env = {"A_TOKEN": "abcd", "REGION": "europe", "HOME_DIR": "/home/x", "PIN": "x1y2z3", "ON": "true"}
    assert found(Stdio(command="x", env=env, args=("--key", "k-e-y-1", "--password=w-o-r-d"))) == {
        "abcd",
        "x1y2z3",
        "k-e-y-1",
        "w-o-r-d",
    }
    basic = "Basic " + base64.b64encode(b"me:my-password").decode()
    assert {basic.removeprefix("Basic "), "my-password"} <= found(
        Http(url="https://x/", headers={"Authorization": basic})
    )
    assert found(Composio(api_key="ak_1234567890")) == {"ak_1234567890"}
    options = {"database": "postgres://u:db-pass@h/d", "api_key": "rest-key-1", "locale": "pt"}
    assert found(InProcess(module="rest", options=options)) == {"db-pass", "rest-key-1"}
    assert set(
        secrets_of_process({"OPENAI_API_KEY": "model-key-1", "PATH": "/bin", "KEYBOARD": "qwertz"})
    ) == {"model-key-1"}


@given(
    st.text(st.characters(codec="utf-8"), min_size=8, max_size=60), st.text(max_size=10), st.text(max_size=10)
)
def test_a_known_value_is_never_left_in_any_text(secret: str, before: str, after: str) -> None:
    secret = secret.strip()
    if len(secret) < 8 or "<secret" in secret:
        return
    remover = SecretRemover([secret])
    cleaned = msgspec.json.decode(remover.raw(msgspec.json.encode({"a": [before + secret + after]})))
    assert secret not in cleaned["a"][0]
    data = (before + secret + after).encode()
    hidden = base64.b64encode(data).decode()
    assert remover.text(hidden) != hidden
