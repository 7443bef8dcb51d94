"""Key sets: rotation, outages, floods of unknown keys, and documents that are too big, slow, or misplaced."""

import asyncio
import json
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from tests.callers.issuer import EC, KEYS, METADATA, RESOURCE, RSA, Issuer, shown
from tests.rest.loopback import HANG_UP, NEVER, Asked, Raw, loopback, reply
from tests.waiting import PATIENCE, until
from toolyard.callers.errors import InvalidTokenError, IssuerUnavailableError
from toolyard.callers.issuer_client import IssuerClient
from toolyard.callers.key_sets import KEEP, MAX_DOCUMENT, metadata_urls, read_key_set

NEW = RSAKey.generate_key(2048, {"kid": "new"})


async def test_keys_are_fetched_once_for_all_tokens(issuer: Issuer):
    verifier = issuer.verifier()
    assert issuer.web.asked == []
    await asyncio.gather(*(shown(verifier, issuer.token(jti=str(number))) for number in range(50)))
    assert issuer.fetched == 1


async def test_a_rotated_key_is_fetched_when_a_token_names_it(issuer: Issuer):
    verifier = issuer.verifier()
    await shown(verifier, issuer.token())
    issuer.publish(NEW, RSA)
    issuer.clocks.pass_by(10)
    tokens = [issuer.token(NEW, jti=str(number)) for number in range(20)]
    await asyncio.gather(*(shown(verifier, token) for token in tokens))
    assert issuer.fetched == 2


async def test_a_key_without_a_name_is_replaced_by_another(issuer: Issuer):
    one, two = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
    issuer.publish(one)
    verifier = issuer.verifier()
    await shown(verifier, issuer.token(one, header={"kid": None}))
    issuer.publish(two)
    issuer.clocks.pass_by(10)
    await shown(verifier, issuer.token(two, header={"kid": None}))
    assert issuer.fetched == 2


async def test_thousands_of_unknown_key_ids_cause_one_fetch_in_an_interval(issuer: Issuer):
    verifier = issuer.verifier(algorithms=("ES256",))
    await shown(verifier, issuer.token(EC, "ES256"))

    async def flood(start: int) -> None:
        for number in range(start, start + 1000):
            token = issuer.token(EC, "ES256", header={"kid": f"junk-{number}"})
            with pytest.raises(InvalidTokenError, match="does not publish"):
                await verifier.verify(token, RESOURCE)

    await flood(0)
    assert issuer.fetched == 1  # just fetched: no need to ask again
    issuer.clocks.pass_by(10)
    await asyncio.gather(*(flood(number * 1000) for number in range(1, 4)))
    assert issuer.fetched == 2
    assert (await shown(verifier, issuer.token(EC, "ES256"))).subject == "anna"


async def test_keys_are_renewed_in_the_background(issuer: Issuer):
    verifier = issuer.verifier()
    await shown(verifier, issuer.token())
    issuer.web.on(KEYS, NEVER)
    issuer.clocks.pass_by(601)
    await shown(verifier, issuer.token())  # answered, though the issuer is not

    async def asked() -> bool:
        return issuer.fetched == 2

    await until(asked)
    await verifier.close()


@pytest.mark.parametrize("outage", [reply({}, 500), HANG_UP, reply(b"not json"), reply({"keys": []})])
async def test_keys_are_kept_through_an_outage(issuer: Issuer, outage: Raw):
    verifier = issuer.verifier()
    await shown(verifier, issuer.token())
    issuer.web.on(KEYS, outage)
    issuer.web.on(f"GET {METADATA}", outage)
    for _ in range(20):
        issuer.clocks.pass_by(3600)
        assert (await shown(verifier, issuer.token())).subject == "anna"
        with pytest.raises(IssuerUnavailableError):  # nobody can say whether it has become a good key
            await verifier.verify(issuer.token(NEW), RESOURCE)
    issuer.publish(NEW)
    issuer.web.on(f"GET {METADATA}", reply({"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}))
    issuer.clocks.pass_by(10)
    assert (await shown(verifier, issuer.token(NEW))).subject == "anna"


async def test_keys_are_not_kept_for_ever(issuer: Issuer):
    verifier = issuer.verifier()
    await shown(verifier, issuer.token())
    issuer.web.on(KEYS, reply({}, 500))
    issuer.clocks.pass_by(KEEP + 1)
    with pytest.raises(IssuerUnavailableError):
        await verifier.verify(issuer.token(), RESOURCE)


async def test_an_issuer_that_cannot_be_reached_is_asked_once_in_an_interval(issuer: Issuer):
    issuer.web.on(f"GET {METADATA}", reply({}, 503))
    verifier = issuer.verifier()
    for _ in range(50):
        with pytest.raises(IssuerUnavailableError) as caught:
            await verifier.verify(issuer.token(), RESOURCE)
        assert 1 <= caught.value.retry_after <= 10
        assert issuer.url not in caught.value.reason
    assert len(issuer.web.asked) == 1


async def test_an_operator_is_told_why_keys_cannot_be_read(issuer: Issuer):
    verifier = issuer.verifier()
    assert await verifier.problems() == {}
    issuer.web.on(KEYS, reply({}, 500))
    issuer.clocks.pass_by(10)
    assert await verifier.problems() == {issuer.url: f"{issuer.url}/keys answered 500"}
    issuer.web.on(f"GET {METADATA}", reply({"issuer": "https://a.example", "jwks_uri": "https://a.example"}))
    issuer.clocks.pass_by(10)
    assert (
        "'https://a.example'; 'issuer' must be the very same text" in (await verifier.problems())[issuer.url]
    )


async def test_a_port_where_nobody_listens(issuer: Issuer):
    verifier = issuer.verifier(jwks_url="http://127.0.0.1:9/keys")
    with pytest.raises(IssuerUnavailableError):
        await verifier.verify(issuer.token(), RESOURCE)


async def test_a_key_set_of_a_hundred_megabytes_is_cut_off(issuer: Issuer):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    size = 100 * 1024 * 1024
    issuer.web.on(KEYS, Raw(head + b"Content-Length: %d\r\n\r\n" % size + b"x" * 1000, never=True))
    with pytest.raises(IssuerUnavailableError):
        await issuer.verifier().verify(issuer.token(), RESOURCE)
    # One that does not say how big it is.
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    issuer.web.on(KEYS, Raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 32, never=True))
    with pytest.raises(IssuerUnavailableError):
        await issuer.verifier().verify(issuer.token(), RESOURCE)
    assert MAX_DOCUMENT <= 1024 * 1024


async def test_a_key_set_that_hangs_is_given_up(issuer: Issuer):
    issuer.client = IssuerClient(timeout=0.2)
    issuer.web.on(KEYS, Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", never=True))
    verifier = issuer.verifier()
    waiting = [verifier.verify(issuer.token(jti=str(number)), RESOURCE) for number in range(20)]
    async with asyncio.timeout(PATIENCE):
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, IssuerUnavailableError) for result in results)
    assert issuer.fetched == 1


async def test_redirects_are_not_followed(issuer: Issuer):
    async with loopback() as elsewhere:
        elsewhere.on(KEYS, reply({"keys": [NEW.as_dict(private=False)]}))
        for status in (301, 302, 307, 308):
            issuer.web.on(KEYS, reply(None, status, location=f"{elsewhere.url}/keys"))
            with pytest.raises(IssuerUnavailableError):
                await issuer.verifier().verify(issuer.token(NEW), RESOURCE)
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example", "jwks_uri": "{url}/keys"},
        {"issuer": "{url}/", "jwks_uri": "{url}/keys"},
        {"issuer": "{url}"},
        {"issuer": "{url}", "jwks_uri": 7},
        {"issuer": "{url}", "jwks_uri": "http://login.example/keys"},
        {"issuer": "{url}", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "{url}", "jwks_uri": "http://user:password@127.0.0.1/keys"},
        [],
    ],
)
async def test_metadata_that_are_wrong(issuer: Issuer, document: Any):
    if isinstance(document, dict):
        document = {
            name: value.replace("{url}", issuer.url) if isinstance(value, str) else value
            for name, value in document.items()
        }
    issuer.web.on(f"GET {METADATA}", reply(document))
    with pytest.raises(IssuerUnavailableError):
        await issuer.verifier().verify(issuer.token(), RESOURCE)
    assert issuer.fetched == 0


@pytest.mark.parametrize(
    "first", [reply({}, 404), reply({}, 400), reply(b"<html>", kind="text/html"), reply({"issuer": "x"})]
)
async def test_metadata_of_openid_connect_are_found_too(issuer: Issuer, first: Raw):
    issuer.web.on(f"GET {METADATA}", first)
    found = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
    issuer.web.on("GET /.well-known/openid-configuration", reply(found))
    assert (await shown(issuer.verifier(), issuer.token())).subject == "anna"


def test_where_metadata_may_be():
    assert metadata_urls("https://a.example") == (
        "https://a.example/.well-known/oauth-authorization-server",
        "https://a.example/.well-known/openid-configuration",
    )
    assert metadata_urls("https://a.example/realms/x") == (
        "https://a.example/.well-known/oauth-authorization-server/realms/x",
        "https://a.example/.well-known/openid-configuration/realms/x",
        "https://a.example/realms/x/.well-known/openid-configuration",
    )


async def test_an_address_of_keys_needs_no_metadata(issuer: Issuer):
    query = "?p=policy"

    def keys(asked: Asked) -> Raw:
        assert asked.target == f"/keys{query}"
        return reply({"keys": [RSA.as_dict(private=False)]})

    issuer.web.on(KEYS, keys)
    verifier = issuer.verifier(jwks_url=f"{issuer.url}/keys{query}")
    assert (await shown(verifier, issuer.token())).subject == "anna"
    assert len(issuer.web.asked) == 1


ALL = ("RS256", "PS256", "ES256", "ES384", "EdDSA")


def good() -> dict[str, Any]:
    return dict(RSA.as_dict(private=False))


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "AAAA"},
        {"kty": "RSA"},
        {"kty": ["RSA"], "n": "x", "e": "AQAB"},
        {"kty": "RSA", "n": "AAAA", "e": "AQAB"},
        {"kty": "RSA", "n": "!" * 342, "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA"},
        {"kty": "OKP", "crv": "X25519", "x": "A" * 43},
        {"kty": "OKP", "crv": {}, "x": "A" * 43},
        good() | {"kid": 7},
        good() | {"use": "enc"},
        good() | {"key_ops": ["encrypt"]},
        good() | {"key_ops": 7},
        good() | {"alg": "HS256"},
        good() | {"alg": ["RS256"]},
        good() | {"e": "AQ"},
        good() | {"e": "A" * 400},
        good() | {"n": "A" * 100_000},
    ],
)
def test_keys_that_cannot_be_used_are_left_out(entry: dict[str, Any]):
    keys = read_key_set(json.dumps({"keys": [entry, good()]}).encode(), ALL)
    assert [key.kid for key in keys] == ["rsa"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [1]}', b"\xff", b"[" * 5000])
def test_documents_that_are_no_key_sets(body: bytes):
    with pytest.raises(ValueError, match="not a key set"):
        read_key_set(body, ALL)


def test_a_private_key_that_was_published_by_mistake_is_used_as_a_public_one():
    body = json.dumps({"keys": [RSA.as_dict(private=True)]}).encode()
    (key,) = read_key_set(body, ALL)
    assert not key.key.is_private


def test_a_key_set_of_many_keys_is_read_in_part():
    body = json.dumps({"keys": [good() | {"kid": str(number)} for number in range(1000)]}).encode()
    assert len(read_key_set(body, ALL)) == 64
