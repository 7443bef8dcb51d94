"""Answers of authenticators without a gateway: which addresses have passkeys, and bytes of any kind."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.authserver.authenticator import CAN_SYNC, HAS_KEY, PRESENT, VERIFIED, Authenticator, text
from toolyard.authserver.passkeys import (
    Passkey,
    PasskeyError,
    RelyingParty,
    origin_of,
    read_assertion,
    relying_party,
    verify_assertion,
    verify_registration,
)


@pytest.mark.parametrize(
    ("base", "party"),
    [
        ("https://tools.example.com", ("tools.example.com", "https://tools.example.com")),
        ("https://Tools.Example.com:443/below", ("tools.example.com", "https://tools.example.com")),
        ("https://tools.example.com:8443", ("tools.example.com", "https://tools.example.com:8443")),
        ("http://localhost:8321", ("localhost", "http://localhost:8321")),
        ("http://localhost:80", ("localhost", "http://localhost")),
        ("http://tools.example.com", None),
        ("http://127.0.0.1:8321", None),
        ("https://192.0.2.1", None),
        ("https://[::1]", None),
        ("", None),
    ],
)
def test_passkeys_belong_to_a_name_that_browsers_trust(base: str, party: tuple[str, str] | None):
    found = relying_party(base)
    assert found == (None if party is None else RelyingParty(*party))
    if party is not None:
        assert origin_of(base) == party[1]


HERE = RelyingParty("localhost", "http://localhost:1")


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=200))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_make_anything_but_a_refusal(first: bytes, second: bytes, third: bytes):
    authenticator = Authenticator(HERE.origin)
    passkey = Passkey(credential=authenticator.credential, key=authenticator.public_key(), host="localhost")
    options = {"rpId": "localhost", "challenge": "abcd", "user": {"id": "x"}, "rp": {"id": "localhost"}}
    start = authenticator.data("localhost", PRESENT | VERIFIED | HAS_KEY | CAN_SYNC)
    for data in (first, start + first):
        answer = authenticator.get(
            options, authenticator_data=text(data), signature=text(second), more=third.hex()
        )
        with pytest.raises(PasskeyError):
            verify_assertion(read_assertion(answer), passkey, HERE, "abcd")
        new = authenticator.create(options, authenticator_data=text(data), public_key=text(third))
        with pytest.raises(PasskeyError):
            verify_registration(new, HERE, "abcd")
    with pytest.raises(PasskeyError):
        read_assertion(first.decode("latin-1"))
