"""Servers and issuers that lie to the gateway: nobody is connected, nothing secret is sent to the liar."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.connections.attempts import caller_of, pointers
from tests.connections.hostile import Document, Hostile, Reply, hostile
from tests.connections.yard import connect, link_in
from toolyard.config.server_auth import OAuthAuth
from toolyard.connections.oauth.accounts import OAuthAccounts
from toolyard.connections.oauth.session import MAX_SCOPE_SETS
from toolyard.wire.call import Principal

Lie = Callable[[Hostile], None]


@pytest_asyncio.fixture
async def bad() -> AsyncIterator[Hostile]:
    async with hostile() as found:
        yield found


def about(document: Document, **members: Any) -> Lie:
    """Members may have the origin and the issuer of the liar in them."""

    def lie(bad: Hostile) -> None:
        def filled(value: Any) -> Any:
            if isinstance(value, str):
                return value.replace("{origin}", bad.origin).replace("{issuer}", bad.issuer)
            return [filled(one) for one in value] if isinstance(value, list) else value

        bad.lie(document, **{name: filled(value) for name, value in members.items()})

    return lie


def replying(document: Document, reply: Reply) -> Lie:
    return lambda bad: bad.answer(document, reply)


def challenging(text: str) -> Lie:
    def lie(bad: Hostile) -> None:
        bad.challenge = text.replace("{origin}", bad.origin)

    return lie


def authorize_at(url: str) -> Lie:
    return about("authority", authorization_endpoint=url)


DEEP = b"[" * 100_000
TWICE = b'{"resource": "%s", "resource": "https://evil.example/mcp", "authorization_servers": []}'
METADATA: dict[str, tuple[Lie, str]] = {
    "an issuer with a slash more": (about("authority", issuer="{issuer}/"), "very same text"),
    "an issuer with a slash less": (
        about("resource", authorization_servers=["{issuer}/"]),
        "very same text",
    ),
    "an issuer with a path more": (about("authority", issuer="{issuer}/t"), "very same text"),
    "an issuer with two slashes more": (about("authority", issuer="{issuer}//"), "very same text"),
    "an issuer in capitals": (about("authority", issuer="{issuer}".upper()), "very same text"),
    "another issuer": (about("authority", issuer="https://evil.example"), "very same text"),
    "an issuer with a query": (about("resource", authorization_servers=["{issuer}?x=1"]), "no issuer"),
    "an issuer with a fragment": (about("resource", authorization_servers=["{issuer}#x"]), "no issuer"),
    "an issuer that is not text": (about("resource", authorization_servers=[7]), "metadata"),
    "no issuer": (about("resource", authorization_servers=[]), "no authorization server"),
    "an issuer on a public host without TLS": (
        about("resource", authorization_servers=["http://login.example"]),
        "not an https address",
    ),
    "an issuer in a cloud's metadata service": (
        about("resource", authorization_servers=["https://169.254.169.254/"]),
        "link-local address",
    ),
    "an issuer in a private network": (
        about("resource", authorization_servers=["https://10.0.0.1"]),
        "private address",
    ),
    "an issuer at no address at all": (
        about("resource", authorization_servers=["https://0.0.0.0"]),
        "at a special address",
    ),
    "an issuer at an address in disguise": (
        about("resource", authorization_servers=["https://[::ffff:169.254.169.254]"]),
        "link-local address",
    ),
    "an issuer at a number": (
        about("resource", authorization_servers=["https://2852039166"]),
        "link-local address",
    ),
    "an issuer in octal": (
        about("resource", authorization_servers=["https://0251.0376.0251.0376"]),
        "link-local address",
    ),
    "another resource": (about("resource", resource="https://evil.example/mcp"), "another one"),
    "the whole host": (about("resource", resource="{origin}"), "another one"),
    "a resource beside it": (about("resource", resource="{origin}/other"), "another one"),
    "a resource below it": (about("resource", resource="{origin}/mcp/deeper"), "another one"),
    "a resource with a fragment": (about("resource", resource="{origin}/mcp#x"), "another one"),
    "a resource with a user": (about("resource", resource="http://me@127.0.0.1/mcp"), "another one"),
    "a resource that is no text": (about("resource", resource=["{origin}/mcp"]), "metadata"),
    "a resource twice": (lambda bad: bad.answer("resource", Reply(body=TWICE)), "another one"),
    "token endpoint without TLS": (
        about("authority", token_endpoint="http://login.example/token"),
        "not an https address",
    ),
    "a token endpoint that is no text": (about("authority", token_endpoint=7), "publishes no metadata"),
    "no token endpoint": (about("authority", token_endpoint=None), "publishes no metadata"),
    "a script": (authorize_at("javascript:alert(1)"), "not an https address"),
    "data": (authorize_at("data:text/html,x"), "not an https address"),
    "a file": (authorize_at("file:///etc/passwd"), "not an https address"),
    "a private scheme": (authorize_at("cursor://x/y"), "not an https address"),
    "a password": (authorize_at("https://me:word@login.example/authorize"), "cannot be used"),
    "a line break": (authorize_at("{issuer}/authorize\r\nSet-Cookie: a=b"), "cannot be used"),
    "a space": (authorize_at("{issuer}/authorize ?x"), "cannot be used"),
    "a letter beyond ASCII": (authorize_at("https://l\u03bfgin.example/authorize"), "cannot be used"),
    "a host with a policy in it": (authorize_at("https://a;script-src*.example/"), "cannot be used"),
    "a fragment": (authorize_at("{issuer}/authorize#"), "fragment"),
    "a state of theirs": (authorize_at("{issuer}/authorize?state=x"), "'state'"),
    "a redirect of theirs": (authorize_at("{issuer}/authorize?a=1&redirect_uri=x"), "'redirect_uri'"),
    "a client of theirs": (authorize_at("{issuer}/authorize?client_id=x"), "'client_id'"),
    "a challenge of theirs": (authorize_at("{issuer}/authorize?code%5Fchallenge=x"), "'code_challenge'"),
    "a response mode": (authorize_at("{issuer}/authorize?response_mode=fragment"), "'response_mode'"),
    "a request object": (authorize_at("{issuer}/authorize?request=x"), "'request'"),
    "no place to agree": (about("authority", authorization_endpoint=None), "no authorization endpoint"),
    "PKCE not mentioned": (about("authority", code_challenge_methods_supported=None), "PKCE"),
    "PKCE in plain": (about("authority", code_challenge_methods_supported=["plain"]), "PKCE"),
    "PKCE without a method": (about("authority", code_challenge_methods_supported=[]), "PKCE"),
    "metadata without an end": (replying("authority", Reply(endless=True)), "bigger than"),
    "metadata of the server without an end": (replying("resource", Reply(endless=True)), "bigger than"),
    "metadata with a bomb": (
        replying("authority", Reply(body=b'{"issuer": "' + b"x" * 300_000 + b'"}')),
        "bigger than",
    ),
    "metadata that are deep": (replying("authority", Reply(body=DEEP)), "publishes no metadata"),
    "metadata that are a page": (
        replying("authority", Reply(body=b"<html>", headers={"content-type": "text/html"})),
        "publishes no metadata",
    ),
    "metadata that are a list": (replying("authority", Reply(body=b"[]")), "publishes no metadata"),
    "metadata that are broken": (replying("authority", Reply(500)), "answered 500"),
}
CHALLENGES: dict[str, tuple[Lie, str]] = {
    "metadata that a challenge names and that are not there": (
        challenging('Bearer resource_metadata="{origin}/nowhere"'),
        "there are no metadata at",
    ),
    "a challenge with a script": (
        challenging('Bearer resource_metadata="javascript:alert(1)"'),
        "not an https",
    ),
    "a challenge with a cloud's metadata service": (
        challenging('Bearer resource_metadata="https://169.254.169.254/latest"'),
        "link-local",
    ),
}


async def test_nobody_is_sent_to_a_login_that_lies(
    bad: Hostile, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    wrong: dict[str, object] = {}
    async with caller_of(bad.url, tmp_path) as caller:
        for name, (lie, said) in METADATA.items():
            bad.be_honest()
            caplog.clear()
            lie(bad)
            found = await caller.ask("link")
            refused = str(found["message"]).startswith("nobody can log in to it, because")
            if "link" in found or not refused or said not in caplog.text:
                wrong[name] = found, caplog.text
        bad.be_honest()
        assert not bad.registrations
        await caller.connect()  # it was the lies, and nothing else
    assert not wrong


@pytest.mark.parametrize("name", CHALLENGES)
async def test_nobody_follows_a_challenge_that_lies(
    bad: Hostile, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
):
    lie, said = CHALLENGES[name]
    lie(bad)
    async with caller_of(bad.url, tmp_path) as caller:
        found = await caller.attempt()
    assert (found.connected, found.status) == (False, 0), found
    assert said in caplog.text
    assert not bad.registrations


@pytest.mark.parametrize("document", ["resource", "authority", "registration", "token"])
async def test_no_redirect_is_followed(bad: Hostile, tmp_path: Path, document: Document):
    async with caller_of(bad.url, tmp_path) as caller:
        for status in (301, 302, 303, 307, 308):
            bad.be_honest()
            body = json.dumps({"access_token": "theirs", "client_id": "theirs"}).encode()
            bad.answer(document, Reply(status, body, {"location": f"{bad.origin}/elsewhere"}))
            found = await caller.attempt()
            assert not found.connected, status
    assert not bad.requests("/elsewhere")


REGISTRATIONS: dict[str, Lie] = {
    "for another redirect": about("registration", redirect_uris=["https://evil.example/"]),
    "with a method that needs a key": about(
        "registration", token_endpoint_auth_method="private_key_jwt", client_secret="x"
    ),
    "with a method that is no text": about(
        "registration", token_endpoint_auth_method=["none"], client_secret="x"
    ),
    "without its secret": about("registration", token_endpoint_auth_method="client_secret_basic"),
    "without an id": about("registration", client_id=None),
    "with an id that is no text": about("registration", client_id=7),
    "with a line break in its id": about("registration", client_id="a\r\nb"),
    "with an id without an end": about("registration", client_id="a" * 5000),
    "as a page": replying("registration", Reply(200, b"<html>")),
    "without an end": replying("registration", Reply(201, endless=True)),
    "deep": replying("registration", Reply(201, DEEP)),
    "with a failure": replying("registration", Reply(503, b"{}")),
    "not at all": replying("registration", Reply(400, b'{"error": "invalid_redirect_uri"}')),
}


async def test_a_registration_that_is_of_no_use_sends_nobody_anywhere(bad: Hostile, tmp_path: Path):
    wrong: dict[str, object] = {}
    async with caller_of(bad.url, tmp_path) as caller:
        for name, lie in REGISTRATIONS.items():
            bad.be_honest()
            lie(bad)
            found = await caller.ask("link")
            if "link" in found:
                wrong[name] = found
        bad.be_honest()
        await caller.connect()
    assert not wrong


TOKENS: dict[str, Lie] = {
    "of the type mac": about("token", token_type="mac"),
    "of no type": about("token", token_type="N_A"),
    "bound to a key that nobody has": about("token", token_type="DPoP"),
    "of a type that is no text": about("token", token_type=1),
    "with a line break": about("token", access_token="a\r\nX-Evil: b"),
    "with a space": about("token", access_token="a b"),
    "beyond ASCII": about("token", access_token="ä"),
    "without an end": replying("token", Reply(endless=True)),
    "of a megabyte": about("token", access_token="a" * 100_000),
    "that is no text": about("token", access_token=["a"]),
    "that is missing": about("token", access_token=None),
    "with an error beside it": about("token", error="access_denied"),
    "with a status of a failure": replying("token", Reply(400, b'{"access_token": "a"}')),
    "as a page": replying("token", Reply(200, b"<html>")),
    "as a form": replying("token", Reply(200, b"access_token=a&token_type=bearer")),
    "deep": replying("token", Reply(200, DEEP)),
}


async def test_a_token_that_cannot_be_used_connects_nobody(bad: Hostile, tmp_path: Path):
    wrong: dict[str, object] = {}
    async with caller_of(bad.url, tmp_path) as caller:
        for name, lie in TOKENS.items():
            bad.be_honest()
            lie(bad)
            found = await caller.attempt()
            if found.connected or found.status != 502 or "nothing was saved" not in found.said:
                wrong[name] = found
        bad.be_honest()
        await caller.connect()
    assert not wrong


ANSWERS: dict[str, tuple[bool, dict[str, str | None], int]] = {
    # whether the issuer says that it sends `iss`, what it sends, and the page that follows
    "iss missing": (True, {"iss": None}, 502),
    "iss of another": (True, {"iss": "https://evil.example"}, 502),
    "iss with a slash more": (True, {"iss": "{issuer}/"}, 502),
    "iss of another, though none is announced": (False, {"iss": "https://evil.example"}, 502),
    "an error of another issuer": (
        True,
        {"code": None, "error": "access_denied", "iss": "https://e.example"},
        502,
    ),
    "an error without iss": (True, {"code": None, "error": "access_denied", "iss": None}, 502),
    "no code": (True, {"code": None}, 200),
    "another state": (True, {"state": "another"}, 410),
    "no state": (True, {"state": None}, 410),
    "an empty code": (True, {"code": ""}, 200),
}


async def test_an_answer_that_may_be_forged_connects_nobody(bad: Hostile, tmp_path: Path):
    wrong: dict[str, object] = {}
    async with caller_of(bad.url, tmp_path) as caller:
        for name, (announced, members, status) in ANSWERS.items():
            bad.be_honest()
            bad.lie("authority", authorization_response_iss_parameter_supported=announced)
            bad.lie(
                "authorize",
                **{key: value and value.replace("{issuer}", bad.issuer) for key, value in members.items()},
            )
            found = await caller.attempt()
            if found.connected or found.status != status:
                wrong[name] = found
            await caller.ask("disconnect")
        assert not bad.token_requests
        bad.be_honest()
        await caller.connect()
    assert not wrong


async def test_an_answer_without_iss_counts_where_none_is_announced(bad: Hostile, tmp_path: Path):
    bad.sends_issuer = False
    bad.lie("authority", authorization_response_iss_parameter_supported=None)
    async with caller_of(bad.url, tmp_path) as caller:
        await caller.connect()


async def test_a_code_of_another_issuer_is_not_sent_to_the_one_that_was_asked(bad: Hostile, tmp_path: Path):
    """Mix-up: the liar sends users to an honest issuer, and waits for their codes itself."""
    async with hostile("honest") as honest:
        honest.clients["shared"] = {"redirect_uris": []}
        bad.lie("authority", authorization_endpoint=f"{honest.issuer}/authorize")
        bad.lie("registration", client_id="shared")
        async with caller_of(bad.url, tmp_path) as caller:
            honest.clients["shared"]["redirect_uris"] = [f"{caller.base}/oauth/callback"]
            for announced in (True, False):
                bad.lie("authority", authorization_response_iss_parameter_supported=announced)
                found = await caller.attempt()
                assert (found.connected, found.status) == (False, 502)
        assert honest.codes
        assert not bad.token_requests
        assert not honest.token_requests


async def test_a_server_that_names_the_issuer_of_another_gets_tokens_for_itself_only(
    bad: Hostile, tmp_path: Path
):
    async with hostile("honest") as honest:
        bad.lie("resource", authorization_servers=[honest.issuer])
        async with caller_of(bad.url, tmp_path) as caller:
            await caller.attempt()
        assert [one.form["resource"] for one in honest.token_requests] == [bad.url]
        assert not bad.token_requests


@pytest.mark.parametrize(
    ("resource", "chosen", "sent"),
    [
        ("{origin}/mcp/", "", "{origin}/mcp/"),  # a slash more is the same server
        ("{origin}", "{origin}", "{origin}"),
        ("{origin}", "", ""),
        ("{origin}", "{origin}/mcp", ""),
    ],
)
async def test_a_token_of_the_whole_host_is_for_who_configures_it(
    bad: Hostile, tmp_path: Path, resource: str, chosen: str, sent: str
):
    at, chosen, sent = (text.format(origin=bad.origin) for text in (resource, chosen, sent))
    bad.lie("resource", resource=at)
    async with caller_of(bad.url, tmp_path, OAuthAuth(resource=chosen)) as caller:
        if sent:
            await caller.connect()
        else:
            found = await caller.attempt()
            assert (found.connected, found.status) == (False, 0), found
    assert [one.form["resource"] for one in bad.token_requests] == ([sent] if sent else [])


async def test_nothing_of_the_old_issuer_is_sent_to_the_new_one(bad: Hostile, tmp_path: Path):
    async with hostile("new") as new, caller_of(bad.url, tmp_path) as caller:
        await caller.connect()
        known = {*bad.secrets, *bad.clients}
        bad.lie("resource", authorization_servers=[new.issuer])
        bad.tokens.clear()  # it does not take the tokens of its old issuer any more
        before = len(bad.token_requests)
        failed, text = await caller.call()
        assert failed
        assert "/oauth/connect/" in text
        assert (await connect(link_in(text)))[0] == 200
        arrived = repr(new.seen)
        assert not [one for one in known if one in arrived]
        assert len(bad.token_requests) == before
        assert len(new.registrations) == 1


@pytest.mark.parametrize("auth", [OAuthAuth(client_id="mine", client_secret="my-own-secret")])
async def test_a_configured_secret_is_for_the_issuer_that_it_was_first_used_at(
    bad: Hostile, tmp_path: Path, caplog: pytest.LogCaptureFixture, auth: OAuthAuth
):
    async with hostile("new") as new, caller_of(bad.url, tmp_path, auth) as caller:
        bad.clients["mine"] = {"redirect_uris": [f"{caller.base}/oauth/callback"]}
        assert (await caller.attempt()).status == 502  # our emulated issuer knows no secrets
        assert bad.token_requests[0].headers["authorization"].startswith("Basic ")
        bad.lie("resource", authorization_servers=[new.issuer])
        found = await caller.ask("link")
        assert found["status"] == "failed"
        assert "has no client id there" in found["message"]
        assert "set client_id and issuer" in caplog.text
        assert not new.token_requests


async def test_a_secret_that_needs_no_user_stays_with_its_issuer(bad: Hostile, tmp_path: Path):
    auth = OAuthAuth(
        mode="client_credentials",
        client_id="mine",
        client_secret="my-own-secret",
        token_auth="client_secret_post",
    )
    bad.clients["mine"] = {}
    async with hostile("new") as new, caller_of(bad.url, tmp_path, auth) as caller:
        assert await caller.call() == (False, "ana")
        accounts = caller.gateway.connections.open_accounts["guarded"]
        assert isinstance(accounts, OAuthAccounts)
        tokens, address = caller.gateway.connections.tokens, accounts.address(Principal())
        held = await tokens.load(address)
        assert held is not None
        await tokens.save(address, replace(held.record, obtained=0.0))
        bad.tokens.clear()
        bad.lie("resource", authorization_servers=[new.issuer])
        failed, text = await caller.call()
        assert failed
        assert "set 'issuer'" in text
        assert "my-own-secret" not in repr(new.seen)


async def test_fewer_scopes_than_asked_for_do_not_lead_round_in_circles(bad: Hostile, tmp_path: Path):
    async with caller_of(bad.url, tmp_path) as caller:
        await caller.connect()
        bad.wanted = ("files:write",)
        bad.lie("token", scope="files:read")
        for _ in range(5):  # the user takes time: a call more does not cost the link
            failed, text = await caller.call()
            assert failed
            assert "/oauth/connect/" in text
        for _ in range(2):
            failed, text = await caller.call()
            assert failed
            if "/oauth/connect/" not in text:
                break
            assert (await connect(link_in(text)))[0] == 200
        failed, text = await caller.call()
        assert failed
        assert "/oauth/connect/" not in text


async def test_scopes_are_asked_for_together_with_those_before(bad: Hostile, tmp_path: Path):
    async with caller_of(bad.url, tmp_path) as caller:
        bad.wanted = ("read",)
        await caller.call()
        await caller.connect()
        bad.wanted = ("write",)
        assert (await connect(link_in((await caller.call())[1])))[0] == 200
        assert await caller.call() == (False, "ana")
    asked = [set(one.query.get("scope", "").split()) for one in bad.requests("/as/authorize")]
    assert asked[-1] == {"read", "write"}


async def test_a_server_that_wants_ever_new_scopes_is_not_followed_without_end(bad: Hostile, tmp_path: Path):
    async with caller_of(bad.url, tmp_path) as caller:
        await caller.connect()
        links = 0
        for number in range(MAX_SCOPE_SETS + 5):
            bad.wanted = (f"scope-{number}",)
            links += "/oauth/connect/" in (await caller.call())[1]
        assert links == MAX_SCOPE_SETS
        assert len(bad.registrations) <= MAX_SCOPE_SETS + 1  # a client is registered for scopes
        assert len(await pointers(caller)) <= 1


async def test_a_token_that_the_server_does_not_take_is_not_fetched_again_and_again(
    bad: Hostile, tmp_path: Path
):
    """As one for another audience."""
    async with caller_of(bad.url, tmp_path) as caller:
        await caller.connect()
        bad.tokens.clear()
        before = len(bad.token_requests)
        for _ in range(3):
            assert (await caller.call())[0]
        assert len(bad.token_requests) - before <= 1


async def test_a_token_that_is_bound_to_no_key_is_refused_where_that_is_wanted(bad: Hostile, tmp_path: Path):
    async with caller_of(bad.url, tmp_path, OAuthAuth(dpop=True)) as caller:
        found = await caller.attempt()
        assert (found.connected, found.status) == (False, 502)
        assert "dpop" in bad.token_requests[0].headers


async def test_a_server_of_2025_03_26_is_its_own_issuer(bad: Hostile, tmp_path: Path):
    bad.is_old = True
    async with caller_of(f"{bad.url}?key=of-the-operator", tmp_path) as caller:
        await caller.connect()
    assert [one.form["resource"] for one in bad.token_requests] == [bad.url]
    assert "of-the-operator" not in repr(bad.requests("/as/authorize"))
