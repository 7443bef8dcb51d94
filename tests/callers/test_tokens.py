"""JWTs: who they show, and every way in which one may be wrong."""

import base64
import json
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey, RSAKey

from tests.callers.issuer import (
    EC,
    ED,
    KEYS,
    RESOURCE,
    RSA,
    STRANGER,
    Issuer,
    issuing,
    public_pem,
    segment,
    shown,
    sign,
    sign_hmac,
)
from tests.rest.loopback import loopback, reply
from toolyard.callers.errors import InsufficientScopeError, InvalidTokenError, IssuerUnavailableError
from toolyard.callers.tokens import MAX_CACHED, MAX_TOKEN, token_verifiers
from toolyard.config.caller_tables import ALGORITHMS
from toolyard.config.callers import AuthConfig, IssuerConfig
from toolyard.config.errors import ConfigError
from toolyard.extras import install_command


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "EdDSA")])
async def test_a_token_shows_its_user_by_each_algorithm(issuer: Issuer, key: Any, algorithm: str):
    token = issuer.token(key, algorithm, client_id="app", scope="read write", groups=["staff"])
    principal = await shown(issuer.verifier(), token)
    assert (principal.subject, principal.issuer, principal.client) == ("anna", issuer.url, "app")
    assert principal.tenant == "127.0.0.1"
    assert principal.kind == "jwt"
    assert principal.scopes == {"read", "write"}
    assert principal.groups == {"staff"}


async def test_a_token_says_when_it_ends_so_that_no_grant_outlives_it(issuer: Issuer):
    end = int(issuer.clocks.day) + 300
    assert (await shown(issuer.verifier(), issuer.token(exp=end))).expires == end


async def test_claims_are_mapped_by_the_configuration(issuer: Issuer):
    claims = {
        "tenant": "org.id",
        "subject": "email",
        "agent": "https://example.com/agent",
        "client": "app",
        "groups": "realm_access.roles",
    }
    token = issuer.token(
        **{
            "org": {"id": 42},
            "email": "anna@example.com",
            "https://example.com/agent": "writer",
            "app": "desk",
            "realm_access": {"roles": "staff admins"},
            "scp": ["read"],
        }
    )
    principal = await shown(issuer.verifier(claims=claims), token)
    assert (principal.tenant, principal.subject, principal.agent) == ("42", "anna@example.com", "writer")
    assert (principal.client, principal.groups, principal.scopes) == ("desk", {"staff", "admins"}, {"read"})


async def test_a_tenant_of_the_configuration_goes_before_a_claim(issuer: Issuer):
    verifier = issuer.verifier(tenant="acme", claims={"tenant": "tid"})
    assert (await shown(verifier, issuer.token(tid="other"))).tenant == "acme"


async def test_a_token_without_the_claim_of_its_tenant_falls_into_no_other_tenant(issuer: Issuer):
    with pytest.raises(InvalidTokenError, match="'tid', which names its tenant"):
        await shown(issuer.verifier(claims={"tenant": "tid"}), issuer.token())


async def test_a_token_that_a_client_got_for_itself_shows_the_client(issuer: Issuer):
    token = issuer.token(sub=None, client_id="robot")
    assert (await shown(issuer.verifier(), token)).subject == "robot"
    with pytest.raises(InvalidTokenError, match="'email', which names its user"):
        await shown(issuer.verifier(claims={"subject": "email"}), token)


async def refused(issuer: Issuer, token: str, match: str, resource: str = RESOURCE, **config: Any) -> None:
    with pytest.raises(InvalidTokenError, match=match):
        await issuer.verifier(**config).verify(token, resource)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", ""])
async def test_a_token_without_a_signature_is_refused(issuer: Issuer, algorithm: str):
    head = {"alg": algorithm, "kid": "rsa", "typ": "JWT"}
    for signature in ("", segment(b"x")):
        token = f"{segment(head)}.{segment(issuer.claims())}.{signature}"
        await refused(issuer, token, "algorithm .* is not allowed")
    assert issuer.fetched == 0


def test_no_configuration_can_allow_none_or_hmac():
    assert all(name[:2] in ("RS", "PS", "ES", "Ed") for name in ALGORITHMS)


async def test_hmac_with_a_public_key_is_refused(issuer: Issuer):
    token = sign_hmac({"alg": "HS256", "kid": "rsa"}, issuer.claims(), public_pem(RSA))
    await refused(issuer, token, "'HS256' is not allowed")
    token = sign_hmac({"alg": "RS256", "kid": "rsa"}, issuer.claims(), public_pem(RSA))
    await refused(issuer, token, "signature is wrong")


async def test_hmac_is_refused_though_the_key_set_has_a_secret(issuer: Issuer):
    secret = b"a secret of thirty-two bytes or so"
    entry = {"kty": "oct", "k": segment(secret), "kid": "oct", "alg": "HS256"}
    issuer.web.on(KEYS, reply({"keys": [entry, RSA.as_dict(private=False)]}))
    for algorithm in ("HS256", "RS256"):
        token = sign_hmac({"alg": algorithm, "kid": "oct"}, issuer.claims(), secret)
        await refused(issuer, token, "not allowed|does not publish")


async def test_an_algorithm_that_the_key_is_not_for_is_refused(issuer: Issuer):
    # The EC key signs; the header says RSA, and the other way round.
    crossed = sign({"alg": "RS256", "kid": "ec"}, issuer.claims(), EC, "ES256")
    await refused(issuer, crossed, "does not publish")
    crossed = sign({"alg": "ES256", "kid": "rsa"}, issuer.claims(), RSA, "RS256")
    await refused(issuer, crossed, "does not publish")


async def test_an_algorithm_that_is_not_configured_is_refused(issuer: Issuer):
    await refused(issuer, issuer.token(), "'RS256' is not allowed", algorithms=("ES256",))
    assert (await shown(issuer.verifier(algorithms=("ES256",)), issuer.token(EC, "ES256"))).subject == "anna"


async def test_a_signature_of_another_key_is_refused(issuer: Issuer):
    await refused(issuer, issuer.token(STRANGER), "signature is wrong")


async def test_a_changed_claim_is_refused(issuer: Issuer):
    head, _, signature = issuer.token().split(".")
    await refused(issuer, f"{head}.{segment(issuer.claims(sub='root'))}.{signature}", "signature is wrong")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"iss": "https://evil.example"}, "issuer that is not trusted"),
        ({"iss": None}, "issuer that is not trusted"),
        ({"iss": ["http://127.0.0.1"]}, "issuer that is not trusted"),
        ({"aud": "https://other.example/mcp"}, "another audience"),
        ({"aud": ["https://other.example", "urn:x"]}, "another audience"),
        ({"aud": "http://127.0.0.1:8321/mcp2"}, "another audience"),
        ({"aud": "http://127.0.0.1:8321"}, "another audience"),
        ({"aud": "http://127.0.0.1:8321/MCP"}, "another audience"),
        ({"aud": None}, "no 'aud'"),
        ({"aud": {"http://127.0.0.1:8321/mcp": 1}}, "no 'aud'"),
        ({"exp": None}, "no 'exp'"),
        ({"exp": "tomorrow"}, "'exp' is not a time"),
        ({"exp": True}, "'exp' is not a time"),
        ({"exp": 10**400}, "'exp' is not a time"),
        ({"exp": 1_800_000_000 - 61}, "has expired"),
        ({"nbf": 1_800_000_000 + 62}, "not valid yet"),
        ({"nbf": "now"}, "'nbf' is not a time"),
        ({"iat": 1_800_000_000 + 62}, "not valid yet"),
        ({"sub": None}, "no 'sub'"),
        ({"sub": ""}, "no 'sub'"),
        ({"sub": ["anna"]}, "'sub' is not a usable name"),
        ({"sub": "anna\nroot"}, "'sub' is not a usable name"),
        ({"sub": "a" * 513}, "'sub' is not a usable name"),
        ({"groups": {"a": 1}}, "'groups' is not a list"),
        ({"groups": ["a", 1]}, "'groups' has something"),
        ({"groups": ["a"] * 1001}, "very long"),
        ({"scope": 7}, "'scope' is not a list"),
        ({"cnf": {"jkt": "x"}}, "bound to a key"),
        ({"events": {}}, "reports events"),
        ({"typ": "ID"}, "type 'ID'"),
        ({"typ": "Refresh"}, "type 'Refresh'"),
        ({"token_use": "id"}, "type 'id'"),
    ],
)
async def test_a_claim_that_is_wrong(issuer: Issuer, changed: dict[str, Any], match: str):
    await refused(issuer, issuer.token(**changed), match)


async def test_an_issuer_is_compared_as_the_text_it_is(issuer: Issuer):
    for other in (f"{issuer.url}/", issuer.url.upper(), f" {issuer.url}"):
        await refused(issuer, issuer.token(iss=other), "issuer that is not trusted")


async def test_leeway_is_for_clocks_that_differ(issuer: Issuer):
    now = int(issuer.clocks.day)
    token = issuer.token(exp=now - 59, nbf=now - 3600, iat=now - 3600)
    assert (await shown(issuer.verifier(), token)).subject == "anna"
    await refused(issuer, token, "has expired", leeway=0.0)


async def test_an_id_token_is_refused(issuer: Issuer):
    for claims in ({"nonce": "x"}, {"at_hash": "x"}, {"c_hash": "x"}):
        token = sign({"alg": "RS256", "kid": "rsa", "typ": "JWT"}, issuer.claims(**claims), RSA)
        await refused(issuer, token, "ID token")
    # Older releases of Keycloak put a nonce into access tokens, and say what they are.
    token = issuer.token(header={"typ": "JWT"}, nonce="x", typ="Bearer")
    assert (await shown(issuer.verifier(), token)).subject == "anna"


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", None])
async def test_types_of_access_tokens(issuer: Issuer, kind: str | None):
    assert (await shown(issuer.verifier(), issuer.token(header={"typ": kind}))).subject == "anna"


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "oauth-id-jag+jwt", "secevent+jwt", "JOSE"])
async def test_types_of_other_tokens_are_refused(issuer: Issuer, kind: str):
    await refused(issuer, issuer.token(header={"typ": kind}), "no access token")


@pytest.mark.parametrize(
    "extension", [{"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}, {"b64": True}]
)
async def test_an_extension_that_must_be_understood_is_refused(issuer: Issuer, extension: dict[str, Any]):
    await refused(issuer, issuer.token(header=extension), "extension")


async def test_keys_that_a_token_brings_along_are_not_looked_at(issuer: Issuer):
    async with loopback() as evil:
        for header in (
            {"jku": f"{evil.url}/keys"},
            {"x5u": f"{evil.url}/chain"},
            {"jwk": STRANGER.as_dict(private=False)},
            {"x5c": ["MIIB"], "x5t": "x"},
        ):
            await refused(issuer, issuer.token(STRANGER, header=header), "signature is wrong")
            # They do no harm beside a good signature: some issuers add them.
            assert (await shown(issuer.verifier(), issuer.token(header=header))).subject == "anna"
        assert evil.asked == []


@pytest.mark.parametrize(
    "kid",
    ["../../../../dev/null", "/etc/passwd", "http://127.0.0.1:1/key", "rsa' OR 1=1 --", "", "\x00", "ключ"],
)
async def test_a_key_id_is_a_name_and_nothing_else(issuer: Issuer, kid: str):
    await refused(issuer, issuer.token(STRANGER, header={"kid": kid}), "does not publish")
    assert {asked.path for asked in issuer.web.asked} <= {"/keys", "/.well-known/oauth-authorization-server"}


@pytest.mark.parametrize("kid", [7, ["rsa"], {"a": "b"}, True])
async def test_a_key_id_that_is_no_text_is_refused(issuer: Issuer, kid: Any):
    await refused(issuer, issuer.token(header={"kid": kid}), "header cannot be read")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "eyJ",
        "eyJ..",
        "a.b.c",
        "eyJhbGciOiJSUzI1NiJ9.e30",
        "eyJhbGciOiJSUzI1NiJ9.e30.x.y.z",
        "eyJhbGciOiJSUzI1NiJ9.e30=.c2ln",
        "eyJhbGciOiJSUzI1NiJ9.W10.c2ln",
        "eyJhbGciOiJSUzI1NiJ9.bnVsbA.c2ln",
        "eyJhbGciOiJSUzI1NiJ9. e30.c2ln",
        "eyJhbGciOiJSUzI1NiJ9.e30.\ud800",
        "eyJhbGciOiJSUzI1NiJ9.e30.ü",
    ],
)
async def test_what_is_no_jwt_is_refused(issuer: Issuer, token: str):
    await refused(issuer, token, "The token")


async def test_json_that_is_too_deep_is_refused(issuer: Issuer):
    deep = b'{"a":' * 2500 + b"1" + b"}" * 2500
    head = segment({"alg": "RS256", "kid": "rsa"})
    await refused(issuer, f"{head}.{base64.urlsafe_b64encode(deep).decode().rstrip('=')}.c2ln", "The token")


async def test_a_token_of_a_megabyte_is_refused_unread(issuer: Issuer):
    token = issuer.token(padding="x" * 1_000_000)
    await refused(issuer, token, f"longer than {MAX_TOKEN}")
    assert issuer.web.asked == []


async def test_the_last_of_two_claims_of_a_name_counts_as_the_signature_covers_both(issuer: Issuer):
    body = json.dumps(issuer.claims())[:-1] + ', "sub": "ben"}'
    token = sign({"alg": "RS256", "kid": "rsa"}, body.encode(), RSA)
    assert (await shown(issuer.verifier(), token)).subject == "ben"


async def test_a_token_for_the_main_endpoint_counts_below_it_and_not_the_other_way_round(issuer: Issuer):
    verifier = issuer.verifier()
    assert (await shown(verifier, issuer.token(), f"{RESOURCE}/git")).subject == "anna"
    one = issuer.token(aud=f"{RESOURCE}/git")
    assert (await shown(verifier, one, f"{RESOURCE}/git")).subject == "anna"
    for elsewhere in (RESOURCE, f"{RESOURCE}/files"):
        with pytest.raises(InvalidTokenError, match="another audience"):
            await verifier.verify(one, elsewhere)


async def test_a_cached_token_is_held_to_its_audience_at_every_endpoint(issuer: Issuer):
    verifier = issuer.verifier()
    token = issuer.token(aud=f"{RESOURCE}/git")
    for _ in range(2):
        await shown(verifier, token, f"{RESOURCE}/git")
        with pytest.raises(InvalidTokenError, match="another audience"):
            await verifier.verify(token, RESOURCE)


async def test_audiences_of_the_configuration_replace_the_address(issuer: Issuer):
    verifier = issuer.verifier(audiences=("api://yard", "yard"))
    assert (await shown(verifier, issuer.token(aud=["x", "api://yard"]))).subject == "anna"
    with pytest.raises(InvalidTokenError, match="another audience"):
        await verifier.verify(issuer.token(), RESOURCE)


async def test_without_a_known_address_no_token_is_for_us(issuer: Issuer):
    await refused(issuer, issuer.token(aud=""), "does not know its own address", resource="")


async def test_scopes_that_every_token_needs(issuer: Issuer):
    verifier = issuer.verifier(scopes=("mcp", "read"))
    with pytest.raises(InsufficientScopeError) as caught:
        await verifier.verify(issuer.token(scope="read"), RESOURCE)
    assert caught.value.scopes == ("mcp", "read")
    assert (await shown(verifier, issuer.token(scope="read mcp more"))).subject == "anna"


async def test_a_token_seen_before_shows_the_same_principal(issuer: Issuer):
    verifier, token = issuer.verifier(), issuer.token()
    first = await shown(verifier, token)
    assert await shown(verifier, token) is first
    issuer.clocks.pass_by(400)  # verified again meanwhile
    assert await shown(verifier, token) is first


async def test_a_cached_token_ends_with_its_time(issuer: Issuer):
    verifier, token = issuer.verifier(), issuer.token(exp=int(issuer.clocks.day) + 100)
    await shown(verifier, token)
    issuer.clocks.pass_by(161)
    with pytest.raises(InvalidTokenError, match="has expired"):
        await verifier.verify(token, RESOURCE)


async def test_a_clock_that_jumps_forward_ends_a_token_at_once(issuer: Issuer):
    verifier, token = issuer.verifier(), issuer.token()
    await shown(verifier, token)
    issuer.clocks.day += 3661  # the time of day alone
    with pytest.raises(InvalidTokenError, match="has expired"):
        await verifier.verify(token, RESOURCE)


async def test_a_clock_that_jumps_back_makes_a_token_not_valid_yet(issuer: Issuer):
    verifier, token = issuer.verifier(), issuer.token()
    await shown(verifier, token)
    issuer.clocks.day -= 3600
    with pytest.raises(InvalidTokenError, match="not valid yet"):
        await verifier.verify(token, RESOURCE)


async def test_a_key_that_is_withdrawn_ends_the_tokens_it_signed(issuer: Issuer):
    verifier, token = issuer.verifier(), issuer.token(exp=int(issuer.clocks.day) + 86_400)
    await shown(verifier, token)
    successor = ECKey.generate_key("P-256", {"kid": "successor"})
    issuer.publish(successor)
    issuer.clocks.pass_by(20)
    await shown(verifier, issuer.token(successor, "ES256"))  # has the keys renewed
    assert (await shown(verifier, token)).subject == "anna"  # known, until it is verified again
    issuer.clocks.pass_by(301)
    with pytest.raises(InvalidTokenError, match="does not publish"):
        await verifier.verify(token, RESOURCE)


async def test_the_cache_is_bounded_and_has_good_tokens_only(issuer: Issuer, monkeypatch: pytest.MonkeyPatch):
    assert MAX_CACHED <= 10_000
    monkeypatch.setattr("toolyard.callers.tokens.MAX_CACHED", 3)
    verifier = issuer.verifier(algorithms=("EdDSA",))
    tokens = [issuer.token(ED, "EdDSA", jti=str(number)) for number in range(5)]
    first = [await shown(verifier, token) for token in tokens]
    again = [await shown(verifier, token) for token in reversed(tokens)]
    kept = [one is other for one, other in zip(first, reversed(again), strict=True)]
    assert kept[-1]
    assert not kept[0]


async def test_nothing_of_a_token_stays_in_the_principal(issuer: Issuer):
    token = issuer.token(client_id="app", scope="read")
    principal = await shown(issuer.verifier(), token)
    told = repr(principal) + str(pickle.dumps(principal))
    assert all(part not in told for part in token.split("."))
    assert principal.credential
    assert principal.credential not in token


async def test_an_error_quotes_nothing_of_the_signature(issuer: Issuer):
    token = issuer.token(STRANGER)
    with pytest.raises(InvalidTokenError) as caught:
        await issuer.verifier().verify(token, RESOURCE)
    assert all(part not in caught.value.reason for part in token.split("."))
    assert caught.value.description == caught.value.reason == "The token's signature is wrong"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "joserfc.jws", None)
    with pytest.raises(ConfigError, match="joserfc and cryptography") as caught:
        token_verifiers(AuthConfig(issuers=(IssuerConfig(issuer="https://a.example"),)))
    assert caught.value.hint == install_command("auth")


def test_a_jwt_is_told_by_its_shape(issuer: Issuer):
    verifier = issuer.verifier()
    for head in (b'{"alg":1}', b'{ "alg":1}', b'{\r\n"alg":1}', b"{\t}"):
        assert verifier.recognizes(f"{segment(head)}.e30.x")
    for other in ("", "ty_key", "e.f.g", "opaque.with.dots", "eyJ.e30", "eyJ.a.b.c.d"):
        assert not verifier.recognizes(other)


async def test_users_whose_names_look_alike_are_different_users(issuer: Issuer):
    verifier = issuer.verifier()
    names = ["anna", "Anna", "\u0430nna", "anna\u0301", "ann\u00e1"]
    owners = {(await shown(verifier, issuer.token(sub=name))).owner for name in names}
    assert len(owners) == len(names)


async def test_users_of_two_issuers_are_different_users(issuer: Issuer):
    async with issuing() as other:
        one = await shown(issuer.verifier(tenant="acme"), issuer.token())
        two = await shown(other.verifier(tenant="acme"), other.token())
        assert one.tenant == two.tenant
        assert one.owner != two.owner


@pytest.mark.parametrize(
    ("issuers", "match"),
    [
        ([{"issuer": "http://login.example"}], "anybody on the way"),
        ([{"issuer": "https://login.example", "jwks_url": "http://login.example/k"}], "anybody on the way"),
        ([{"issuer": "https://a.example"}, {"issuer": "https://a.example"}], "twice"),
        (
            [
                {"issuer": "https://a.example", "introspection_url": "https://a.example/i"},
                {"issuer": "https://b.example", "introspection_url": "https://b.example/i"},
            ],
            "'introspection_url' twice",
        ),
    ],
)
def test_issuers_that_cannot_be_trusted_as_configured(issuers: list[dict[str, Any]], match: str):
    with pytest.raises(ConfigError, match=match):
        token_verifiers(AuthConfig(issuers=tuple(IssuerConfig(**each) for each in issuers)))


def test_plain_http_is_for_those_who_say_so():
    issuers = (IssuerConfig(issuer="http://keycloak:8080/realms/x", plain_http=True),)
    assert len(token_verifiers(AuthConfig(issuers=issuers))) == 1
    assert token_verifiers(AuthConfig()) == ()


@pytest.mark.filterwarnings("ignore:Key size")
async def test_weak_keys_of_an_issuer_are_not_used(issuer: Issuer):
    small = RSAKey.generate_key(1024, {"kid": "small"})
    issuer.publish(small, RSA)
    await refused(issuer, issuer.token(small), "does not publish")


async def test_a_key_for_encryption_signs_nothing(issuer: Issuer):
    sealing = ECKey.generate_key("P-256", {"kid": "enc", "use": "enc"})
    issuer.publish(sealing, RSA)
    await refused(issuer, issuer.token(sealing, "ES256"), "does not publish")


async def test_a_token_has_one_spelling(issuer: Issuer):
    token = issuer.token()
    verifier = issuer.verifier()
    await shown(verifier, token)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for letter in letters.replace(token[-1], ""):
        with pytest.raises(InvalidTokenError):
            await verifier.verify(token[:-1] + letter, RESOURCE)


@given(data=st.data())
async def test_no_change_of_a_token_is_accepted_and_none_does_harm(data: st.DataObject):
    async with issuing() as issuer:
        verifier, token = issuer.verifier(), issuer.token(ED, "EdDSA")
        start = data.draw(st.integers(0, len(token) - 1))
        end = data.draw(st.integers(start, len(token)))
        changed = token[:start] + data.draw(st.text(max_size=8)) + token[end:]
        if changed != token:
            with pytest.raises((InvalidTokenError, IssuerUnavailableError)):
                await verifier.verify(changed, RESOURCE)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    ["iss", "aud", "sub", "exp", "nbf", "iat", "scope", "scp", "groups", "client_id", "azp", "typ", "org"]
)


@given(claims=st.dictionaries(_NAMES, _JSON, max_size=5))
async def test_whatever_claims_a_trusted_issuer_signs_are_read_or_refused(claims: dict[str, Any]):
    async with issuing() as issuer:
        verifier = issuer.verifier(claims={"tenant": "org.id", "agent": "org.agent"})
        token = sign({"alg": "EdDSA", "kid": "ed"}, issuer.claims(org={"id": "x"}) | claims, ED)
        try:
            principal = await verifier.verify(token, RESOURCE)
        except InvalidTokenError:
            return
        assert principal.subject
        assert principal.tenant
        assert principal.owner
