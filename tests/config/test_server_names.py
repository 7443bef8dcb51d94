"""Names of servers: plain, and no two that people or clients could take for one another."""

import json
from pathlib import Path

import pytest

from tests.config.conftest import Load, Refused
from toolyard.app import Gateway
from toolyard.catalogue.items import prefix_of
from toolyard.config import Config, ConfigError, InProcess, ServerConfig
from toolyard.config.diagnosis import diagnose
from toolyard.config.names import fitting_server_name

CYRILLIC = "b\u0430nk"  # with the letter a of another alphabet


def file(*names: str) -> str:
    return json.dumps({"servers": {name: {"command": "x"} for name in names}})


@pytest.mark.parametrize(
    "name", ["git", "my-server", "my_server", "a__b", "v1.2", "Sequential Thinking", "7"]
)
def test_ordinary_names_are_accepted(loaded: Load, name: str):
    assert [server.name for server in loaded(file(name), "toolyard.json").servers] == [name]


@pytest.mark.parametrize(
    "name",
    [
        "bank ",
        " bank",
        "bank_",
        "a  b",
        "a/b",
        "b & c",
        "@scope/name",
        CYRILLIC,
        "b\uff41nk",
        "bank\u200b",
        "bank\n## toolyard",
        "'",
        "x" * 65,
    ],
)
def test_a_name_with_anything_else_is_refused_and_the_hint_says_what_it_may_have(refused: Refused, name: str):
    error = refused(file(name), "toolyard.json")
    assert f"cannot have the name {name!a}" in error.message
    assert "letters a to z, digits" in (error.hint or "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bank", "Bank"),
        ("bank-I", "bank-l"),
        ("modern", "modem"),
        ("my server", "my_server"),
        ("my.server", "my server"),
        ("a__b", "a_b"),
        ("internal_documentati", "internal_documentation_search"),
        ("internal_documentation_search", "internal_documentati"),
    ],
)
def test_of_two_names_that_could_be_mistaken_the_second_is_refused(refused: Refused, first: str, second: str):
    error = refused(file(first, second), "toolyard.json")
    assert repr(second) in error.message
    assert repr(first) in error.message
    with pytest.raises(ConfigError, match="could take for"):
        Gateway(Config(servers=tuple(ServerConfig(name=name, where=HERE) for name in (first, second))))


HERE = InProcess(module="toolyard.servers.demo")


@pytest.mark.parametrize(
    "names", [("git", "github"), ("a", "a__b"), ("postgres-production-eu", "postgres-production-us")]
)
def test_other_names_are_told_apart(loaded: Load, names: tuple[str, str]):
    assert len(loaded(file(*names), "toolyard.json").servers) == 2


def test_the_tools_of_no_server_have_the_beginning_of_anothers(loaded: Load):
    names = [server.name for server in loaded(file("a", "a__b", "b", "bank"), "toolyard.json").servers]
    assert len({prefix_of(name) for name in names}) == 4


def test_a_name_of_a_gateway_that_no_file_configures_is_checked_as_well():
    with pytest.raises(ConfigError, match="cannot have the name 'bank '"):
        Gateway(Config(servers=(ServerConfig(name="bank ", where=HERE),)))


def test_a_server_of_another_programs_file_with_such_a_name_is_left_out_and_the_reason_said(
    loaded: Load, folder: Path
):
    theirs = {"mcpServers": {name: {"command": "x"} for name in ("Git", "@scope/name", "ok")}}
    (folder / "mcp.json").write_text(json.dumps(theirs))
    config = loaded('include = ["mcp.json"]\n[servers.git]\ncommand = "x"')
    assert [server.name for server in config.servers] == ["git", "ok"]
    reasons = {one.name: one.reason for one in config.broken}
    assert "could take for 'git'" in reasons["Git"]
    assert "letters a to z" in reasons["@scope/name"]
    found = [one.problem for one in diagnose(folder / "toolyard.toml", {}).findings]
    assert [one for one in found if "could take for 'git'" in one]


@pytest.mark.parametrize(
    ("name", "fitting"),
    [
        ("Sequential Thinking", "Sequential_Thinking"),
        ("@21st-dev/magic", "21st-dev_magic"),
        ("bank ", "bank"),
        ("caf\u00e9", "cafe"),
        ("\u5b57", "x"),
        ("a__b", "a_b"),
        ("x" * 80, "x" * 64),
    ],
)
def test_another_programs_name_is_made_to_fit(name: str, fitting: str):
    assert fitting_server_name(name) == fitting
