"""The workbench server: its tools alone, in both languages and eras, and what they answer."""

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from toolyard import Client
from toolyard.client import Progress
from toolyard.kit import Identity, Image, Principal, Server, Text
from toolyard.kit.loader import LoadError, load

pytestmark = needs("bubblewrap")
MODULE = "toolyard.servers.workbench"


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[Server]:
    server = load(MODULE, options={"workspace": str(folder), "warm": 0, **options})
    try:
        yield server
    finally:
        await server.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with served(tmp_path) as found:
        yield found


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server) as found:
        yield found


async def test_a_cell_answers_in_the_shape_of_composio(client: Client):
    result = await client.call_tool("REMOTE_WORKBENCH", {"code_to_execute": "print('hi')\n6 * 7"})
    assert result.text == "hi\n\n42"
    reply = result.structured
    assert (reply["successful"], reply["error"]) == (True, None)
    data = reply["data"]
    assert (data["stdout"], data["stderr"], data["results"], data["error"]) == ("hi\n", "", "42", None)
    assert data["session"]["id"].startswith("wb_")
    assert "bubblewrap" in data["session"]["instructions"]
    assert data["box"] == "bubblewrap"
    failed = await client.call_tool("COMPOSIO_REMOTE_WORKBENCH", {"code_to_execute": "1 / 0"})
    assert failed.structured["successful"] is False
    assert "ZeroDivisionError" in failed.structured["error"]
    assert "ZeroDivisionError" in failed.text


async def test_a_command_answers_in_the_shape_of_composio(client: Client):
    result = await client.call_tool("REMOTE_BASH_TOOL", {"command": "echo a; echo b; echo c >&2; exit 4"})
    data = result.structured["data"]
    assert (data["stdoutLines"], data["stderrLines"], data["exit_code"]) == (["a", "b"], ["c"], 4)
    assert "Exit code: 4" in result.text
    again = await client.call_tool("COMPOSIO_REMOTE_BASH_TOOL", {"command": "true"})
    assert again.structured["successful"] is True


async def test_the_code_interpreter_has_sandboxes_of_its_own(client: Client):
    made = await client.call_tool("CODEINTERPRETER_CREATE_SANDBOX", {"keep_alive": 60})
    sandbox = made.structured["data"]["sandbox_id"]
    run = {"sandbox_id": sandbox, "code_to_execute": "x = 5\nopen('/home/user/a.txt', 'w').write('tea')\nx"}
    done = await client.call_tool("CODEINTERPRETER_EXECUTE_CODE", run)
    assert done.structured["data"]["results"] == "5"
    assert done.structured["data"]["sandbox_id"] == sandbox
    assert done.structured["data"]["files"] == [{"path": "/home/user/a.txt", "size": 3}]
    shell = {"sandbox_id": sandbox, "command": "cat /home/user/a.txt"}
    assert (await client.call_tool("CODEINTERPRETER_RUN_TERMINAL_CMD", shell)).structured["data"][
        "stdout"
    ] == "tea"
    lost = await client.call_tool(
        "CODEINTERPRETER_EXECUTE_CODE", {"code_to_execute": "1", "sandbox_id": "sb_x"}
    )
    assert lost.is_error
    assert "There is no sandbox 'sb_x'" in lost.text


async def test_files_are_written_and_read(client: Client):
    data = bytes(range(256))
    file = {"name": "a.bin", "mimetype": "application/x", "content_base64": base64.b64encode(data).decode()}
    put = {"destination_path": "/home/user/d/a.bin", "file": file}
    done = await client.call_tool("CODEINTERPRETER_UPLOAD_FILE_CMD", put)
    assert done.structured["data"] == {"file_path": "/home/user/d/a.bin", "success": True, "size": 256}
    twice = await client.call_tool("CODEINTERPRETER_UPLOAD_FILE_CMD", put)
    assert "exists already" in twice.text
    got = await client.call_tool("CODEINTERPRETER_GET_FILE_CMD", {"file_path": "/home/user/d/a.bin"})
    assert base64.b64decode(got.structured["data"]["content"]) == data
    uri = got.structured["data"]["file"]["uri"]
    assert uri == "workbench://files/d/a.bin"
    (contents,) = (await client.request("resources/read", {"uri": uri}))["contents"]
    assert base64.b64decode(contents["blob"]) == data
    text = {"file_path": "notes.md", "content": "olá"}
    await client.call_tool("CODEINTERPRETER_WRITE_FILE_CMD", text)
    read = await client.call_tool("CODEINTERPRETER_GET_FILE_CMD", {"file_path": "notes.md"})
    assert (read.text, read.structured["data"]["encoding"]) == ("olá", "utf-8")
    for path in ("/etc/passwd", "../x"):
        refused = await client.call_tool("CODEINTERPRETER_GET_FILE_CMD", {"file_path": path})
        assert "below /home/user" in refused.text
    bad = {"destination_path": "b", "file": {"name": "b", "s3key": "x/y"}}
    assert "Composio's storage" in (await client.call_tool("CODEINTERPRETER_UPLOAD_FILE_CMD", bad)).text


async def test_pictures_and_tables_are_content(tmp_path: Path):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    async with served(tmp_path) as server, Client(server) as client:
        code = (
            "import pandas as pd, matplotlib.pyplot as plt\n"
            "plt.bar(['a', 'b'], [1, 2])\npd.DataFrame({'k|': ['x'], 'n': [1]})"
        )
        result = await client.call_tool("REMOTE_WORKBENCH", {"code_to_execute": code})
        assert not result.is_error, result.text
        assert "| k\\| | n |\n| --- | --- |\n| x | 1 |" in result.text
        text, picture = result.content
        assert isinstance(text, Text)
        assert isinstance(picture, Image)
        assert picture.data.startswith(b"\x89PNG")
        assert result.structured["data"]["tables"] == [
            {"columns": ["k|", "n"], "rows": [["x", 1]], "total": 1}
        ]


async def test_alone_it_says_where_tools_can_be_called(client: Client):
    result = await client.call_tool("REMOTE_WORKBENCH", {"code_to_execute": "run_tool('any')"})
    assert "not mounted in a gateway" in result.text


async def test_it_speaks_portuguese(tmp_path: Path):
    async with served(tmp_path, locale="pt") as server, Client(server) as client:
        over = {"code_to_execute": "while True: pass", "timeout": 0.3}
        stopped = await client.call_tool("REMOTE_WORKBENCH", over)
        assert stopped.text == "Parado porque o tempo acabou. As variáveis foram mantidas."
        lost = await client.call_tool("REMOTE_WORKBENCH", {"code_to_execute": "import os; os._exit(1)"})
        assert "As variáveis da sessão se perderam" in lost.text
        missing = await client.call_tool("CODEINTERPRETER_GET_FILE_CMD", {"file_path": "x"})
        assert missing.text == "Não há o arquivo 'x' na bancada."


async def test_progress_is_what_was_printed(server: Server):
    reported = asyncio.Event()

    def on_progress(progress: Progress) -> None:
        assert progress.message == "half way"
        reported.set()

    async with Client(server) as client:
        code = "print('half way')\nwhile True: pass"
        arguments = {"code_to_execute": code}
        running = asyncio.create_task(
            client.call_tool("REMOTE_WORKBENCH", arguments, on_progress=on_progress)
        )
        await reported.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_two_users_of_one_server_share_nothing(server: Server):
    ana, bob = (Identity(Principal(subject=name, kind="key")) for name in ("ana", "bob"))
    async with Client(server, identity=ana) as hers, Client(server, identity=bob) as his:
        first = await hers.call_tool(
            "REMOTE_WORKBENCH", {"code_to_execute": "s = 1; open('f', 'w').write('x')"}
        )
        session = first.structured["data"]["session"]["id"]
        peek = {
            "code_to_execute": "import os; print(os.listdir('.'), 's' in globals())",
            "session_id": session,
        }
        assert (await his.call_tool("REMOTE_WORKBENCH", peek)).text == "[] False"


def test_a_box_that_cannot_be_had_is_an_error_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoadError) as refused:
        load(MODULE, options={"box": "bubblewrap"})
    assert "bwrap is not installed" in str(refused.value)
    assert 'box = "limits"' in str(refused.value)


def test_the_instructions_say_which_box_it_is(server: Server):
    assert "under bubblewrap" in str(server.instructions)
    assert "no network" in str(server.instructions)


async def test_with_a_network_code_reaches_what_is_allowed_and_nothing_else(tmp_path: Path):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntea")
        writer.close()

    site = await asyncio.start_server(answer, "127.0.0.1", 0)
    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    ports = [server.sockets[0].getsockname()[1] for server in (site, other)]
    allow = f"127.0.0.1:{ports[0]}"
    async with site, other, served(tmp_path, network=True, allow=allow) as server, Client(server) as client:
        read = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{}/', timeout=20).read()"
        code = {"code_to_execute": read.format(ports[0])}
        assert (await client.call_tool("REMOTE_WORKBENCH", code)).text == "b'tea'"
        code = {"code_to_execute": read.format(ports[1])}
        assert "RemoteDisconnected" in (await client.call_tool("REMOTE_WORKBENCH", code)).text
        direct = f"import socket; socket.create_connection(('127.0.0.1', {ports[0]}), 5)"
        refused = await client.call_tool("REMOTE_WORKBENCH", {"code_to_execute": direct})
        assert "Connection refused" in refused.text


def test_bytecode_of_python_may_be_kept_where_nobody_can_write():
    """The box gets its own beside the code, and the variable of whoever starts the gateway is not for it."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": "/proc/nowhere"}
    code = f"from toolyard.kit.loader import load; load({MODULE!r}, options={{'warm': 0}})"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
