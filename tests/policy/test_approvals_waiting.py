"""A client that cannot be asked: its call waits in the store until somebody decides, or time is over."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.policy.confirming import ANNA, RULE, Setup, opened, text_of
from tests.waiting import until
from toolyard.policy.approvals import ApprovalTimeoutError, ApprovalUnavailableError, RefusedByUserError
from toolyard.policy.pending import (
    AlreadyDecidedError,
    NoConversationError,
    PendingApprovals,
    UnknownApprovalError,
)
from toolyard.state.memory import MemoryState
from toolyard.state.store import StateUnavailableError
from toolyard.wire.call import Identity, Principal

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@ERAS
async def test_a_call_waits_until_somebody_approves_it(setup: Setup, era: str) -> None:
    calling = asyncio.create_task(setup.client(era=era).call(path="a", password="hunter2"))
    pending = await setup.waiting()
    shown = pending.call
    assert (shown.who, shown.server, shown.tool, shown.rule) == (
        "agent 'writer' of 'anna' (tenant 'acme')",
        "files",
        "delete",
        RULE,
    )
    assert shown.arguments == {"path": "a", "password": "***"}
    assert setup.deleted == []
    await setup.approvals.pending.decide(pending.id, "approve", "olga")
    assert text_of(await calling) == "deleted a"
    (approval,) = setup.service.approved
    assert (approval.by, approval.how) == ("olga", "approvals")
    assert await setup.approvals.pending.list() == []


@ERAS
async def test_a_call_that_is_denied_is_not_made(setup: Setup, era: str) -> None:
    calling = asyncio.create_task(setup.client(era=era).call())
    await setup.approvals.pending.decide((await setup.waiting()).id, "deny", "olga")
    with pytest.raises(RefusedByUserError, match="olga refused it") as refused:
        await calling
    assert (refused.value.by, refused.value.how) == ("olga", "approvals")
    assert setup.deleted == []


@ERAS
async def test_what_nobody_decides_is_refused_and_no_longer_listed(setup: Setup, era: str) -> None:
    brief = Setup(setup.state, seconds=0.02)
    with pytest.raises(ApprovalTimeoutError, match=r"nobody did within 0\.02 s.*toolyard approvals"):
        await brief.client(era=era).call()
    assert brief.deleted == []
    assert await setup.state.keys("approvals/") == []


class NeverRemoves(MemoryState):
    """Is down when the entry of a call that ended should be removed."""

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        if new is None:
            raise StateUnavailableError("down")
        return await super().swap(key, old, new, ttl)


async def test_a_call_that_ended_while_the_store_was_down_is_not_offered_for_long() -> None:
    setup = Setup(NeverRemoves(), seconds=0.02)
    with pytest.raises(ApprovalTimeoutError):
        await setup.client().call()

    async def gone() -> bool:
        return await setup.approvals.pending.list() == []

    await until(gone)


async def test_a_decision_in_the_same_process_wakes_the_call_at_once(setup: Setup) -> None:
    setup.approvals.pending = PendingApprovals(setup.state, pauses=(3600.0, 3600.0))
    calling = asyncio.create_task(setup.client().call())
    await setup.approvals.pending.decide((await setup.waiting()).id, "approve", "olga")
    assert text_of(await calling) == "deleted a"


async def test_any_process_on_the_same_store_may_decide(tmp_path: Path) -> None:
    async with opened("sqlite", tmp_path) as ours, opened("sqlite", tmp_path) as theirs:
        setup, elsewhere = Setup(ours), PendingApprovals(theirs)
        calling = asyncio.create_task(setup.client().call())
        await setup.waiting()
        (pending,) = await elsewhere.list()
        await elsewhere.decide(pending.id, "approve", "olga")
        assert text_of(await calling) == "deleted a"


async def test_of_many_who_decide_at_once_one_counts_and_the_others_are_told(tmp_path: Path) -> None:
    async with opened("sqlite", tmp_path) as ours, opened("sqlite", tmp_path) as theirs:
        setup = Setup(ours)
        deciders = [setup.approvals.pending, PendingApprovals(theirs)]
        calling = asyncio.create_task(setup.client().call())
        id = (await setup.waiting()).id
        ended = await asyncio.gather(
            *(
                deciders[number % 2].decide(id, "approve" if number % 3 else "deny", f"person {number}")
                for number in range(8)
            ),
            return_exceptions=True,
        )
        (winner,) = (one for one in ended if not isinstance(one, BaseException))
        assert winner.verdict is not None
        late = [one for one in ended if isinstance(one, AlreadyDecidedError)]
        assert len(late) == 7
        assert {one.verdict.by for one in late} == {winner.verdict.by}
        if winner.verdict.decision == "approve":
            await calling
            assert setup.service.approved[0].by == winner.verdict.by
        else:
            with pytest.raises(RefusedByUserError, match=winner.verdict.by):
                await calling


async def test_a_cancelled_call_waits_no_longer(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call())
    pending = await setup.waiting()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await setup.approvals.pending.list() == []
    assert await setup.state.keys("approvals/") == []
    assert len(setup.approvals.pending) == 0
    with pytest.raises(UnknownApprovalError, match=pending.id):
        await setup.approvals.pending.decide(pending.id, "approve", "olga")


async def test_always_holds_for_the_conversation(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call(path="a"))
    await setup.approvals.pending.decide((await setup.waiting()).id, "approve", "olga", always=True)
    await calling
    await setup.client().call(path="b")
    assert setup.deleted == ["a", "b"]
    assert (setup.service.approved[-1].by, setup.service.approved[-1].how) == ("olga", "conversation")


async def test_always_needs_a_conversation(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client(identity=Identity(ANNA.principal)).call())
    pending = await setup.waiting()
    with pytest.raises(NoConversationError, match="only be approved once"):
        await setup.approvals.pending.decide(pending.id, "approve", "olga", always=True)
    await setup.approvals.pending.decide(pending.id, "approve", "olga")
    assert text_of(await calling) == "deleted a"


async def test_those_of_another_tenant_are_neither_seen_nor_decided(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call())
    pending, approvals = await setup.waiting(), setup.approvals.pending
    assert await approvals.list("other") == []
    assert await approvals.list("acme") == [pending]
    with pytest.raises(UnknownApprovalError):
        await approvals.decide(pending.id, "approve", "eve", tenant="other")
    await approvals.decide(pending.id, "approve", "olga", tenant="acme")
    await calling


@pytest.mark.parametrize("id", ["", "0" * 10, "../always/x", "ffffffffff\n", "é" * 10, "f" * 5000])
async def test_an_id_that_is_none_is_unknown(setup: Setup, id: str) -> None:
    with pytest.raises(UnknownApprovalError):
        await setup.approvals.pending.decide(id, "approve", "olga")


async def test_who_wants_progress_learns_how_the_call_is_approved(setup: Setup) -> None:
    client = setup.client()
    calling = asyncio.create_task(client.call("delete", {"_meta": {"progressToken": "t"}}))
    pending = await setup.waiting()
    told = await client.inbox.next("notifications/progress")
    assert told["progressToken"] == "t"
    assert 0 < told["progress"] < 1
    assert f"toolyard approvals approve {pending.id}" in told["message"]
    await setup.approvals.pending.decide(pending.id, "approve", "olga")
    await calling


class Faulty(MemoryState):
    """A store that can be switched off."""

    is_down = False
    dies_when_written = False
    asked_in_vain = 0

    def _check(self) -> None:
        if self.is_down:
            self.asked_in_vain += 1
            raise StateUnavailableError("redis at 10.0.0.5: gone")

    async def get(self, key: str) -> bytes | None:
        self._check()
        return await super().get(key)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        self._check()
        await super().put(key, value, ttl)
        self.is_down = self.dies_when_written

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        self._check()
        return await super().swap(key, old, new, ttl)

    async def keys(self, prefix: str) -> list[str]:
        self._check()
        return await super().keys(prefix)


async def _in_vain(state: Faulty) -> None:
    async def asked() -> bool:
        return state.asked_in_vain > 0

    await until(asked)


async def test_a_call_waits_through_an_outage_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    state = Faulty()
    setup = Setup(state)
    calling = asyncio.create_task(setup.client().call())
    pending = await setup.waiting()
    state.is_down = True
    await _in_vain(state)
    state.is_down = False
    await setup.approvals.pending.decide(pending.id, "approve", "olga")
    assert text_of(await calling) == "deleted a"
    assert "nobody can decide now" in caplog.text


async def test_a_call_whose_store_stays_down_is_refused() -> None:
    state = Faulty()
    state.dies_when_written = True
    setup = Setup(state, seconds=0.05)
    with pytest.raises(ApprovalTimeoutError):
        await setup.client().call()
    assert state.asked_in_vain > 0
    assert setup.deleted == []


async def test_a_call_that_cannot_be_entered_is_refused_at_once() -> None:
    state = Faulty()
    state.is_down = True
    setup = Setup(state)
    with pytest.raises(ApprovalUnavailableError, match="state store is not available") as error:
        await setup.client().call()
    assert "10.0.0.5" not in error.value.message
    assert len(setup.approvals.pending) == 0


async def test_an_entry_that_the_store_lost_is_entered_again(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call())
    pending = await setup.waiting()
    await setup.state.delete(f"approvals/pending/{pending.id}")
    assert (await setup.waiting()).id == pending.id
    await setup.approvals.pending.decide(pending.id, "approve", "olga")
    assert text_of(await calling) == "deleted a"


async def test_an_entry_that_cannot_be_read_is_not_an_approval(setup: Setup) -> None:
    calling = asyncio.create_task(setup.client().call())
    pending = await setup.waiting()
    await setup.state.put(f"approvals/pending/{pending.id}", b'{"verdict":"approve"}')
    with pytest.raises(ApprovalTimeoutError):
        await calling
    assert await setup.approvals.pending.list() == []


async def test_one_principal_cannot_take_all_the_room(setup: Setup) -> None:
    setup.approvals.pending = PendingApprovals(setup.state, limit=20)
    calls = [asyncio.create_task(setup.client().call()) for _ in range(2)]

    async def both() -> bool:
        return len(await setup.approvals.pending.list()) == 2

    await until(both)
    with pytest.raises(ApprovalUnavailableError, match="too many calls wait"):
        await setup.client().call()
    other = replace(ANNA, principal=Principal(tenant="acme", subject="bert"))
    calls.append(asyncio.create_task(setup.client(identity=other).call()))

    async def three() -> bool:
        return len(await setup.approvals.pending.list()) == 3

    await until(three)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_an_approval_by_an_operator_covers_the_rounds_of_its_call(setup: Setup) -> None:
    client, tool = setup.client({"sampling": {}}), "sum_up_and_delete"
    calling = asyncio.create_task(client.call(tool))
    await setup.approvals.pending.decide((await setup.waiting()).id, "approve", "olga")
    theirs = await calling
    said = {"role": "assistant", "content": {"type": "text", "text": "old"}, "model": "m"}
    assert text_of(await client.answer(theirs, said, tool, "sum")) == "deleted a: old"
    approved = [(approval.by, approval.how) for approval in setup.service.approved]
    assert approved == [("olga", "approvals")] * 2
