"""Whose word about a client's address counts: that of configured proxies, from the right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.edge.proxies import ForwardingProxies, block_of, proxy_of, read_address

NEAR, FAR, EDGE = "10.0.0.5", "10.0.1.9", "fd00::5"
PROXIES = ForwardingProxies([NEAR, "10.0.1.0/24", EDGE])


def scope(peer: str | None, *lines: str) -> dict[str, object]:
    headers = [(b"host", b"yard"), *((b"x-forwarded-for", line.encode("latin-1")) for line in lines)]
    return {"type": "http", "client": None if peer is None else (peer, 4711), "headers": headers}


def client(peer: str | None, *lines: str) -> str:
    found = PROXIES.resolve(scope(peer, *lines))
    return found["client"][0] if found["client"] else ""


@pytest.mark.parametrize("peer", ["203.0.113.7", "127.0.0.1", "10.0.0.6", "192.168.0.1", "", "@socket", None])
def test_nobody_else_is_believed(peer: str | None):
    sent = scope(peer, "192.0.2.1")
    assert PROXIES.resolve(sent) is sent
    assert proxy_of(sent) == ""


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["192.0.2.1"], "192.0.2.1"),
        # Whatever the client has sent stands further to the left.
        (["198.51.100.1, 192.0.2.1"], "192.0.2.1"),
        (["198.51.100.1", "192.0.2.1"], "192.0.2.1"),
        ([f"{NEAR}, 192.0.2.1"], "192.0.2.1"),
        # A chain of proxies.
        ([f"192.0.2.1, {FAR}"], "192.0.2.1"),
        (["192.0.2.1", FAR, f"{EDGE},{NEAR}"], "192.0.2.1"),
        ([f"198.51.100.1, 192.0.2.1 ,{FAR}"], "192.0.2.1"),
        # With a port, in brackets, in other spellings.
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["[2001:db8::7]:4711"], "2001:db8::7"),
        (["[2001:db8::7]"], "2001:db8::7"),
        (["2001:DB8:0::7"], "2001:db8::7"),
        (["::ffff:192.0.2.1"], "192.0.2.1"),
        (["fe80::7%eth0"], "fe80::7"),
        # What is no address ends the search.
        (["192.0.2.1, unknown"], NEAR),
        ([f"192.0.2.1, _hidden, {FAR}"], FAR),
        (["192.0.2.1,"], NEAR),
        ([""], NEAR),
        (["192.0.2.1 198.51.100.1"], NEAR),
        (["192.0.2.1:x:y"], NEAR),
        (["192.0.2.999"], NEAR),
        (["\xff\xfe"], NEAR),
        # Only proxies.
        ([FAR], FAR),
        ([], NEAR),
    ],
)
def test_the_first_from_the_right_that_is_no_proxy_is_the_client(lines: list[str], found: str):
    assert client(NEAR, *lines) == found
    assert proxy_of(PROXIES.resolve(scope(NEAR, *lines))) == NEAR


def test_a_scope_keeps_everything_else():
    sent = {**scope(NEAR, "192.0.2.1"), "path": "/mcp", "extensions": {"other": {}}}
    found = PROXIES.resolve(sent)
    assert found["path"] == "/mcp"
    assert "other" in found["extensions"]
    assert sent["extensions"] == {"other": {}}
    assert sent["client"] == (NEAR, 4711)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_no_header_makes_it_fail_or_name_what_is_no_address(lines: list[bytes]):
    headers = [(b"x-forwarded-for", line) for line in lines]
    found = PROXIES.resolve({"type": "http", "client": (NEAR, 1), "headers": headers})["client"][0]
    assert read_address(found) is not None


def test_a_block_is_an_address_or_64_bits_of_ipv6():
    assert block_of("192.0.2.1") == "192.0.2.1"
    assert block_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert block_of("2001:db8:0:1::7") == block_of("2001:db8:0:1:ffff::%eth0") == "2001:db8:0:1::/64"
    assert block_of("2001:db8:0:2::7") != block_of("2001:db8:0:1::7")
    assert block_of("@socket") == "@socket"
