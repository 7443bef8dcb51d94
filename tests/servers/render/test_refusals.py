"""What Render refuses, or cannot, is said in words that help, in both languages, and never with the key."""

import logging
from typing import Any

import pytest

from tests.emulators.render import API_KEY, RenderEmulator
from tests.servers.render.talking import at, talking


@pytest.fixture
def stocked(render: RenderEmulator) -> RenderEmulator:
    web = render.world.service("shop-web")
    render.world.log(web, "hello", ago=5)
    return render


async def test_a_wrong_key_is_said_once_for_all_and_never_shown(
    stocked: RenderEmulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "rnd_thisIsNotTheRightOne"
    for locale, expected in (("en", "does not accept the API key (401)"), ("pt", "não aceita a chave")):
        async with at(stocked, api_key=secret, locale=locale) as talk:
            refusal = await talk.refusal()
            assert expected in refusal
            assert expected in (await talk.call("service_status")).text
            assert secret not in refusal
    assert secret not in caplog.text


async def test_the_key_is_taken_from_the_environment_when_it_is_not_set(
    stocked: RenderEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RENDER_API_KEY", API_KEY)
    async with talking(url=stocked.url) as talk:
        assert (await talk.logs()).messages == ["hello"]


FAILURES: list[tuple[Any, str, str]] = [
    # What happens, and a part of what is said in English and in Portuguese.
    (403, "may not read logs (shop-web) at Render (403)", "não pode ler logs (shop-web)"),
    (404, "Render has no logs (shop-web) (404)", "não tem logs (shop-web) (404)"),
    (400, "(HTTP 400): bad … things", "(HTTP 400): bad … things"),
    (410, "(HTTP 410)", "(HTTP 410)"),
    (500, "Render failed on logs (shop-web) (HTTP 500)", "(HTTP 500)"),
    (503, "Render failed on logs (shop-web) (HTTP 503)", "(HTTP 503)"),
    (302, "(HTTP 302)", "(HTTP 302)"),
    ("drop", "cannot be reached", "Não foi possível acessar"),
    ("garbage", "is not valid", "não é válida"),
    ("half", "is not valid", "não é válida"),
    ("huge", "is not valid: > 16 MiB", "não é válida: > 16 MiB"),
]


@pytest.mark.parametrize("locale", ["en", "pt"])
async def test_each_failure_has_its_own_message(stocked: RenderEmulator, locale: str) -> None:
    async with at(stocked, locale=locale) as talk:
        for how, english, portuguese in FAILURES:
            stocked.faults.clear()
            stocked.fail("/logs", how, message=f"bad {API_KEY}\nthings", Location="http://127.0.0.1:9/")
            refusal = await talk.refusal()
            assert (english if locale == "en" else portuguese) in refusal
            assert API_KEY not in refusal
        stocked.faults.clear()
        assert (await talk.logs()).messages == ["hello"]


async def test_a_key_that_a_service_wrote_to_its_log_is_not_shown(render: RenderEmulator) -> None:
    web = render.world.service("shop-web")
    render.world.log(web, f"env RENDER_API_KEY={API_KEY}", ago=5)
    async with at(render) as talk:
        assert (await talk.logs()).messages == ["env RENDER_API_KEY=…"]


async def test_a_render_that_does_not_answer_is_given_up(stocked: RenderEmulator) -> None:
    stocked.fail("/logs", "hang")
    async with at(stocked, timeout=2) as talk:
        assert "did not answer for logs (shop-web) in 2 s" in await talk.refusal()
    async with at(stocked, url="http://127.0.0.1:9") as talk:
        assert "cannot be reached" in await talk.refusal()


async def test_after_a_rate_limit_that_passes_soon_render_is_asked_once_more(
    stocked: RenderEmulator,
) -> None:
    stocked.fail("/logs", 429, times=1, Retry_After="0")
    stocked.fail("/services", 429, times=1, Retry_After="Wed, 01 Jan 2020 00:00:00 GMT")
    async with at(stocked) as talk:
        assert (await talk.logs()).messages == ["hello"]
        assert len(stocked.asked_for("/logs")) == 2
        stocked.fail("/logs", 429, times=2, Retry_After="0")
        assert "rate limit is reached (429)" in await talk.refusal()
        assert len(stocked.asked_for("/logs")) == 4


async def test_a_rate_limit_that_lasts_is_not_waited_for_but_said(stocked: RenderEmulator) -> None:
    stocked.quota = 3
    for locale, expected in (("en", "Try again in 600 s"), ("pt", "Tente de novo em 600 s")):
        async with at(stocked, locale=locale) as talk:
            assert expected in await talk.refusal()
    stocked.quota = None
    stocked.fail("/logs", 429, times=1, Ratelimit_Reset="3600")
    async with at(stocked) as talk:
        assert "Try again in 3600 s" in await talk.refusal()
        assert len(stocked.asked_for("/logs")) == 2


async def test_a_list_that_fails_is_only_missed_by_who_needs_it(stocked: RenderEmulator) -> None:
    stocked.fail("/postgres", 503)
    async with at(stocked) as talk:
        assert (await talk.logs()).messages == ["hello"]
        assert "failed on postgres (HTTP 503)" in await talk.refusal(service="shop-db")
    stocked.fail("/services", 500)
    stocked.fail("/key-value", 500)
    async with at(stocked) as talk:
        assert "failed on services (HTTP 500)" in await talk.refusal()


async def test_what_was_found_when_the_time_is_over_is_answered(stocked: RenderEmulator) -> None:
    stocked.door.page = 1
    stocked.world.log(next(iter(stocked.world.services)), "older", ago=9)
    stocked.fail("/logs", "hang", after=1)
    async with at(stocked, patience=2) as talk:
        said = await talk.logs()
    assert said.messages == ["hello"]
    assert said.structured["has_more"] is True
    assert said.structured["notices"] == [
        "Render has more entries, but did not send them within 2 s; these are the newest."
    ]
