"""A site on loopback with videos that yt-dlp really extracts: pages, a feed, HLS, subtitles, and trouble.

The media are made by ffmpeg, once for all tests.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.waiting import PATIENCE

PAGE = """<!doctype html><html><head><title>{title}</title>
<meta property="og:title" content="{title}">
<meta property="og:description" content="{description}">
<meta property="og:image" content="/poster.png"></head>
<body><h1>{title}</h1>
<video poster="/poster.png" controls>
<source src="{media}" type="{mime}">
<track kind="subtitles" src="/talk.en.vtt" srclang="en" label="English">
<track kind="subtitles" src="/talk.pt-BR.vtt" srclang="pt-BR" label="Português">
</video></body></html>"""
ENGLISH = """WEBVTT

NOTE a remark

00:00.000 --> 00:01.000
Hello &amp; welcome

1
00:01.000 --> 00:02.500 align:start
<v Ana>Green tea</v>
is <i>best</i>.
"""
PORTUGUESE = "WEBVTT\n\n00:00.000 --> 00:01.000\nOlá\n"
HOSTILE_TITLE = "../../etc/passwd; rm -rf ~ \u202egpj.exe"
BLOCK = b"x" * 64 * 1024


def make_media(folder: Path) -> Path:
    """A video with sound of two seconds, the same as HLS, a song, and a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = ("-f", "lavfi", "-i", "testsrc=size=320x240:rate=10:duration=2")
    sound = ("-f", "lavfi", "-i", "sine=frequency=440:duration=2")
    _ffmpeg(*sources, *sound, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac",
            "-shortest", "-movflags", "+faststart", str(folder / "talk.mp4"))  # fmt: skip
    _ffmpeg("-i", str(folder / "talk.mp4"), "-c", "copy", "-f", "hls", "-hls_time", "1",
            "-hls_playlist_type", "vod", str(folder / "talk.m3u8"))  # fmt: skip
    _ffmpeg(*sound, str(folder / "song.ogg"))
    _ffmpeg(*sources, "-frames:v", "1", str(folder / "poster.png"))
    return folder


def _ffmpeg(*arguments: str) -> None:
    subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments], check=True, timeout=PATIENCE)


class Site:
    """`hits` are the paths that were asked for, `port` is where."""

    def __init__(self, media: Path) -> None:
        self.media = media
        self.hits: list[str] = []
        self.cookies: list[str] = []
        self.port = 0
        self.streaming = asyncio.Event()
        """Set when an endless answer has begun."""
        self.left = asyncio.Event()
        """Set when the client of an endless answer has gone."""
        self.streams = 0
        self._over = asyncio.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, title: str = "A talk", media: str = "/talk.mp4", mime: str = "video/mp4") -> web.Response:
        text = PAGE.format(title=title, description="About tea. " * 1000, media=media, mime=mime)
        return web.Response(text=text, content_type="text/html")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.hits.append(request.path)
        self.cookies.append(request.headers.get("Cookie", ""))
        answers: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
            "/to": self._redirect,
            "/endless.mp4": self._endless,
            "/endless": self._endless,
            "/silent": self._silent,
            "/many": self._many,
            "/feed": self._feed,
            "/loop": self._loop,
        }
        if request.path in answers:
            return await answers[request.path](request)
        pages = {
            "/watch": self.page(),
            "/hls": self.page("Live once", "/talk.m3u8", "application/x-mpegURL"),
            "/evil": self.page(HOSTILE_TITLE),
            "/long": self.page("long " * 200),
            "/stolen": self.page("Stolen", request.query.get("media", ""), "video/mp4"),
            "/gone-media": self.page("Gone", "/nothing.mp4"),
            "/endless-media": self.page("Endless", "/endless.mp4"),
            "/corrupt": self.page("Corrupt", "/corrupt.mp4"),
            "/playlist-in-disguise": self.page("Disguise", "/disguise.mp4"),
            "/plain": web.Response(text="<title>Nothing</title><p>No video here.", content_type="text/html"),
            "/private": web.Response(status=403, text="Forbidden"),
            "/login": web.Response(status=401, text="Who are you?"),
            "/busy": web.Response(status=429, text="Slow down"),
            "/broken": web.Response(status=503, text="Out of order"),
            "/talk.en.vtt": web.Response(text=ENGLISH, content_type="text/vtt"),
            "/talk.pt-BR.vtt": web.Response(text=PORTUGUESE, content_type="text/vtt"),
            "/corrupt.mp4": web.Response(body=b"\0\0\0\x18ftypmp42" + BLOCK, content_type="video/mp4"),
            "/disguise.mp4": web.Response(
                text="#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
                content_type="video/mp4",
            ),
        }
        if request.path in pages:
            return pages[request.path]
        file = self.media / request.path.lstrip("/")
        if "/" not in request.path[1:] and file.is_file():
            return web.FileResponse(file)
        return web.Response(status=404, text="nothing here")

    async def _redirect(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": request.query["there"]})

    async def _loop(self, request: web.Request) -> web.StreamResponse:
        text = f'<meta http-equiv="refresh" content="0; url=/loop?n={len(self.hits)}">'
        return web.Response(text=text, content_type="text/html")

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        kind = "video/mp4" if request.path.endswith(".mp4") else "text/html"
        response = web.StreamResponse(headers={"Content-Type": kind})
        self.streams += 1
        await response.prepare(request)
        try:
            while not self._over.is_set():
                await response.write(BLOCK)
                if request.method == "HEAD":
                    break
                self.streaming.set()
        except ConnectionError:
            pass
        finally:
            self.left.set()
        return response

    async def _silent(self, request: web.Request) -> web.StreamResponse:
        self.streaming.set()
        await self._over.wait()
        return web.Response()

    async def _many(self, request: web.Request) -> web.StreamResponse:
        """A page with many videos; the third is not there."""
        names = ["/nothing.mp4" if at == 3 else f"/talk.mp4?n={at}" for at in range(1, 1001)]
        videos = "".join(f'<video src="{name}"></video>' for name in names)
        return web.Response(text=f"<title>Many talks</title>{videos}", content_type="text/html")

    async def _feed(self, request: web.Request) -> web.StreamResponse:
        items = "".join(
            f"<item><title>Talk {at}</title><link>{self.url(f'/watch?n={at}')}</link></item>"
            for at in range(1, 201)
        )
        channel = f"<channel><title>All talks</title>{items}</channel>"
        text = f'<?xml version="1.0"?><rss version="2.0">{channel}</rss>'
        return web.Response(text=text, content_type="application/rss+xml")

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Site"]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            self._over.set()
            await runner.cleanup()
