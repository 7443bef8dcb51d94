"""API keys on the command line, and a gateway that is served with them."""

import json
import re
import signal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.running import Served, Toolyard
from tests.serving import meta
from toolyard.callers.keys import PATTERN

FILE = """
[gateway]
view = "all"

[auth]
keys = true
required = true

[servers.demo]
module = "demo"
"""


@pytest.fixture
def yard(toolyard: Toolyard) -> Toolyard:
    toolyard.write("toolyard.toml", FILE)
    return toolyard


def made(toolyard: Toolyard, *arguments: str) -> str:
    outcome = toolyard("keys", "create", *arguments)
    assert outcome.status == 0, outcome.err
    return outcome.out.strip()


def rows(toolyard: Toolyard) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(toolyard("keys", "list", "--json").out)}


def ping(served: Served, **headers: str) -> int:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    request = Request(served.url, body, {"Content-Type": "application/json", **headers})
    try:
        with urlopen(request) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_a_key_is_shown_once_alone_on_standard_output(yard: Toolyard):
    outcome = yard("keys", "create", "anna", "--agent", "coder", "--group", "dev", "--expires", "90d")
    assert re.fullmatch(PATTERN + "\n", outcome.out)
    assert "hint: this is shown once; it is the key 'anna'" in outcome.err
    assert "claude mcp add --transport http" in outcome.err
    listed = yard("keys", "list")
    assert re.search(r"^anna +\w{12} +coder +anna +local +dev +- +never +20\d\d-.* +valid$", listed.out, re.M)
    secret = outcome.out.strip().split("_")[2]
    assert secret not in listed.out
    assert secret not in yard("keys", "list", "--json").out


def test_all_of_it_comes_as_json_too(yard: Toolyard):
    created = json.loads(
        yard("keys", "create", "bot", "--user", "anna", "--tenant", "acme", "--scope", "read", "--json").out
    )
    assert re.fullmatch(PATTERN, created.pop("key"))
    assert created == rows(yard)["bot"]
    assert (created["user"], created["tenant"], created["scopes"]) == ("anna", "acme", ["read"])
    assert (created["expires"], created["last_used"], created["state"]) == (None, None, "valid")


def test_a_gateway_serves_who_has_a_key_until_it_is_revoked(yard: Toolyard):
    key = made(yard, "anna")
    with yard.serving() as served:
        assert ping(served) == 401
        assert ping(served, Authorization=f"Bearer {key}") == 200
        assert "'Authorization: Bearer ty_…'" in served.welcome
        listed = yard("list", "--url", served.url, "--key", key)
        assert "mcp__demo__echo" in listed.out
        called = yard("call", "mcp__demo__echo", "text=hi", "--url", served.url, TOOLYARD_API_KEY=key)
        assert called.out == "hi\n"
        unknown = yard("list", "--url", served.url)
        assert unknown.status == 2
        assert "--key KEY" in unknown.err
        assert rows(yard)["anna"]["last_used"] is not None
        assert yard("keys", "revoke", "anna").out.startswith("Revoked the key 'anna' (")
        assert rows(yard)["anna"]["state"] == "revoked"


def test_a_typo_is_found_before_anything_is_sent(yard: Toolyard):
    key = made(yard, "anna")
    wrong = key[:-10] + ("a" if key[-10] != "a" else "b") + key[-9:]
    outcome = yard("list", "--url", "http://127.0.0.1:9/mcp", "--key", wrong)
    assert outcome.status == 2
    assert outcome.err.startswith("error: invalid key: checksum\n")
    assert wrong not in outcome.err


def test_a_rotated_key_works_beside_the_old_one(yard: Toolyard):
    old = made(yard, "anna")
    rotated = yard("keys", "rotate", "anna", "--overlap", "1h")
    new = rotated.out.strip()
    assert new != old
    assert "the old key ends in 1 h" in rotated.err
    last = yard("keys", "rotate", "anna", "--overlap", "0").out.strip()
    with yard.serving() as served:
        statuses = [ping(served, Authorization=f"Bearer {key}") for key in (old, new, last)]
    assert statuses == [401, 401, 200]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["create", "anna"], "a key 'anna' exists"),
        (["create", "Anna"], "only by case, by Unicode form or by look"),
        (["create", "ben", "--agent", "C0der"], "only by case, by Unicode form or by look"),
        (["create", "a b"], "use letters, digits"),
        (["create", "ben", "--expires", "soon"], "is no time"),
        (["create", "ben", "--expires", "0"], "would end the key at once"),
        (["create", "ben", "--scope", "a b"], "is not a scope"),
        (["revoke", "zoe"], "no key 'zoe'"),
        (["rotate", "zoe"], "no key 'zoe'"),
    ],
)
def test_mistakes_are_told(yard: Toolyard, arguments: list[str], error: str):
    made(yard, "anna", "--agent", "coder")
    outcome = yard("keys", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert error in outcome.err


def test_a_key_for_an_unknown_agent_is_refused(toolyard: Toolyard):
    toolyard.write("toolyard.toml", FILE + '[access]\nagents = ["coder", "writer"]\n')
    outcome = toolyard("keys", "create", "anna", "--agent", "codar")
    assert "no agent 'codar' in [access]" in outcome.err
    assert "did you mean 'coder'?" in outcome.err


def test_without_the_setting_a_key_is_made_with_a_warning(toolyard: Toolyard):
    toolyard.write("toolyard.toml", "")
    outcome = toolyard("keys", "create", "anna")
    assert outcome.status == 0
    assert "warning: the gateway does not accept keys yet" in outcome.err


def test_without_a_configuration_there_is_no_gateway_to_make_keys_for(toolyard: Toolyard):
    assert "error: no configuration" in toolyard("keys", "list").err


def test_another_key_of_the_gateway_ends_all_keys_and_the_list_says_so(yard: Toolyard):
    made(yard, "anna")
    listed = yard("keys", "list", TOOLYARD_KEY="another key of the gateway")
    assert "made with another TOOLYARD_KEY" in listed.out


# Beyond loopback

EVERYWHERE = ("--host", "0.0.0.0", "--port", "0", "--allow-host", "yard.example")


def test_strangers_are_not_served_without_a_way_to_know_them(toolyard: Toolyard):
    for config in (None, '[servers.demo]\nmodule = "demo"\n'):
        if config is not None:
            toolyard.write("toolyard.toml", config)
        outcome = toolyard("serve", *EVERYWHERE)
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err.startswith("error: other machines reach 0.0.0.0, and there is no way to know who")
        assert "--open serves everybody" in outcome.err
    assert "keys = true" in outcome.err


def test_open_says_that_it_is_meant(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    with toolyard.serving(*EVERYWHERE, "--open") as served:
        assert ping(served) == 200
        outcome = served.stop(signal.SIGTERM)
    assert "warning: --open: whoever can reach this address" in outcome.err


def test_with_keys_any_address_is_served_without_a_warning(yard: Toolyard):
    with yard.serving(*EVERYWHERE) as served:
        assert ping(served) == 401
        outcome = served.stop(signal.SIGTERM)
    assert outcome.err == ""


def test_a_public_address_in_front_of_a_gateway_that_asks_nobody_is_warned_of(toolyard: Toolyard):
    public = '[gateway]\npublic_url = "https://tools.example.com"\n[servers.demo]\nmodule = "demo"\n'
    toolyard.write("toolyard.toml", public)
    process = toolyard.start("serve", "--port", "0")
    outcome = Served(process).stop(signal.SIGTERM)
    assert "warning: whoever can reach https://tools.example.com can call these tools" in outcome.err


# Standard input and output

HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}) + "\n"


def test_on_stdio_the_key_is_in_the_environment(yard: Toolyard):
    key = made(yard, "anna")
    served = yard("stdio", stdin=HELLO, TOOLYARD_API_KEY=key)
    assert '"mcp__demo__echo"' in served.out
    nobody = yard("stdio", stdin=HELLO)
    assert (nobody.status, nobody.out) == (2, "")
    assert "set TOOLYARD_API_KEY" in nobody.err
    typo = yard("stdio", stdin=HELLO, TOOLYARD_API_KEY=key[:-1])
    assert "TOOLYARD_API_KEY: invalid key" in typo.err
    yard("keys", "revoke", "anna")
    revoked = yard("stdio", stdin=HELLO, TOOLYARD_API_KEY=key)
    assert "the key in TOOLYARD_API_KEY is not valid" in revoked.err
    assert key not in revoked.err


def test_on_stdio_a_revoked_key_ends_while_it_is_used(yard: Toolyard):
    key = made(yard, "anna")
    process = yard.start("stdio", TOOLYARD_API_KEY=key)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert "result" in json.loads(process.stdout.readline())
        yard("keys", "revoke", "anna")
        answer = {"result": {}}
        while "result" in answer:  # within seconds
            process.stdin.write(HELLO)
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        assert answer["error"]["message"] == "TOOLYARD_API_KEY: The key or token is not valid"
    finally:
        process.kill()
        process.communicate()


def test_on_stdio_a_key_for_elsewhere_does_not_matter(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[gateway]\nview = "all"\n[servers.demo]\nmodule = "demo"\n')
    assert '"mcp__demo__echo"' in toolyard("stdio", stdin=HELLO, TOOLYARD_API_KEY="ty_x").out
