"""Variables in the strings of a server entry."""

import pytest

from tests.config.conftest import Load, Refused
from toolyard.config import Broken, Http, Stdio

GIT = '[servers.git]\ncommand = "git"\n'


@pytest.mark.parametrize(
    ("text", "env", "filled"),
    [
        ("${A}", {"A": "x"}, "x"),
        ("a ${A} b ${B}", {"A": "x", "B": "y"}, "a x b y"),
        ("${A}", {"A": ""}, ""),
        ("${A:-d}", {}, "d"),
        ("${A:-d}", {"A": ""}, "d"),
        ("${A:-d}", {"A": "x"}, "x"),
        ("${A:-}", {}, ""),
        ("${A:-http://x:1/}", {}, "http://x:1/"),
        ("${env:A}", {"A": "x"}, "x"),
        ("${workspaceFolder}/a", {"workspaceFolder": "/src"}, "/src/a"),
        ("$${A}", {}, "${A}"),
        ("$A $ {A} $$", {"A": "x"}, "$A $ {A} $$"),
        ("${A}", {"A": "${B}"}, "${B}"),
    ],
)
def test_a_variable_is_filled_in_once_with_its_default_when_unset_or_empty(
    loaded: Load, text: str, env: dict[str, str], filled: str
):
    config = loaded(f"{GIT}args = ['{text}']", **env)
    assert config.servers[0].where == Stdio(command="git", args=(filled,))


def test_every_string_of_an_entry_may_have_variables(loaded: Load):
    text = """
[servers.a]
command = "${X}"
args = ["${X}"]
env = { K = "${X}" }
cwd = "/${X}"
max_memory = "${SIZE}"
rename = { one = "${X}" }
[servers.b]
url = "https://${X}.example.com"
headers = { K = "Bearer ${X}" }
"""
    one, other = loaded(text, X="v", SIZE="1KiB").servers
    assert one.where == Stdio(command="v", args=("v",), env={"K": "v"}, cwd="/v", max_memory=1024)
    assert one.rename == {"one": "v"}
    assert other.where == Http(url="https://v.example.com", headers={"K": "Bearer v"})


def test_home_is_what_editors_call_it(loaded: Load):
    config = loaded(f"{GIT}args = ['${{userHome}}/x']")
    assert config.servers[0].where.args[0].endswith("/home/x")  # type: ignore[union-attr]


def test_an_unset_variable_breaks_its_server_and_no_other(loaded: Load):
    config = loaded(f'{GIT}env = {{ TOKEN = "${{GIT_TOKEN}}" }}\n[servers.docs]\nurl = "http://localhost/"')
    assert [server.name for server in config.servers] == ["docs"]
    reason = (
        "'env.TOKEN' needs the variable 'GIT_TOKEN', which is not set;"
        " set it, or give a default: ${GIT_TOKEN:-default}"
    )
    assert config.broken == (Broken(name="git", reason=reason),)


def test_an_unset_variable_does_not_hide_a_mistake(refused: Refused):
    error = refused(f'{GIT}args = ["${{NOPE}}"]\ntimeout = -1')
    assert "'timeout'" in error.message


def test_a_server_that_is_turned_off_needs_no_variables(loaded: Load):
    config = loaded(f'{GIT}args = ["${{NOPE}}"]\nenabled = false')
    assert (config.servers, config.broken) == ((), ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${input:token}", "'args' uses ${input:...}, which only an editor can fill in; use an environment"),
        ("${command:pick}", "'args' uses ${command:...}"),
        ("${workspaceFolder}", "'args' uses ${workspaceFolder}, which only an editor knows"),
    ],
)
def test_what_only_an_editor_can_fill_in_is_a_reason_not_an_error(loaded: Load, text: str, said: str):
    config = loaded(f"{GIT}args = ['{text}']")
    assert config.broken[0].reason.startswith(said)


@pytest.mark.parametrize("kind", ["secrt", "secrets", "fiel", "keyrings"])
def test_a_misspelt_reference_is_told_from_what_an_editor_fills_in(loaded: Load, kind: str):
    reason = loaded(f"{GIT}args = ['${{{kind}:github}}']").broken[0].reason
    assert f"'args' uses ${{{kind}:...}}, which is no reference; did you mean" in reason


@pytest.mark.parametrize("text", ["${", "${}", "${A-B}", "${A", "${1}", "${A:+x}"])
def test_braces_that_hold_no_variable_are_a_mistake(refused: Refused, text: str):
    error = refused(f"{GIT}args = ['{text}']", A="x")
    assert "'args' has an invalid variable reference" in error.message
    assert "$${" in (error.hint or "")
