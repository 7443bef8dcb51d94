"""The way out of a context, without a browser: what is public, and names that change their answer."""

import asyncio
import contextlib
import ipaddress

import pytest

from tests.servers.browser.site import Site
from tests.waiting import PATIENCE
from toolyard.egress import AddressRules, EgressProxy, pattern_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def asked(proxy: str, request: str) -> str:
    """What comes back for one request to a proxy, until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.rpartition(":")[2]))
    writer.write(request.encode())
    async with asyncio.timeout(PATIENCE):
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

    proxy = EgressProxy(AddressRules(allow), 10_000, resolve)
    try:
        yield proxy, await proxy.open()
    finally:
        await proxy.close()


def get(site: Site, host: str, path: str = "/about") -> str:
    head = f"GET http://{host}:{site.port}{path} HTTP/1.1\r\nHost: {host}\r\n"
    return head + "Proxy-Connection: keep-alive\r\n\r\n"


async def test_a_name_is_looked_up_once_and_connected_to_where_it_was_checked(site: Site):
    """The second answer, which a rebinding name would give to whoever asks again, is never asked for."""
    async with opened(["shop.example"], ["127.0.0.1"], ["10.255.255.1"]) as (proxy, address):
        answer = await asked(address, get(site, "shop.example"))
        assert "About us" in answer
        assert "Connection: close" in answer
        assert list(proxy.failures) == []


async def test_a_public_name_with_a_private_address_is_refused_even_beside_a_public_one(site: Site):
    hits = len(site.hits)
    async with opened([], ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"]) as (
        proxy,
        address,
    ):
        for _ in range(3):
            assert await asked(address, get(site, "rebound.example")) == ""
            assert (
                await asked(address, "CONNECT rebound.example:443 HTTP/1.1\r\n\r\n") == "" or proxy.failures
            )
        assert await asked(address, get(site, "unknown.example")) == ""
        kinds = [failure.kind for failure in proxy.failures]
    assert kinds.count("refused") == 3
    assert kinds.count("unknown") == 4
    assert len(site.hits) == hits


async def test_what_is_not_a_request_of_a_page_is_not_answered(site: Site):
    async with opened(["127.0.0.1"]) as (_, address):
        for request in ("GET / HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n", "CONNECT x HTTP/1.1\r\n\r\n"):
            assert await asked(address, request) == ""
        assert await asked(address, "CONNECT update.googleapis.com:443 HTTP/1.1\r\n\r\n") == ""


async def test_an_answer_without_end_is_cut_off(site: Site):
    async with opened(["127.0.0.1"]) as (proxy, address):
        answer = await asked(address, get(site, "127.0.0.1", "/paper?size=1000000"))
        assert len(answer) < 1_000_000
        assert [failure.kind for failure in proxy.failures] == ["too_much"]


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
        ("", "a", "5.2.3.4", 80, True),
        ("", "a", "64:ff9b::502:304", 80, True),
        ("168.63.129.16", "a", "168.63.129.16", 80, True),
        ("168.63.129.16", "a", "::ffff:168.63.129.16", 80, True),
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
    assert AddressRules([allow] if allow else []).allows(host, address, port) is admitted


INSIDE = {
    "168.63.129.16": "Azure's wire server",
    "169.254.169.254": "metadata of most clouds",
    "169.254.170.2": "credentials of an ECS task",
    "100.100.100.200": "Alibaba Cloud's metadata",
    "192.0.0.192": "Oracle Cloud's metadata",
    "161.26.0.10": "IBM Cloud's services",
    "166.9.1.1": "IBM Cloud's services",
    "0.1.2.3": "this network",
    "10.0.0.1": "private",
    "100.64.0.1": "behind a carrier",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.1": "protocols",
    "192.0.0.9": "protocols",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4 relays",
    "192.168.0.1": "private",
    "198.18.0.1": "measurements",
    "198.19.255.255": "measurements",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "many at once",
    "239.255.255.250": "many at once",
    "240.0.0.1": "reserved",
    "255.255.255.255": "everybody",
}
INSIDE_6 = [
    *(
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "fc00::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1",
    ),
    *(
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "100::1",
        "100:0:0:1::1",
        "64:ff9b:1::a00:1",
        "2001:db8::1",
    ),
    *("2001:2::1", "2001:10::1", "2001:20::1", "3fff::1", "5f00::1", "4000::1", "e000::1"),
]


def disguised(address: str) -> list[str]:
    """The ways to write an IPv4 address as one of IPv6, which some machine on the way may undo."""
    four = int(ipaddress.IPv4Address(address))
    made = {
        "mapped": 0xFFFF << 32 | four,
        "compatible": four,
        "translated": 0xFFFF << 48 | four,
        "NAT64": 0x64FF9B << 96 | four,
        "local NAT64": 0x64FF9B0001 << 80 | four,
        "6to4": 0x2002 << 112 | four << 80 | 1,
        "Teredo": 0x20010000 << 96 | four ^ 0xFFFF_FFFF,
        "ISATAP": 0x26064700 << 96 | 0x5EFE << 32 | four,
        "ISATAP, universal": 0x26064700 << 96 | 0x02005EFE << 32 | four,
    }
    return [str(ipaddress.IPv6Address(one)) for one in made.values()]


@pytest.mark.parametrize("address", [*INSIDE, *INSIDE_6])
async def test_no_address_of_the_inside_is_public_however_it_is_written(address: str):
    rules = AddressRules([])
    forms = [address] if ":" in address else [address, *disguised(address)]
    assert [form for form in forms if rules.allows("cloud.example", form, 80)] == []
    assert rules.allows("cloud.example", "93.184.216.34", 80)


async def test_names_of_metadata_services_are_refused_by_what_they_lead_to(site: Site):
    async with opened([], ["168.63.129.16"], ["169.254.169.254"], ["fd00:ec2::254"]) as (proxy, address):
        for name in ("wire.example", "metadata.google.internal", "instance-data.ec2.internal"):
            assert await asked(address, get(site, name)) == ""
        assert [failure.kind for failure in proxy.failures] == ["refused"] * 3


async def test_a_rule_that_is_none_is_refused():
    for text in ("", "http://x", "a/b", "a:70000", "10.0.0.0/99", "::/129"):
        with pytest.raises(ValueError, match=r"not a (host|network)"):
            pattern_of(text)
