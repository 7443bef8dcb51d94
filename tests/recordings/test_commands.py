"""`toolyard record`, `replay` and `diff`, as users run them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Served, Toolyard
from tests.recordings.yard import WORKSHOP, text_of
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.recordings.recording import Recording
from toolyard.wire.errors import McpError

HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
)
RING = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ring","arguments":{}}}'


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)


def test_a_recorded_command_prints_the_same_over_its_recording(toolyard: Toolyard) -> None:
    call = ("call", "text_statistics", "text=a b a", "--target", "demo", "--json")
    first = toolyard("record", "run.jsonl", *call)
    assert first.status == 0
    assert "recorded" in first.err
    again = toolyard("replay", "run.jsonl", *call)
    assert (again.status, again.out) == (0, first.out)
    other = toolyard("replay", "run.jsonl", "call", "text_statistics", "text=a b b")
    assert other.status == 2
    assert "arguments.text is 'a b b', recorded 'a b a'" in other.err
    lenient = toolyard("replay", "run.jsonl", "--lenient", "call", "text_statistics", "text=a b b", "--json")
    assert (lenient.status, lenient.out) == (0, first.out)


def test_a_bundled_server_and_a_file_are_recorded_over_stdio(toolyard: Toolyard) -> None:
    recorded = toolyard("record", "run.jsonl", "stdio", WORKSHOP, stdin=f"{HELLO}\n{RING}\n")
    assert recorded.status == 0, recorded.err
    replayed = toolyard("replay", "run.jsonl", stdin=f"{HELLO}\n{RING}\n")
    assert replayed.status == 0, replayed.err
    answers = [json.loads(line) for line in replayed.out.splitlines()]
    assert [answer["result"]["content"][0]["text"] for answer in answers if answer.get("id") == 2] == [
        "rang 1 times"
    ]


async def test_servers_of_a_configuration_are_recorded_while_they_are_served_and_replayed_over_http(
    toolyard: Toolyard,
) -> None:
    secret = "the-shop-is-closed-on-mondays"
    toolyard.write(
        "toolyard.toml",
        f"""[gateway]
view = "all"
[servers.shop]
command = {json.dumps(sys.executable)}
args = ["-m", "toolyard", "stdio", {json.dumps(WORKSHOP)}]
env = {{ SHOP_DOOR = "${{SHOP_DOOR}}" }}
""",
    )
    process = toolyard.start("record", "run.jsonl", "serve", "--port", "0", SHOP_DOOR=secret)
    try:
        served = Served(process)
        async with Client(served.url) as client:
            rang = [(await client.call_tool("mcp__shop__ring")).content for _ in range(2)]
            door = await client.call_tool("mcp__shop__environment", {"name": "SHOP_DOOR"})
            assert text_of(door) == secret
        ended = served.stop(signal.SIGTERM)
        assert ended.status == 0, ended.err
    finally:
        process.kill()
        process.wait()
    file = toolyard.folder / "run.jsonl"
    assert secret not in file.read_text()
    Recording(file).close()
    process = toolyard.start("replay", "run.jsonl", "--http", "--port", "0")
    try:
        served = Served(process)
        assert "run.jsonl" in served.welcome
        async with Client(served.url) as client:
            assert [(await client.call_tool("mcp__shop__ring")).content for _ in range(2)] == rang
            door = await client.call_tool("mcp__shop__environment", {"name": "SHOP_DOOR"})
            assert text_of(door) == "<secret:1>"
            with pytest.raises(McpError, match="was not recorded"):
                await client.call_tool("mcp__shop__says", {"text": "x"})
        ended = served.stop(signal.SIGINT)
    finally:
        process.kill()
        process.wait()
    assert ended.status == 1
    assert "shop/says" in ended.err


async def test_a_killed_recording_is_replayed_as_far_as_it_goes(toolyard: Toolyard) -> None:
    process = toolyard.start("record", "run.jsonl", "serve", "--port", "0", "demo")
    served = Served(process)
    async with Client(served.url) as client:
        await client.call_tool("echo", {"text": "still there"})
        process.kill()
        process.communicate()
    again = toolyard("replay", "run.jsonl", "call", "echo", "text=still there")
    assert (again.status, again.out) == (0, "still there\n")
    assert "run.jsonl' is cut: it ends after" in again.err


def test_a_full_disk_ends_the_run_and_says_why(toolyard: Toolyard) -> None:
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200));"
        "from toolyard.cli import main; main(['record', 'run.jsonl', 'stdio', 'demo'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=f"{HELLO}\n",
        text=True,
        capture_output=True,
        cwd=toolyard.folder,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "cannot write the recording 'run.jsonl': File too large" in done.stderr
    recording = Recording(toolyard.folder / "run.jsonl")
    assert recording.cut
    recording.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("record", "run.jsonl"), "no command to record"),
        (("record", "run.jsonl", "sing"), "no command 'sing'"),
        (("record", "run.jsonl", "record", "x", "list"), "cannot run 'record'"),
        (("record", "--seal", "run.jsonl", "list"), "--seal runs no command"),
        (("record", "there.jsonl", "list"), "'there.jsonl' exists"),
        (("record", "no/such/folder.jsonl", "list"), "cannot write 'no/such/folder.jsonl'"),
        (("replay", "run.jsonl"), "cannot read 'run.jsonl'"),
        (("replay", "there.jsonl"), "is not a recording"),
        (("replay", "there.jsonl", "--http", "list"), "--http and the command 'list' at once"),
        (("diff", "there.jsonl", "run.jsonl"), "is not a recording"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    toolyard: Toolyard, words: tuple[str, ...], said: str
) -> None:
    toolyard.write("there.jsonl", "something else\n")
    done = toolyard(*words)
    assert done.status == 2
    assert said in done.err
    assert not (toolyard.folder / "run.jsonl").exists()


def test_a_failing_command_is_recorded_and_keeps_its_status(toolyard: Toolyard) -> None:
    done = toolyard("record", "run.jsonl", "call", "breaks", "how=badly", "--target", WORKSHOP)
    assert (done.status, "it broke badly" in done.err) == (1, True)
    recording = Recording(toolyard.folder / "run.jsonl")
    assert recording.file.status == 1
    recording.close()
    assert toolyard("replay", "run.jsonl", "call", "breaks", "how=badly").status == 1


def test_a_server_at_an_address_is_recorded(toolyard: Toolyard, demo: Served) -> None:
    url = ("--url", demo.url, "--header", "X-Secret: in-a-header-1")
    done = toolyard("record", "run.jsonl", "call", "echo", "text=far away", *url)
    assert (done.status, done.out) == (0, "far away\n")
    assert "in-a-header-1" not in (toolyard.folder / "run.jsonl").read_text()
    again = toolyard(
        "replay", "run.jsonl", "call", "echo", "text=far away", "--url", "http://127.0.0.1:9/mcp"
    )
    assert (again.status, again.out) == (0, "far away\n")
