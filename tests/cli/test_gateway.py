"""The commands on a configuration: `serve`, `stdio`, `list` and `call`, with `--config` or a file found."""

import http.client
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PATIENCE, Served, Toolyard
from tests.modes import obey_modes

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
KITCHEN = """
from toolyard.kit import Server

server = Server("kitchen")

@server.tool
def boil(minutes: int = 3) -> str:
    "Boil an egg."
    return f"boiled for {minutes}"

@server.tool
def burn() -> str:
    return "burnt"

@server.prompt
def recipe(dish: str) -> str:
    return f"How to make {dish}"
"""
GARDEN = """
from toolyard.kit import Server

server = Server("garden")

@server.tool
def water() -> str:
    return "watered"
"""


@pytest.fixture
def yard(toolyard: Toolyard) -> Toolyard:
    """A folder with two servers and a configuration of both."""
    toolyard.write("kitchen.py", KITCHEN)
    toolyard.write("garden.py", GARDEN)
    toolyard.write("toolyard.toml", configured(toolyard.folder, "kitchen", "garden"))
    return toolyard


def configured(folder: Path, *servers: str, more: str = "") -> str:
    entries = [f'[servers.{name}]\nmodule = "{folder / name}.py:server"' for name in servers]
    return "\n".join(['[gateway]\nview = "all"', *entries, more])


# list


def test_list_shows_the_tools_of_all_servers_under_full_names(yard: Toolyard):
    outcome = yard("list", "--config", "toolyard.toml")
    assert outcome.status == 0
    assert "mcp__kitchen__boil" in outcome.out
    assert "mcp__garden__water" in outcome.out
    assert "mcp__kitchen__recipe" in outcome.out
    assert outcome.err == ""


def test_a_configuration_in_the_current_folder_is_found(yard: Toolyard):
    assert "mcp__garden__water" in yard("list").out


def test_a_configuration_of_the_user_is_found(toolyard: Toolyard):
    toolyard.write("garden.py", GARDEN)
    home = toolyard.folder / "config" / "toolyard"
    home.mkdir(parents=True)
    (home / "toolyard.toml").write_text(configured(toolyard.folder, "garden"))
    assert "mcp__garden__water" in toolyard("list", XDG_CONFIG_HOME=str(home.parent)).out


def test_a_configuration_in_json_is_read_and_so_is_a_file_of_others(yard: Toolyard):
    server = {"command": "python", "args": ["-c", "raise SystemExit('not today')"], "connect_timeout": 5}
    yard.write("toolyard.json", json.dumps({"servers": {"garden": {"module": f"{yard.folder}/garden.py"}}}))
    assert "mcp__garden__water" in yard("list", "--config", "toolyard.json").out
    yard.write("mcp.json", json.dumps({"mcpServers": {"broken": server}}))
    outcome = yard("list", "--config", "mcp.json")
    assert "not today" in outcome.out


def test_a_server_that_is_missing_is_named_with_the_reason_and_the_others_are_listed(yard: Toolyard):
    dead = '[servers.dead]\nurl = "http://127.0.0.1:9/mcp"\nconnect_timeout = 2'
    unset = '[servers.unset]\nurl = "${NO_SUCH_VARIABLE_HERE}"'
    yard.write("toolyard.toml", configured(yard.folder, "garden", more=f"{dead}\n{unset}"))
    outcome = yard("list")
    assert outcome.status == 3
    assert "mcp__garden__water" in outcome.out
    lines = outcome.out.splitlines()
    assert any(line.startswith("dead: down: ") for line in lines)
    assert any(line.startswith("unset: not usable: ") and "NO_SUCH_VARIABLE_HERE" in line for line in lines)
    listed = json.loads(yard("list", "--json").out)
    assert set(listed["missing"]) == {"dead", "unset"}


def test_denied_and_renamed_tools_are_listed_as_configured(yard: Toolyard):
    more = 'deny = ["burn"]\nrename = { boil = "cook" }'
    yard.write("toolyard.toml", configured(yard.folder, "kitchen", more=more))
    names = [tool["name"] for tool in json.loads(yard("list", "--json").out)["tools"]]
    assert names == ["mcp__kitchen__cook"]


# call


def test_call_calls_a_tool_of_a_configured_server(yard: Toolyard):
    outcome = yard("call", "mcp__kitchen__boil", "minutes=7", "--config", "toolyard.toml")
    assert (outcome.status, outcome.out) == (0, "boiled for 7\n")
    assert yard("call", "mcp__garden__water").out == "watered\n"


def test_a_call_of_an_unknown_tool_says_what_there_is(yard: Toolyard):
    outcome = yard("call", "mcp__kitchen__boyl")
    assert outcome.status == 2
    assert outcome.err.startswith("error: no tool 'mcp__kitchen__boyl'")
    assert "hint: did you mean 'mcp__kitchen__boil'" in outcome.err


def test_a_call_at_a_gateway_names_the_server_that_is_not_there(yard: Toolyard):
    down = '[servers.broken]\ncommand = "false"'
    text = configured(yard.folder, "kitchen", more=down).replace('view = "all"', 'view = "search"')
    yard.write("toolyard.toml", text)
    with yard.serving() as served:
        outcome = yard("call", "mcp__broken__mend", "--url", served.url)
        near = yard("call", "mcp__kitchen__boyl", "--url", served.url)
    assert outcome.status == 2
    assert outcome.err.startswith("error: no tool 'mcp__broken__mend'\nhint: Server 'broken'")
    assert "mcp__kitchen__boil" in near.err


# What is wrong with a configuration


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[servers.a", "toolyard.toml"),
        ("[servers.a]\nurll = 'http://localhost'", "urll"),
        ("[gateway]\nvew = 'all'", "vew"),
        ("[gateway]\npage_size = 'many'", "page_size"),
        ("[gateway]\nview = 'bare'\nserver = 'nobody'", "nobody"),
    ],
    ids=["syntax", "server-key", "gateway-key", "type", "bare"],
)
@pytest.mark.parametrize("command", [["list"], ["serve", "--port", "0"], ["stdio"], ["call", "x"]])
def test_a_wrong_configuration_is_an_error_with_its_place_before_anything_starts(
    toolyard: Toolyard, command: list[str], text: str, said: str
):
    toolyard.write("toolyard.toml", text)
    outcome = toolyard(*command)
    assert outcome.status == 2
    assert outcome.out == ""
    first, *rest = outcome.err.splitlines()
    assert first.startswith("error: ")
    assert said in outcome.err
    assert all(line.startswith("hint: ") for line in rest)


def test_a_configuration_that_is_not_there_is_an_error(toolyard: Toolyard):
    outcome = toolyard("list", "--config", "nowhere.toml")
    assert outcome.status == 2
    assert outcome.err.startswith("error: ")
    assert "nowhere.toml" in outcome.err


def test_a_target_and_a_configuration_at_once_are_an_error(yard: Toolyard):
    outcome = yard("serve", "kitchen.py", "--config", "toolyard.toml")
    assert outcome.status == 2
    assert outcome.err.splitlines()[0] == "error: a target and --config at once"


# stdio


def exchange(process: subprocess.Popen[str], method: str, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_stdio_serves_all_servers_until_the_input_ends(yard: Toolyard):
    process = yard.start("stdio", "--config", "toolyard.toml")
    called = exchange(process, "tools/call", name="mcp__kitchen__boil", arguments={})
    assert called["result"]["content"][0]["text"] == "boiled for 3"
    listed = exchange(process, "tools/list")["result"]["tools"]
    assert {tool["name"] for tool in listed} == {
        "mcp__kitchen__boil",
        "mcp__kitchen__burn",
        "mcp__garden__water",
    }
    rest, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_stdio_serves_one_server_under_its_own_names(yard: Toolyard):
    process = yard.start("stdio", "--server", "garden")
    assert [tool["name"] for tool in exchange(process, "tools/list")["result"]["tools"]] == ["water"]
    called = exchange(process, "tools/call", name="water", arguments={})
    assert called["result"]["content"][0]["text"] == "watered"
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_stdio_of_an_unknown_server_says_which_there_are(yard: Toolyard):
    outcome = yard("stdio", "--server", "cellar")
    assert outcome.status == 2
    assert "cellar" in outcome.err.splitlines()[0]
    assert "hint: it has kitchen, garden" in outcome.err


# serve


def get(served: Served, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", int(served.port), timeout=PATIENCE)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def health(served: Served) -> Any:
    return json.loads(get(served, "/health")[1])


def until(check: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # it is another process


def test_serve_serves_all_and_each_with_health_and_metrics(yard: Toolyard):
    with yard.serving("--config", "toolyard.toml") as served:
        assert "2 servers" in served.welcome
        assert "kitchen, garden" in served.welcome
        names = yard("list", "--url", served.url).out
        assert "mcp__kitchen__boil" in names
        assert yard("call", "water", "--url", f"{served.url}/garden").out == "watered\n"
        assert set(health(served)["servers"]) == {"kitchen", "garden"}
        status, page = get(served, "/metrics")
        assert status == 200
        assert b"garden" in page
        outcome = served.stop(signal.SIGTERM)
    assert (outcome.status, outcome.err) == (0, "")


def test_serve_finds_the_configuration_here_and_says_what_is_left_out(yard: Toolyard):
    unset = '[servers.unset]\nurl = "${NO_SUCH_VARIABLE_HERE}"'
    yard.write("toolyard.toml", configured(yard.folder, "garden", more=unset))
    with yard.serving() as served:
        assert "skipped: unset" in served.welcome
        assert "NO_SUCH_VARIABLE_HERE" in served.welcome


def test_saved_lists_of_somebody_else_count_for_nothing(yard: Toolyard):
    """As root leaves them in a user's folder, who then served nothing and was told nothing."""
    lists = yard.state / "toolyard" / "catalogue"
    lists.mkdir(parents=True)
    lists.chmod(0)
    yard.before = obey_modes
    listed = yard("list")
    assert (listed.status, "mcp__kitchen__boil" in listed.out) == (0, True)
    with yard.serving() as served:
        until(lambda: health(served)["tools"] == 3)
        outcome = served.stop(signal.SIGTERM)
    assert outcome.status == 0
    assert outcome.err.count(f"the mode of {str(lists)!r} is 0000; hint: chmod u+rwX") == 1


def test_metrics_can_be_switched_off(yard: Toolyard):
    yard.write("toolyard.toml", configured(yard.folder, "garden", more="[telemetry]\nmetrics = false"))
    with yard.serving() as served:
        assert get(served, "/metrics")[0] == 404


def test_a_changed_file_is_taken_over_while_it_serves(yard: Toolyard):
    with yard.serving() as served:
        yard.write("toolyard.toml", configured(yard.folder, "garden"))
        until(lambda: set(health(served)["servers"]) == {"garden"})
        yard.write("toolyard.toml", "[servers.garden")
        until(lambda: "toolyard.toml" in health(served).get("config", ""))
        assert yard("call", "mcp__garden__water", "--url", served.url).out == "watered\n"


def test_a_hangup_has_the_file_read_and_ends_nothing(yard: Toolyard):
    variable = '[servers.cellar]\nmodule = "${CELLAR}"'
    yard.write("toolyard.toml", configured(yard.folder, "garden", more=variable))
    with yard.serving(CELLAR=f"{yard.folder}/kitchen.py:server") as served:
        assert set(health(served)["servers"]) == {"garden", "cellar"}
        yard.write("toolyard.toml", configured(yard.folder, "garden"))
        served.process.send_signal(signal.SIGHUP)
        until(lambda: set(health(served)["servers"]) == {"garden"})
        served.process.send_signal(signal.SIGHUP)
        assert yard("call", "mcp__garden__water", "--url", served.url).out == "watered\n"
        assert served.stop(signal.SIGTERM).status == 0


def test_a_tool_that_the_gateway_does_not_list_is_called_by_its_full_name(yard: Toolyard):
    shown = configured(yard.folder, "kitchen").replace('view = "all"', 'view = "search"')
    yard.write("toolyard.toml", shown)
    with yard.serving() as served:
        listed = yard("list", "--url", served.url).out
        assert "search_tools" in listed
        assert "mcp__kitchen__boil" not in listed
        boiled = yard("call", "mcp__kitchen__boil", "minutes=5", "--url", served.url)
        assert (boiled.status, boiled.out) == (0, "boiled for 5\n")
        unknown = yard("call", "mcp__kitchen__bake", "--url", served.url)
        assert unknown.status == 2
