"""`env_file`: variables from a file beside the configuration, if it says so."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Toolyard
from toolyard.config import ConfigError, Http, load
from toolyard.config.env_file import parse

SERVER = '[servers.a]\nurl = "https://example.com/${PLACE}"\n'
SECRET = "sk-not-to-be-shown"


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def _written(folder: Path, variables: str, config: str = f'env_file = ".env"\n{SERVER}') -> Path:
    (folder / ".env").write_text(variables)
    path = folder / "toolyard.toml"
    path.write_text(config)
    return path


def _url(path: Path, **env: str) -> str:
    (server,) = load(path, env).servers
    assert isinstance(server.where, Http)
    return server.where.url


def test_a_file_that_is_named_gives_variables(tmp_path: Path) -> None:
    path = _written(tmp_path, "PLACE=mcp\n")
    assert _url(path) == "https://example.com/mcp"
    found = load(path, {}).env_file
    assert found is not None
    assert (found.path, found.names, found.already_set) == (tmp_path / ".env", ("PLACE",), ())


def test_an_env_file_that_nobody_names_is_not_read(tmp_path: Path) -> None:
    config = load(_written(tmp_path, "PLACE=mcp\n", SERVER), {})
    assert config.env_file is None
    assert "PLACE" in config.broken[0].reason


def test_a_variable_that_is_set_stays_as_it_is(tmp_path: Path) -> None:
    path = _written(tmp_path, "PLACE=mcp\nOTHER=x")
    assert _url(path, PLACE="") == "https://example.com/"
    found = load(path, {"PLACE": ""}).env_file
    assert found is not None
    assert (found.names, found.already_set) == (("OTHER",), ("PLACE",))


def test_the_process_gets_the_variables_and_their_changes(tmp_path: Path) -> None:
    os.environ["TOOLYARD_TEST_SET"] = "shell"
    path = _written(tmp_path, "PLACE=one\nTOOLYARD_TEST_SET=file")
    load(path)
    assert (os.environ["PLACE"], os.environ["TOOLYARD_TEST_SET"]) == ("one", "shell")
    _written(tmp_path, "PLACE=two\nTOOLYARD_TEST_SET=file")
    load(path)
    assert os.environ["PLACE"] == "two"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=b", "b"),
        ("  export A = b c  ", "b c"),
        ("A=", ""),
        ("A=b#c # a comment", "b#c"),
        ("A= # a comment", ""),
        ("A='b # \"c\" \\n'", 'b # "c" \\n'),
        ('A="b # \'c\'\\n\\"\\\\" # a comment', "b # 'c'\n\"\\"),
        ("A='-----BEGIN\nKEY-----'", "-----BEGIN\nKEY-----"),
        ("A=${B}$c", "${B}$c"),
        ("\n# one\n\n  # two\r\nA=b\r\n", "b"),
        ("A=1\nA=2", "2"),
    ],
)
def test_lines_are_read_as_a_shell_would_read_them(text: str, value: str) -> None:
    assert parse(text, Path(".env")) == {"A": value}


@pytest.mark.parametrize("line", [SECRET, "1A=b", "A B=c", f"A='{SECRET}", f'A="{SECRET}', "A='b' c", "A=\0"])
def test_a_line_that_is_wrong_is_named_and_not_quoted(line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.env, line 2: is not NAME=value") as caught:
        load(_written(tmp_path, f"PLACE=mcp\n{line}\n"), {})
    assert SECRET not in f"{caught.value} {caught.value.hint}"


def test_a_file_that_is_missing_or_no_name_is_an_error(tmp_path: Path) -> None:
    path = _written(tmp_path, "", f'env_file = "none.env"\n{SERVER}')
    with pytest.raises(ConfigError, match=r"'env_file' names '.*none\.env', which does not exist"):
        load(path, {})
    with pytest.raises(ConfigError, match="'env_file' must be text"):
        load(_written(tmp_path, "", f"env_file = 1\n{SERVER}"), {})


def test_an_included_file_does_not_choose_variables(tmp_path: Path) -> None:
    path = _written(tmp_path, "PLACE=mcp")
    main = tmp_path / "main.toml"
    main.write_text(f'include = ["{path.name}"]')
    assert "PLACE" in load(main, {}).broken[0].reason


def test_check_says_which_variables_it_read(toolyard: Toolyard) -> None:
    _written(toolyard.folder, f"PLACE={SECRET}\nHOME=/nowhere\n")
    outcome = toolyard("check")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == "toolyard.toml: ok, 1 server\n.env: 1 variable: PLACE; already set: HOME\n"
    told = json.loads(toolyard("check", "--json").out)["env_file"]
    assert told == {"path": str(toolyard.folder / ".env"), "names": ["PLACE"], "already_set": ["HOME"]}


def test_check_names_a_file_that_would_help(toolyard: Toolyard) -> None:
    _written(toolyard.folder, "PLACE=mcp", SERVER)
    outcome = toolyard("check")
    assert outcome.status == 1
    assert ".env is not read" in outcome.out
    assert 'env_file = ".env" at the top reads its variables' in outcome.out


def test_a_server_finds_its_own_key_in_the_file(toolyard: Toolyard) -> None:
    module = "import os\nfrom toolyard.kit import Server\nserver = Server('s')\n"
    module += "@server.tool\ndef key() -> str:\n    return os.environ.get('Z_AI_API_KEY', 'none')\n"
    toolyard.write("keyed.py", module)
    config = '[servers.s]\nmodule = "keyed.py"\n'
    _written(toolyard.folder, "Z_AI_API_KEY=abc", config)
    assert toolyard("call", "mcp__s__key").out == "none\n"
    toolyard.write("toolyard.toml", f'env_file = ".env"\n{config}')
    assert toolyard("call", "mcp__s__key").out == "abc\n"
