"""`toolyard add`."""

import json
import os
import signal
import stat
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.cli.running import Served, Toolyard
from toolyard.cli.configuration.file import ConfigFile
from toolyard.cli.ui.messages import CommandError
from toolyard.config import Http, InProcess, Stdio, load

COMMENTED = """\
# My servers.

[gateway]  # the door
name = "mine"   # with   odd   spacing

# Git, for work.
[servers.git]
command = "uvx"  # not pipx
args = [
  "mcp-server-git",  # the one of PyPI
]
# Pushing is for people.
deny = ["git_push"]

# The secret part.
[servers.git.env]
TOKEN = "${GIT_TOKEN:-none}"

# Numbers.
[telemetry]
metrics = true
# The end.
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that has no configuration in it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "home"


def where(toolyard: Toolyard, name: str, file: str = "toolyard.toml") -> Any:
    return next(server.where for server in load(toolyard.folder / file, {}).servers if server.name == name)


def test_a_command_with_options_of_its_own_goes_after_two_dashes(toolyard: Toolyard):
    outcome = toolyard("add", "--no-check", "git", "--", sys.executable, "-m", "server", "--repository", ".")
    assert (outcome.status, outcome.out) == (0, "added 'git' to toolyard.toml\n")
    assert outcome.err.startswith("hint: `toolyard list --config toolyard.toml` shows its tools")
    expected = Stdio(command=sys.executable, args=("-m", "server", "--repository", "."))
    assert where(toolyard, "git") == expected


def test_what_a_server_is_for_is_written_down(toolyard: Toolyard):
    about = 'The "orders" of the shop'
    outcome = toolyard("add", "shop", "--module", "sql", "--description", about)
    assert outcome.status == 0, outcome.err
    (server,) = load(toolyard.folder / "toolyard.toml", {}).servers
    assert server.description == about


def test_a_bundled_server_is_added_by_its_name_with_its_settings(toolyard: Toolyard):
    assert (
        toolyard(
            "add", "--no-check", "db", "--module", "sql", "-o", "url=sqlite:shop.db", "-o", "locale=pt"
        ).status
        == 0
    )
    options = {"url": "sqlite:shop.db", "locale": "pt"}
    assert where(toolyard, "db") == InProcess(module="toolyard.servers.sql", options=options)
    assert tomllib.loads((toolyard.folder / "toolyard.toml").read_text())["servers"]["db"]["module"] == "sql"


def test_a_command_without_options_needs_no_dashes(toolyard: Toolyard):
    options = ["--env", "A=b=c", "--env", "EMPTY=", "--cwd", "src"]
    outcome = toolyard("add", "--no-check", "one", sys.executable, "server.py", *options)
    assert outcome.status == 0, outcome.err
    cwd = str(toolyard.folder / "src")
    expected = Stdio(command=sys.executable, args=("server.py",), env={"A": "b=c", "EMPTY": ""}, cwd=cwd)
    assert where(toolyard, "one") == expected


def test_an_address_takes_headers_and_a_transport(toolyard: Toolyard):
    outcome = toolyard(
        "add",
        "--no-check",
        "docs",
        "https://example.com/mcp",
        "--header",
        "X-Team: a:b",
        "--transport",
        "sse",
    )
    assert outcome.status == 0, outcome.err
    assert where(toolyard, "docs") == Http(
        url="https://example.com/mcp", headers={"X-Team": "a:b"}, transport="sse"
    )


def test_a_module_runs_in_process(toolyard: Toolyard):
    assert toolyard("add", "--no-check", "demo", "--module", "toolyard.servers.demo:server").status == 0
    assert where(toolyard, "demo") == InProcess(module="toolyard.servers.demo:server")


def test_the_file_is_made_for_its_user_alone_and_an_old_one_keeps_its_mode(toolyard: Toolyard):
    toolyard("add", "--no-check", "a", sys.executable)
    file = toolyard.folder / "toolyard.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    toolyard("add", "--no-check", "b", sys.executable)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert sorted(path.name for path in toolyard.folder.iterdir()) == ["toolyard.toml"]


def test_what_was_in_the_file_stays_to_the_letter(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", COMMENTED)
    assert toolyard("add", "--no-check", "docs", "https://example.com/mcp").status == 0
    assert file.read_text() == COMMENTED + '\n[servers.docs]\nurl = "https://example.com/mcp"\n'


def test_lines_end_as_they_did(toolyard: Toolyard):
    file = toolyard.folder / "toolyard.toml"
    file.write_bytes(b'[gateway]\r\nname = "x"')
    assert toolyard("add", "--no-check", "docs", "https://example.com/mcp").status == 0
    assert file.read_bytes() == (
        b'[gateway]\r\nname = "x"\r\n\r\n[servers.docs]\r\nurl = "https://example.com/mcp"\r\n'
    )


def test_a_name_that_is_taken_is_refused(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", COMMENTED)
    outcome = toolyard("add", "--no-check", "git", "https://example.com/mcp")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "error: toolyard.toml already has a server 'git'\nhint: --force replaces it\n"
    assert file.read_text() == COMMENTED


def test_force_changes_how_a_server_is_reached_and_keeps_what_was_decided_about_it(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", COMMENTED)
    outcome = toolyard("add", "--no-check", "git", "--force", "https://example.com/git")
    assert (outcome.status, outcome.out) == (0, "replaced 'git' in toolyard.toml\n")
    text = file.read_text()
    assert tomllib.loads(text)["servers"]["git"] == {"url": "https://example.com/git", "deny": ["git_push"]}
    for comment in (
        "# My",
        "# the door",
        "# Git, for work.",
        "# Pushing",
        "# The secret",
        "# Numbers.",
        "# The end",
    ):
        assert comment in text
    assert text.index("[servers.git]") < text.index("[telemetry]")


@pytest.mark.parametrize(
    "form",
    [
        '[servers]\ngit = { command = "x", deny = ["a"] } # inline\nother.command = "y"\n',
        'servers.git.command = "x" # dotted\nservers.git.deny = ["a"]\nservers.other.command = "y"\n',
        '[servers.other]\ncommand = "y"\n[gateway]\n# between\nname = "n"\n'
        '[servers."git"]\ncommand = "x"\ndeny = ["a"]\n',
        '[servers.git]\ncommand = """\n[servers.git]\n# no comment"""\ndeny = ["a"]\n'
        '[servers.other]\ncommand = "y"\n',
        '[mcpServers.git]\ncommand = "x"\nalwaysAllow = []\ndeny = ["a"]\n[servers]\nother.command = "y"\n',
    ],
)
def test_every_form_of_an_entry_can_be_replaced_and_removed(toolyard: Toolyard, form: str):
    file = toolyard.write("toolyard.toml", form)
    assert toolyard("add", "--no-check", "git", "--force", sys.executable).status == 0
    git, other = sorted(load(file).servers, key=lambda server: server.name)
    assert (git.where, git.deny) == (Stdio(command=sys.executable), ("a",))
    assert other.where == Stdio(command="y")
    assert toolyard("remove", "git").status == 0
    assert [server.name for server in load(file).servers] == ["other"]
    assert "# between" in file.read_text() or "# between" not in form


def test_a_name_that_an_included_file_has_is_refused_with_that_file(toolyard: Toolyard):
    toolyard.write("mcp.json", '{"mcpServers": {"git": {"command": "x"}}}')
    toolyard.write("toolyard.toml", 'include = ["mcp.json"]\n')
    outcome = toolyard("add", "--no-check", "git", "--force", sys.executable)
    assert outcome.status == 2
    assert outcome.err.startswith("error: 'git' is taken: toolyard.toml includes it from mcp.json\nhint: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bad", "ftp://example.com"], "[servers.bad] 'url' is not an http or https address"),
        (["bad", "https://x", "--env", "A=B"], "[servers.bad] has 'env', which belongs to 'command'"),
        (["bad", "https://x", "--header", "a b: c"], "[servers.bad] 'headers' has 'a b'"),
        (["bad", "x", "--transport", "sse"], "[servers.bad] has 'transport', which belongs to 'url'"),
        (["", "x"], "no server can have the name ''"),
        (["bad"], "no command and no URL"),
        (["bad", "https://x", "y"], "'y' after a URL"),
        (["bad", "x", "--module", "m"], "a command ('x') and --module at once"),
        (["bad", "x", "--env", "hush"], "--env is not K=V"),
        (["bad", "https://x", "--header", "hush"], "--header is not 'NAME: VALUE'"),
    ],
)
def test_what_would_not_load_is_not_written(toolyard: Toolyard, arguments: list[str], said: str):
    file = toolyard.write("toolyard.toml", COMMENTED)
    outcome = toolyard("add", "--no-check", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert said in outcome.err.splitlines()[0]
    assert "hush" not in outcome.err
    assert file.read_text() == COMMENTED


def test_an_option_of_the_command_without_the_dashes_is_explained(toolyard: Toolyard):
    outcome = toolyard("add", "--no-check", "git", "uvx", "--repository", ".")
    assert outcome.status == 2
    assert outcome.err.splitlines()[0] == "error: no option '--repository'"
    assert "toolyard add NAME -- COMMAND" in outcome.err.splitlines()[1]


def test_a_mistyped_option_of_ours_is_answered_with_the_one_that_was_meant(toolyard: Toolyard):
    outcome = toolyard("add", "far", "http://127.0.0.1:9/mcp", "--transprot", "sse")
    assert outcome.status == 2
    assert outcome.err.splitlines()[:2] == [
        "error: no option '--transprot'",
        "hint: did you mean '--transport'?",
    ]


def test_a_file_that_cannot_be_read_is_left_alone(toolyard: Toolyard):
    file = toolyard.write("toolyard.toml", "[servers\n")
    outcome = toolyard("add", "--no-check", "git", sys.executable)
    assert outcome.status == 2
    assert outcome.err.startswith("error: toolyard.toml, line 1: ")
    assert file.read_text() == "[servers\n"


def test_a_place_that_cannot_be_written_is_an_error(toolyard: Toolyard):
    toolyard.write("file", "")
    outcome = toolyard("add", "--no-check", "git", sys.executable, "--config", "file/toolyard.toml")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: cannot write 'file/toolyard.toml': ")


def test_what_is_not_ready_yet_is_told(toolyard: Toolyard):
    outcome = toolyard("add", "--no-check", "git", "no-such-program", "--env", "TOKEN=${NOT_SET}")
    assert outcome.status == 0
    lines = outcome.err.splitlines()
    assert lines[0].startswith("warning: 'git' cannot be used yet: 'env.TOKEN' needs the variable 'NOT_SET'")
    assert lines[1] == "warning: no program 'no-such-program' on PATH"


def test_a_secret_in_the_file_gives_a_hint_that_does_not_repeat_it(toolyard: Toolyard):
    outcome = toolyard(
        "add", "--no-check", "docs", "https://x.example", "--header", "Authorization: Bearer hush"
    )
    assert outcome.status == 0
    assert outcome.err.startswith("hint: 'headers.Authorization' is stored in the file; '${VARIABLE}'")
    assert "hush" not in outcome.err
    assert (
        "is in the file"
        not in toolyard(
            "add", "--no-check", "b", "https://x.example", "--header", "Authorization: ${T:-}"
        ).err
    )


@pytest.mark.parametrize("file", ["toolyard.toml", "mcp.json"])
def test_a_name_that_no_server_may_have_is_refused_in_any_file(toolyard: Toolyard, file: str):
    toolyard.write(file, '{"mcpServers": {}}' if file.endswith("json") else COMMENTED)
    before = (toolyard.folder / file).read_text()
    outcome = toolyard("add", "--no-check", "bank ", sys.executable, "--config", file)
    assert outcome.status == 2
    assert outcome.err.startswith("error: no server can have the name 'bank '\nhint: a server's name has")
    assert (toolyard.folder / file).read_text() == before


@pytest.mark.parametrize("name", ["'", 'quo"te', "a\\b", "[x]", "#"])
def test_a_name_that_was_written_by_hand_can_be_taken_out(toolyard: Toolyard, name: str):
    toolyard.write("toolyard.toml", f"{COMMENTED}\n[servers.{json.dumps(name)}]\ncommand = 'x'\n")
    assert toolyard("list").status == 2
    assert toolyard("remove", name).status == 0
    assert (toolyard.folder / "toolyard.toml").read_text() == COMMENTED


@pytest.mark.parametrize("name", ["a.b", "with space"])
def test_any_name_goes_in_and_comes_out_again(toolyard: Toolyard, name: str):
    toolyard.write("toolyard.toml", COMMENTED)
    assert toolyard("add", "--no-check", name, sys.executable).status == 0
    assert where(toolyard, name) == Stdio(command=sys.executable)
    assert toolyard("remove", name).status == 0
    assert (toolyard.folder / "toolyard.toml").read_text() == COMMENTED


def test_json_keeps_its_other_keys(toolyard: Toolyard):
    before = {"gateway": {"name": "é"}, "servers": {"a": {"command": "x", "deny": ["b"]}}}
    file = toolyard.write("toolyard.json", json.dumps(before))
    assert toolyard("add", "--no-check", "b", "https://example.com/mcp").out == "added 'b' to toolyard.json\n"
    assert toolyard("add", "--no-check", "a", "y", "--force").status == 0
    after = {
        "gateway": {"name": "é"},
        "servers": {"a": {"command": "y", "deny": ["b"]}, "b": {"url": "https://example.com/mcp"}},
    }
    assert file.read_text() == json.dumps(after, indent=2, ensure_ascii=False) + "\n"


def test_a_file_of_another_program_gets_an_entry_as_that_program_writes_it(toolyard: Toolyard):
    file = toolyard.write("mcp.json", '{"other": 1, "mcpServers": {},}')
    for arguments in (["a", "x"], ["b", "https://x/"], ["c", "https://x/", "--transport", "sse"]):
        assert toolyard("add", "--no-check", *arguments, "--config", "mcp.json").status == 0
    entries = {
        "a": {"type": "stdio", "command": "x"},
        "b": {"type": "http", "url": "https://x/"},
        "c": {"type": "sse", "url": "https://x/"},
    }
    assert json.loads(file.read_text()) == {"other": 1, "mcpServers": entries}
    outcome = toolyard("add", "--no-check", "d", "--module", "m", "--config", "mcp.json")
    assert outcome.err.startswith("error: mcp.json is another program's, which has no modules")


def test_json_with_comments_is_not_changed(toolyard: Toolyard):
    text = '{"mcpServers": {} // mine\n}'
    file = toolyard.write("mcp.json", text)
    outcome = toolyard("add", "--no-check", "a", "x", "--config", "mcp.json")
    assert outcome.err == (
        "error: mcp.json has comments, which would be lost\nhint: change it in an editor\n"
    )
    assert file.read_text() == text


def test_the_users_own_file_is_changed_when_the_folder_has_none_and_paths_still_lead_there(
    toolyard: Toolyard, home: Path
):
    own = home / ".config" / "toolyard" / "toolyard.toml"
    own.parent.mkdir(parents=True)
    own.touch()
    outcome = toolyard("add", "--no-check", "a", sys.executable, "--cwd", "src")
    assert outcome.out == "added 'a' to home/.config/toolyard/toolyard.toml\n"
    assert load(own).servers[0].where == Stdio(command=sys.executable, cwd=str(toolyard.folder / "src"))
    assert toolyard("add", "--no-check", "b", "--module", "own.py:app").status == 0
    assert load(own).servers[1].where == InProcess(module=f"{toolyard.folder}/own.py:app")


def test_a_link_to_the_file_stays_a_link(toolyard: Toolyard):
    real = toolyard.write("dotfiles.toml", "")
    (toolyard.folder / "toolyard.toml").symlink_to(real)
    assert toolyard("add", "--no-check", "a", sys.executable).status == 0
    assert (toolyard.folder / "toolyard.toml").is_symlink()
    assert "[servers.a]" in real.read_text()


# What is added is tried first

DEMO = [sys.executable, "-m", "toolyard", "stdio", "demo"]
FAILS = """
import sys

print("reading the settings", file=sys.stderr)
sys.exit("Error: SHOP_KEY is not set")
"""
LATE = """
import os, sys, time

print("fetching the package", file=sys.stderr, flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
os.execv(sys.executable, [sys.executable, "-m", "toolyard", "stdio", "demo"])
"""


def test_a_program_is_started_once_and_its_tools_are_counted(toolyard: Toolyard):
    other = '[servers.other]\ncommand = "no-such-program"\n'
    toolyard.write("toolyard.toml", f'[state]\nurl = "redis://127.0.0.1:9"\n{other}')
    outcome = toolyard("add", "demo", "--", *DEMO)
    assert (outcome.status, outcome.out) == (0, "added 'demo' to toolyard.toml: 7 tools\n"), outcome.err
    assert "no-such-program" not in outcome.err
    again = toolyard("add", "demo", "--force", "--", *DEMO)
    assert again.out == "replaced 'demo' in toolyard.toml: 7 tools\n"


def test_an_address_is_connected_to(toolyard: Toolyard, demo: Served):
    outcome = toolyard("add", "demo", demo.url)
    assert (outcome.status, outcome.out) == (0, "added 'demo' to toolyard.toml: 7 tools\n"), outcome.err
    outcome = toolyard("add", "dead", "http://127.0.0.1:9/mcp")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: 'dead' does not work: cannot be reached")
    assert "dead" not in (toolyard.folder / "toolyard.toml").read_text()


def test_a_module_is_loaded(toolyard: Toolyard):
    assert toolyard("add", "demo", "--module", "demo").out == "added 'demo' to toolyard.toml: 7 tools\n"
    outcome = toolyard("add", "nope", "--module", "nope.py")
    assert (outcome.status, outcome.out) == (2, "")
    first, second = outcome.err.splitlines()
    assert first.startswith("error: 'nope' does not work: no file ")
    assert second == "hint: nothing was written; --no-check adds it without trying it"
    assert "nope" not in (toolyard.folder / "toolyard.toml").read_text()


def test_a_program_that_fails_is_not_added_and_its_own_words_say_why(toolyard: Toolyard):
    program = toolyard.write("fails.py", FAILS)
    outcome = toolyard("add", "shop", sys.executable, str(program))
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: 'shop' does not work: ")
    assert "SHOP_KEY is not set" in outcome.err
    assert "hint: nothing was written; --no-check adds it without trying it" in outcome.err
    assert not (toolyard.folder / "toolyard.toml").exists()
    assert toolyard("add", "--no-check", "shop", sys.executable, str(program)).status == 0


def test_a_server_that_worked_before_is_tried_anew(toolyard: Toolyard):
    program = toolyard.write("shop.py", LATE)
    toolyard.write("go", "")
    assert toolyard("add", "shop", sys.executable, str(program)).status == 0
    toolyard.write("shop.py", FAILS)
    outcome = toolyard("add", "shop", "--force", sys.executable, str(program))
    assert outcome.status == 2
    assert "SHOP_KEY is not set" in outcome.err


def test_a_program_that_is_not_there_is_not_added(toolyard: Toolyard):
    outcome = toolyard("add", "git", "no-such-program")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: no program 'no-such-program' on PATH\nhint: install it")
    assert not (toolyard.folder / "toolyard.toml").exists()


def test_a_variable_that_is_not_set_is_named_and_the_server_is_added_without_a_check(toolyard: Toolyard):
    outcome = toolyard("add", "demo", "--env", "TOKEN=${NOT_SET}", "--", *DEMO)
    assert (outcome.status, outcome.out) == (0, "added 'demo' to toolyard.toml, unchecked\n")
    assert outcome.err.startswith(
        "warning: 'demo' cannot be used yet: 'env.TOKEN' needs the variable 'NOT_SET'"
    )
    checked = toolyard("add", "demo", "--force", "--env", "TOKEN=${SET}", "--", *DEMO, SET="x")
    assert checked.out == "replaced 'demo' in toolyard.toml: 7 tools\n"


def test_while_a_program_starts_it_is_shown_who_is_waited_for(toolyard: Toolyard):
    program = toolyard.write("late.py", LATE)
    with toolyard.terminal("add", "late", sys.executable, str(program)) as terminal:
        terminal.expect("waiting for late")
        terminal.expect("s: fetching the package")
        toolyard.write("go", "")
        assert terminal.end() == 0
    assert "added 'late' to toolyard.toml: 7 tools" in terminal.seen


def test_an_interrupted_check_writes_nothing(toolyard: Toolyard):
    program = toolyard.write("late.py", LATE)
    with toolyard.terminal("add", "late", sys.executable, str(program)) as terminal:
        terminal.expect("waiting for late")
        terminal.interrupt(signal.SIGINT)
        assert terminal.end() == 130
    assert not (toolyard.folder / "toolyard.toml").exists()
    assert "Traceback" not in terminal.seen


def test_the_entry_of_another_programs_file_is_tried_too(toolyard: Toolyard):
    toolyard.write("mcp.json", '{"mcpServers": {}}')
    outcome = toolyard("add", "demo", "--config", "mcp.json", "--", *DEMO)
    assert outcome.out == "added 'demo' to mcp.json: 7 tools\n"


@pytest.mark.parametrize("name", ["toolyard.toml", "mcp.json"])
def test_what_others_write_between_reading_and_writing_stays(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_text("" if name.endswith("toml") else "{}")
    commands = [ConfigFile(path) for _ in range(8)]
    barrier = Barrier(len(commands))

    def save(number: int) -> None:
        commands[number].set_server(f"server{number}", {"url": f"http://127.0.0.1:{number + 1}/"})
        barrier.wait()
        commands[number].save()

    with ThreadPoolExecutor(len(commands)) as threads:
        list(threads.map(save, range(len(commands))))
    assert {server.name for server in load(path, {}).servers} == {f"server{n}" for n in range(8)}


def test_a_server_that_somebody_else_has_changed_meanwhile_is_left_alone(tmp_path: Path):
    path = tmp_path / "toolyard.toml"
    path.write_text('[servers.a]\nurl = "http://127.0.0.1:1/"\n')
    late, removing = ConfigFile(path), ConfigFile(path)
    late.set_server("a", {"url": "http://127.0.0.1:2/"})
    removing.remove_server("a")
    theirs = '# by hand\n[servers.a]\nurl = "http://127.0.0.1:3/"\n'
    path.write_text(theirs)
    for edited in (late, removing):
        with pytest.raises(CommandError, match="'a' was changed in"):
            edited.save()
    assert path.read_text() == theirs


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_file_that_root_edits_stays_its_owners(tmp_path: Path):
    path = tmp_path / "toolyard.toml"
    path.write_text("# mine\n")
    os.chown(path, 65534, 65534)
    edited = ConfigFile(path)
    edited.set_server("a", {"url": "http://127.0.0.1:1/"})
    edited.save()
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)
