"""The other side of two pictures of the documentation: `python scripts/picture_sites.py media|vision`.

`media` is a page with a video of six seconds, made by ffmpeg, and its subtitles; `vision` is the tests'
stand-in for a vision model. Both serve on loopback until they are terminated, and print a line when they are
ready.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.emulators.vision_chat import VisionChat

PAGE = """<title>How to make tea</title><meta property="og:title" content="How to make tea">
<video src="/tea.mp4"><track kind="subtitles" src="/tea.vtt" srclang="en"></video>"""
SUBTITLES = """WEBVTT

00:00.000 --> 00:02.000
Boil fresh water.

00:02.000 --> 00:04.500
Let it cool to eighty degrees:
green tea turns bitter otherwise.

00:04.500 --> 00:06.000
Two minutes, and it is done.
"""
SOURCES = ("testsrc2=size=1280x720:rate=25:duration=6", "sine=frequency=330:duration=6")


def media(folder: Path) -> web.Application:
    inputs = [part for source in SOURCES for part in ("-f", "lavfi", "-i", source)]
    subprocess.run(
        ["ffmpeg", "-v", "error", *inputs, "-pix_fmt", "yuv420p", str(folder / "tea.mp4")], check=True
    )

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def subtitles(request: web.Request) -> web.Response:
        return web.Response(text=SUBTITLES, content_type="text/vtt")

    async def video(request: web.Request) -> web.FileResponse:
        return web.FileResponse(folder / "tea.mp4")

    app = web.Application()
    app.add_routes([web.get("/tea", page), web.get("/tea.vtt", subtitles), web.get("/tea.mp4", video)])
    return app


def vision() -> web.Application:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v4/chat/completions", VisionChat([]).answer)
    return app


async def serve(app: web.Application, port: int) -> None:
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    if sys.argv[1] == "vision":
        asyncio.run(serve(vision(), 8323))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(serve(media(Path(folder)), 8322))


if __name__ == "__main__":
    main()
