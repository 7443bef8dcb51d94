"""Other programs' files: `mcpServers`, VS Code's `servers`, and what else they hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.conftest import Load
from toolyard.config import Broken, Config, ConfigError, Http, ServerConfig, Stdio, load


def entry_of(loaded: Load, fields: dict[str, Any]) -> Config:
    return loaded(json.dumps({"mcpServers": {"one": fields}}), "mcp.json")


def test_the_standard_object_is_accepted_inline(loaded: Load):
    config = loaded('[mcpServers.one]\ncommand = "npx"\nargs = ["-y", "x"]\nalwaysAllow = ["a"]')
    assert config.servers == (ServerConfig(name="one", where=Stdio(command="npx", args=("-y", "x"))),)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"command": "npx"}, Stdio(command="npx")),
        ({"type": "stdio", "command": "npx", "args": None, "env": None}, Stdio(command="npx")),
        ({"command": "x", "env": {"PORT": 3000, "NO": None}}, Stdio(command="x", env={"PORT": "3000"})),
        ({"url": "http://x/"}, Http(url="http://x/")),
        ({"type": "http", "url": "http://x/"}, Http(url="http://x/")),
        ({"type": "streamable-http", "url": "http://x/"}, Http(url="http://x/")),
        ({"type": "streamableHttp", "url": "http://x/"}, Http(url="http://x/")),
        ({"transport": "http", "url": "http://x/"}, Http(url="http://x/")),
        ({"type": "sse", "url": "http://x/"}, Http(url="http://x/", transport="sse")),
        ({"transport": "sse", "url": "http://x/"}, Http(url="http://x/", transport="sse")),
        ({"serverUrl": "http://x/"}, Http(url="http://x/")),
        ({"httpUrl": "http://x/"}, Http(url="http://x/")),
        ({"url": "http://x/", "env": {}, "args": []}, Http(url="http://x/")),
        ({"url": "http://x/", "headers": {"A": "b"}}, Http(url="http://x/", headers={"A": "b"})),
    ],
)
def test_every_way_to_write_a_server_is_understood(loaded: Load, fields: dict[str, Any], where: Stdio | Http):
    assert entry_of(loaded, fields).servers == (ServerConfig(name="one", where=where),)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Our orders", "Our orders"),
        ("Takes\n ${NOT_SET}\0 ", "Takes ${NOT_SET}"),
        ("long " * 200, ("long " * 100)),
        ({"en": "orders"}, ""),
    ],
)
def test_a_description_that_another_program_has_is_taken_and_breaks_nothing(
    loaded: Load, theirs: Any, ours: str
):
    config = entry_of(loaded, {"command": "x", "description": theirs})
    assert [server.description.strip() for server in config.servers] == [ours.strip()]


def test_keys_of_other_programs_are_left_alone_and_ours_work(loaded: Load):
    theirs = {
        "alwaysAllow": ["x"],
        "autoApprove": [],
        "envFile": ".env",
        "timeout": 60_000,
        "disabled": False,
        "description": {"any": "thing"},
    }
    ours = {"allow": ["a*"], "deny": ["ab"], "rename": {"a": "b"}, "retries": 0}
    server = entry_of(loaded, {"command": "x"} | theirs | ours).servers[0]
    assert (server.allow, server.deny, server.rename, server.retries) == (("a*",), ("ab",), {"a": "b"}, 0)
    assert server.timeout == 60.0


def test_a_disabled_server_is_not_there(loaded: Load):
    config = entry_of(loaded, {"command": "x", "disabled": True})
    assert (config.servers, config.broken) == ((), ())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "has no 'command', 'url' or 'module'; add one of them"),
        ({"command": 5}, "'command' must be text, not a number"),
        ({"command": "x", "url": "http://x/"}, "has 'command' and 'url' together"),
        ({"url": "nowhere"}, "'url' is not an http or https address"),
        ({"type": "ws", "url": "http://x/"}, "'type' must be"),
        ({"type": "stdio", "url": "http://x/"}, "has type 'stdio' but also 'url'"),
        ({"url": "http://x/", "headers": {"A": "${input:key}"}}, "'headers.A' uses ${input:...}"),
        ({"command": "x", "rename": {"a": "b", "c": "b"}}, "'rename' gives two"),
        (5, "has no 'command'"),
        (None, "has no 'command'"),
    ],
)
def test_a_bad_entry_breaks_itself_and_no_other(loaded: Load, fields: Any, reason: str):
    servers = {"bad": fields, "good": {"command": "x"}}
    config = loaded(json.dumps({"mcpServers": servers}), "mcp.json")
    assert [server.name for server in config.servers] == ["good"]
    assert [broken.name for broken in config.broken] == ["bad"]
    assert config.broken[0].reason.startswith(reason)


def test_comments_and_trailing_commas_are_read_over_and_strings_left_whole(loaded: Load):
    text = r"""
// a comment, with "quotes" and a comma,
{
  "inputs": [{"id": "x"},], /* one
  more, ] */
  "servers": {
    "a": {"type": "stdio", "command": "x", "args": ["//no", "/*no*/", ",]", "\"//", "a,}",],}, // , }
  },
}
"""
    config = loaded(text, "mcp.json")
    args = ("//no", "/*no*/", ",]", '"//', "a,}")
    assert config.servers == (ServerConfig(name="a", where=Stdio(command="x", args=args)),)


def test_a_file_that_needs_an_input_says_what_to_write_in_its_place(loaded: Load, folder: Path):
    vscode = {
        "inputs": [{"id": "key", "type": "promptString", "password": True}],
        "servers": {
            "gh": {"type": "http", "url": "https://x/", "headers": {"Authorization": "Bearer ${input:key}"}},
            "ok": {"type": "stdio", "command": "x"},
        },
    }
    (folder / "vscode.json").write_text(json.dumps(vscode))
    config = loaded('include = ["vscode.json"]')
    assert [server.name for server in config.servers] == ["ok"]
    reason = (
        "'headers.Authorization' uses ${input:...}, which only an editor can fill in;"
        " use an environment variable instead: ${NAME}"
    )
    assert config.broken == (Broken(name="gh", reason=reason),)


def test_a_file_of_vscode_can_be_the_whole_configuration(loaded: Load):
    config = loaded('{"servers": {"a": {"type": "stdio", "command": "x", "envFile": ".env"}}}', "mcp.json")
    assert config.servers == (ServerConfig(name="a", where=Stdio(command="x")),)


def test_what_else_a_file_of_another_program_holds_does_not_matter(loaded: Load):
    claude = {"numStartups": 5, "telemetry": {"enabled": True}, "mcpServers": {"a": {"command": "x"}}}
    config = loaded(json.dumps(claude), "claude.json")
    assert [server.name for server in config.servers] == ["a"]


def test_settings_of_vscode_have_their_servers_one_level_down(loaded: Load, folder: Path):
    (folder / "settings.json").write_text('{"editor.x": 1, "mcp": {"servers": {"a": {"command": "x"}}}}')
    config = loaded('include = ["settings.json"]')
    assert [server.name for server in config.servers] == ["a"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "headers",
        "type",
        "transport",
        "module",
        "rename",
        "disabled",
        "allow",
        "timeout",
        "max_memory",
        "max_result",
        "concurrency",
        "start",
        "enabled",
        "serverUrl",
    ]
)
ENTRIES = st.dictionaries(KEYS, JSON, max_size=5) | JSON


@given(entries=st.dictionaries(st.text(max_size=8), ENTRIES, max_size=3))
def test_whatever_the_entries_hold_each_one_is_usable_broken_or_turned_off(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, Any]
):
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    config = load(file, {})
    names = [server.name for server in config.servers] + [broken.name for broken in config.broken]
    assert len(set(names)) == len(names)
    assert set(names) <= set(entries)


@given(content=st.binary(max_size=60) | st.text(alphabet='{}[]",:/*\\ \n1a', max_size=60).map(str.encode))
@pytest.mark.parametrize("name", ["any.json", "any.toml"])
def test_whatever_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
):
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(content)
    said = ""
    try:
        load(file, {})
    except ConfigError as error:
        said = error.message
    assert not said or name in said
