"""`toolyard check`: what is wrong with a configuration and with its servers."""

import json

import pytest

from tests.cli.running import Toolyard

BELL = """
from toolyard.kit import Server

server = Server("bell")

@server.tool
def ring() -> str:
    return "ding"
"""
DEMO = '[servers.demo]\nmodule = "demo"\n'


def test_a_good_file_is_ok(toolyard: Toolyard):
    toolyard.write("toolyard.toml", DEMO)
    outcome = toolyard("check")
    assert (outcome.status, outcome.out, outcome.err) == (0, "toolyard.toml: ok, 1 server\n", "")


def test_every_mistake_is_a_row_with_what_to_do(toolyard: Toolyard):
    toolyard.write(
        "toolyard.toml", f'{DEMO}timeot = 1\n[gateway]\nprot = 1\n[servers.a]\ncommand = "none-such"\n'
    )
    outcome = toolyard("check")
    assert outcome.status == 1
    headline, _, headings, *rows = outcome.out.splitlines()
    assert headline == "toolyard.toml: not usable, 3 errors"
    assert headings.endswith("what to do")
    assert len(rows) == 3
    assert "[gateway]" in rows[0]
    assert "did you mean 'port'?" in rows[0]
    assert "did you mean 'timeout'?" in rows[1]
    assert "not on PATH" in rows[2]


def test_a_variable_that_is_not_set_fails_the_check(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[servers.a]\nurl = "https://example.com/${PLACE}"\n')
    assert toolyard("check").status == 1
    assert toolyard("check", PLACE="mcp").status == 0


def test_without_a_file_there_is_nothing_to_check(toolyard: Toolyard):
    outcome = toolyard("check")
    assert outcome.status == 2
    assert "error: no configuration" in outcome.err


def test_json_has_everything(toolyard: Toolyard):
    toolyard.write("toolyard.toml", "[gateway]\nprot = 1\n")
    outcome = toolyard("check", "--json")
    found = json.loads(outcome.out)
    assert (outcome.status, found["ok"]) == (1, False)
    (finding,) = found["findings"]
    assert finding == {
        "level": "error",
        "place": "toolyard.toml: [gateway]",
        "problem": "has an unknown key 'prot'",
        "hint": "did you mean 'port'?",
    }
    assert [path.endswith("toolyard.toml") for path in found["files"]] == [True]


# Tables together


def test_logins_behind_a_proxy_that_is_not_named_are_warned_of(toolyard: Toolyard):
    public = f'{DEMO}[auth.server]\n[gateway]\npublic_url = "https://yard.example"\n'
    toolyard.write("toolyard.toml", public)
    outcome = toolyard("check")
    assert outcome.status == 0
    assert "no 'proxies': wrong passwords of all clients are counted together" in outcome.out
    toolyard.write("toolyard.toml", f'{public}proxies = ["127.0.0.1", "10.0.0.0/8"]\n')
    assert "proxies" not in toolyard("check").out


def test_a_gateway_that_strangers_reach_has_to_know_its_callers(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f'{DEMO}[gateway]\nhost = "0.0.0.0"\n')
    outcome = toolyard("check")
    assert outcome.status == 1
    assert "no way to know who calls" in outcome.out
    toolyard.write("toolyard.toml", f'{DEMO}[gateway]\nhost = "0.0.0.0"\n[auth]\nkeys = true\n')
    assert toolyard("check").status == 0


def test_a_rule_that_cannot_be_read_is_an_error(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f'{DEMO}[access]\nrules = [{{ allow = ["demo/*"], when = "args.(" }}]\n')
    outcome = toolyard("check")
    assert outcome.status == 1
    assert "[access]" in outcome.out


def test_a_limit_that_cannot_be_read_is_an_error(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f'{DEMO}[limits]\nrules = [{{ who = ["grup:x"], calls_a_day = 1 }}]\n')
    outcome = toolyard("check")
    assert outcome.status == 1
    assert "[limits]" in outcome.out


def test_a_pattern_of_an_unknown_server_is_a_warning(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f'{DEMO}[access]\nrules = [{{ allow = ["dmo/*"] }}]\n')
    outcome = toolyard("check")
    assert outcome.status == 0
    assert "warning  toolyard.toml: [access] rule 1  allow 'dmo/*' matches nothing" in outcome.out
    assert "did you mean 'demo'?" in outcome.out


@pytest.mark.parametrize(
    ("module", "problem", "hint"),
    [
        ("dics.py", "no file '{}/dics.py'", "did you mean 'dics_.py'?"),
        ("slq", "no module 'slq'", "did you mean 'sql'?"),
        ("toolyard.servers.nothing", "no module 'toolyard.servers.nothing'", "modules are searched"),
        ("nothing.at.all:server", "no module 'nothing.at.all'", "modules are searched"),
    ],
)
def test_a_module_that_does_not_exist_is_an_error(toolyard: Toolyard, module: str, problem: str, hint: str):
    toolyard.write("dics_.py", "raise SystemExit('run')")
    toolyard.write("toolyard.toml", f'{DEMO}[servers.a]\nmodule = "{module}"\n')
    outcome = toolyard("check", "--json")
    assert outcome.status == 1
    (found,) = json.loads(outcome.out)["findings"]
    assert (found["place"], found["problem"]) == (
        "toolyard.toml: [servers.a]",
        problem.format(toolyard.folder),
    )
    assert hint in found["hint"]


@pytest.mark.parametrize("module", ["dice.py", "dice:server", "package.dice", "sql", "toolyard.servers.sql"])
def test_a_module_that_exists_is_not_run(toolyard: Toolyard, module: str):
    toolyard.write("dice.py", "raise SystemExit('run')")
    (toolyard.folder / "package").mkdir()
    toolyard.write("package/dice.py", "raise SystemExit('run')")
    toolyard.write("toolyard.toml", f'[servers.a]\nmodule = "{module}"\n')
    outcome = toolyard("check")
    assert (outcome.status, outcome.out) == (0, "toolyard.toml: ok, 1 server\n")


# Servers


def test_connect_tries_every_server(toolyard: Toolyard):
    toolyard.write(
        "toolyard.toml",
        f'{DEMO}[servers.gone]\ncommand = "false"\n'
        '[servers.away]\nurl = "http://127.0.0.1:9/mcp?key=hush"\n'
        '[servers.off]\nmodule = "demo"\nenabled = false\n',
    )
    outcome = toolyard("check", "--connect", "--json")
    assert outcome.status == 1
    assert "hush" not in outcome.out + outcome.err
    servers = {one["name"]: one for one in json.loads(outcome.out)["servers"]}
    assert {name: one["state"] for name, one in servers.items()} == {
        "demo": "ready",
        "gone": "down",
        "away": "down",
        "off": "disabled",
    }
    assert servers["demo"]["tools"] > 0
    assert servers["demo"]["seconds"] > 0
    assert "exited with code 1" in servers["gone"]["problem"]
    assert "127.0.0.1" in servers["away"]["hint"]


def test_connect_succeeds_if_every_server_is_ready_and_knows_tools_for_the_rules(toolyard: Toolyard):
    toolyard.write("bell.py", BELL)
    rules = '[access]\nrules = [{ allow = ["bell/rign", "demo/ech"], deny = ["bell/rigns"] }]\n'
    toolyard.write("toolyard.toml", f'{DEMO}[servers.bell]\nmodule = "bell.py"\n{rules}')
    alone = toolyard("check")
    assert "allow 'demo/ech' matches nothing" in alone.out, "what is bundled is known without being started"
    assert "bell" not in alone.out, "its tools are not known yet"
    assert alone.err == "hint: no rule was held against the unknown tools of bell; --connect reads them\n"
    outcome = toolyard("check", "--connect")
    assert outcome.status == 0
    assert "allow 'bell/rign' matches nothing" in outcome.out
    assert "did you mean 'ring'?" in outcome.out
    assert outcome.out.splitlines()[-1].split()[:2] == ["bell", "ready"]
    assert toolyard("check").out.splitlines()[1:5] == outcome.out.splitlines()[1:5], "it is remembered"


def test_a_server_that_hangs_does_not_hold_up_the_check_for_longer_than_the_timeout(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[servers.slow]\ncommand = "sleep"\nargs = ["600"]\n')
    outcome = toolyard("check", "--connect", "--timeout", "0.5")
    assert outcome.status == 1
    assert "no answer in time" in outcome.out
