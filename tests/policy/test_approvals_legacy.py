"""A confirmation in the legacy era: the client is asked on the stream of the running call."""

import asyncio
from typing import Any

import pytest

from tests.policy.confirming import ABLE, ALWAYS, APPROVE, REFUSE, Setup, Steps, text_of
from toolyard.policy.approvals import ApprovalTimeoutError, RefusedByUserError
from toolyard.wire.errors import InvalidRequest


def legacy(setup: Setup, *answers: Any) -> tuple[Steps, list[Any]]:
    """A client whose user gives one answer after the other, and what it was asked."""
    client, asked, left = setup.client(ABLE, era="legacy"), list[Any](), list(answers)

    async def answer(method: str, params: Any) -> Any:
        assert method == "elicitation/create"
        asked.append(params)
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    client.on_ask = answer
    return client, asked


async def test_the_call_goes_on_when_the_user_approves(setup: Setup) -> None:
    client, asked = legacy(setup, APPROVE)
    assert text_of(await client.call(path="a", password="hunter2")) == "deleted a"
    assert "'delete'" in asked[0]["message"]
    assert "hunter2" not in asked[0]["message"]
    (approval,) = setup.service.approved
    assert (approval.by, approval.how) == ("anna", "elicitation")


@pytest.mark.parametrize(
    "answer", [REFUSE, {"action": "decline"}, {"action": "cancel"}, {}, 5, APPROVE | {"content": {}}]
)
async def test_everything_but_an_approval_is_a_refusal(setup: Setup, answer: Any) -> None:
    client, _ = legacy(setup, answer)
    with pytest.raises(RefusedByUserError, match="rule 'writes need a person' wants a person"):
        await client.call()
    assert setup.deleted == []


async def test_a_client_that_cannot_ask_after_all_refuses(setup: Setup) -> None:
    client, _ = legacy(setup, InvalidRequest("a batch of tool calls cannot ask the user"))
    with pytest.raises(RefusedByUserError, match="could not ask its user: a batch"):
        await client.call()
    assert setup.deleted == []


async def test_a_user_who_does_not_answer_has_refused(setup: Setup) -> None:
    brief = Setup(setup.state, seconds=0.02)
    client = brief.client(ABLE, era="legacy")
    ended = asyncio.Event()

    async def never(method: str, params: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    client.on_ask = never
    with pytest.raises(ApprovalTimeoutError, match="nobody did within"):
        await client.call()
    assert ended.is_set(), "the question was withdrawn"
    assert brief.deleted == []


async def test_always_is_asked_once(setup: Setup) -> None:
    client, asked = legacy(setup, ALWAYS)
    await client.call(path="a")
    await client.call(path="b")
    assert len(asked) == 1
    assert setup.deleted == ["a", "b"]
    assert [approval.how for approval in setup.service.approved] == ["elicitation", "conversation"]


async def test_a_client_that_only_opens_links_is_not_shown_a_form(setup: Setup) -> None:
    client = setup.client({"elicitation": {"url": {}}}, era="legacy")
    calling = asyncio.create_task(client.call())
    pending = await setup.waiting()
    await setup.approvals.pending.decide(pending.id, "approve", "olga")
    assert text_of(await calling) == "deleted a"
