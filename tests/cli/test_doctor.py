"""`toolyard doctor`: what this machine and this installation lack."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, Toolyard
from tests.modes import obey_modes
from tests.small_disks import on_tmpfs
from tests.stores import PASSWORD, RedisServer

FREE = "[gateway]\nport = 0\n"
"""Nobody else may happen to listen there."""
KEY = "0123456789abcdef0123456789abcdef"


def examined(toolyard: Toolyard, config: str, *options: str, **environment: str) -> dict[str, Any]:
    """The checks by name, of a configuration that is written first."""
    toolyard.write("toolyard.toml", config)
    outcome = toolyard("doctor", "--json", *options, **environment)
    found = json.loads(outcome.out)
    assert outcome.status == (0 if found["ok"] else 1), outcome.err
    assert found["ok"] == all(one["level"] != "fail" for one in found["checks"])
    return {one["check"]: one for one in found["checks"]}


def level_of(checks: dict[str, Any], name: str) -> str:
    return checks[name]["level"]


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_machine_that_lacks_nothing_is_well_and_nothing_is_written(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f'{FREE}[servers.demo]\nmodule = "demo"\n')
    outcome = toolyard("doctor", TOOLYARD_KEY=KEY)
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["check", "what", "was", "found", "what", "to", "do"]
    assert any(line.startswith("python") for line in lines)
    assert "fail" not in outcome.out.lower()
    assert KEY not in outcome.out
    assert not toolyard.state.exists()


def test_it_works_without_a_configuration(toolyard: Toolyard):
    outcome = toolyard("doctor", "--json")
    checks = {one["check"]: one for one in json.loads(outcome.out)["checks"]}
    assert "bundled demo" in checks["configuration"]["found"]


def test_a_file_that_cannot_be_used_is_a_failure_and_the_rest_is_looked_at(toolyard: Toolyard):
    checks = examined(toolyard, "[gateway]\nprot = 1\n")
    assert level_of(checks, "configuration") == "fail"
    assert "toolyard check" in checks["configuration"]["hint"]
    assert "clock" in checks


def test_state_in_memory_is_a_warning_where_others_call(toolyard: Toolyard):
    alone = examined(toolyard, FREE)["state store"]
    assert (alone["level"], alone["found"].partition(",")[0]) == ("ok", "memory: ends with the process")
    limits = "[[limits.rules]]\nrate = 5\n"
    limited = examined(toolyard, FREE + limits)["state store"]
    assert (limited["level"], limited["found"]) == (
        "warn",
        "memory: the counts of limits end with the process",
    )
    both = examined(toolyard, f"{FREE}[auth]\nkeys = true\n{limits}")["state store"]
    assert both["found"] == "memory: sessions and approvals and the counts of limits end with the process"
    assert 'url = "sqlite:"' in both["hint"]
    kept = examined(toolyard, f'{FREE}[state]\nurl = "sqlite:"\n[auth]\nkeys = true\n{limits}')["state store"]
    assert kept["level"] == "ok"


# Extras and programs


def test_extras_are_named_with_who_needs_them(toolyard: Toolyard):
    config = f'{FREE}[servers.figures]\nmodule = "sql"\n[servers.eyes]\nmodule = "zai_vision"\n[state]\nurl = "redis://127.0.0.1:9/0"\n'
    checks = examined(toolyard, config)
    assert "for figures" in checks["extra sql"]["found"]
    assert "for eyes" in checks["extra vision"]["found"]
    assert "for [state]" in checks["extra redis"]["found"]


def test_programs_are_looked_for_where_the_server_will(toolyard: Toolyard):
    program(toolyard.folder / "bin", "tool", "exit 0")
    config = (
        f'{FREE}[servers.a]\ncommand = "tool"\nenv = {{ PATH = "{toolyard.folder}/bin" }}\n'
        '[servers.b]\ncommand = "uvx-is-not-here"\n'
    )
    checks = examined(toolyard, config)
    assert level_of(checks, "program tool") == "ok"
    assert level_of(checks, "program uvx-is-not-here") == "fail"


@pytest.mark.parametrize(
    ("script", "level"), [("echo v22.3.0", "ok"), ("echo v14.21.3", "warn"), ("exit 1", "fail")]
)
def test_npx_needs_a_node_that_runs_and_is_not_too_old(toolyard: Toolyard, script: str, level: str):
    place = toolyard.folder / "bin"
    program(place, "npx", "exit 0")
    program(place, "node", script)
    config = f'{FREE}[servers.a]\ncommand = "npx"\nenv = {{ PATH = "{place}" }}\n'
    checks = examined(toolyard, config)
    assert level_of(checks, "program npx") == level


def test_the_browser_server_needs_a_chromium(toolyard: Toolyard):
    config = f'{FREE}[servers.web]\nmodule = "browser"\noptions = {{ chromium = "no-such-browser" }}\n'
    checks = examined(toolyard, config)
    assert level_of(checks, "Chromium") == "fail"
    assert "for web" in checks["Chromium"]["found"]


# Files and the key


def test_a_state_folder_that_others_can_read_is_a_warning_and_a_key_a_failure(toolyard: Toolyard):
    folder = toolyard.state / "toolyard"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "profiles.key").write_text("secret")
    (folder / "profiles.key").chmod(0o644)
    toolyard.write("toolyard.toml", FREE)
    outcome = toolyard("doctor", "--json", TOOLYARD_KEY=KEY)
    found = [
        (one["level"], one["hint"])
        for one in json.loads(outcome.out)["checks"]
        if one["check"] == "state folder"
    ]
    assert found == [
        ("warn", f"chmod 700 {folder}"),
        ("fail", f"chmod 600 {folder / 'profiles.key'}"),
    ]
    assert outcome.status == 1


def test_the_folder_that_a_gateway_makes_is_its_own_users_alone(toolyard: Toolyard):
    config = f'{FREE}[servers.demo]\nmodule = "demo"\n'
    toolyard.write("toolyard.toml", config)
    assert toolyard("list").status == 0
    assert level_of(examined(toolyard, config, TOOLYARD_KEY=KEY), "state folder") == "ok"


STORES = '[state]\nurl = "sqlite:"\n[audit]\nurl = "{audit}"\n'
LOCAL = ("state folder", "state store", "result store", "audit")


@pytest.mark.parametrize("audit", ["file:", "sqlite:"])
def test_a_store_that_cannot_be_written_is_a_failure_with_who_keeps_it_and_what_to_do(
    toolyard: Toolyard, audit: str
):
    folder = toolyard.folder / "mine"
    folder.mkdir()
    config = f'{FREE}state_dir = "mine"\n{STORES.format(audit=audit)}'
    folder.chmod(0o500)
    toolyard.before = obey_modes
    checks = examined(toolyard, config, TOOLYARD_KEY=KEY)
    for name in LOCAL:
        assert checks[name]["level"] == "fail"
        assert f"the mode of {str(folder)!r} is 0500" in checks[name]["found"]
        assert f"chmod u+rwX {folder}" in checks[name]["hint"]


def test_what_is_in_the_state_folder_and_closed_to_this_user_is_named(toolyard: Toolyard):
    config = f'{FREE}[servers.demo]\nmodule = "demo"\n'
    toolyard.write("toolyard.toml", config)
    assert toolyard("list").status == 0
    lists = toolyard.state / "toolyard" / "catalogue"
    lists.chmod(0)
    toolyard.before = obey_modes
    found = examined(toolyard, config, TOOLYARD_KEY=KEY)["state folder"]
    assert (found["level"], found["found"]) == ("warn", f"the mode of {str(lists)!r} is 0000")


def test_a_full_disk_is_found_by_writing_to_it_and_nothing_is_left(toolyard: Toolyard):
    place = toolyard.folder / "disk"
    disk = on_tmpfs(place)
    toolyard.write("toolyard.toml", f'{FREE}state_dir = "{place}"\n{STORES.format(audit="file:")}')
    fill = 'cat /dev/zero > "$0/fill" 2>/dev/null; "$@"; ls -A "$0"'
    done = subprocess.run(
        [*disk, "sh", "-c", fill, str(place), *COMMAND, "doctor", "--json"],
        capture_output=True,
        text=True,
        cwd=toolyard.folder,
    )
    found, end = json.JSONDecoder().raw_decode(done.stdout)
    checks = {one["check"]: one for one in found["checks"]}
    for name in LOCAL:
        assert checks[name]["level"] == "fail"
        assert "is full" in checks[name]["found"]
    assert done.stdout[end:].split() == ["fill"]


def test_the_key_has_to_be_long_enough(toolyard: Toolyard):
    short = examined(toolyard, FREE, TOOLYARD_KEY="short")["signing key"]
    assert (short["level"], "5 bytes" in short["found"]) == ("fail", True)
    assert examined(toolyard, FREE, TOOLYARD_KEY=KEY)["signing key"]["level"] == "ok"


def test_a_key_file_is_looked_at_and_not_made(toolyard: Toolyard):
    missing = examined(toolyard, FREE, "--key-file", "key")["signing key"]
    assert (missing["level"], missing["found"]) == ("ok", "key: made on first use")
    assert not (toolyard.folder / "key").exists()
    toolyard.write("key", KEY).chmod(0o644)
    assert examined(toolyard, FREE, "--key-file", "key")["signing key"]["level"] == "warn"
    (toolyard.folder / "key").chmod(0o600)
    assert examined(toolyard, FREE, "--key-file", "key")["signing key"]["level"] == "ok"


def test_a_shared_state_without_a_key_of_its_own_is_a_warning(toolyard: Toolyard):
    checks = examined(toolyard, f'{FREE}[state]\nurl = "redis://127.0.0.1:9/0"\n')
    assert level_of(checks, "signing key") == "warn"


# Stores, port, proxies


def test_a_store_that_answers_is_well_and_one_that_does_not_is_a_failure_without_its_password(
    toolyard: Toolyard,
):
    with RedisServer() as redis:
        config = f'{FREE}[state]\nurl = "{redis.url}"\n'
        answering = examined(toolyard, config, TOOLYARD_KEY=KEY)["state store"]
        assert (answering["level"], answering["found"].split(",")[:2]) == (
            "ok",
            ["redis answers", " and takes an entry"],
        )
        redis.stop()
        away = examined(toolyard, config, TOOLYARD_KEY=KEY)["state store"]
    assert away["level"] == "fail"
    assert PASSWORD not in str(away)


def test_a_port_that_somebody_has_is_a_failure(toolyard: Toolyard):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = examined(toolyard, f"[gateway]\nport = {port}\n")[f"port {port}"]
    assert (found["level"], found["found"]) == ("fail", "127.0.0.1: address already in use")


def test_a_port_that_a_gateway_has_is_fine(toolyard: Toolyard):
    with toolyard.serving("demo") as served:
        found = examined(toolyard, f"[gateway]\nport = {served.port}\n")[f"port {served.port}"]
    assert (found["level"], found["found"]) == ("ok", "a Toolyard listens there already")


def test_a_proxy_is_a_warning_where_servers_are_reached_without_it(toolyard: Toolyard):
    proxy = {"HTTPS_PROXY": "http://user:hush@proxy:3128"}
    near = examined(toolyard, f'{FREE}[servers.a]\nurl = "http://127.0.0.1:9/mcp"\n', **proxy)["proxies"]
    far = examined(toolyard, f'{FREE}[servers.a]\nurl = "https://example.com/mcp"\n', **proxy)["proxies"]
    assert (near["level"], far["level"]) == ("ok", "warn")
    assert "hush" not in str((near, far))
