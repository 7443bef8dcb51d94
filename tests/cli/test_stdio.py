"""`toolyard stdio`."""

import json
import subprocess
from typing import Any

from tests.cli.running import PATIENCE, Toolyard

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
CHATTY = """
import os
print("imported")
os.system("echo from a child")
from toolyard.kit import Server
server = Server("chatty")

@server.tool
def talk() -> str:
    print("called")
    return "answer"
"""


def send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def receive(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_both_eras_are_served_line_by_line_until_the_input_ends(toolyard: Toolyard):
    process = toolyard.start("stdio")
    call = {"name": "echo", "arguments": {"text": "modern"}, "_meta": META}
    send(process, {"id": 1, "method": "tools/call", "params": call})
    assert receive(process)["result"]["content"] == [{"type": "text", "text": "modern"}]
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    send(process, {"id": 2, "method": "initialize", "params": opening})
    assert receive(process)["result"]["serverInfo"]["name"] == "toolyard"
    send(process, {"method": "notifications/initialized"})
    send(process, {"id": 3, "method": "tools/list", "params": {}})
    assert "countdown" in [tool["name"] for tool in receive(process)["result"]["tools"]]
    rest, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_what_a_target_prints_goes_to_standard_error(toolyard: Toolyard):
    toolyard.write("chatty.py", CHATTY)
    process = toolyard.start("stdio", "chatty.py")
    send(process, {"id": 1, "method": "tools/call", "params": {"name": "talk", "_meta": META}})
    assert receive(process)["result"]["content"] == [{"type": "text", "text": "answer"}]
    rest, errors = process.communicate(timeout=PATIENCE)
    assert rest == ""
    assert sorted(errors.splitlines()) == ["called", "from a child", "imported"]
