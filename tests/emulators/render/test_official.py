"""The official `render` package works against the emulator as it is: the emulator can stand for Render."""

import asyncio
import json
import subprocess
from pathlib import Path

from tests.emulators.render import API_KEY, RenderEmulator

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "build" / "envs" / "render" / "bin" / "python"
PROGRAM = Path(__file__).with_name("official.py")


async def test_the_official_client_reads_all_that_our_server_reads(tmp_path: Path) -> None:
    async with RenderEmulator() as render:
        world = render.world
        web = world.service("shop-web")
        for name in ("a", "b", "c", "d", "e", "f"):
            world.service(name, "background_worker")
        world.service("shop-docs", "static_site")
        world.database("shop-db")
        world.key_value("shop-cache", "suspended")
        for number in range(5):
            # Seconds apart: the client takes the moments between pages to the microsecond only.
            world.log(web, f"line {number}", ago=10 + number)
        # -P, because beside the program is the emulator, which is called `render` too.
        command = [str(PYTHON), "-P", str(PROGRAM), render.url, API_KEY]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, cwd=tmp_path, timeout=50
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "owners": ["Shop Team"],
        "services": ["shop-web", "a", "b", "c", "d", "e", "f", "shop-docs"],
        "one": "https://shop-web.example",
        "deploy": "live",
        "postgres": ["available"],
        "key_values": ["suspended"],
        "logs": [["line 0", "line 1"], ["line 2", "line 3"], ["line 4"]],
        "wrong_key": "Unauthorized",
        "unknown": "not found: srv-none",
    }
