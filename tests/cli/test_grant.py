"""Grants on the command line, and a gateway that is served to their holders."""

import json
import re
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.running import Served, Toolyard
from toolyard.callers.grant_token import PATTERN

FILE = """
[gateway]
view = "all"

[auth]
keys = true
required = true
grant_ttl = 7200

[access]
agents = ["planner", "deploy"]
default = "allow"

[servers.demo]
module = "demo"
"""


@pytest.fixture
def yard(toolyard: Toolyard) -> Toolyard:
    toolyard.write("toolyard.toml", FILE)
    outcome = toolyard("keys", "create", "laptop", "--agent", "planner", "--user", "ana")
    assert outcome.status == 0, outcome.err
    return toolyard


def made(toolyard: Toolyard, *arguments: str) -> str:
    outcome = toolyard("grant", *arguments)
    assert outcome.status == 0, outcome.err
    return outcome.out.strip()


def rows(toolyard: Toolyard) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(toolyard("grant", "list", "--json").out)}


def ping(served: Served, token: str, path: str = "/mcp") -> int:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    url = served.url.removesuffix("/mcp") + path
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(url, body, headers)) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_a_grant_is_shown_once_alone_on_standard_output(yard: Toolyard):
    outcome = yard("grant", "helper", "--from", "laptop", "--allow", "demo", "--ttl", "1h", "--calls", "5")
    assert outcome.status == 0
    assert re.fullmatch(PATTERN + "\n", outcome.out)
    assert "hint: this is shown once; it is the grant " in outcome.err
    assert "/agents/helper/mcp" in outcome.err
    listed = yard("grant", "list")
    assert re.search(r"^helper +\w{16} +planner +demo +- +0 of 5 +20\d\d-.* +valid +-$", listed.out, re.M)
    assert outcome.out.strip() not in listed.out


def test_all_of_it_comes_as_json_too(yard: Toolyard):
    created = json.loads(yard("grant", "helper", "--from", "laptop", "--deny", "demo/add", "--json").out)
    assert re.fullmatch(PATTERN, created.pop("token"))
    assert created.pop("path") == "/agents/helper/mcp"
    row = rows(yard)["helper"]
    assert (row.pop("used"), row.pop("state")) == (0, "valid")
    assert created == row
    assert (row["user"], row["deny"], row["allow"]) == ("ana", ["demo/add"], None)


def test_a_gateway_serves_the_holder_until_the_grant_is_revoked(yard: Toolyard):
    token = made(yard, "helper", "--from", "laptop")
    narrowed = made(yard, "narrow", token, "--name", "third", "--calls", "2")
    with yard.serving() as served:
        assert ping(served, token) == 200
        assert ping(served, token, "/agents/helper/mcp") == 200
        assert ping(served, token, "/agents/third/mcp") == 401
        assert ping(served, narrowed, "/agents/third/mcp") == 200
        assert "mcp__demo__echo" in yard("list", "--url", served.url, "--key", token).out
        revoked = yard("grant", "revoke", str(rows(yard)["helper"]["id"]))
        assert revoked.out.startswith("Revoked the grant 'helper' (")
    assert rows(yard)["helper"]["state"] == "revoked"
    with yard.serving() as served:
        assert ping(served, token) == 401
        assert ping(served, narrowed) == 401


def test_a_grant_ends_with_its_key(yard: Toolyard):
    token = made(yard, "helper", "--from", "laptop")
    assert yard("keys", "revoke", "laptop").status == 0
    assert rows(yard)["helper"]["state"] == "its key ended"
    with yard.serving() as served:
        assert ping(served, token) == 401
    refused = yard("grant", "other", "--from", "laptop")
    assert refused.status == 2
    assert "revoked" in refused.err


def test_what_a_grant_says_can_be_read_without_a_gateway(yard: Toolyard):
    token = made(yard, "helper", "--from", "laptop", "--allow", "demo/*:read", "--note", "for the report")
    narrowed = yard("grant", "narrow", "-", "--deny", "demo/add", "--name", "third", stdin=f"{token}\n").out
    yard.write("toolyard.toml", "broken =")
    shown = yard("grant", "show", narrowed.strip())
    assert shown.status == 0
    assert re.match(r"third, grant \w{16}, until 20\d\d-.*\nmade by: API key \w{12}\n", shown.out)
    assert "demo/*:read" in shown.out
    assert "for the report" in shown.out
    data = json.loads(yard("grant", "show", "-", "--json", stdin=narrowed).out)
    assert [block.get("deny") for block in data["blocks"]] == [None, ["demo/add"]]
    assert narrowed.strip() not in json.dumps(data)


def test_a_grant_is_made_from_a_grant(yard: Toolyard):
    token = made(yard, "helper", "--from", "laptop", "--calls", "3")
    further = made(yard, "third", "--from", token)
    assert rows(yard)["third"]["made_by"] == {
        "kind": "key",
        "credential": rows(yard)["helper"]["made_by"]["credential"],  # type: ignore[index]
        "agents": ["planner", "helper"],
    }
    assert yard("grant", "revoke", "-", stdin=token).status == 0
    assert rows(yard)["third"]["state"] == "revoked above"
    assert "revoked" in yard("grant", "fourth", "--from", further).err


def test_a_grant_that_ends_earlier_than_asked_says_so(yard: Toolyard):
    outcome = yard("grant", "helper", "--from", "laptop", "--ttl", "1d")
    assert "warning: the grant ends earlier than you asked" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["helper"], "callers known by 'local' are not accepted"),
        (["helper", "--from", "nobody"], "no key 'nobody'"),
        (["helper", "--from", "tyg_x"], "--from: invalid grant: form"),
        (["helper", "--from", "laptop", "--allow", "demo/"], "'demo/' ends with '/'"),
        (["helper", "--from", "laptop", "--ttl", "soon"], "'soon' is no time"),
        (["helper", "--from", "laptop", "--calls", "0"], "--calls"),
        (["a/b", "--from", "laptop"], "use letters, digits"),
        (["Deploy", "--from", "laptop"], "looks like 'deploy'"),
        (["revoke", "helper"], "is no id of a grant"),
        (["narrow", "tyg_x"], "invalid grant: form"),
        (["show", "tyg_" + "A" * 60], "invalid grant: checksum"),
    ],
)
def test_what_cannot_be_is_said(yard: Toolyard, arguments: list[str], said: str):
    outcome = yard("grant", *arguments)
    assert outcome.status == 2
    assert outcome.err.startswith("error: ")
    assert said in outcome.err
    assert outcome.out == ""


def test_without_a_way_to_know_callers_nobody_needs_a_grant(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    outcome = toolyard("grant", "helper")
    assert outcome.status == 0
    assert "does not ask callers who they are" in outcome.err
    assert toolyard("grant", "list").out.count("helper") == 1


def test_the_holder_of_a_grant_may_start_the_gateway_on_stdio(yard: Toolyard):
    token = made(yard, "helper", "--from", "laptop")
    assert yard("stdio", TOOLYARD_API_KEY=token).status == 0
    wrong = yard("stdio", TOOLYARD_API_KEY=token[:-1] + ("A" if token[-1] != "A" else "B"))
    assert (wrong.status, "invalid grant: checksum" in wrong.err) == (2, True)
    yard("grant", "revoke", token)
    assert "the grant in TOOLYARD_API_KEY is not valid" in yard("stdio", TOOLYARD_API_KEY=token).err


def test_calls_of_a_grant_are_counted_on_stdio(yard: Toolyard):
    token = made(yard, "helper", "--from", "laptop", "--calls", "1", "--allow", "demo/echo")
    call = {"method": "tools/call", "params": {"name": "mcp__demo__echo", "arguments": {"text": "hi"}}}
    started = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    process = yard.start("stdio", TOOLYARD_API_KEY=token)
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(id: int, message: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, **message}) + "\n")
        process.stdin.flush()
        while True:
            answer = json.loads(process.stdout.readline())
            if answer.get("id") == id:
                return answer

    try:
        assert "result" in ask(1, {"method": "initialize", "params": started})
        listed = ask(2, {"method": "tools/list"})["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["mcp__demo__echo"]
        assert ask(3, call)["result"]["content"][0]["text"] == "hi"
        refused = ask(4, call)["error"]
        assert (refused["code"], "has used its one call" in refused["message"]) == (-32030, True)
    finally:
        process.kill()
        process.communicate()
