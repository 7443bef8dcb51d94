"""The whole way of a login with a client by hand, and every step of it that can be wrong."""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.authserver.yard import (
    BEHIND_PROXY,
    NAME,
    PASSWORD,
    REDIRECT,
    Browser,
    HandMadeClient,
    LoginYard,
    config_of,
    login_yard,
    post_form,
    register,
    registered,
)
from tests.serving import http as raw_http
from toolyard.app import Gateway, asgi
from toolyard.callers.errors import InvalidTokenError
from toolyard.config import Config, ConfigError, GatewayConfig
from toolyard.config.callers import AccessConfig, AccessRule, AuthConfig, LoginClientConfig, LoginServerConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")
EVIL = "https://evil.example/collect"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LoginYard]:
    static = LoginClientConfig(id="static", redirect_uris=(REDIRECT,), name="Static", secret="its secret")
    async with login_yard(tmp_path_factory.mktemp("yard"), LoginServerConfig(clients=(static,))) as found:
        yield found


async def get(url: str, **headers: str) -> tuple[int, dict[str, str], Any]:
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return (
            answer.status,
            {key.lower(): value for key, value in answer.headers.items()},
            await answer.json(),
        )


# What works


async def test_a_client_gets_in_with_what_a_person_allowed(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as browser:
        answer = await browser.allow(client.url())
        assert answer["state"] == "the state"
        assert answer["iss"] == yard.base
        status, tokens = await client.redeem(answer["code"])
        assert (status, tokens["token_type"], tokens["scope"]) == (200, "Bearer", "mcp")
        assert (await yard.call(tokens["access_token"])).status == 200
        # The browser stays signed in, and is asked for consent again for every client.
        again = await browser.get((await registered(yard)).url())
        assert "password" not in again.text
        assert 'value="allow"' in again.text


async def test_from_our_url_alone_a_client_finds_everything(yard: LoginYard):
    answer = await yard.call("nonsense")
    assert answer.status == 401
    prm = f"{yard.base}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{prm}"' in answer.headers["www-authenticate"]
    _, _, resource = await get(prm)
    assert resource["resource"] == yard.resource
    assert resource["authorization_servers"] == [yard.base]
    documents = [
        await get(f"{yard.base}/.well-known/{name}")
        for name in ("oauth-authorization-server", "openid-configuration")
    ]
    assert documents[0][2] == documents[1][2]
    status, headers, found = documents[0]
    assert status == 200
    assert headers["access-control-allow-origin"] == "*"
    assert found["issuer"] == yard.base
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert "none" in found["token_endpoint_auth_methods_supported"]
    assert (await get(f"{yard.base}/.well-known/oauth-authorization-server/mcp"))[0] == 404


async def test_a_token_shows_user_client_and_scopes(yard: LoginYard):
    client = await registered(yard)
    tokens = await client.log_in()
    authenticator: Any = yard.gateway.callers.setting.authenticator
    principal = await authenticator.verify(tokens["access_token"], yard.resource)
    assert (principal.tenant, principal.subject, principal.groups) == ("local", NAME, {"staff"})
    assert principal.kind == "login"
    assert principal.client.startswith("registered:")
    assert principal.scopes == {"mcp"}
    assert principal.expires is not None


async def test_a_client_with_a_secret_has_to_show_it(yard: LoginYard):
    client = await registered(yard, token_endpoint_auth_method="client_secret_post")
    assert client.secret
    async with Browser() as browser:
        answer = await browser.allow(client.url())
        for wrong in (None, "", "wrong"):
            status, body = await client.redeem(answer["code"], client_secret=wrong)
            assert (status, body["error"]) == (401, "invalid_client")
        assert (await client.redeem(answer["code"]))[0] == 200
        # In the header, encoded as the standard wants it.
        static = HandMadeClient(yard, {"client_id": "static", "client_secret": "its secret"})
        code = (await browser.allow(static.url()))["code"]
    pair = base64.b64encode(b"static:its+secret").decode()
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": static.verifier}
    url = f"{yard.base}/oauth/token"
    headers = {"Authorization": f"Basic {pair}"}
    status, tokens = await post_form(url, {**form, "redirect_uri": REDIRECT}, headers)
    assert status == 200, tokens
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, data=form, headers={"Authorization": "Basic !!"}) as refused,
    ):
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Basic")


async def test_a_refresh_token_is_renewed_and_the_old_one_is_good_for_the_same_successor(yard: LoginYard):
    client = await registered(yard)
    first = await client.log_in()
    (_, one), (_, two) = await asyncio.gather(*(client.refresh(first["refresh_token"]) for _ in range(2)))
    assert one["refresh_token"] == two["refresh_token"] != first["refresh_token"]
    for tokens in (one, two, first):
        assert (await yard.call(tokens["access_token"])).status == 200
    assert (await client.refresh(one["refresh_token"]))[0] == 200


async def test_an_old_refresh_token_ends_the_login(yard: LoginYard):
    client = await registered(yard)
    first = await client.log_in()
    _, second = await client.refresh(first["refresh_token"])
    _, third = await client.refresh(second["refresh_token"])
    status, body = await client.refresh(first["refresh_token"])
    assert (status, body["error"]) == (400, "invalid_grant")
    assert (await client.refresh(third["refresh_token"]))[1]["error"] == "invalid_grant"
    assert (await yard.call(third["access_token"])).status == 401


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_a_client_can_end_its_login(yard: LoginYard, which: str):
    client = await registered(yard)
    tokens = await client.log_in()
    url = f"{yard.base}/oauth/revoke"
    stranger = await registered(yard, client_name="stranger")
    assert (await post_form(url, {"token": tokens[which], "client_id": stranger.id}))[0] == 200
    assert (await yard.call(tokens["access_token"])).status == 200
    assert (await post_form(url, {"token": "unknown", "client_id": client.id}))[0] == 200
    assert (await post_form(url, {"token": tokens[which], "client_id": client.id}))[0] == 200
    assert (await client.refresh(tokens["refresh_token"]))[1]["error"] == "invalid_grant"

    # A request may still be let in for some seconds: what was verified just now is believed for a while.
    authenticator: Any = yard.gateway.callers.setting.authenticator
    with pytest.raises(InvalidTokenError, match="has ended"):
        await authenticator.verify(tokens["access_token"], yard.resource)


async def test_unknown_scopes_are_left_out_and_none_means_the_default(tmp_path: Path):
    rules = AccessConfig(rules=(AccessRule(who=("*",), allow=("*",), scopes=("tools:write",)),))
    async with login_yard(tmp_path, access=rules, auth={"scopes": ("tools",)}) as yard:
        await yard.users.add("otto", PASSWORD, scopes=("approve",))
        client = await registered(yard)
        assert (await client.log_in())["scope"] == "tools"
        asked = "openid email profile offline_access tools:write approve"
        assert (await client.log_in(scope=asked))["scope"] == "tools tools:write"
        async with Browser() as browser:
            answer = await browser.allow(client.url(scope=asked), "otto")
            _, tokens = await client.redeem(answer["code"])
        assert tokens["scope"] == "tools tools:write approve"
        status, narrow = await client.refresh(tokens["refresh_token"], scope="tools")
        assert (status, narrow["scope"]) == (200, "tools")
        _, body = await client.refresh(narrow["refresh_token"], scope="tools usage")
        assert body["error"] == "invalid_scope"
        # What the user may no longer give is gone with the next token.
        await yard.users.change("otto", scopes=())
        _, renewed = await client.refresh(narrow["refresh_token"])
        assert renewed["scope"] == "tools tools:write"
        await yard.users.remove("otto")
        assert (await client.refresh(renewed["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_replicas_share_logins_and_a_restart_forgets_nothing(tmp_path: Path):
    async with login_yard(tmp_path) as one:
        client = await registered(one)
        async with Browser() as browser:
            code = (await browser.allow(client.url(resource=None)))["code"]
    async with login_yard(tmp_path) as two:
        client.yard = two
        status, tokens = await client.redeem(code, resource=None)
        assert status == 200, tokens
        # It was for the address of the first.
        assert (await two.call(tokens["access_token"])).status == 401
        assert (await client.refresh(tokens["refresh_token"]))[0] == 200


# Codes


async def test_a_code_counts_once_and_a_second_use_ends_the_login(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as browser:
        code = (await browser.allow(client.url()))["code"]
    _, tokens = await client.redeem(code)
    status, body = await client.redeem(code)
    assert (status, body["error"]) == (400, "invalid_grant")
    assert (await client.refresh(tokens["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_a_stolen_code_is_of_no_use(yard: LoginYard):
    client = await registered(yard)
    thief = await registered(yard, client_name="thief")
    async with Browser() as browser:
        code = (await browser.allow(client.url()))["code"]
        attempts: list[dict[str, str | None]] = [
            {"client_id": thief.id},
            {"code_verifier": thief.verifier},
            {"code_verifier": None},
            {"code_verifier": ""},
            {"code_verifier": client.challenge},
            {"redirect_uri": "http://127.0.0.1:3030/other"},
            {"redirect_uri": None},
            {"code": code[:-1]},
            {"code": None},
        ]
        for attempt in attempts:
            status, body = await client.redeem(**{"code": code, **attempt})  # pyright: ignore[reportArgumentType]
            assert (status, body["error"]) == (400, "invalid_grant"), attempt
        status, body = await client.redeem(code, resource="https://other.example/mcp")
        assert body["error"] == "invalid_target"
        assert (await client.redeem(code))[0] == 200  # none of these has spent it


async def test_of_many_that_show_a_code_at_once_one_at_most_gets_in(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as browser:
        code = (await browser.allow(client.url()))["code"]
    answers = await asyncio.gather(*(client.redeem(code) for _ in range(5)))
    winners = [body for status, body in answers if status == 200]
    assert len(winners) <= 1
    for body in winners:  # and not for long
        assert (await client.refresh(body["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_a_token_of_another_client_or_resource_is_refused(yard: LoginYard):
    client = await registered(yard)
    stranger = await registered(yard, client_name="stranger")
    tokens = await client.log_in()
    assert (await stranger.refresh(tokens["refresh_token"]))[1]["error"] == "invalid_grant"
    _, body = await client.refresh(tokens["refresh_token"], resource="https://other.example/mcp")
    assert body["error"] == "invalid_target"
    async with Browser() as browser:
        code = (await browser.allow(client.url(resource=f"{yard.resource}/demo")))["code"]
    _, below = await client.redeem(code, resource=f"{yard.resource}/demo")
    assert (await yard.call(below["access_token"])).status == 401
    for forged in (tokens["refresh_token"], tokens["access_token"] + "A", "tyl_" + "A" * 200):
        assert (await yard.call(forged)).status == 401
    swapped = tokens["refresh_token"].replace("tyr_", "tyl_")
    assert (await yard.call(swapped)).status == 401


# Requests for authorization


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"request": "eyJ"}, "request_not_supported"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:9/mcp"}, "invalid_target"),
        ({"prompt": "none"}, "interaction_required"),
    ],
)
async def test_what_is_wrong_with_a_request_is_told_to_a_program_on_this_machine(
    yard: LoginYard, changed: dict[str, str | None], error: str
):
    client = await registered(yard)
    async with Browser() as browser:
        sent = (await browser.get(client.url(**changed))).sent()
    assert (sent["error"], sent["state"], sent["iss"]) == (error, "the state", yard.base)
    assert "code" not in sent


async def test_nobody_is_sent_to_a_website_before_a_person_decided(yard: LoginYard):
    """Anyone can register one: we would lend it our good name."""
    client = await registered(yard, [EVIL])
    for changed in ({"code_challenge": None}, {"response_type": "x"}, {"prompt": "none"}):
        async with Browser() as browser:
            page = await browser.get(client.url(**changed))
        assert page.location is None
    async with Browser() as browser:
        page = await browser.get(client.url())
        page = await browser.submit(page, user=NAME, password=PASSWORD)
        assert "evil.example" in page.text
        sent = (await browser.submit(page, decision="deny")).sent()
    assert (sent["error"], sent["state"], sent["iss"]) == ("access_denied", "the state", yard.base)


@pytest.mark.parametrize(
    "redirect",
    [
        EVIL,
        "http://127.0.0.1:3030/other",
        "http://127.0.0.1.evil.example:3030/callback",
        "http://127.0.0.1:3030@evil.example/callback",
        "http://evil.example#@127.0.0.1:3030/callback",
        "https://127.0.0.1:3030/callback",
        "http://localhost:3030/callback",
        "http://127.0.0.1:3030/callback?next=https://evil.example",
        "http://127.0.0.1:3030/callback/../x",
        "http://127.0.0.1:3030\\@evil.example/callback",
        "javascript:alert(1)",
        "",
    ],
)
async def test_a_redirect_that_is_not_the_clients_leads_nowhere(yard: LoginYard, redirect: str):
    client = await registered(yard, [REDIRECT, "http://127.0.0.1/two"])
    async with Browser() as browser:
        page = await browser.get(client.url(redirect_uri=redirect))
    assert page.status == 400
    assert page.location is None
    assert "evil" not in page.text


async def test_a_client_that_is_not_known_is_said_so(yard: LoginYard):
    known = await registered(yard)
    for id in ("tyc_" + known.id[5:], "tyc_x", "nobody", "", "https://127.0.0.1/doc", "x" * 10_000):
        dead = HandMadeClient(yard, {"client_id": id})
        async with Browser() as browser:
            page = await browser.get(dead.url())
        assert (page.status, page.location) == (400, None)
        status, body = await dead.refresh("tyr_whatever")
        assert (status, body["error"]) == (401, "invalid_client")


async def test_a_parameter_that_comes_twice_is_refused(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as browser:
        page = await browser.get(f"{client.url()}&redirect_uri={EVIL}")
        assert (page.status, page.location) == (400, None)
    body = f"grant_type=refresh_token&client_id={client.id}&client_id=other".encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    host = f"127.0.0.1:{yard.client.port}"
    answer = await yard.client.raw(raw_http("POST", "/oauth/token", headers, body, host))
    assert (answer.status, answer.json["error"]) == (400, "invalid_request")


async def test_another_host_than_ours_gets_nothing(yard: LoginYard):
    for path in ("/oauth/authorize", "/.well-known/oauth-authorization-server"):
        answer = await yard.client.raw(raw_http("GET", path, host="evil.example"))
        assert answer.status == 400
        assert b"evil" not in answer.body


# Forms


async def test_pages_cannot_be_framed_and_run_nothing(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as browser:
        page = await browser.get(client.url())
        consent = await browser.submit(page, user=NAME, password=PASSWORD)
        problem = await browser.get(client.url(client_id="dead"))
    for shown in (page, consent, problem):
        policy = shown.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert shown.headers["x-frame-options"] == "DENY"
        assert shown.headers["cache-control"] == "no-store"
    for name in ("set-cookie",):
        assert "HttpOnly" in page.headers[name]
        assert "SameSite=Lax" in page.headers[name]


async def test_a_form_counts_in_the_browser_that_it_was_made_for(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as mine, Browser() as theirs:
        consent = await mine.submit(await mine.get(client.url()), user=NAME, password=PASSWORD)
        # An attacker's own login form, or consent form, sent by the victim's browser.
        foreign = await theirs.get(client.url())
        assert (await mine.submit(foreign, user="mallory", password="whatever12")).status == 400
        assert (await theirs.submit(consent, decision="allow")).status == 400
        signed_in = await theirs.submit(foreign, user=NAME, password=PASSWORD)
        assert signed_in.status == 200
        assert (await theirs.submit(consent, decision="allow")).status == 400
        spoilt = {**consent.hidden, "flow": consent.hidden["flow"][:-4] + "AAAA"}
        async with mine.http.post(consent.action, data={**spoilt, "decision": "allow"}) as answer:
            assert answer.status == 400
        assert "code" in (await mine.submit(consent, decision="allow")).sent()


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
)
async def test_a_form_that_another_site_sends_does_nothing(yard: LoginYard, headers: dict[str, str]):
    client = await registered(yard)
    async with Browser() as browser:
        page = await browser.get(client.url())
        consent = await browser.submit(page, user=NAME, password=PASSWORD)
        for shown, values in ((page, {"user": NAME, "password": PASSWORD}), (consent, {"decision": "allow"})):
            data = {**shown.hidden, **values}
            async with browser.http.post(shown.action, data=data, headers=headers) as answer:
                assert answer.status == 403


async def test_another_account_can_be_used(yard: LoginYard):
    client = await registered(yard)
    async with Browser() as browser:
        page = await browser.submit(await browser.get(client.url()), user=NAME, password=PASSWORD)
        page = await browser.submit(page, decision="switch")
        assert 'type="password"' in page.text
        page = await browser.submit(page, user=NAME, password=PASSWORD)
        assert 'value="allow"' in page.text


async def test_a_hostile_name_is_text_and_nothing_else(yard: LoginYard):
    name = '<script>alert(1)</script>"\u202egnp.exe\n\n\x00' + "long " * 100
    client = await registered(yard, client_name=name)
    async with Browser() as browser:
        page = await browser.get(client.url())
        consent = await browser.submit(page, user=NAME, password=PASSWORD)
    for shown in (page, consent):
        assert "<script" not in shown.text
        assert "&lt;script&gt;" in shown.text
        assert "\u202e" not in shown.text
        assert "long " * 30 not in shown.text
    for odd in (None, 7, ["x"], "", "\u200b"):
        nameless = await registered(yard, client_name=odd)
        async with Browser() as browser:
            assert "an application without a name" in (await browser.get(nameless.url())).text


async def test_a_wrong_password_and_an_unknown_user_look_the_same(yard: LoginYard):
    client = await registered(yard)
    texts: list[str] = []
    for name in (NAME, "nobody-of-that-name"):
        async with Browser(**{"X-Forwarded-For": "203.0.113.9"}) as browser:
            page = await browser.submit(await browser.get(client.url()), user=name, password="wrong password")
        assert page.status == 401
        flow = page.hidden["flow"]
        texts.append(page.text.replace(name, "").replace(flow, ""))
    assert texts[0] == texts[1]


async def test_guessing_passwords_is_slowed_for_the_guesser_and_for_nobody_else(tmp_path: Path):
    async with login_yard(tmp_path, gateway=BEHIND_PROXY) as yard:
        client = await registered(yard)
        async with Browser(**{"X-Forwarded-For": "203.0.113.9"}) as guesser:
            page = await guesser.get(client.url())
            tries = (guesser.submit(page, user=NAME, password=f"guess {number}") for number in range(12))
            found = [answer.status for answer in await asyncio.gather(*tries)]
            assert found.count(401) == 8
            assert found.count(429) == 4
            # The right one does not help now, and the same name in other letters is the same name.
            for name in (NAME, NAME.upper()):
                assert (await guesser.submit(page, user=name, password=PASSWORD)).status == 429
        async with Browser(**{"X-Forwarded-For": "203.0.113.10"}) as browser:
            assert "code" in await browser.allow(client.url())


async def test_a_new_password_ends_the_sessions_of_browsers(yard: LoginYard):
    await yard.users.add("berta", PASSWORD)
    client = await registered(yard)
    async with Browser() as browser:
        await browser.allow(client.url(), "berta")
        await yard.users.change("berta", password="another password")
        assert 'type="password"' in (await browser.get(client.url())).text


# Endpoints


async def test_nothing_about_tokens_is_stored_on_the_way(yard: LoginYard):
    client = await registered(yard, token_endpoint_auth_method="client_secret_post")
    async with Browser() as browser:
        code = (await browser.allow(client.url()))["code"]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": client.verifier,
        "client_id": client.id,
        "client_secret": client.secret,
    }
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{yard.base}/oauth/token", data=form) as answer:
            assert answer.headers["cache-control"] == "no-store"
            tokens = await answer.json()
        async with http.post(f"{yard.base}/oauth/register", json={"redirect_uris": [REDIRECT]}) as answer:
            assert answer.headers["cache-control"] == "no-store"
        async with http.options(f"{yard.base}/oauth/token") as answer:
            assert answer.status == 204
    # Whoever reads the store gets nothing that lets anybody in.
    kept = b"".join([await yard.state.get(key) or b"" for key in await yard.state.keys("logins:")])
    for secret in (*(tokens[name] for name in ("access_token", "refresh_token")), code, client.secret):
        assert secret.encode() not in kept
    assert PASSWORD.encode() not in kept


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_are_refused(yard: LoginYard, method: str):
    host = f"127.0.0.1:{yard.client.port}"
    for path in ("token", "register", "revoke", "login", "consent"):
        assert (await yard.client.raw(raw_http(method, f"/oauth/{path}", host=host))).status == 405
    assert (await yard.client.raw(raw_http(method, "/oauth/unknown", host=host))).status == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"redirect_uris": "x"}', b"[" * 50_000])
async def test_nonsense_is_answered_in_the_form_of_oauth(yard: LoginYard, body: bytes):
    host = f"127.0.0.1:{yard.client.port}"
    for path in ("token", "register", "revoke"):
        for kind in ("application/json", "application/x-www-form-urlencoded"):
            answer = await yard.client.raw(
                raw_http("POST", f"/oauth/{path}", {"Content-Type": kind}, body, host)
            )
            assert answer.status in (400, 401)
            assert answer.json["error"]
    assert (await yard.client.raw(raw_http("POST", "/oauth/register", {}, b"x" * 70_000, host))).status == 413
    _, other = await post_form(f"{yard.base}/oauth/token", {"grant_type": "password", "client_id": "static"})
    assert other["error"] == "invalid_client"
    client = await registered(yard)
    _, other = await post_form(f"{yard.base}/oauth/token", {"grant_type": "password", "client_id": client.id})
    assert other["error"] == "unsupported_grant_type"


async def test_it_does_not_start_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    gateway = Gateway(config_of(tmp_path), b"0123456789abcdef")
    with pytest.raises(ConfigError, match=r"needs packages that are not installed"):
        asgi(gateway)
    await gateway.close()


async def test_it_does_not_start_without_a_key_or_an_address(tmp_path: Path):
    auth = AuthConfig(server=LoginServerConfig())
    config = Config(servers=(), gateway=GatewayConfig(state_dir=str(tmp_path)), auth=auth)
    keyless = Gateway(config)
    with pytest.raises(ConfigError, match="needs a key"):
        asgi(keyless)
    await keyless.close()
    lost = Gateway(config, b"0123456789abcdef")
    with pytest.raises(ConfigError, match="does not know its address"):
        asgi(lost, exposed=True)
    await lost.close()


async def test_behind_a_public_address_everything_is_named_by_it(tmp_path: Path):
    gateway = {"public_url": "https://yard.example/tools"}
    async with login_yard(tmp_path, gateway=gateway) as yard:
        for path in ("/.well-known/oauth-authorization-server/tools", "/.well-known/openid-configuration"):
            _, _, found = await get(f"{yard.base}{path}")
            assert found["issuer"] == "https://yard.example/tools"
            assert found["token_endpoint"] == "https://yard.example/tools/oauth/token"
        _, _, resource = await get(f"{yard.base}/.well-known/oauth-protected-resource/mcp")
        assert resource["authorization_servers"] == ["https://yard.example/tools"]
        status, registration = await register(yard)
        assert status == 201
        client = HandMadeClient(yard, registration)
        async with Browser() as browser:
            page = await browser.get(client.url(resource="https://yard.example/tools/mcp"))
            assert "__Host-toolyard-browser" in page.headers["set-cookie"]
            assert "Secure" in page.headers["set-cookie"]
