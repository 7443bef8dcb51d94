"""Opaque tokens: what their issuer says, how long that counts, and what happens while it cannot be asked."""

import asyncio
import base64
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.callers.issuer import RESOURCE, Issuer, shown
from tests.rest.loopback import HANG_UP, Asked, Raw, loopback, reply
from tests.waiting import PATIENCE
from toolyard.callers.errors import InsufficientScopeError, InvalidTokenError, IssuerUnavailableError
from toolyard.callers.introspection import FAILURES, PAUSE
from toolyard.callers.issuer_client import IssuerClient
from toolyard.callers.tokens import token_verifiers
from toolyard.config.callers import AuthConfig

ASK = "POST /introspect"
TOKEN = "opaque-4b1f0c"


def says(issuer: Issuer, **changed: Any) -> None:
    issuer.web.on(ASK, reply({"active": True} | issuer.claims(**changed)))


async def test_an_active_token_shows_its_user(issuer: Issuer):
    says(issuer, client_id="app", scope="read write", username="Anna")
    principal = await shown(issuer.introspector(), TOKEN)
    assert (principal.subject, principal.client, principal.issuer) == ("anna", "app", issuer.url)
    assert (principal.scopes, principal.kind) == ({"read", "write"}, "introspection")
    assert TOKEN not in repr(principal)


async def test_the_question_is_asked_as_the_rfc_says(issuer: Issuer):
    says(issuer)
    await shown(issuer.introspector(), TOKEN)
    asked = issuer.web.last
    assert parse_qs(asked.body.decode()) == {"token": [TOKEN], "token_type_hint": ["access_token"]}
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    kind, _, pair = asked.headers["authorization"].partition(" ")
    assert (kind, base64.b64decode(pair)) == ("Basic", b"yard:p%3Aw+%C3%BC")
    assert TOKEN not in asked.target


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ({"active": False}, "not active"),
        ({}, "not active"),
        ({"active": "true"}, "not active"),
        ({"active": 1}, "not active"),
    ],
)
async def test_an_inactive_token_is_refused(issuer: Issuer, answer: Any, match: str):
    issuer.web.on(ASK, reply(answer))
    with pytest.raises(InvalidTokenError, match=match):
        await issuer.introspector().verify(TOKEN, RESOURCE)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"aud": None}, "no 'aud'"),
        ({"aud": "https://other.example/mcp"}, "another audience"),
        ({"iss": "https://evil.example"}, "issuer that is not trusted"),
        ({"exp": None}, "no 'exp'"),
        ({"exp": 1_800_000_000 - 61}, "has expired"),
        ({"nbf": 1_800_000_000 + 62}, "not valid yet"),
        ({"sub": None}, "no 'sub'"),
        ({"cnf": {"jkt": "x"}}, "bound to a key"),
    ],
)
async def test_claims_are_held_to_the_rules_of_jwts(issuer: Issuer, changed: Any, match: str):
    says(issuer, **changed)
    with pytest.raises(InvalidTokenError, match=match):
        await issuer.introspector().verify(TOKEN, RESOURCE)


async def test_scopes_that_every_token_needs(issuer: Issuer):
    says(issuer, scope="read")
    with pytest.raises(InsufficientScopeError) as caught:
        await issuer.introspector(scopes=("mcp", "read")).verify(TOKEN, RESOURCE)
    assert caught.value.scopes == ("mcp", "read")


async def test_a_good_answer_counts_for_a_minute_and_shows_the_same_principal(issuer: Issuer):
    says(issuer)
    introspector = issuer.introspector()
    first = await shown(introspector, TOKEN)
    issuer.clocks.pass_by(59)
    assert await shown(introspector, TOKEN) is first
    assert len(issuer.web.asked) == 1
    issuer.clocks.pass_by(2)
    assert await shown(introspector, TOKEN) is first
    assert len(issuer.web.asked) == 2
    issuer.web.on(ASK, reply({"active": False}))
    issuer.clocks.pass_by(61)
    with pytest.raises(InvalidTokenError, match="not active"):
        await introspector.verify(TOKEN, RESOURCE)


async def test_a_good_answer_does_not_outlive_the_token(issuer: Issuer):
    says(issuer, exp=int(issuer.clocks.day) + 10)
    introspector = issuer.introspector(leeway=0.0)
    await shown(introspector, TOKEN)
    issuer.clocks.pass_by(11)
    with pytest.raises(InvalidTokenError, match="has expired"):
        await introspector.verify(TOKEN, RESOURCE)


async def test_a_bad_answer_counts_for_seconds(issuer: Issuer):
    issuer.web.on(ASK, reply({"active": False}))
    introspector = issuer.introspector()
    for _ in range(10):
        with pytest.raises(InvalidTokenError):
            await introspector.verify(TOKEN, RESOURCE)
    assert len(issuer.web.asked) == 1
    says(issuer)
    issuer.clocks.pass_by(5)
    assert (await shown(introspector, TOKEN)).subject == "anna"


async def test_one_question_is_asked_about_a_token_at_a_time(issuer: Issuer):
    says(issuer)
    introspector = issuer.introspector()
    found = await asyncio.gather(*(shown(introspector, TOKEN) for _ in range(50)))
    assert len(issuer.web.asked) == 1
    assert all(principal is found[0] for principal in found)


async def test_many_tokens_are_asked_about_a_few_at_a_time(issuer: Issuer):
    says(issuer)
    introspector = issuer.introspector()
    await asyncio.gather(*(shown(introspector, f"{TOKEN}-{number}") for number in range(200)))
    assert len(issuer.web.asked) == 200
    assert issuer.web.connections <= 32


@pytest.mark.parametrize(
    "outage",
    [reply({}, 500), reply({}, 401), reply(b"no json"), reply([]), HANG_UP, reply({"active": True}, 302)],
)
async def test_while_the_issuer_cannot_be_asked_nobody_gets_in(issuer: Issuer, outage: Raw):
    issuer.web.on(ASK, outage)
    introspector = issuer.introspector()
    for number in range(20):
        with pytest.raises(IssuerUnavailableError) as caught:
            await introspector.verify(f"{TOKEN}-{number}", RESOURCE)
        assert caught.value.retry_after >= 1
        assert TOKEN not in caught.value.reason
    assert len(issuer.web.asked) <= FAILURES * 2  # a connection that broke is tried once more
    says(issuer)
    issuer.clocks.pass_by(PAUSE)
    assert (await shown(introspector, TOKEN)).subject == "anna"


async def test_a_known_token_counts_through_a_short_outage(issuer: Issuer):
    says(issuer)
    introspector = issuer.introspector()
    await shown(introspector, TOKEN)
    issuer.web.on(ASK, reply({}, 500))
    issuer.clocks.pass_by(59)
    assert (await shown(introspector, TOKEN)).subject == "anna"
    issuer.clocks.pass_by(2)
    with pytest.raises(IssuerUnavailableError):
        await introspector.verify(TOKEN, RESOURCE)


async def test_an_issuer_that_hangs_is_given_up(issuer: Issuer):
    issuer.client = IssuerClient(timeout=0.2)
    issuer.web.on(ASK, Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", never=True))
    introspector = issuer.introspector()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(IssuerUnavailableError):
            await introspector.verify(TOKEN, RESOURCE)


async def test_an_answer_that_is_too_big_is_cut_off(issuer: Issuer):
    issuer.web.on(ASK, reply({"active": True, "padding": "x" * 200_000}))
    with pytest.raises(IssuerUnavailableError):
        await issuer.introspector().verify(TOKEN, RESOURCE)


@pytest.mark.parametrize("token", ["x" * 5000, "tök", "a\nb", "\ud800"])
async def test_what_cannot_be_a_token_is_not_asked_about(issuer: Issuer, token: str):
    with pytest.raises(InvalidTokenError):
        await issuer.introspector().verify(token, RESOURCE)
    assert issuer.web.asked == []


async def test_the_token_is_shown_to_nobody_by_a_redirect(issuer: Issuer):
    async with loopback() as elsewhere:
        issuer.web.on(ASK, reply(None, 307, location=f"{elsewhere.url}/introspect"))
        with pytest.raises(IssuerUnavailableError):
            await issuer.introspector().verify(TOKEN, RESOURCE)
        assert elsewhere.asked == []


async def test_a_caller_that_leaves_does_not_end_the_question_of_others(issuer: Issuer):
    arrived = asyncio.Event()

    def answer(asked: Asked) -> Raw:
        arrived.set()
        return reply({"active": True} | issuer.claims())

    issuer.web.on(ASK, answer)
    introspector = issuer.introspector()
    leaving = asyncio.create_task(introspector.verify(TOKEN, RESOURCE))
    staying = asyncio.create_task(introspector.verify(TOKEN, RESOURCE))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).subject == "anna"
    assert leaving.cancelled()
    assert arrived.is_set()


async def test_jwts_are_verified_here_and_other_tokens_asked_about(issuer: Issuer):
    config = issuer.config(
        introspection_url=f"{issuer.url}/introspect", client_id="yard", client_secret="x", audiences=("yard",)
    )
    verifiers = token_verifiers(AuthConfig(issuers=(config,)))
    kinds = [
        type(next(one for one in verifiers if one.recognizes(token))).__name__
        for token in (issuer.token(), TOKEN)
    ]
    assert kinds == ["JwtVerifier", "TokenIntrospector"]
