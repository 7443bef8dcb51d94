"""Logins that are stolen, replayed, crossed, forgotten or flooded: each gets the own account or none."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.connections.attempts import HERE, caller_of, pointers, press
from tests.connections.hostile import Gate, Hostile, Reply, hostile
from tests.connections.yard import a_browser, config_of, connect
from toolyard.connections.oauth.accounts import OAuthAccounts
from toolyard.connections.oauth.errors import AuthorityUnavailableError, UntrustedAuthorityError
from toolyard.connections.oauth.fetching import GuardedFetcher
from toolyard.connections.oauth.metadata import read_challenge
from toolyard.wire.call import Principal

OTHER = Principal(subject="ben", issuer="https://idp.example")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile() as found:
        yield found


async def answer_of(authorize_url: str) -> str:
    """Where the issuer sends the browser after the login."""
    async with a_browser() as browser, browser.get(authorize_url, allow_redirects=False) as page:
        return page.headers["Location"]


# Stolen and replayed


async def test_an_answer_counts_once(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        link = await caller.link()
        async with browser.post(link, headers=HERE, allow_redirects=False) as page:
            back = await answer_of(page.headers["Location"])
        statuses: list[int] = []
        for _ in range(3):
            async with browser.get(back) as page:
                statuses.append(page.status)
        assert statuses == [200, 410, 410]
        assert len(server.token_requests) == 1


async def test_answers_that_arrive_at_the_same_moment_use_the_code_once(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        async with browser.post(await caller.link(), headers=HERE, allow_redirects=False) as page:
            back = await answer_of(page.headers["Location"])

        async def arrive() -> int:
            async with browser.get(back) as page:
                return page.status

        assert sorted(await asyncio.gather(*(arrive() for _ in range(5)))) == [200, 410, 410, 410, 410]
        assert len(server.token_requests) == 1


async def test_a_stolen_code_is_not_exchanged_in_the_login_of_the_thief(server: Hostile, tmp_path: Path):
    """The thief has a code of the victim, and brings it with the state of an own login: PKCE ends that."""
    async with caller_of(server.url, tmp_path) as caller:
        accounts = caller.gateway.connections.open_accounts["guarded"]
        _, victims = await press(await caller.link())
        code = parse_qs(urlsplit(await answer_of(victims)).query)["code"][0]
        async with a_browser() as thief:
            link = (await accounts.link(OTHER)).url
            async with thief.post(link, headers=HERE, allow_redirects=False) as page:
                state = parse_qs(urlsplit(page.headers["Location"]).query)["state"][0]
            back = {"code": code, "state": state, "iss": server.issuer}
            async with thief.get(f"{caller.base}/oauth/callback", params=back) as page:
                assert page.status == 502
        assert not (await accounts.state(OTHER)).connected
        assert not await caller.is_connected()


async def test_the_answer_to_one_users_login_does_not_end_that_of_another(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as mine, a_browser() as theirs:
        accounts = caller.gateway.connections.open_accounts["guarded"]
        other = (await accounts.link(OTHER)).url
        async with mine.post(await caller.link(), headers=HERE, allow_redirects=False) as page:
            assert page.status == 303
        async with theirs.post(other, headers=HERE, allow_redirects=False) as page:
            back = await answer_of(page.headers["Location"])
        async with mine.get(back) as page:
            assert page.status == 403
        assert not (await accounts.state(OTHER)).connected
        assert not await caller.is_connected()
        async with theirs.get(back) as page:  # and it still counts for whom it was
            assert page.status == 200
        assert (await accounts.state(OTHER)).connected
        assert not await caller.is_connected()


async def test_the_link_of_another_names_them_and_connects_nothing_by_itself(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        link = (await caller.gateway.connections.open_accounts["guarded"].link(OTHER)).url
        for _ in range(2):
            async with browser.get(link, allow_redirects=False) as page:
                text = await page.text()
                assert page.status == 200
                assert "Set-Cookie" not in page.headers
                assert "<dd>https://idp.example#ben</dd>" in text
                assert f"<dd>{urlsplit(server.origin).netloc}</dd>" in text
        assert not server.requests("/as/authorize")


# Pages


async def test_pages_cannot_be_framed_nor_lead_anywhere_else(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        link = await caller.link()
        evil = "https://evil.example/"
        addresses = [
            link,
            f"{link}?redirect_uri={evil}&next={evil}&return_to={evil}",
            f"{caller.base}/oauth/connect/{evil}",
            f"{caller.base}/oauth/connect//evil.example",
            f"{caller.base}/oauth/callback?redirect_uri={evil}&state=x",
            f"{caller.base}/oauth/callback?state=a&state=b&code=c",
        ]
        for address in addresses:
            async with browser.get(address, allow_redirects=False) as page:
                assert "Location" not in page.headers
                assert "evil" not in await page.text()
                assert page.headers["X-Frame-Options"] == "DENY"
                assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
                assert page.headers["Referrer-Policy"] in ("no-referrer", "same-origin")
                assert page.headers["Cache-Control"] == "no-store"
        async with browser.post(
            f"{link}?next={evil}", data={"next": evil}, headers=HERE, allow_redirects=False
        ) as page:
            assert page.headers["Location"].startswith(f"{server.issuer}/authorize?")
            assert page.headers["Referrer-Policy"] in ("no-referrer", "same-origin")


# Ended, moved, flooded


async def test_a_login_that_is_finished_after_a_disconnect_connects_nothing(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        async with browser.post(await caller.link(), headers=HERE, allow_redirects=False) as page:
            back = await answer_of(page.headers["Location"])
        await caller.ask("disconnect")
        async with browser.get(back) as page:
            assert page.status == 410
        assert not await caller.is_connected()
        assert not server.token_requests


async def test_a_token_that_arrives_after_a_disconnect_is_revoked(server: Hostile, tmp_path: Path):
    gate = server.gates["token"] = Gate()
    async with caller_of(server.url, tmp_path) as caller:
        login = asyncio.create_task(connect(await caller.link()))
        await gate.arrived.wait()
        await caller.ask("disconnect")
        gate.open.set()
        assert (await login)[0] == 410
        assert not await caller.is_connected()
        assert len(server.requests("/as/revoke")) == 1
        assert not server.refresh_tokens


async def test_a_login_for_a_server_that_is_gone_or_has_moved_connects_nothing(
    server: Hostile, tmp_path: Path
):
    async with hostile() as elsewhere, caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        gateway = caller.gateway
        for changed in (
            replace(gateway.config, servers=()),
            config_of(elsewhere.url, tmp_path),
            config_of(server.url, tmp_path, replace(auth_of(gateway), issuer="https://pinned.example")),
        ):
            await gateway.reload(config_of(server.url, tmp_path))
            async with browser.post(await caller.link(), headers=HERE, allow_redirects=False) as page:
                back = await answer_of(page.headers["Location"])
            await gateway.reload(changed)
            async with browser.get(back) as page:
                assert page.status == 410
        assert not server.token_requests
        assert not elsewhere.token_requests


def auth_of(gateway: Any) -> Any:
    return gateway.config.servers[0].auth


async def test_a_thousand_links_are_one_login(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller:
        accounts = caller.gateway.connections.open_accounts["guarded"]
        found = await asyncio.gather(*(accounts.link(Principal()) for _ in range(1000)))
        assert len({link.url for link in found}) == 1
        assert len(server.registrations) == 1
        assert len(await pointers(caller)) == 1


async def test_two_logins_of_one_caller_at_once_end_in_one_connection(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller:
        links = [(await caller.ask("link"))["link"] for _ in range(2)]
        statuses = sorted([(await connect(link))[0] for link in links])
        assert statuses == [200, 410]
        assert await caller.is_connected()
        assert len(server.token_requests) == 1


async def test_many_callers_share_one_registration(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller:
        accounts = caller.gateway.connections.open_accounts["guarded"]
        for number in range(20):
            await press((await accounts.link(Principal(subject=f"user-{number}"))).url)
        assert len(server.registrations) == 1


# Registrations that the issuer has forgotten


async def test_a_client_that_the_login_page_does_not_know_is_registered_anew(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller:
        await caller.connect()
        await caller.ask("disconnect")
        server.forget_clients()
        link = await caller.link()
        assert (await connect(link))[0] == 400  # the issuer's own error page, of which we hear nothing
        assert (await connect(link))[0] == 200  # the user goes back, and presses the button again
        assert await caller.is_connected()
        assert len(server.registrations) == 2


async def test_pressing_the_button_often_does_not_register_often(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller:
        link = await caller.link()
        for _ in range(10):
            assert (await press(link))[0] == 303
        assert len(server.registrations) == 2
        assert (await connect(link))[0] == 200


async def test_a_client_that_the_token_endpoint_does_not_know_is_registered_anew(
    server: Hostile, tmp_path: Path
):
    async with caller_of(server.url, tmp_path) as caller, a_browser() as browser:
        async with browser.post(await caller.link(), headers=HERE, allow_redirects=False) as page:
            back = await answer_of(page.headers["Location"])
        server.forget_clients()
        async with browser.get(back) as page:
            assert page.status == 502
        await caller.connect()
        assert len(server.registrations) == 2


async def test_a_client_that_a_refresh_does_not_know_is_registered_anew(server: Hostile, tmp_path: Path):
    async with caller_of(server.url, tmp_path) as caller:
        await caller.connect()
        server.forget_clients()
        tokens = caller.gateway.connections.tokens
        accounts = caller.gateway.connections.open_accounts["guarded"]
        assert isinstance(accounts, OAuthAccounts)
        address = accounts.address(Principal())
        held = await tokens.load(address)
        assert held is not None
        await tokens.save(address, replace(held.record, obtained=0.0))
        failed, text = await caller.call()
        assert failed
        assert "/oauth/connect/" in text
        assert (await connect(await caller.link()))[0] == 200
        assert await caller.call() == (False, "ana")
        assert len(server.registrations) == 2


async def test_a_secret_that_has_ended_is_not_used_again(server: Hostile, tmp_path: Path):
    server.lie("authority", token_endpoint_auth_methods_supported=["client_secret_post"])
    server.lie("registration", client_secret="for-a-day", client_secret_expires_at=1)
    async with caller_of(server.url, tmp_path) as caller:
        await caller.connect()
        await caller.ask("disconnect")
        await caller.connect()
        assert len(server.registrations) == 2


# Secrets


async def test_no_secret_of_a_login_is_in_logs_answers_or_pages(
    server: Hostile, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    server.lie("authority", token_endpoint_auth_methods_supported=["client_secret_post"])
    server.lie("registration", client_secret="secret-of-the-client")
    seen: list[str] = []
    async with caller_of(server.url, tmp_path) as caller:
        seen.append(str(await caller.ask("link")))
        server.answer("token", Reply(400, b'{"error": "invalid_grant", "error_description": "access-as-x"}'))
        seen.append((await caller.attempt()).said)
        server.be_honest()
        server.lie("registration", client_secret="secret-of-the-client")
        await caller.connect()
        seen += [str(await caller.ask()), str(await caller.call())]
        server.forget_clients()
        seen += [str(await caller.call()), str(await caller.ask("disconnect")), str(await caller.ask("link"))]
        async with a_browser() as browser:
            for path in ("/health", "/metrics", "/oauth/callback?state=x"):
                async with browser.get(f"{caller.base}{path}") as page:
                    seen.append(await page.text())
        accounts = caller.gateway.connections.open_accounts["guarded"]
        seen += [repr(accounts), repr(accounts.authorizer(Principal())), repr(caller.gateway.connections)]
    ours = "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)
    assert len(server.secrets) >= 8
    everything = "\n".join((*seen, ours))
    assert not [secret for secret in server.secrets if secret in everything]


@pytest.mark.parametrize(
    "header",
    [
        "Bearer" + " " * 10_000_000 + "x",
        "Bearer " + "a=b, " * 1_000_000,
        "Bearer " + ", " * 1_000_000 + 'scope="a"',
        'Bearer scope="' + "\\\\" * 1_000_000,
        "Bearer " + "a" * 1_000_000 + " = ",
    ],
    ids=range(5),
)
def test_a_challenge_without_an_end_is_read_to_a_limit(header: str):
    """Whoever tried every way to read it would not come back."""
    found = read_challenge(401, header)
    assert (found.scheme, found.scopes, found.resource_metadata) == ("bearer", (), "")


# Addresses


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(server: Hostile):
    """DNS rebinding: the name has another address each time that it is looked up."""
    answers: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        answers.append("127.0.0.1" if len(answers) < 2 else "169.254.169.254")
        return [answers[-1]]

    port = urlsplit(server.origin).port
    trusted = f"http://rebinding.example:{port}/mcp"
    fetcher = GuardedFetcher([trusted], resolve=rebinding)
    reply = await fetcher.get(f"http://rebinding.example:{port}/.well-known/oauth-protected-resource/mcp")
    assert reply.status == 200
    # Once for the kind of address that is allowed, and once for the connection itself.
    assert answers == ["127.0.0.1", "127.0.0.1"]
    await fetcher.close()


async def test_a_name_is_refused_if_any_of_its_addresses_is_private():
    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.215.14"] if host == "mcp.example" else ["93.184.215.14", "127.0.0.1"]

    with pytest.raises(UntrustedAuthorityError, match="loopback address"):
        await GuardedFetcher(["https://mcp.example/mcp"], resolve=mixed).get("https://login.example/")


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "127.1",
        "224.0.0.1",
    ],
)
async def test_a_private_server_does_not_open_this_machine_nor_its_cloud(host: str):
    with pytest.raises(UntrustedAuthorityError):
        await GuardedFetcher(["https://10.0.0.7/mcp"]).get(f"https://{host}/")


@pytest.mark.parametrize(
    "host", ["[::ffff:127.0.0.1]", "2130706433", "0177.0.0.1", "0x7f000001", "127.1", "[::1]", "localhost"]
)
async def test_no_spelling_of_this_machine_is_open_to_a_public_server(host: str):
    with pytest.raises(UntrustedAuthorityError):
        await GuardedFetcher(["https://93.184.215.14/mcp"]).get(f"https://{host}/")


async def test_a_document_that_drips_is_given_up(server: Hostile):
    server.answer("authority", Reply(body=b" ", endless=True, pause=0.01))
    fetcher = GuardedFetcher([server.url], seconds=0.5)
    with pytest.raises(AuthorityUnavailableError, match="no answer within"):
        await fetcher.get(f"{server.origin}/.well-known/oauth-authorization-server/as")
    await fetcher.close()
