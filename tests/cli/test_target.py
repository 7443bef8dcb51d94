"""What a TARGET may be, and what is said when it is none."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Toolyard
from tests.rest.loopback import loopback, reply
from tests.serving import modern
from toolyard import Client
from toolyard.cli.target import load

SERVER = """
from toolyard.kit import Server

server = Server("own")
other = Server("second")
number = 5

@server.tool
def ping() -> str:
    return "pong"

@other.tool
def knock() -> str:
    return "who is there?"

def build() -> Server:
    return server
"""


@pytest.mark.parametrize("target", ["own.py", "own.py:server", "./own.py", "own", "own:server"])
def test_a_target_is_a_file_or_a_module_and_its_attribute_is_server_unless_named(
    toolyard: Toolyard, target: str
):
    toolyard.write("own.py", SERVER)
    assert toolyard("call", "ping", "--target", target).out == "pong\n"


def test_another_attribute_is_named_after_a_colon(toolyard: Toolyard):
    toolyard.write("own.py", SERVER)
    assert toolyard("call", "knock", "--target", "own.py:other").out == "who is there?\n"


def test_a_file_can_import_its_neighbours(toolyard: Toolyard):
    toolyard.write("neighbour.py", SERVER)
    toolyard.write("own.py", "from neighbour import server")
    assert toolyard("call", "ping", "--target", "own.py").out == "pong\n"


def test_a_file_named_like_a_module_of_ours_is_still_the_file(toolyard: Toolyard):
    toolyard.write("click.py", SERVER)
    (toolyard.folder / "elsewhere").mkdir()
    path = toolyard.folder / "click.py"
    toolyard.folder = toolyard.folder / "elsewhere"
    assert toolyard("call", "ping", "--target", str(path)).out == "pong\n"


@pytest.mark.parametrize(
    ("target", "error", "hint"),
    [
        ("onw.py", "no file 'onw.py'", "did you mean 'own.py'?"),
        ("folder/own.py", "no file 'folder/own.py'", "there is no folder"),
        ("missing.thing", "no module 'missing'", "modules are searched in this folder"),
        ("own:serve", "'own' has no attribute 'serve'", "it has own:server, own:other"),
        ("own.py:number", "'own.py:number' is a int, not a toolyard.kit.Server", "it has own.py:server"),
        ("own.py:build", "'own.py:build' is a function", "`server = build()`"),
        ("own:", "'own:' is not a target", "package.module:attribute"),
        ("not a name", "'not a name' is neither a module nor a file", "package.module:attribute"),
    ],
)
def test_a_target_that_is_none_gets_an_error_and_a_hint(
    toolyard: Toolyard, target: str, error: str, hint: str
):
    toolyard.write("own.py", SERVER)
    outcome = toolyard("list", target)
    assert (outcome.status, outcome.out) == (2, "")
    assert error in outcome.err.splitlines()[0]
    assert hint in outcome.err.splitlines()[1]


@pytest.mark.parametrize("name", ["time", "github"])
def test_a_server_of_the_configuration_in_the_place_of_a_target_is_told_where_it_is(
    toolyard: Toolyard, name: str
):
    toolyard.write("toolyard.toml", f'[servers.{name}]\ncommand = "uvx"\n')
    outcome = toolyard("list", name)
    assert (outcome.status, outcome.out) == (2, "")
    _, hint = outcome.err.splitlines()
    assert hint == f"hint: {name!r} is a server of toolyard.toml: use `toolyard list` without a TARGET"
    called = toolyard("call", "now", "--target", name)
    assert called.err.endswith(
        f"{name!r} is a server of toolyard.toml: use `toolyard call` without --target\n"
    )


@pytest.mark.parametrize("command", [["serve"], ["stdio"], ["call", "echo", "--target"]])
def test_every_command_says_the_same_of_a_target_that_is_none(toolyard: Toolyard, command: list[str]):
    assert toolyard(*command, "nothing.py") == toolyard("list", "nothing.py")


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        ("\n1 / 0", "ZeroDivisionError: division by zero", "line 2"),
        ("import missing_part", "ModuleNotFoundError: No module named 'missing_part'", "line 1"),
        ("def (", "SyntaxError: ", "line 1"),
        ("from toolyard.kit import Server\nServer('x', page_size=0)", "ValueError: page_size", "line 2"),
        ("class Odd(BaseException): ...\nraise Odd('no')", "Odd: no", "line 2"),
        ("raise SystemExit(3)", "SystemExit: 3", "line 1"),
        ("from .sibling import server", "ImportError: attempted relative import", "line 1"),
    ],
)
def test_a_target_that_fails_to_import_names_the_exception_and_the_authors_own_line(
    toolyard: Toolyard, source: str, said: str, line: str
):
    toolyard.write("own.py", source)
    outcome = toolyard("list", "own.py")
    assert outcome.status == 2
    first = outcome.err.splitlines()[0]
    assert first.startswith("error: 'own.py' failed to import: ")
    assert said in first
    assert "own.py" in first.partition("failed to import")[2]
    assert line in first
    assert "Traceback" not in outcome.err
    assert "hint: --debug shows the whole traceback" in outcome.err


def test_a_module_that_raises_what_is_no_exception_is_no_traceback_either(toolyard: Toolyard):
    toolyard.write("own.py", "import asyncio\nraise asyncio.CancelledError")
    outcome = toolyard("list", "own")
    assert outcome.status == 2
    assert outcome.err.startswith("error: 'own' failed to import: CancelledError")
    assert "Traceback" not in outcome.err


def test_an_interrupt_while_a_target_is_imported_is_an_interrupt(toolyard: Toolyard):
    toolyard.write("own.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)")
    outcome = toolyard("list", "own.py")
    assert (outcome.status, outcome.err.strip()) == (130, "")


def test_debug_shows_the_traceback(toolyard: Toolyard):
    toolyard.write("own.py", "1 / 0")
    outcome = toolyard("list", "own.py", "--debug")
    assert outcome.status == 2
    assert "Traceback (most recent call last):" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: 'own.py' failed to import: ZeroDivisionError")


def test_a_missing_dependency_of_the_target_is_named_to_install(toolyard: Toolyard):
    toolyard.write("own.py", "import missing_part")
    assert "hint: install what provides 'missing_part' for " in toolyard("list", "own").err


def test_a_key_that_is_too_short_is_told_before_anything_is_loaded(toolyard: Toolyard):
    outcome = toolyard("list", TOOLYARD_KEY="short")
    assert outcome.status == 2
    assert "error: TOOLYARD_KEY has 5 bytes and needs at least 16" in outcome.err
    assert "hint: create one: " in outcome.err


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["list", "toolyard.toml"], "`toolyard list --config toolyard.toml`"),
        (["call", "x", "--target", "toolyard.toml"], "`toolyard call --config toolyard.toml`"),
        (["run", "toolyard.toml"], "`toolyard serve --config toolyard.toml`"),
        (["deploy", "lambda", "toolyard.toml", "--no-lint"], "name servers instead: toolyard deploy lambda"),
    ],
)
def test_a_configuration_in_the_place_of_a_table_is_sent_to_an_option_that_exists(
    toolyard: Toolyard, command: list[str], hint: str
):
    toolyard.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    outcome = toolyard(*command)
    assert outcome.status == 2
    first, *hints = outcome.err.splitlines()
    assert first.startswith("error: toolyard.toml")
    assert "--config" not in first
    assert any(hint in line for line in hints)


LINKS = """
name = "links"
base_url = "{url}"

[paging.links]
kind = "link"

[tools.links]
description = "Links"
path = "/links"
paging = "links"
"""


async def test_the_cursor_of_one_command_holds_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TOOLYARD_KEY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with loopback() as api:
        api.on("GET /links", reply([], Link='<?page=2>; rel="next"'))
        table = tmp_path / "links.toml"
        table.write_text(LINKS.format(url=api.url))
        first, second = load(str(table)), load(str(table))
        assert not (tmp_path / "toolyard").exists()
        async with Client(first) as client:
            cursor = (await client.call_tool("links")).structured["next"]
        async with Client(second) as client:
            assert not (await client.call_tool("links", {"cursor": cursor})).is_error
        assert api.last.target == "/links?page=2"


DICE = """
from msgspec import Struct

from toolyard.kit import Server

class Settings(Struct):
    sides: int = 6
    secret_key: str = ""

def build(settings: Settings) -> Server:
    server = Server("dice")

    @server.tool
    def sides() -> int:
        return settings.sides

    return server
"""


@pytest.mark.parametrize("target", ["acme.dice", "acme/dice.py", "acme.dice:server"])
def test_a_module_of_ones_own_is_run_with_its_settings_as_add_takes_it(toolyard: Toolyard, target: str):
    (toolyard.folder / "acme").mkdir()
    toolyard.write("acme/dice.py", DICE)
    call = json.dumps(modern("tools/call", {"name": "sides"})[1])
    for command in ("run", "stdio"):
        outcome = toolyard(command, target, "-o", "sides=8", stdin=f"{call}\n")
        assert (outcome.status, outcome.err) == (0, "")
        assert json.loads(outcome.out)["result"]["structuredContent"] == {"result": 8}
    with toolyard.serving(target, "-o", "sides=8", "-o", "secret-key=sesame") as served:
        assert toolyard("call", "sides", "--url", served.url).out == '{"result":8}\n'
        assert '"-o", "sides=8", "-o", "secret_key=…"]' in served.welcome, "what to paste starts the same"
        assert "sesame" not in served.welcome


def test_what_is_no_module_either_is_no_server(toolyard: Toolyard):
    outcome = toolyard("run", "acme.dice")
    assert (outcome.status, outcome.err.splitlines()[0]) == (2, "error: no server 'acme.dice'")
    assert toolyard("run", "slq").err.splitlines()[1] == "hint: did you mean 'sql'?"
    assert "-o needs a TARGET" in toolyard("stdio", "-o", "a=b").err
