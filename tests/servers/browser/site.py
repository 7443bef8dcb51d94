"""Sites on loopback: one that behaves, with pages that do not, and one that nobody was allowed to reach."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

FORM = """<!doctype html><title>Order tea</title><h1>Order tea</h1>
<nav><a href="/about">About us</a></nav>
<form action="/ordered">
  <label>Your name <input name="who"></label>
  <label>Tea <select name="tea">
    <option value="g">Green</option><option value="b">Black</option></select></label>
  <label><input type="checkbox" name="milk"> With milk</label>
  <input type="password" name="pin" value="4711" aria-label="Pin">
  <button>Order</button>
</form>
<button type="button" onclick="document.title = 'Rung'; this.textContent = 'Rung'">Ring</button>
<button type="button" onclick="document.querySelector('#never').click()">Two</button>
<button type="button">Two</button>
<input type="hidden" name="token" value="hidden-value">
<p style="display: none">Nobody sees this.</p>
<table><tr><th>Tea</th><th>Price</th></tr><tr><td>Green</td><td>2.50</td></tr></table>
<iframe name="news" src="/news" title="News"></iframe>
"""
NEWS = """<title>News</title><h2>News</h2>
<button onclick="document.querySelector('h2').textContent = 'Read'">Mark as read</button>
<iframe srcdoc="<button onclick='this.textContent = 1'>Deep inside</button>"></iframe>"""
MENU = """<title>Menu</title><script>
function doOption() {
  document.querySelector('#shown').textContent = 'option ' + document.getElementById('3').value;
}
</script><input id="3" name="f3" maxlength="3" onchange="doOption()"><p id="shown"></p>
<iframe src="about:blank"></iframe><iframe src="about:blank"></iframe>"""
LOGIN = """<title>Login</title><script>
function send() {
  const said = [...document.querySelectorAll('input')].map((field) => field.value).join('/');
  fetch('/ssw/session', {method: 'POST', body: said}).then((answer) => {
    if (answer.ok) location.href = '/ssw/'; else document.querySelector('p').textContent = 'Wrong: ' + said;
  });
}
</script><input name="f1"><input name="f2"><input name="f3"><input name="f4" type="password">
<a href="#" onclick="send(); return false">►</a><p></p>"""
ACCOUNT = "CV/12345678900/operator/correct horse"


def page(body: str, **headers: str) -> web.Response:
    return web.Response(text=body, content_type="text/html", headers=headers)


class Site:
    """`hits` are the paths that were asked for, `port` is where."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self.pages: dict[str, str] = {
            "/": FORM,
            "/news": NEWS,
            "/about": "<title>About</title><h1>About us</h1>",
        }
        self.port = 0
        self._over = asyncio.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.hits.append(request.path)
        if request.path in self.pages:
            return page(self.pages[request.path])
        answer = {
            "/ordered": self._ordered,
            "/to": self._redirected,
            "/loop": self._loop,
            "/endless": self._endless,
            "/silent": self._silent,
            "/paper": self._paper,
            "/cookie": self._cookie,
            "/ssw/": self._ssw,
            "/ssw/session": self._session,
        }.get(request.path)
        return await answer(request) if answer else web.Response(status=404, text="nothing here")

    async def _ordered(self, request: web.Request) -> web.Response:
        query = request.query
        return page(f"<title>Thanks</title><h1>Thanks, {query.get('who')}: {query.get('tea')}</h1>")

    async def _redirected(self, request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": request.query["there"]})

    async def _loop(self, request: web.Request) -> web.Response:
        number = int(request.query.get("n", "0")) + 1
        return web.Response(status=302, headers={"Location": f"/loop?n={number}"})

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        await response.write(b"<title>Endless</title><h1>The beginning</h1>" + b" " * 2000)
        await self._over.wait()
        return response

    async def _silent(self, request: web.Request) -> web.StreamResponse:
        await self._over.wait()
        return web.Response()

    async def _paper(self, request: web.Request) -> web.Response:
        disposition = f'attachment; filename="{request.query.get("name", "paper.txt")}"'
        return web.Response(
            body=b"x" * int(request.query.get("size", "5")), headers={"Content-Disposition": disposition}
        )

    async def _cookie(self, request: web.Request) -> web.Response:
        known = request.cookies.get("who", "nobody")
        response = page(f"<title>Cookie</title><p>You are {known}.</p>")
        if "who" in request.query:
            response.set_cookie("who", request.query["who"], max_age=3600)
        return response

    async def _ssw(self, request: web.Request) -> web.Response:
        return page(MENU if request.cookies.get("session") == "good" else LOGIN)

    async def _session(self, request: web.Request) -> web.Response:
        response = web.Response(status=200 if await request.text() == ACCOUNT else 403)
        if response.status == 200:
            response.set_cookie("session", "good", max_age=3600)
        return response

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Site"]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            self._over.set()
            await runner.cleanup()
