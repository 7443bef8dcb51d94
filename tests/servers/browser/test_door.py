"""The way out of a context, without a browser: what is public, and names that change their answer."""

import asyncio
import contextlib

import pytest

from tests.servers.browser.site import Site
from toolyard.servers.browser.addresses import Rules, pattern_of
from toolyard.servers.browser.door import Door

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def asked(door: str, request: str) -> str:
    """What comes back for one request to a proxy, until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(door.rpartition(":")[2]))
    writer.write(request.encode())
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer.decode()


@contextlib.asynccontextmanager
async def opened(allow: list[str], *answers: list[str]):
    """A door whose names have these addresses, one answer after another."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        if not left:
            raise OSError("no such name")
        return left.pop(0)

    door = Door(Rules(allow), 10_000, resolve)
    try:
        yield door, await door.open()
    finally:
        await door.close()


def get(site: Site, host: str, path: str = "/about") -> str:
    head = f"GET http://{host}:{site.port}{path} HTTP/1.1\r\nHost: {host}\r\n"
    return head + "Proxy-Connection: keep-alive\r\n\r\n"


async def test_a_name_is_looked_up_once_and_connected_to_where_it_was_checked(site: Site):
    """The second answer, which a rebinding name would give to whoever asks again, is never asked for."""
    async with opened(["shop.example"], ["127.0.0.1"], ["10.255.255.1"]) as (door, address):
        answer = await asked(address, get(site, "shop.example"))
        assert "About us" in answer
        assert "Connection: close" in answer
        assert list(door.troubles) == []


async def test_a_public_name_with_a_private_address_is_refused_even_beside_a_public_one(site: Site):
    hits = len(site.hits)
    async with opened([], ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"]) as (
        door,
        address,
    ):
        for _ in range(3):
            assert await asked(address, get(site, "rebound.example")) == ""
            assert await asked(address, "CONNECT rebound.example:443 HTTP/1.1\r\n\r\n") == "" or door.troubles
        assert await asked(address, get(site, "unknown.example")) == ""
        kinds = [trouble.kind for trouble in door.troubles]
    assert kinds.count("refused") == 3
    assert kinds.count("unknown") == 4
    assert len(site.hits) == hits


async def test_what_is_not_a_request_of_a_page_is_not_answered(site: Site):
    async with opened(["127.0.0.1"]) as (_, address):
        for request in ("GET / HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n", "CONNECT x HTTP/1.1\r\n\r\n"):
            assert await asked(address, request) == ""
        assert await asked(address, "CONNECT update.googleapis.com:443 HTTP/1.1\r\n\r\n") == ""


async def test_an_answer_without_end_is_cut_off(site: Site):
    async with opened(["127.0.0.1"]) as (door, address):
        answer = await asked(address, get(site, "127.0.0.1", "/paper?size=1000000"))
        assert len(answer) < 1_000_000
        assert [trouble.kind for trouble in door.troubles] == ["too_much"]


@pytest.mark.parametrize(
    ("allow", "host", "address", "port", "admitted"),
    [
        ("", "example.com", "93.184.216.34", 443, True),
        ("", "example.com", "2606:4700::1111", 443, True),
        ("", "a", "127.0.0.1", 80, False),
        ("", "a", "169.254.169.254", 80, False),
        ("", "a", "fe80::1%eth0", 80, False),
        ("", "a", "::ffff:10.0.0.1", 80, False),
        ("", "a", "64:ff9b::7f00:1", 80, False),
        ("", "a", "2002:7f00:1::", 80, False),
        ("", "a", "224.0.0.1", 80, False),
        ("", "a", "fec0::1", 80, False),
        ("", "a", "::127.0.0.1", 80, False),
        ("", "a", "0.0.0.0", 80, False),
        ("10.0.0.0/8", "a", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "a", "192.168.0.1", 80, False),
        ("127.0.0.1:8000", "a", "127.0.0.1", 8000, True),
        ("127.0.0.1:8000", "a", "127.0.0.1", 8001, False),
        ("*.intra.example", "Shop.Intra.Example.", "10.0.0.1", 80, True),
        ("*.intra.example", "intra.example", "10.0.0.1", 80, False),
        ("intra.example:81", "intra.example", "10.0.0.1", 81, True),
        ("[::1]:81", "a", "::1", 81, True),
        ("::1", "a", "::1", 5, True),
    ],
)
async def test_the_rules(allow: str, host: str, address: str, port: int, admitted: bool):
    assert Rules([allow] if allow else []).admits(host, address, port) is admitted


async def test_a_rule_that_is_none_is_refused():
    for text in ("", "http://x", "a/b", "a:70000", "10.0.0.0/99", "::/129"):
        with pytest.raises(ValueError, match=r"not a (host|network)"):
            pattern_of(text)
