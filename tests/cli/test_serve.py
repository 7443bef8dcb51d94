"""`toolyard serve`."""

import http.client
import json
import re
import signal
import stat
from typing import Any

import pytest

from tests.cli.running import Served, Toolyard
from tests.waiting import PATIENCE

WITH_KEYS = """
from toolyard.kit import CallerKeys, Server

server = Server("shop", caller_keys=CallerKeys(("x-shop-key",)))

@server.tool
def ping() -> str:
    return "pong"
"""

WITHOUT_ECHO = """
from toolyard.kit import Server

server = Server("My server!")

@server.tool
def ping() -> str:
    return "pong"
"""


def post(served: Served, method: str, params: dict[str, Any], **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", int(served.port), timeout=PATIENCE)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", body, sent | {key.replace("_", "-"): v for key, v in headers.items()})
    return connection.getresponse()


def test_it_prints_the_address_and_what_to_paste_where(demo: Served):
    assert f"\n  {demo.url}\n" in demo.welcome
    assert f"  claude mcp add --transport http toolyard {demo.url}\n" in demo.welcome
    snippets = [json.loads(line) for line in demo.welcome.splitlines() if line.startswith("  {")]
    assert snippets[0] == {"mcpServers": {"toolyard": {"url": demo.url}}}
    assert snippets[1]["mcpServers"]["toolyard"]["args"][-1] == "stdio"


def test_the_line_to_try_in_another_terminal_works(toolyard: Toolyard, demo: Served):
    line = next(line for line in demo.welcome.splitlines() if line.startswith("  toolyard call "))
    assert toolyard(*line.split()[1:]).out == "hello\n"


def test_another_server_is_pasted_under_its_own_name_and_whole_path(toolyard: Toolyard):
    path = toolyard.write("own.py", WITHOUT_ECHO)
    with toolyard.serving("own.py", "--path", "/elsewhere") as served:
        assert served.url.endswith("/elsewhere")
        assert f"claude mcp add --transport http My-server {served.url}\n" in served.welcome
        assert f'"{path}:server"' in served.welcome
        assert f"  toolyard list --url {served.url}\n" in served.welcome
        assert toolyard("call", "ping", "--url", served.url).out == "pong\n"


def test_what_to_paste_has_the_header_that_callers_must_bring(toolyard: Toolyard):
    toolyard.write("shop.py", WITH_KEYS)
    with toolyard.serving("shop.py") as served:
        header = "--header 'x-shop-key: …'"
        assert f"  claude mcp add --transport http shop {served.url} {header}\n" in served.welcome
        assert '"headers": {"x-shop-key": "…"}' in served.welcome
        assert f"  toolyard list --url {served.url} {header}\n" in served.welcome
        assert toolyard("list", "--url", served.url).status != 0
        assert "ping" in toolyard("list", "--url", served.url, "--header", "x-shop-key: 12345678").out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_it_quietly_with_status_0(toolyard: Toolyard, number: int):
    with toolyard.serving() as served:
        outcome = served.stop(number)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_a_port_in_use_is_told_with_a_way_out(toolyard: Toolyard, demo: Served):
    outcome = toolyard("serve", "--port", demo.port)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines() == [
        f"error: port {demo.port} of 127.0.0.1 is in use",
        "hint: --port 0 takes a free one, or stop the program that has it",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--host", "192.0.2.1", "--open"], "192.0.2.1 is not an address of this machine"),
        (["--host", "no.such.invalid", "--open"], "--host 'no.such.invalid' is not an address"),
        (["--path", "mcp"], "--path 'mcp' cannot be the endpoint"),
        (["--path", "/health"], "--path '/health' cannot be the endpoint"),
    ],
)
def test_a_place_that_cannot_be_served_is_told_with_a_hint(
    toolyard: Toolyard, arguments: list[str], error: str
):
    outcome = toolyard("serve", "--port", "0", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {error}")
    assert "\nhint: " in outcome.err


def test_a_public_address_is_served_with_a_warning_about_the_host_check(toolyard: Toolyard):
    with toolyard.serving("--host", "0.0.0.0", "--open") as served:
        assert served.url == f"http://127.0.0.1:{served.port}/mcp"
        refused = post(served, "initialize", {}, Host="yard.example")
        outcome = served.stop(signal.SIGTERM)
    assert refused.status == 403
    assert "warning: requests to host names other than localhost are refused" in outcome.err
    assert "hint: add --allow-host NAME" in outcome.err


def test_an_allowed_host_is_admitted_without_that_warning(toolyard: Toolyard):
    with toolyard.serving("--host", "0.0.0.0", "--open", "--allow-host", "yard.example") as served:
        admitted = post(served, "initialize", {"protocolVersion": "2025-11-25"}, Host="yard.example")
        outcome = served.stop(signal.SIGTERM)
    assert admitted.status == 200
    assert "--allow-host" not in outcome.err


def test_an_allowed_origin_is_admitted(toolyard: Toolyard, demo: Served):
    page = {"Origin": "https://page.example"}
    with toolyard.serving("--allow-origin", "https://page.example") as served:
        assert post(served, "initialize", {"protocolVersion": "2025-11-25"}, **page).status == 200
    assert post(demo, "initialize", {"protocolVersion": "2025-11-25"}, **page).status == 403


# The key that sessions are signed with


def opened(served: Served) -> str:
    session = post(served, "initialize", {"protocolVersion": "2025-11-25"}).getheader("mcp-session-id")
    assert session is not None
    return session


def is_known(served: Served, session: str) -> bool:
    status = post(served, "ping", {}, Mcp_Session_Id=session).status
    assert status in (200, 404)
    return status == 200


def test_a_session_outlives_a_restart_by_a_key_that_only_the_user_can_read(toolyard: Toolyard):
    with toolyard.serving() as served:
        session = opened(served)
        assert served.stop(signal.SIGTERM).status == 0
    with toolyard.serving() as served:
        assert is_known(served, session)
    key = toolyard.state / "toolyard" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700


def test_the_key_in_the_environment_comes_before_the_file_of_ours(toolyard: Toolyard):
    with toolyard.serving(TOOLYARD_KEY="a key of sixteen bytes or more") as served:
        session = opened(served)
    assert not toolyard.state.exists()
    with toolyard.serving() as served:
        assert not is_known(served, session)


def test_a_key_file_is_made_when_missing_and_comes_before_the_environment(toolyard: Toolyard):
    with toolyard.serving("--key-file", "my.key", TOOLYARD_KEY="a key of sixteen bytes or more") as served:
        session = opened(served)
    with toolyard.serving("--key-file", "my.key") as served:
        assert is_known(served, session)


def test_a_key_file_that_is_too_short_is_refused(toolyard: Toolyard):
    toolyard.write("my.key", "short")
    outcome = toolyard("serve", "--key-file", "my.key", "--port", "0")
    assert outcome.status == 2
    assert "has 5 bytes and needs at least 16" in outcome.err


def test_a_key_that_others_can_read_is_warned_about(toolyard: Toolyard):
    toolyard.write("my.key", "a key of sixteen bytes or more").chmod(0o644)
    with toolyard.serving("--key-file", "my.key") as served:
        outcome = served.stop(signal.SIGTERM)
    assert outcome.err.splitlines() == [
        "warning: others can read the session key in my.key",
        "hint: chmod 600 my.key",
    ]


def test_without_a_place_for_the_key_it_serves_with_a_random_one_and_says_so(toolyard: Toolyard):
    toolyard.write("state", "a file where a folder should be")
    with toolyard.serving() as served:
        outcome = served.stop(signal.SIGTERM)
    assert outcome.status == 0
    assert "warning: cannot store the session key" in outcome.err
    assert "hint: set TOOLYARD_KEY, or name a file with --key-file" in outcome.err


# In the file

PLACE = """
[gateway]
host = "0.0.0.0"
port = {port}
allowed_hosts = ["yard.example"]
allowed_origins = ["https://app.example"]
public_url = "{public}"

[servers.demo]
module = "demo"
"""


def test_where_a_gateway_listens_and_by_which_names_it_is_called_can_stand_in_the_file(toolyard: Toolyard):
    toolyard.write("toolyard.toml", PLACE.format(port=0, public="https://tools.example.com/"))
    process = toolyard.start("serve", "--open")
    try:
        welcome = Served(process).welcome
        assert "\n  https://tools.example.com/mcp\n" in welcome
        found = re.search(r"listening on 0\.0\.0\.0, port (\d+)", welcome)
        assert found
        port = int(found[1])
        for host, status in (
            ("yard.example", 200),
            ("tools.example.com", 200),
            ("localhost", 200),
            ("evil.example", 403),
        ):
            assert discover(port, Host=host) == status
        assert discover(port, Host="localhost", Origin="https://app.example") == 200
        assert discover(port, Host="localhost", Origin="https://evil.example") == 403
    finally:
        process.kill()
        process.communicate()


def test_options_win_over_the_file(toolyard: Toolyard):
    toolyard.write("toolyard.toml", PLACE.format(port=1, public=""))
    arguments = [
        "--host",
        "127.0.0.1",
        "--allow-host",
        "other.example",
        "--allow-origin",
        "https://b.example",
    ]
    with toolyard.serving(*arguments) as served:
        assert served.url.startswith("http://127.0.0.1:")
        port = int(served.port)
        assert port > 1
        assert discover(port, Host="other.example") == 200
        assert discover(port, Host="yard.example") == 403
        assert discover(port, Host="localhost", Origin="https://app.example") == 403
        outcome = served.stop(signal.SIGTERM)
    assert outcome.err == ""


def test_the_port_may_come_from_a_variable(toolyard: Toolyard):
    toolyard.write("toolyard.toml", PLACE.format(port='"${PORT}"', public="").replace("0.0.0.0", "127.0.0.1"))
    process = toolyard.start("serve", PORT="0")
    try:
        assert Served(process).url.startswith("http://127.0.0.1:")
    finally:
        process.kill()
        process.communicate()


def discover(port: int, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    meta: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta["io.modelcontextprotocol/clientCapabilities"] = {}
    body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    sent |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
    connection.request("POST", "/mcp", json.dumps(body), sent | headers)
    return connection.getresponse().status
