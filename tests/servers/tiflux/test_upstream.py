"""What callers are told when TiFlux does not answer as it should, and what is tried again."""

from typing import Any

import pytest

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.emulators.tiflux.faults import How
from tests.servers.tiflux.talking import Talk, at
from toolyard.servers.tiflux import Settings

ANSWER = {"ticket_number": "1", "text": "Feito"}
PATH = "/tickets/1/answers"


async def refused(talk: Talk, tiflux: TifluxEmulator, how: How, **options: Any) -> str:
    """What is said when an answer cannot be written; which is then not tried again."""
    fault = tiflux.misbehave(how, PATH, method="POST", **options)
    told = await talk.refusal("create_ticket_answer", **ANSWER)
    assert fault.struck == 1
    assert API_KEY not in told
    tiflux.behave()
    return told


@pytest.mark.parametrize(
    ("how", "english", "portuguese"),
    [
        (401, "does not accept this API key", "não aceita"),
        (403, "may not do that", "não pode"),
        (404, "nothing under that number", "nada"),
        (415, "does not accept that kind", "não aceita"),
        (422, "does not accept these values", "não aceita"),
        (500, "TiFlux failed", "problema"),
        (503, "TiFlux failed", "problema"),
        ("html", "HTML", "HTML"),
        ("drop", "check before you repeat it", "verifique antes de repetir"),
        ("huge", "larger than", "passa de"),
        ("echo_key", "***", "***"),
    ],
)
async def test_each_way_of_failing_is_told_in_either_language(
    tiflux: TifluxEmulator, how: How, english: str, portuguese: str
):
    async with at(tiflux) as talk:
        assert english in await refused(talk, tiflux, how)
    async with at(tiflux, locale="pt") as talk:
        assert portuguese in await refused(talk, tiflux, how)


async def test_an_answer_that_never_comes_is_waited_for_no_longer_than_set(tiflux: TifluxEmulator):
    async with at(tiflux, timeout=0.2) as talk:
        tiflux.misbehave("never", PATH, method="POST", times=-1)
        told = await talk.refusal("create_ticket_answer", **ANSWER)
        assert "did not answer within 0.2 seconds" in told


async def test_too_many_requests_are_tried_again_when_tiflux_says_so_even_to_write(tiflux: TifluxEmulator):
    async with at(tiflux) as talk:
        fault = tiflux.misbehave(429, PATH, method="POST", times=2, retry_after="0")
        await talk.call("create_ticket_answer", **ANSWER)
        assert fault.struck == 2
        tiflux.misbehave(429, PATH, method="POST", retry_after="3600")
        assert "rate of requests" in await talk.refusal("create_ticket_answer", **ANSWER)


async def test_what_ends_a_ticket_is_not_sent_twice(tiflux: TifluxEmulator):
    async with at(tiflux) as talk:
        fault = tiflux.misbehave(502, "/tickets/1/close", times=-1)
        assert "TiFlux failed" in await talk.refusal("close_ticket", ticket_number="1")
        assert fault.struck == 1


def test_settings_do_not_show_the_key():
    assert "secret" not in repr(Settings(api_key="secret", default_desk_id=3))
