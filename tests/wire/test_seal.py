"""Sealed tokens: they come back as they went out, or not at all."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.wire.seal import BrokenSeal, Sealer, digest

SEALER = Sealer(b"a key of at least sixteen bytes")


@given(st.binary(max_size=200))
def test_a_payload_survives_the_round_trip(payload: bytes):
    assert SEALER.open(SEALER.seal(payload, "test"), "test") == payload


@given(st.binary(max_size=200))
def test_a_token_is_visible_ascii_that_a_header_can_carry(payload: bytes):
    token = SEALER.seal(payload, "test")
    assert all("!" <= character <= "~" for character in token)


@given(st.binary(max_size=60), st.integers(0), st.integers(1, 255))
def test_a_change_of_any_byte_breaks_the_seal(payload: bytes, place: int, change: int):
    raw = bytearray(base64.urlsafe_b64decode(SEALER.seal(payload, "test") + "=="))
    raw[place % len(raw)] ^= change
    with pytest.raises(BrokenSeal):
        SEALER.open(base64.urlsafe_b64encode(raw).decode().rstrip("="), "test")


@given(st.binary(max_size=60), st.integers(0), st.characters(max_codepoint=0x17F))
def test_a_change_of_any_character_breaks_the_seal(payload: bytes, place: int, character: str):
    token = SEALER.seal(payload, "test")
    place %= len(token)
    changed = token[:place] + character + token[place + 1 :]
    if changed != token:
        with pytest.raises(BrokenSeal):
            SEALER.open(changed, "test")


@given(st.binary(max_size=60), st.integers(1, 40))
def test_a_token_cut_short_or_made_longer_is_broken(payload: bytes, count: int):
    token = SEALER.seal(payload, "test")
    for changed in (token[:-count], token[count:], token + "A" * count, token + "=" * count, " " + token):
        with pytest.raises(BrokenSeal):
            SEALER.open(changed, "test")


def test_every_flipped_bit_of_a_token_breaks_it():
    token = SEALER.seal(b"payload", "test").encode()
    for place in range(len(token)):
        for bit in range(7):
            changed = bytearray(token)
            changed[place] ^= 1 << bit
            with pytest.raises(BrokenSeal):
                SEALER.open(changed.decode("latin-1"), "test")


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_what_was_never_sealed_is_broken(text: str):
    with pytest.raises(BrokenSeal):
        SEALER.open(text, "test")


def test_a_token_of_one_purpose_does_not_open_for_another():
    token = SEALER.seal(b"payload", "session")
    with pytest.raises(BrokenSeal):
        SEALER.open(token, "round")
    with pytest.raises(BrokenSeal):
        SEALER.open(token, "sessio")


def test_the_same_key_opens_in_another_process_and_another_key_does_not():
    token = SEALER.seal(b"payload", "test")
    assert Sealer(b"a key of at least sixteen bytes").open(token, "test") == b"payload"
    with pytest.raises(BrokenSeal):
        Sealer(b"another key of at least sixteen").open(token, "test")


def test_without_a_key_each_sealer_makes_its_own():
    with pytest.raises(BrokenSeal):
        Sealer().open(Sealer().seal(b"payload", "test"), "test")


@pytest.mark.parametrize("key", [b"", b"short", b"fifteen bytes .."[:15]])
def test_a_key_too_short_to_protect_anything_is_refused(key: bytes):
    with pytest.raises(ValueError, match="16 bytes"):
        Sealer(key)


def test_a_key_may_be_of_any_greater_length():
    long = Sealer(b"k" * 1000)
    assert long.open(long.seal(b"payload", "test"), "test") == b"payload"


def test_a_digest_depends_on_every_part_and_on_where_parts_end():
    assert digest(b"ab", b"c") == digest(b"ab", b"c")
    assert len({digest(b"ab", b"c"), digest(b"a", b"bc"), digest(b"abc"), digest(b"ab", b"d"), digest()}) == 5


def test_a_token_of_one_scope_is_no_token_of_another():
    key = b"a key of at least sixteen bytes"
    token = Sealer(key, "cheap").seal(b"payload", "test")
    assert Sealer(key, "cheap").open(token, "test") == b"payload"
    with pytest.raises(BrokenSeal):
        Sealer(key, "dear").open(token, "test")
