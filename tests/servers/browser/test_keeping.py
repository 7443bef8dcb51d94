"""What is kept for whom: cookies, downloads, contexts; and that nothing keeps running."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import pytest_asyncio

from tests.app.yard import yard
from tests.programs import needs
from tests.servers.browser.site import Site
from tests.servers.browser.talking import at, browsers, made, until_gone
from toolyard import Client
from toolyard.config import InProcess, ServerConfig
from toolyard.kit import Identity, Principal, Server
from toolyard.servers.browser.storage import BrowserOwner, StateVault
from toolyard.wire.errors import McpError
from toolyard.wire.types import BlobContents

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Person:
    """Calls in this process, as a gateway makes them: for somebody."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(f"browser_{tool}", arguments)
        assert not result.is_error, result
        return result.structured


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Server]:
    server = made(folder, allow="127.0.0.1", **settings)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def person(server: Server, tenant: str, agent: str, thread: str) -> AsyncIterator[Person]:
    async with Client(server, identity=Identity(Principal(tenant, agent), thread)) as client:
        yield Person(client)


def assert_sealed(folder: Path, *secrets: bytes) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sorted(path.suffix for path in files) == ["", ".lock", ".memory"]
    for path in files:
        assert path.stat().st_mode & 0o777 == 0o600
        assert not any(secret in path.read_bytes() for secret in secrets)


@needs("chromium")
async def test_cookies_outlive_the_browser_encrypted_and_belong_to_one_owner(site: Site, tmp_path: Path):
    folder, before = tmp_path / "kept", browsers()
    async with opened(folder) as server, person(server, "acme", "ana", "1") as ana:
        await ana("navigate", url=site.url("/cookie?who=Ana-of-Acme"))
        await ana("evaluate_js", script="localStorage.setItem('shelf', 'kept here')")
        assert browsers() - before
    assert browsers() == before
    assert_sealed(folder, b"Ana-of-Acme", b"kept here")

    async with (
        opened(folder) as server,
        person(server, "acme", "ana", "2") as ana,
        person(server, "acme", "bo", "1") as bo,
        person(server, "other", "ana", "1") as other,
    ):
        assert "You are Ana-of-Acme." in (await ana("navigate", url=site.url("/cookie")))["snapshot"]
        assert (await ana("evaluate_js", script="localStorage.shelf"))["value"] == "kept here"
        for stranger in (bo, other):
            assert "You are nobody." in (await stranger("navigate", url=site.url("/cookie")))["snapshot"]

    owner = BrowserOwner("acme", "ana")
    assert StateVault(folder, "").load(owner)["cookies"][0]["value"] == "Ana-of-Acme"
    assert StateVault(folder, "another key than before").load(owner) == {"cookies": [], "origins": []}
    (kept,) = [path for path in folder.glob("*.memory") if path.stem == owner.mark]
    kept.rename(folder / f"{BrowserOwner('acme', 'bo').mark}.memory")
    assert StateVault(folder, "").load(BrowserOwner("acme", "bo")) == {"cookies": [], "origins": []}


async def test_processes_that_save_at_the_same_moment_keep_each_others_cookies(tmp_path: Path):
    owner, nothing = BrowserOwner("acme", "ana"), {"cookies": [], "origins": []}
    vaults = [StateVault(tmp_path, "a key") for _ in range(4)]
    barrier = Barrier(len(vaults))

    def save(number: int) -> None:
        cookie = {"name": f"c{number}", "domain": "example.com", "path": "/", "value": "v"}
        vaults[number].load(owner)  # the key is derived before they start
        barrier.wait()
        vaults[number].save(owner, {"cookies": [cookie], "origins": []}, nothing)

    await asyncio.gather(*(asyncio.to_thread(save, number) for number in range(len(vaults))))
    kept = {cookie["name"] for cookie in StateVault(tmp_path, "a key").load(owner)["cookies"]}
    assert kept == {f"c{number}" for number in range(len(vaults))}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One with little room: two contexts, and downloads of a thousand bytes."""
    async with opened(tmp_path_factory.mktemp("narrow"), max_contexts=2, download_bytes=1000) as server:
        yield server


@needs("chromium")
async def test_cookies_that_cannot_be_kept_are_no_reason_to_refuse_a_page(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    tmp_path.joinpath("key").write_text("no key at all")
    async with at(made(tmp_path, allow="127.0.0.1")) as talk:
        await talk("navigate", url=site.url("/cookie?who=Ana"))
        assert "You are Ana" in (await talk("navigate", url=site.url("/cookie"))).text
    assert "cannot be saved" in caplog.text


@needs("chromium")
async def test_threads_have_pages_of_their_own_and_the_oldest_makes_room(site: Site, narrow: Server):
    async with (
        person(narrow, "acme", "ana", "1") as first,
        person(narrow, "acme", "ana", "2") as second,
        person(narrow, "acme", "ana", "3") as third,
    ):
        await first("navigate", url=site.url("/"))
        await second("navigate", url=site.url("/about"))
        assert (await first("snapshot"))["title"] == "Order tea"
        assert (await second("snapshot"))["title"] == "About"
        await third("navigate", url=site.url("/cookie?who=Ana"))
        gone = await first.client.call_tool("browser_snapshot", {})
        assert "no page is open" in gone.text
        assert (await first("navigate", url=site.url("/cookie")))["snapshot"] == "- paragraph: You are Ana."


@needs("chromium")
async def test_downloads_go_to_their_owner_under_safe_names(site: Site, narrow: Server):
    site.pages["/papers"] = "<title>Papers</title><a href='/paper?name=..%2F..%2Fetc%2Fpasswd&size=7'>Get</a>"
    async with (
        person(narrow, "acme", "ana", "1") as ana,
        person(narrow, "acme", "bo", "1") as bo,
    ):
        (straight,) = (await ana("navigate", url=site.url("/paper")))["downloads"]
        assert (straight["name"], straight["size"]) == ("paper.txt", 5)
        assert os.path.getsize(straight["path"]) == 5  # noqa: ASYNC240
        (again,) = (await ana("navigate", url=site.url("/paper")))["downloads"]
        assert again["name"] == "paper (2).txt"
        await ana("navigate", url=site.url("/papers"))
        (clicked,) = (await ana("click", text="Get"))["downloads"]
        assert Path(clicked["path"]).parent == Path(straight["path"]).parent
        assert Path(clicked["path"]).parent.parent.name == "downloads"
        (contents,) = (await ana.client.read_resource(straight["uri"])).contents
        assert isinstance(contents, BlobContents)
        assert contents.blob == b"xxxxx"
        with pytest.raises(McpError, match="there is no download"):
            await bo.client.read_resource(straight["uri"])
        with pytest.raises(McpError, match="there is no download"):
            await ana.client.read_resource("browser://downloads/..%2F..%2Fkey")
        (long,) = (await ana("navigate", url=site.url(f"/paper?name={'漢' * 150}.txt")))["downloads"]
        assert long["name"].endswith("漢.txt")
        big = await ana("navigate", url=site.url("/paper?size=2000"))
        assert big["downloads"] == []
        assert "larger than 1000 bytes" in big["notices"][0]["text"]


@needs("chromium")
async def test_an_idle_browser_ends_and_comes_back_when_asked(site: Site, tmp_path: Path):
    before = browsers()
    async with opened(tmp_path, idle=0.3) as server, person(server, "acme", "ana", "1") as ana:
        await ana("navigate", url=site.url("/cookie?who=Ana"))
        await until_gone(browsers() - before)
        assert "You are Ana." in (await ana("navigate", url=site.url("/cookie")))["snapshot"]
    assert not browsers() - before


@needs("chromium")
async def test_a_gateway_mounts_it_and_leaves_nothing_running(site: Site, tmp_path: Path):
    before = browsers()
    options = {"allow": ["127.0.0.1"], "folder": str(tmp_path)}
    where = InProcess(module="toolyard.servers.browser", options=options)
    async with yard(ServerConfig(name="web", where=where)) as gateway:
        text = await gateway.says("mcp__web__browser_navigate", {"url": site.url("/about")})
        assert 'heading "About us"' in text
        assert browsers() - before
    assert not browsers() - before
