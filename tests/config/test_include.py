"""Files that include others, and how the file itself is found."""

from pathlib import Path

import pytest

from tests.config.conftest import Load, Refused
from toolyard.config import Config, ConfigError, Stdio, find, load


def names(config: Config) -> list[str]:
    return [server.name for server in config.servers]


def mcp(*servers: str) -> str:
    return '{"mcpServers": {' + ", ".join(f'"{name}": {{"command": "x"}}' for name in servers) + "}}"


def test_includes_are_relative_to_the_file_and_know_home(loaded: Load, folder: Path):
    (folder / "sub").mkdir()
    (folder / "sub" / "team.toml").write_text(
        'include = ["more.json"]\n[servers.team]\ncommand = "x"\ncwd = "work"'
    )
    (folder / "sub" / "more.json").write_text(mcp("more"))
    (folder / "home" / ".cursor").mkdir()
    (folder / "home" / ".cursor" / "mcp.json").write_text(mcp("cursor"))
    config = loaded(
        'include = ["sub/team.toml", "~/.cursor/mcp.json"]\n[servers.own]\ncommand = "x"', "toolyard.toml"
    )
    assert names(config) == ["own", "team", "more", "cursor"]
    assert config.servers[1].where == Stdio(command="x", cwd=str(folder / "sub" / "work"))
    files = ["toolyard.toml", "sub/team.toml", "sub/more.json", "home/.cursor/mcp.json"]
    assert config.files == tuple(folder / file for file in files)


def test_an_included_file_gives_its_servers_and_keeps_its_settings(loaded: Load, folder: Path):
    (folder / "team.toml").write_text('[gateway]\nname = "team"\npage_size = 3\n[servers.a]\ncommand = "x"')
    config = loaded('include = ["team.toml"]\n[gateway]\nname = "mine"')
    assert names(config) == ["a"]
    assert (config.gateway.name, config.gateway.page_size) == ("mine", 500)


def test_a_mistake_in_an_included_file_names_that_file(refused: Refused, folder: Path):
    (folder / "team.toml").write_text("[gateway]\npagesize = 3")
    assert refused('include = ["team.toml"]').message.startswith("team.toml: [gateway]")


def test_a_missing_include_is_named_with_the_place_where_it_was_looked_for(refused: Refused, folder: Path):
    error = refused('include = ["no/such.json"]')
    assert error.message == "toolyard.toml includes 'no/such.json', which does not exist"
    assert str(folder / "no" / "such.json") in (error.hint or "")


def test_an_include_without_servers_is_refused(refused: Refused, folder: Path):
    (folder / "other.json").write_text('{"name": "package"}')
    assert refused('include = ["other.json"]').message.startswith("other.json has neither 'mcpServers'")


def test_files_that_include_each_other_are_refused_with_the_circle(refused: Refused, folder: Path):
    (folder / "a.toml").write_text('include = ["b.toml"]')
    (folder / "b.toml").write_text('include = ["./a.toml"]')
    error = refused('include = ["a.toml"]')
    assert error.message == "circular include: a.toml -> b.toml -> a.toml"
    assert "circular include: own.toml -> own.toml" in refused('include = ["own.toml"]', "own.toml").message


def test_a_file_that_is_included_twice_counts_once(loaded: Load, folder: Path):
    (folder / "a.toml").write_text('include = ["c.json"]')
    (folder / "b.toml").write_text('include = ["c.json"]')
    (folder / "c.json").write_text(mcp("c"))
    assert names(loaded('include = ["a.toml", "b.toml"]')) == ["c"]


def test_two_servers_with_one_name_are_refused_with_both_files(refused: Refused, folder: Path):
    (folder / "other.json").write_text(mcp("git"))
    error = refused('include = ["other.json"]\n[servers.git]\ncommand = "x"')
    assert error.message == (
        "server 'git' is defined twice: [servers.git] in toolyard.toml and [mcpServers.git] in other.json"
    )
    assert "enabled = false" in (error.hint or "")
    both = refused('[servers.git]\ncommand = "x"\n[mcpServers.git]\ncommand = "x"')
    assert "[servers.git] in toolyard.toml and [mcpServers.git] in toolyard.toml" in both.message


def test_one_that_is_turned_off_leaves_its_name_to_another(loaded: Load, folder: Path):
    (folder / "other.json").write_text(mcp("git"))
    text = 'include = ["other.json"]\n[servers.git]\ncommand = "mine"\nenabled = false'
    assert loaded(text).servers[0].where == Stdio(command="x")


def test_another_programs_file_can_be_the_whole_configuration(folder: Path):
    (folder / "mcp.json").write_text(mcp("a", "b"))
    assert names(load(folder / "mcp.json")) == ["a", "b"]
    assert names(load(Path("mcp.json"))) == ["a", "b"]


def test_the_file_of_the_folder_is_found_before_the_users_own(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert find() is None
    own = folder / "home" / ".config" / "toolyard"
    own.mkdir(parents=True)
    (own / "toolyard.json").write_text("{}")
    assert find() == own / "toolyard.json"
    (own / "toolyard.toml").write_text("")
    assert find() == own / "toolyard.toml"
    (folder / "toolyard.json").write_text("{}")
    assert find() == folder / "toolyard.json"
    (folder / "toolyard.toml").write_text("")
    assert find() == folder / "toolyard.toml"
    (folder / "elsewhere").mkdir()
    assert find(folder / "elsewhere") == own / "toolyard.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "elsewhere"))
    assert find(folder / "elsewhere") is None
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert find(folder / "elsewhere") == own / "toolyard.toml"


def test_a_symbolic_link_in_a_circle_is_an_error_and_not_a_crash(folder: Path):
    (folder / "a.json").symlink_to(folder / "b.json")
    (folder / "b.json").symlink_to(folder / "a.json")
    with pytest.raises(ConfigError):
        load(folder / "a.json")
