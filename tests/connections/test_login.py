"""`toolyard login`: from a file with an address to a tool that answers, without a browser on the machine."""

import asyncio
import os
import re
import sys
from pathlib import Path
from urllib.parse import urlencode

from tests.callers.oidc import sign_in
from tests.connections.yard import guarded

REDIRECT = "http://127.0.0.1:8976/callback"


async def toolyard(folder: Path, *words: str) -> asyncio.subprocess.Process:
    env = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "BROWSER")}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "toolyard",
        *words,
        "--config",
        str(folder / "toolyard.toml"),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**env, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")},
    )


async def told(folder: Path, *words: str) -> tuple[int | None, str]:
    process = await toolyard(folder, *words)
    out, err = await process.communicate()
    return process.returncode, out.decode() + err.decode()


async def test_a_login_on_a_machine_without_a_browser(tmp_path: Path):
    async with guarded() as upstream:
        file = tmp_path / "toolyard.toml"
        gateway = f'[gateway]\nstate_dir = "{tmp_path}/state"\n'
        file.write_text(f'{gateway}[servers.guarded]\nurl = "{upstream.url}"\n')
        status, said = await told(tmp_path, "list")
        assert (status, "toolyard login" in said) == (3, True), said

        login = await toolyard(tmp_path, "login", "guarded")
        assert login.stderr
        head = b""
        while (found := re.search(rb"http://\S+/auth\?\S+", head)) is None:
            line = await login.stderr.readline()
            assert line, head
            head += line
        answer = await sign_in(found[0].decode(), "ana", REDIRECT)
        out, err = await login.communicate(f"{REDIRECT}?{urlencode(answer)}\n".encode())
        assert login.returncode == 0, err.decode()
        assert "logged in to guarded" in out.decode()
        assert 'auth = "oauth"' in file.read_text()

        status, said = await told(tmp_path, "call", "mcp__guarded__whoami")
        assert (status, "ana" in said) == (0, True), said
        status, said = await told(tmp_path, "logout", "guarded")
        assert (status, said.strip()) == (0, "logged out of guarded")
        status, said = await told(tmp_path, "logout", "guarded")
        assert (status, "not logged in" in said) == (2, True), said
