"""Secrets that a configuration refers to: each source, what is missing, and what never shows."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import keyring
import pyrage
import pytest

from tests.app.keyed import made
from tests.app.yard import yard
from tests.artifacts.servers import Moto
from tests.serving import serving
from tests.vault.test_master_keys import KeyringInMemory
from tests.waiting import until
from toolyard.app import Gateway, watch
from toolyard.config import Config, ConfigError, Http, Stdio
from toolyard.config.diagnosis import diagnose
from toolyard.config.files import state_folder
from toolyard.config.references import SecretText
from toolyard.config.secrets import possible_secrets, secret_values
from toolyard.vault.factory import open_vault
from toolyard.vault.references import load_resolved, named_secret, resolve

VALUE = "s3cr3t-value-4711"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


Write = Callable[[str], Path]


@pytest.fixture
def write(folder: Path) -> Write:
    def write(text: str) -> Path:
        file = folder / "toolyard.toml"
        file.write_text(f'[gateway]\nstate_dir = "state"\nview = "all"\n{text}')
        return file

    return write


async def put(file: Path, name: str, value: str) -> None:
    from toolyard.config.loader import load_places

    config = load_places(file)
    vault = open_vault(config, state_folder(config))
    await vault.put(named_secret(name), value.encode())
    await vault.close()


def headers(config: Config, name: str = "shop") -> dict[str, str]:
    where = next(server.where for server in config.servers if server.name == name)
    assert isinstance(where, Http)
    return where.headers


def server(reference: str, name: str = "shop") -> str:
    headers = f'{{ Authorization = "Bearer {reference}" }}'
    return f'[servers.{name}]\nurl = "http://127.0.0.1:1/mcp"\nheaders = {headers}\n'


async def test_a_secret_of_the_vault_is_filled_in_and_does_not_print(write: Write):
    file = write(server("${secret:shop key}"))
    await put(file, "shop key", VALUE)
    config = await asyncio.to_thread(load_resolved, file)
    assert headers(config)["Authorization"] == f"Bearer {VALUE}"
    assert VALUE not in repr(config)
    assert VALUE in secret_values(config)
    assert VALUE in possible_secrets(config)
    # In a thread with a running loop too, as the watcher once was.
    assert load_resolved(file) == config


def test_a_missing_secret_breaks_its_server_alone_and_says_what_to_do(write: Write):
    config = load_resolved(write(server("${secret:nope}") + server("plain", "other")))
    assert [one.name for one in config.servers] == ["other"]
    assert config.broken[0].name == "shop"
    assert "toolyard secret set nope" in config.broken[0].reason


def test_check_names_what_is_missing(write: Write):
    found = diagnose(write(server("${secret:nope}")), resolve=resolve)
    [finding] = found.findings
    assert "servers.shop" in finding.place
    assert "toolyard secret set nope" in finding.hint


def test_a_table_that_needs_a_missing_secret_is_refused(write: Write):
    with pytest.raises(ConfigError, match="store") as caught:
        load_resolved(write('[store]\nurl = "local:"\noptions = { key = "${secret:nope}" }\n'))
    assert "secret set nope" in (caught.value.hint or "")


def test_the_tables_that_lead_to_the_vault_take_secrets_from_files_only(write: Write, folder: Path):
    with pytest.raises(ConfigError, match="state"):
        load_resolved(write('[state]\nkey = "${secret:circle}"\n'))
    (folder / "key").write_text("from a file that is mounted\n")
    assert load_resolved(write('[state]\nkey = "${file:key}"\n')).state.key == "from a file that is mounted"


@pytest.mark.parametrize("content", [b"", b"\n", b"\0", b"\xff\xfe", bytes(100_000)])
def test_a_file_without_a_usable_text_breaks_its_server(write: Write, folder: Path, content: bytes):
    (folder / "key").write_bytes(content)
    config = load_resolved(write(server("${file:key}")))
    assert "file" in config.broken[0].reason


def test_a_file_that_is_not_there_breaks_its_server(write: Write):
    assert "no such file" in load_resolved(write(server("${file:/run/secrets/none}"))).broken[0].reason


def test_files_of_other_programs_get_no_secrets(write: Write, folder: Path):
    (folder / "key").write_text(VALUE)
    entry = {"url": "http://127.0.0.1:1/", "headers": {"x": "${file:key}"}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    file = folder / "toolyard.toml"
    file.write_text('include = ["mcp.json"]\n' + server("${file:key}"))
    config = load_resolved(file)
    assert [one.name for one in config.servers] == ["shop"]
    assert VALUE not in config.broken[0].reason


def test_variables_and_literal_dollars_stay_what_they_were(write: Write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("secret", "a variable of that name")
    config = load_resolved(write(server("$${secret:x} ${secret} ${nothing:-d} ${file:-f}")))
    assert headers(config)["Authorization"] == "Bearer ${secret:x} a variable of that name d f"
    assert not isinstance(headers(config)["Authorization"], SecretText)


def test_a_secret_in_a_programs_environment_and_in_options_is_plain_text_there(write: Write, folder: Path):
    (folder / "key").write_text(VALUE)
    text = f'[servers.p]\ncommand = "{sys.executable}"\nenv = {{ K = "${{file:key}}" }}\n'
    where = load_resolved(write(text)).servers[0].where
    assert isinstance(where, Stdio)
    said = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ['K'])"], env=where.env, stdout=-1
    )
    assert said.stdout.decode().strip() == VALUE


# Other places


@pytest.fixture
def ring() -> Iterator[KeyringInMemory]:
    before = keyring.get_keyring()
    made_here = KeyringInMemory()
    keyring.set_keyring(made_here)
    yield made_here
    keyring.set_keyring(before)


def test_the_keyring_is_read_and_a_locked_one_keeps_the_last_value(write: Write, ring: KeyringInMemory):
    ring.entries["my service", "me"] = VALUE
    file = write(server("${keyring:my service/me}"))
    assert VALUE in headers(load_resolved(file))["Authorization"]
    ring.locked = True
    assert VALUE in headers(load_resolved(file))["Authorization"]
    ring.locked = False
    ring.entries.clear()
    assert "keyring set" in load_resolved(file).broken[0].reason


def test_aws_secrets_are_read_whole_or_by_key(write: Write, aws_environment: Moto):
    client: Any = boto3.client("secretsmanager", region_name="eu-west-1")
    client.create_secret(Name="prod/shop", SecretString=json.dumps({"key": VALUE, "n": {"m": 1}}))
    client.create_secret(Name="plain", SecretString=VALUE)
    text = server("${aws-secret:prod/shop#key}") + server("${aws-secret:plain}", "whole")
    text += server("${aws-secret:prod/shop#nope}", "a") + server("${aws-secret:none}", "b")
    text += server("${aws-secret:plain#key}", "c") + server("${aws-secret:prod/shop#n}", "d")
    config = load_resolved(write(text))
    assert headers(config)["Authorization"] == headers(config, "whole")["Authorization"] == f"Bearer {VALUE}"
    reasons = {one.name: one.reason for one in config.broken}
    assert set(reasons) == {"a", "b", "c", "d"}
    assert VALUE not in "".join(reasons.values())
    assert "ResourceNotFoundException" in reasons["b"]


def test_sops_decrypts_a_file(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch):
    age: Any = pyrage
    identity = age.x25519.Identity.generate()
    monkeypatch.setenv("SOPS_AGE_KEY", str(identity))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (folder / "plain.json").write_text(json.dumps({"shop": {"key": VALUE}}))
    words = ["sops", "--encrypt", "--age", str(identity.to_public()), "plain.json"]
    sealed = subprocess.run(words, cwd=folder, capture_output=True, check=True).stdout
    (folder / "secrets.json").write_bytes(sealed)
    assert VALUE.encode() not in sealed
    text = server("${sops:secrets.json#shop.key}") + server("${sops:secrets.json#shop.nope}", "b")
    config = load_resolved(write(text))
    assert headers(config)["Authorization"] == f"Bearer {VALUE}"
    assert "has no key 'nope'" in config.broken[0].reason
    monkeypatch.setenv("SOPS_AGE_KEY", str(age.x25519.Identity.generate()))
    assert "cannot decrypt" in load_resolved(write(text)).broken[0].reason
    monkeypatch.setenv("PATH", "/nowhere")
    assert "not on PATH" in load_resolved(write(text)).broken[0].reason


# While a gateway runs


async def test_a_changed_secret_is_taken_over_while_the_gateway_runs(write: Write, folder: Path):
    (folder / "mounted").write_text("first")
    async with serving(made("outside").asgi()) as upstream:
        text = f'[servers.shop]\nurl = "{upstream.url}"\n'
        text += 'headers = { x-shop-key = "${file:mounted}", x-bank-key = "${secret:bank}" }\n'
        file = write(text)
        await put(file, "bank", "old")
        config = await asyncio.to_thread(load_resolved, file)
        async with yard(*config.servers, state=str(folder / "state"), tables=tables_of(config)) as front:
            watching = asyncio.create_task(watch(front.gateway, file, interval=0.02, secret_interval=0.05))
            try:
                assert "tsrif" in await front.says("mcp__shop__keys_of")
                (folder / "mounted").write_text("second")
                await put(file, "bank", "new")
                await until(lambda: _has(front.gateway, "second", "new"))
                said = await front.says("mcp__shop__keys_of")
            finally:
                watching.cancel()
    assert "dnoces" in said
    assert "wen" in said


def tables_of(config: Config) -> dict[str, Any]:
    return {"references": config.references, "broken": config.broken, "files": config.files}


async def _has(gateway: Gateway, *values: str) -> bool:
    return set(values) <= set(headers(gateway.config).values())


async def test_neither_health_nor_errors_of_the_server_hold_the_secret(write: Write, folder: Path):
    (folder / "mounted").write_text(VALUE)
    config = load_resolved(write(server("${file:mounted}") + server("${secret:none}", "broken")))
    async with yard(*config.servers, state=str(folder / "state"), tables=tables_of(config)) as front:
        said = await front.call("mcp__shop__anything")
        health = await front.health()
    assert VALUE not in repr(said)
    assert VALUE not in repr(health)
    assert health["servers"]["broken"]["state"] == "broken"
