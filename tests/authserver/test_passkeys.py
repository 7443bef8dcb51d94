"""Passkeys with an authenticator in software: what works, and every answer that must not count."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from tests.authserver.authenticator import (
    HAS_KEY,
    PRESENT,
    SYNCED,
    VERIFIED,
    Authenticator,
    enrol,
    options_of,
    send,
    text,
)
from tests.authserver.yard import (
    BEHIND_PROXY,
    NAME,
    PASSWORD,
    Browser,
    LoginYard,
    Page,
    login_yard,
    registered,
)
from toolyard.authserver.users import LocalUsers, LoginUserError

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LoginYard]:
    async with login_yard(tmp_path_factory.mktemp("yard"), host="localhost", gateway=BEHIND_PROXY) as found:
        yield found


async def link_for(yard: LoginYard, name: str, **options: Any) -> str:
    return f"{yard.base}/oauth/enrol?ticket={await yard.users.open_enrolment(name, **options)}"


async def with_passkey(yard: LoginYard, name: str, **options: Any) -> Authenticator:
    """A new user without a password, and their authenticator."""
    await yard.users.add(name, None)
    authenticator = Authenticator(yard.base, **options)
    async with Browser() as browser:
        page = await enrol(browser, await link_for(yard, name), authenticator)
    assert page.status == 200, page.text[-2000:]
    return authenticator


async def sign_in_page(yard: LoginYard, browser: Browser) -> Page:
    return await browser.get((await registered(yard)).url())


def is_in(page: Page) -> bool:
    return 'value="allow"' in page.text


# What works


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("user-of-ES256", lambda: ec.generate_private_key(ec.SECP256R1())),
        ("user-of-EdDSA", ed25519.Ed25519PrivateKey.generate),
        ("user-of-RS256", lambda: rsa.generate_private_key(65537, 2048)),
    ],
)
async def test_a_passkey_lets_a_client_in_like_a_password(yard: LoginYard, name: str, key: Callable[[], Any]):
    authenticator = await with_passkey(yard, name, key=key())
    client = await registered(yard)
    async with Browser() as browser:
        page = await browser.get(client.url())
        options = options_of(page)
        assert (options["rpId"], options["userVerification"]) == ("localhost", "required")
        assert options["allowCredentials"] == []
        page = await send(browser, page, "passkey", authenticator.get(options))
        assert name in page.text
        sent = (await browser.submit(page, decision="allow")).sent()
    status, tokens = await client.redeem(sent["code"])
    assert status == 200, tokens
    assert (await yard.call(tokens["access_token"])).status == 200


async def test_a_link_asks_for_a_passkey_that_names_its_user_by_a_random_handle(yard: LoginYard):
    async with Browser() as browser:
        page = await browser.get(await link_for(yard, NAME))
    options = options_of(page)
    assert options["rp"] == {"id": "localhost", "name": "yard"}
    assert options["user"]["name"] == NAME
    assert NAME not in options["user"]["id"]
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [-7, -8, -257]
    assert options["authenticatorSelection"]["residentKey"] == "required"
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert options["attestation"] == "none"


async def test_a_user_has_a_password_and_passkeys_side_by_side(yard: LoginYard):
    await yard.users.add("berta", PASSWORD)
    first, second = Authenticator(yard.base), Authenticator(yard.base)
    async with Browser() as browser:
        await enrol(browser, await link_for(yard, "berta"), first, name="<b>my laptop</b>")
        page = await browser.get(await link_for(yard, "berta"))
        # The browser is told not to make a second one on the same device.
        assert [one["id"] for one in options_of(page)["excludeCredentials"]] == [text(first.credential)]
        await send(browser, page, "enrol", second.create(options_of(page)))
    user = await yard.users.get("berta")
    assert [(key.name, key.host) for key in user.passkeys] == [
        ("<b>my laptop</b>", "localhost"),
        ("", "localhost"),
    ]
    for authenticator in (first, second):
        async with Browser() as browser:
            page = await sign_in_page(yard, browser)
            assert is_in(await send(browser, page, "passkey", authenticator.get(options_of(page))))
    async with Browser() as browser:
        page = await browser.submit(await sign_in_page(yard, browser), user="berta", password=PASSWORD)
        assert is_in(page)


async def test_a_removed_passkey_ends_sessions_and_lets_nobody_in(yard: LoginYard):
    authenticator = await with_passkey(yard, "carla")
    async with Browser() as browser:
        page = await sign_in_page(yard, browser)
        page = await send(browser, page, "passkey", authenticator.get(options_of(page)))
        assert is_in(page)
        (passkey,) = (await yard.users.get("carla")).passkeys
        with pytest.raises(LoginUserError, match="the only way in"):
            await yard.users.remove_passkey("carla", passkey.id)
        assert is_in(await sign_in_page(yard, browser))
        await yard.users.remove_passkey("carla", passkey.id, lock_out=True)
        page = await sign_in_page(yard, browser)
        assert not is_in(page)
        page = await send(browser, page, "passkey", authenticator.get(options_of(page)))
        assert (page.status, is_in(page)) == (401, False)
        assert "was not accepted" in page.text


async def test_a_user_without_a_password_has_none_that_could_be_guessed(yard: LoginYard):
    await with_passkey(yard, "dora")
    async with Browser(**{"X-Forwarded-For": "203.0.113.7"}) as browser:
        page = await sign_in_page(yard, browser)
        for password in ("", " ", "None", "null"):
            assert not is_in(await browser.submit(page, user="dora", password=password))


async def test_a_password_can_go_once_there_is_a_passkey(yard: LoginYard):
    await yard.users.add("emma", PASSWORD)
    with pytest.raises(LoginUserError, match="the only way in"):
        await yard.users.remove_password("emma")
    authenticator = Authenticator(yard.base)
    async with Browser() as browser:
        await enrol(browser, await link_for(yard, "emma"), authenticator)
        await yard.users.remove_password("emma")
        page = await sign_in_page(yard, browser)
        assert not is_in(await browser.submit(page, user="emma", password=PASSWORD))
        assert is_in(await send(browser, page, "passkey", authenticator.get(options_of(page))))


async def test_any_replica_finishes_what_another_began(tmp_path: Path):
    gateway = {"public_url": "http://localhost:9999"}
    async with login_yard(tmp_path, gateway=gateway) as one, login_yard(tmp_path, gateway=gateway) as two:
        await one.users.add("anna-2", None)
        authenticator = Authenticator("http://localhost:9999")
        ticket = await one.users.open_enrolment("anna-2")
        async with Browser() as browser:
            page = await browser.get(f"{one.base}/oauth/enrol?ticket={ticket}")
            form = {"flow": page.hidden["flow"], "credential": authenticator.create(options_of(page))}
            assert (await browser.post(f"{two.base}/oauth/enrol", form)).status == 200
            client = await registered(one)
            page = await browser.get(client.url(resource=None))
            form = {"flow": page.hidden["flow"], "credential": authenticator.get(options_of(page))}
            page = await browser.post(f"{two.base}/oauth/passkey", form)
            assert (page.location or "").startswith("http://localhost:9999/oauth/authorize?")
            assert "toolyard-login=" in page.headers["set-cookie"]
            # What one replica took, no other takes again.
            assert (await browser.post(f"{one.base}/oauth/passkey", form)).status == 401


async def test_a_counter_that_goes_back_is_noted(yard: LoginYard, caplog: pytest.LogCaptureFixture):
    authenticator = await with_passkey(yard, "frida", counts=True)
    for count, has_note in ((10, False), (10, True), (3, True)):
        authenticator.count = count - 1
        async with Browser() as browser:
            page = await sign_in_page(yard, browser)
            assert is_in(await send(browser, page, "passkey", authenticator.get(options_of(page))))
        (passkey,) = (await yard.users.get("frida")).passkeys
        assert bool(passkey.went_back) is has_note
        assert ("there may be a copy" in caplog.text) is has_note


async def test_whoever_reads_the_store_cannot_make_or_use_a_passkey(yard: LoginYard):
    authenticator = await with_passkey(yard, "quirin")
    ticket = await yard.users.open_enrolment("quirin")
    kept = b"".join([await yard.state.get(key) or b"" for key in await yard.state.keys("logins:")])
    keys = " ".join(await yard.state.keys("logins:"))
    private = authenticator.key.private_numbers().private_value.to_bytes(32, "big")
    assert base64.b64encode(authenticator.public_key()) in kept
    for secret in (ticket, text(private), base64.b64encode(private).decode()):
        assert secret.encode() not in kept
        assert secret not in keys


# Answers that must not count


async def test_an_answer_counts_once(yard: LoginYard):
    authenticator = await with_passkey(yard, "greta")
    async with Browser() as browser:
        page = await sign_in_page(yard, browser)
        answer = authenticator.get(options_of(page))
        both = await asyncio.gather(*(send(browser, page, "passkey", answer) for _ in range(4)))
        assert sorted(is_in(one) for one in both) == [False, False, False, True]
        browser.http.cookie_jar.clear(lambda cookie: cookie.key == "toolyard-login")
        assert (await send(browser, page, "passkey", answer)).status == 401


async def test_an_answer_counts_in_its_browser_and_its_flow(yard: LoginYard):
    authenticator = await with_passkey(yard, "hanna")
    async with Browser() as mine, Browser() as theirs:
        page, other = await sign_in_page(yard, mine), await sign_in_page(yard, mine)
        foreign = await sign_in_page(yard, theirs)
        answer = authenticator.get(options_of(page))
        # Of another browser, with its own form and with this one; and of another page of the same browser.
        assert (await send(theirs, page, "passkey", answer)).status == 400
        assert (await send(theirs, foreign, "passkey", answer)).status == 401
        assert (await send(mine, other, "passkey", answer)).status == 401
        # Of a page to make a passkey.
        enrolling = await mine.get(await link_for(yard, "hanna"))
        assert (await send(mine, enrolling, "passkey", authenticator.get(options_of(page)))).status == 400
        assert (await send(mine, page, "enrol", authenticator.create(options_of(enrolling)))).status == 400
        spoilt = {"flow": page.hidden["flow"][:-4] + "AAAA", "credential": answer}
        assert (await mine.post(f"{yard.base}/oauth/passkey", spoilt)).status == 400
        assert is_in(await send(mine, page, "passkey", answer))


Change = Callable[[Authenticator, dict[str, Any]], str]
WRONG: dict[str, Change] = {
    "another origin": lambda a, o: a.get(
        o, client_data=a.client_data("webauthn.get", o["challenge"], origin="https://evil.example")
    ),
    "another port": lambda a, o: a.get(
        o, client_data=a.client_data("webauthn.get", o["challenge"], origin="http://localhost:1")
    ),
    "https instead": lambda a, o: a.get(
        o, client_data=a.client_data("webauthn.get", o["challenge"], origin="https://localhost")
    ),
    "in a frame": lambda a, o: a.get(
        o, client_data=a.client_data("webauthn.get", o["challenge"], crossOrigin=True)
    ),
    "of a registration": lambda a, o: a.get(o, client_data=a.client_data("webauthn.create", o["challenge"])),
    "another challenge": lambda a, o: a.get(o, client_data=a.client_data("webauthn.get", text(bytes(24)))),
    "no challenge": lambda a, o: a.get(o, client_data=a.client_data("webauthn.get", "")),
    "for another host": lambda a, o: a.get(o, rp="evil.example"),
    "not verified": lambda a, o: a.get(o, flags=PRESENT),
    "not present": lambda a, o: a.get(o, flags=VERIFIED),
    "flags that contradict": lambda a, o: a.get(o, flags=PRESENT | VERIFIED | SYNCED),
    "another signature": lambda a, o: a.get(o, signature=text(a.sign(b"something else"))),
    "another key": lambda a, o: Authenticator(a.origin).get(o, id=text(a.credential), handle=a.handle),
    "no signature": lambda a, o: a.get(o, signature=""),
    "another credential": lambda a, o: a.get(o, id=text(b"unknown")),
    "another user": lambda a, o: a.get(o, handle=text(bytes(24))),
    "no user": lambda a, o: a.get(o, handle=""),
    "a long user": lambda a, o: a.get(o, handle="x" * 20_000),
    "an odd user": lambda a, o: a.get(o, handle="é\n\x00"),
    "cut off": lambda a, o: a.get(o, authenticator_data=text(a.data(o["rpId"], 5)[:36])),
    "empty data": lambda a, o: a.get(o, authenticator_data=""),
    "not base64": lambda a, o: a.get(o, authenticator_data="%%%"),
    "client data of nonsense": lambda a, o: a.get(o, client_data=b"\xff\xfe"),
    "client data of another form": lambda a, o: a.get(o, client_data=b'["webauthn.get"]'),
    "deep client data": lambda a, o: a.get(o, client_data=b"[" * 5_000),
    "not JSON": lambda a, o: "{",
    "nothing": lambda a, o: "",
    "other JSON": lambda a, o: "[1, 2]",
    "other types": lambda a, o: json.dumps(dict.fromkeys(json.loads(a.get(o)), 7)),
    "too long": lambda a, o: a.get(o, more="x" * 40_000),
}


@pytest.fixture(scope="module")
def known() -> dict[str, Authenticator]:
    return {}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
async def test_a_wrong_answer_lets_nobody_in(
    yard: LoginYard, known: dict[str, Authenticator], change: Change, request: pytest.FixtureRequest
):
    authenticator = known.get("inge") or known.setdefault("inge", await with_passkey(yard, "inge"))
    peer = f"198.51.100.{list(WRONG).index(request.node.callspec.id) + 1}"
    async with Browser(**{"X-Forwarded-For": peer}) as browser:
        page = await sign_in_page(yard, browser)
        refused = await send(browser, page, "passkey", change(authenticator, options_of(page)))
        assert (refused.status, refused.location) == (401, None)
        assert "That passkey was not accepted" in refused.text
        assert not is_in(await sign_in_page(yard, browser))
        # The page that says so lets the right one in.
        assert is_in(await send(browser, refused, "passkey", authenticator.get(options_of(refused))))


async def test_a_passkey_is_good_for_its_own_user_only(yard: LoginYard):
    mine, theirs = await with_passkey(yard, "jana"), await with_passkey(yard, "katja")
    async with Browser() as browser:
        for change in (
            lambda options: mine.get(options, handle=theirs.handle),
            lambda options: mine.get(options, id=text(theirs.credential)),
            lambda options: mine.get(options, id=text(theirs.credential), handle=theirs.handle),
        ):
            page = await sign_in_page(yard, browser)
            assert not is_in(await send(browser, page, "passkey", change(options_of(page))))


NEW: dict[str, Change] = {
    "another origin": lambda a, o: a.create(
        o, client_data=text(a.client_data("webauthn.create", o["challenge"], origin="https://evil.example"))
    ),
    "of a sign-in": lambda a, o: a.create(o, client_data=text(a.client_data("webauthn.get", o["challenge"]))),
    "another challenge": lambda a, o: a.create(
        o, client_data=text(a.client_data("webauthn.create", text(bytes(24))))
    ),
    "for another host": lambda a, o: a.create({**o, "rp": {"id": "evil.example"}}),
    "not verified": lambda a, o: a.create(o, authenticator_data=new_data(a, flags=PRESENT | HAS_KEY)),
    "no key": lambda a, o: a.create(o, authenticator_data=new_data(a, flags=PRESENT | VERIFIED)),
    "cut off in the id": lambda a, o: a.create(o, authenticator_data=new_data(a, size=60_000)),
    "an empty id": lambda a, o: a.create(o, authenticator_data=new_data(a, size=0)),
    "cut off before the id": lambda a, o: a.create(o, authenticator_data=new_data(a, end=45)),
    "a key of nonsense": lambda a, o: a.create(o, public_key=text(b"0\x82garbage" * 20)),
    "no public key": lambda a, o: a.create(o, public_key=""),
    "another curve": lambda a, o: Authenticator(a.origin, ec.generate_private_key(ec.SECP384R1())).create(o),
    "a short RSA key": lambda a, o: Authenticator(a.origin, rsa.generate_private_key(65537, 1024)).create(o),
    "another algorithm": lambda a, o: Authenticator(a.origin, dsa.generate_private_key(1024)).create(o),
    "not JSON": lambda a, o: "{",
    "nothing": lambda a, o: "",
}


def new_data(
    authenticator: Authenticator,
    flags: int = PRESENT | VERIFIED | HAS_KEY,
    size: int = 32,
    end: int | None = None,
) -> str:
    rest = bytes(16) + size.to_bytes(2, "big") + authenticator.credential + b"key"
    return text((authenticator.data("localhost", flags) + rest)[:end])


@pytest.mark.parametrize("change", NEW.values(), ids=NEW)
async def test_a_wrong_new_passkey_is_not_kept_and_the_link_stays_good(
    yard: LoginYard, change: Change, request: pytest.FixtureRequest
):
    name = f"new-{list(NEW).index(request.node.callspec.id)}"
    await yard.users.add(name, None)
    authenticator = Authenticator(yard.base)
    async with Browser(**{"X-Forwarded-For": f"192.0.2.{list(NEW).index(request.node.callspec.id)}"}) as one:
        page = await one.get(await link_for(yard, name))
        refused = await send(one, page, "enrol", change(authenticator, options_of(page)))
        assert refused.status == 400
        assert "could not be saved" in refused.text
        assert not (await yard.users.get(name)).passkeys
        assert (await send(one, refused, "enrol", authenticator.create(options_of(refused)))).status == 200


async def test_a_link_counts_once_even_for_two_at_the_same_time(yard: LoginYard):
    await yard.users.add("lena", None)
    link = await link_for(yard, "lena")
    mine, theirs = Authenticator(yard.base), Authenticator(yard.base)
    async with Browser() as one, Browser() as two:
        for browser in (one, two):
            await browser.get(link)  # looking at it uses nothing up
        pages = await one.get(link), await two.get(link)
        answers = await asyncio.gather(
            send(one, pages[0], "enrol", mine.create(options_of(pages[0]))),
            send(two, pages[1], "enrol", theirs.create(options_of(pages[1]))),
        )
        assert sorted(answer.status for answer in answers) == [200, 404]
        assert len((await yard.users.get("lena")).passkeys) == 1
        gone = await one.get(link)
        assert (gone.status, "Ask the operator" in gone.text) == (404, True)


async def test_a_link_ends_with_its_time_its_user_and_its_browser(yard: LoginYard):
    await yard.users.add("maria", None)
    late = LocalUsers(yard.state, "yard", now=lambda: 0.0)
    expired = f"{yard.base}/oauth/enrol?ticket={await late.open_enrolment('maria')}"
    link = await link_for(yard, "maria")
    authenticator = Authenticator(yard.base)
    async with Browser() as browser, Browser() as other:
        for url in (expired, f"{yard.base}/oauth/enrol", f"{yard.base}/oauth/enrol?ticket=tye_guess"):
            assert (await browser.get(url)).status == 404
        page = await browser.get(link)
        answer = authenticator.create(options_of(page))
        assert "Open the link again" in (await send(other, page, "enrol", answer)).text
        await yard.users.remove("maria")
        assert (await send(browser, page, "enrol", answer)).status == 404
        # Another user of the same name does not inherit it.
        await yard.users.add("maria", None)
        assert (await send(browser, page, "enrol", answer)).status == 404
        assert (await browser.get(link)).status == 404
    assert not (await yard.users.get("maria")).passkeys


async def test_a_removed_user_does_not_get_in_and_neither_does_a_namesake(yard: LoginYard):
    authenticator = await with_passkey(yard, "nora")
    await yard.users.remove("nora")
    async with Browser() as browser:
        for _ in range(2):
            page = await sign_in_page(yard, browser)
            assert not is_in(await send(browser, page, "passkey", authenticator.get(options_of(page))))
            if await yard.users.find("nora") is None:
                await yard.users.add("nora", PASSWORD)
                await yard.users.open_enrolment("nora")


async def test_wrong_passkeys_are_slowed_for_their_sender_and_for_nobody_else(tmp_path: Path):
    async with login_yard(tmp_path, host="localhost", gateway=BEHIND_PROXY) as yard:
        authenticator = await with_passkey(yard, "olga")
        async with Browser(**{"X-Forwarded-For": "203.0.113.9"}) as guesser:
            page = await sign_in_page(yard, guesser)
            found = [(await send(guesser, page, "passkey", "{}")).status for _ in range(52)]
            assert (found.count(401), found.count(429)) == (50, 2)
            assert (await send(guesser, page, "passkey", authenticator.get(options_of(page)))).status == 429
        async with Browser(**{"X-Forwarded-For": "203.0.113.10"}) as browser:
            page = await sign_in_page(yard, browser)
            assert is_in(await send(browser, page, "passkey", authenticator.get(options_of(page))))


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("site-1", {"Origin": "https://evil.example"}),
        ("site-2", {"Origin": "null"}),
        ("site-3", {"Sec-Fetch-Site": "cross-site"}),
    ],
)
async def test_another_site_cannot_send_the_forms(yard: LoginYard, name: str, headers: dict[str, str]):
    await yard.users.add(name, None)
    authenticator = Authenticator(yard.base)
    async with Browser() as browser:
        page = await browser.get(await link_for(yard, name))
        form = {"flow": page.hidden["flow"], "credential": authenticator.create(options_of(page))}
        for action in ("enrol", "passkey"):
            url = f"{yard.base}/oauth/{action}"
            async with browser.http.post(url, data=form, headers=headers) as answer:
                assert answer.status == 403
    assert not (await yard.users.get(name)).passkeys


async def test_huge_bodies_and_other_methods_are_refused(yard: LoginYard):
    async with Browser() as browser:
        page = await sign_in_page(yard, browser)
        for action in ("passkey", "enrol"):
            assert (await send(browser, page, action, "x" * 70_000)).status == 413
            async with browser.http.put(f"{yard.base}/oauth/{action}") as answer:
                assert answer.status == 405
        assert (await browser.get(f"{yard.base}/oauth/passkey")).status == 405


# Pages


async def test_pages_run_the_one_script_and_cannot_be_framed(yard: LoginYard):
    async with Browser() as browser:
        pages = [await sign_in_page(yard, browser), await browser.get(await link_for(yard, NAME))]
    for page in pages:
        policy = page.headers["content-security-policy"].split("; ")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        (scripts,) = [part for part in policy if part.startswith("script-src")]
        assert scripts.startswith("script-src 'sha256-")
        assert scripts.count(" ") == 1
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert page.text.count("<script") == 1


async def test_both_ways_in_are_offered_whoever_there_is(tmp_path: Path):
    async with login_yard(tmp_path, host="localhost") as yard:
        async with Browser() as browser:
            before = await sign_in_page(yard, browser)
        await with_passkey(yard, "petra")
        await yard.users.remove(NAME)
        async with Browser() as browser:
            after = await sign_in_page(yard, browser)
        for page in (before, after):
            assert 'type="password"' in page.text
            assert 'action="passkey"' in page.text


async def test_at_a_number_people_are_told_of_localhost(tmp_path: Path):
    async with login_yard(tmp_path) as yard:
        link = await link_for(yard, NAME)
        async with Browser() as browser:
            page = await sign_in_page(yard, browser)
            assert f"http://localhost:{yard.client.port}" in page.text
            assert "<script" not in page.text
            assert "script-src" not in page.headers["content-security-policy"]
            assert (await send(browser, page, "passkey", "{}")).status == 404
            page = await browser.get(link)
            assert (page.status, "with localhost in its place" in page.text) == (400, True)
