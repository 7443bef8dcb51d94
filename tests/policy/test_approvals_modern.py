"""A confirmation in the modern era: a round trip whose state nobody can forge, move, change or use twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.policy.confirming import ABLE, ALWAYS, ANNA, APPROVE, KEY, REFUSE, RULE, Setup, opened, text_of
from tests.serving import serving
from toolyard import Client
from toolyard.client.types import Elicitation, ElicitResult
from toolyard.edge.http.app import HttpEdge
from toolyard.policy.approvals import ApprovalTimeoutError, ApprovalUnavailableError, RefusedByUserError
from toolyard.policy.pending import NotStandingError
from toolyard.state.memory import MemoryState
from toolyard.state.store import StateUnavailableError
from toolyard.wire.call import Identity, Principal
from toolyard.wire.errors import InvalidParams
from toolyard.wire.seal import Sealer


async def test_the_user_is_shown_who_wants_what_and_nothing_is_called_yet(setup: Setup) -> None:
    asked = await setup.client(ABLE).call(path="secret.txt", password="hunter2")
    assert asked["resultType"] == "input_required"
    (request,) = asked["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    params = request["params"]
    assert params["mode"] == "form"
    for part in ("'writer'", "'anna'", "'acme'", "'delete'", "'files'", repr(RULE), "secret.txt"):
        assert part in params["message"]
    assert "hunter2" not in params["message"]
    assert params["requestedSchema"]["properties"]["decision"]["enum"] == [
        "approve",
        "always for this conversation",
        "refuse",
    ]
    assert setup.deleted == []


async def test_an_approved_call_goes_on_without_what_the_question_added(setup: Setup) -> None:
    client = setup.client(ABLE)
    done = await client.answer(await client.call(), APPROVE)
    assert text_of(done) == "deleted a"
    (approval,) = setup.service.approved
    assert (approval.by, approval.how) == ("anna", "elicitation")
    assert set(approval.forward.params) == {"name", "arguments"}


@pytest.mark.parametrize("answer", [REFUSE, {"action": "decline"}, {"action": "cancel"}])
async def test_a_refused_call_is_not_made(setup: Setup, answer: Any) -> None:
    client = setup.client(ABLE)
    asked = await client.call()
    with pytest.raises(RefusedByUserError, match=r"writes need a person.*anna refused") as refused:
        await client.answer(asked, answer)
    assert refused.value.by == "anna"
    with pytest.raises(InvalidParams, match="used already"):
        await client.answer(asked, APPROVE)
    assert setup.deleted == []


async def test_one_confirmation_is_for_one_call(setup: Setup) -> None:
    client = setup.client(ABLE)
    asked = await client.call()
    await client.answer(asked, APPROVE)
    with pytest.raises(InvalidParams, match="used already"):
        await client.answer(asked, APPROVE)
    assert setup.deleted == ["a"]


async def test_of_the_same_confirmation_sent_to_two_replicas_at_once_one_counts(tmp_path: Path) -> None:
    async with opened("sqlite", tmp_path) as first, opened("sqlite", tmp_path) as second:
        replicas = [Setup(first), Setup(second)]
        asked = await replicas[0].client(ABLE).call()
        ended = await asyncio.gather(
            *(replica.client(ABLE).answer(asked, APPROVE) for replica in replicas for _ in range(4)),
            return_exceptions=True,
        )
        assert sum(not isinstance(one, BaseException) for one in ended) == 1
        assert len(replicas[0].deleted + replicas[1].deleted) == 1


async def test_a_confirmation_is_for_the_arguments_that_were_shown(setup: Setup) -> None:
    client = setup.client(ABLE)
    asked = await client.call(path="a")
    with pytest.raises(InvalidParams, match="another request"):
        await client.answer(asked, APPROVE, path="b")
    with pytest.raises(InvalidParams, match="another request"):
        await client.answer(asked, APPROVE, "ask_and_delete", path="a")
    assert setup.deleted == []


@pytest.mark.parametrize(
    "principal",
    [
        Principal(tenant="acme", agent="writer", subject="bert"),
        Principal(tenant="acme", agent="reader", subject="anna"),
        Principal(tenant="other", agent="writer", subject="anna"),
        Principal(),
    ],
)
async def test_a_confirmation_is_for_its_principal(setup: Setup, principal: Principal) -> None:
    asked = await setup.client(ABLE).call()
    with pytest.raises(InvalidParams, match="another request"):
        await setup.client(ABLE, Identity(principal, "talk-1")).answer(asked, APPROVE)
    assert setup.deleted == []


async def test_a_tampered_or_foreign_state_is_refused(setup: Setup) -> None:
    client = setup.client(ABLE)
    asked = await client.call()
    state: str = asked["requestState"]
    foreign = Sealer(b"somebody else's key, as long", "yard").seal(b"[]", "confirm")
    other_purpose = Sealer(KEY, "yard").seal(b"[]", "upstream")
    flipped = state[:-1] + ("A" if state[-1] != "A" else "B")
    for bad in (flipped, state[1:], "", "x", foreign, other_purpose):
        with pytest.raises(InvalidParams, match="not issued by this server"):
            await client.answer({"requestState": bad}, APPROVE)
    for bad in (5, None, {}):
        with pytest.raises(InvalidParams):
            await client.answer({"requestState": bad}, APPROVE)
    assert setup.deleted == []


async def test_a_confirmation_that_comes_late_is_refused(setup: Setup) -> None:
    clock = [1_000_000.0]
    late = Setup(setup.state, seconds=30.0, now=lambda: clock[0])
    client = late.client(ABLE)
    asked = await client.call()
    clock[0] += 31
    with pytest.raises(ApprovalTimeoutError, match=r"within 30 s.*toolyard approvals"):
        await client.answer(asked, APPROVE)
    assert late.deleted == []


async def test_a_clock_that_is_set_back_does_not_make_a_confirmation_new(setup: Setup) -> None:
    clock = [1_000_000.0]
    jumping = Setup(setup.state, seconds=0.001, now=lambda: clock[0])
    client = jumping.client(ABLE)
    asked = await client.call()
    await client.answer(asked, APPROVE)
    clock[0] -= 3600
    for _ in range(3):
        with pytest.raises(InvalidParams, match="used already"):
            await client.answer(asked, APPROVE)
    assert jumping.deleted == ["a"]


@pytest.mark.parametrize(
    "answer",
    [{}, {"action": "yes"}, {"action": "accept"}, {"action": "accept", "content": {"decision": "sure"}}, 5],
)
async def test_a_malformed_answer_is_refused_and_can_be_given_again(setup: Setup, answer: Any) -> None:
    client = setup.client(ABLE)
    asked = await client.call()
    with pytest.raises(InvalidParams, match="inputResponses"):
        await client.answer(asked, answer)
    assert setup.deleted == []
    assert text_of(await client.answer(asked, APPROVE)) == "deleted a"


async def test_a_round_without_an_answer_asks_again(setup: Setup) -> None:
    client = setup.client(ABLE)
    asked = await client.call()
    again = await client.answer(asked, APPROVE, key="other")
    assert again["inputRequests"] == asked["inputRequests"]


async def test_answers_to_nothing_confirm_nothing(setup: Setup) -> None:
    asked = await setup.client(ABLE).call("delete", {"inputResponses": {"approval": APPROVE}})
    assert asked["resultType"] == "input_required"


async def test_an_upstream_that_asks_in_turn_does_not_cause_a_second_confirmation(setup: Setup) -> None:
    client = setup.client(ABLE)
    tool = "ask_and_delete"
    asked = await client.call(tool)
    theirs = await client.answer(asked, APPROVE, tool)
    assert list(theirs["inputRequests"]) == ["why"]
    done = await client.answer(theirs, {"action": "accept", "content": {"why": "old"}}, tool, "why")
    assert text_of(done) == "deleted a, because old"
    assert [approval.by for approval in setup.service.approved] == ["anna", "anna"]


async def test_the_upstreams_state_comes_back_to_it_in_every_round(setup: Setup) -> None:
    client, tool = setup.client(ABLE), "ask_twice"
    first = await client.answer(await client.call(tool), APPROVE, tool)
    second = await client.answer(first, {"action": "accept", "content": {"why": "a"}}, tool, "first")
    done = await client.answer(second, {"action": "accept", "content": {"why": "b"}}, tool, "second")
    assert text_of(done) == "a, b"
    assert setup.deleted == ["a"]


async def test_the_state_of_a_confirmed_call_is_bound_and_used_once_too(setup: Setup) -> None:
    client, tool = setup.client(ABLE), "ask_and_delete"
    why = {"action": "accept", "content": {"why": "old"}}
    theirs = await client.answer(await client.call(tool), APPROVE, tool)
    with pytest.raises(InvalidParams, match="another request"):
        await client.answer(theirs, why, tool, "why", path="b")
    stranger = replace(ANNA, principal=Principal(tenant="acme", subject="bert"))
    with pytest.raises(InvalidParams, match="another request"):
        await setup.client(ABLE, stranger).answer(theirs, why, tool, "why")
    await client.answer(theirs, why, tool, "why")
    with pytest.raises(InvalidParams, match="used already"):
        await client.answer(theirs, why, tool, "why")
    assert setup.deleted == ["a"]


async def test_the_upstreams_own_state_confirms_nothing(setup: Setup) -> None:
    """What a call without a rule was given, before the rule came, has to be confirmed like any other."""
    client = setup.client(ABLE)
    own = Sealer(KEY, "files").seal(b"[]", "round")
    with pytest.raises(InvalidParams, match="not issued by this server"):
        await client.answer({"requestState": own}, {"action": "accept"}, "ask_and_delete", "why")


async def test_always_holds_for_this_tool_principal_and_conversation(setup: Setup) -> None:
    client = setup.client(ABLE)
    await client.answer(await client.call(), ALWAYS)
    assert text_of(await client.call(path="b")) == "deleted b"
    assert (setup.service.approved[-1].by, setup.service.approved[-1].how) == ("anna", "conversation")
    assert (await client.call("ask_and_delete"))["inputRequests"].keys() == {"approval"}
    for other in (
        replace(ANNA, thread="talk-2"),
        Identity(Principal(tenant="acme", agent="reader", subject="anna"), "talk-1"),
        Identity(ANNA.principal, ""),
    ):
        assert (await setup.client(ABLE, other).call(path="c"))["resultType"] == "input_required"
    assert setup.deleted == ["a", "b"]


async def test_always_covers_the_rounds_of_a_call_with_the_upstreams_own_state(setup: Setup) -> None:
    client, tool = setup.client(ABLE), "ask_twice"
    await client.answer(await client.call(tool), ALWAYS, tool)
    first = await client.call(tool)
    assert list(first["inputRequests"]) == ["first"]
    second = await client.answer(first, {"action": "accept", "content": {"why": "a"}}, tool, "first")
    done = await client.answer(second, {"action": "accept", "content": {"why": "b"}}, tool, "second")
    assert text_of(done) == "a, b"
    stranger = Identity(Principal(tenant="acme", subject="bert"), "talk-1")
    with pytest.raises(InvalidParams, match="not issued by this server"):
        await setup.client(ABLE, stranger).answer(first, {"action": "accept"}, tool, "first")


async def test_always_is_not_offered_without_a_conversation(setup: Setup) -> None:
    client = setup.client(ABLE, Identity(ANNA.principal))
    asked = await client.call()
    form = asked["inputRequests"]["approval"]["params"]["requestedSchema"]
    assert form["properties"]["decision"]["enum"] == ["approve", "refuse"]
    with pytest.raises(InvalidParams):
        await client.answer(asked, ALWAYS)


async def test_over_stdio_all_calls_of_the_process_are_one_conversation(setup: Setup) -> None:
    nameless = Identity(ANNA.principal)
    alone = Setup(setup.state, one_client=True)
    client = alone.client(ABLE, nameless)
    await client.answer(await client.call(), ALWAYS)
    assert text_of(await client.call(path="b")) == "deleted b"
    another = Setup(setup.state, one_client=True).client(ABLE, nameless)
    assert (await another.call())["resultType"] == "input_required"


async def test_always_is_withdrawn_in_every_process(setup: Setup) -> None:
    replica = Setup(setup.state)
    client, other = setup.client(ABLE), replica.client(ABLE)
    assert await setup.approvals.pending.list_standing() == ()
    for tool in ("delete", "ask_and_delete"):
        await client.answer(await client.call(tool, password="hunter2"), ALWAYS, tool, password="hunter2")
    assert text_of(await other.call(path="b")) == "deleted b"
    pending = replica.approvals.pending
    first, second = await pending.list_standing()
    assert (first.call.who, first.call.tool) == ("agent 'writer' of 'anna' (tenant 'acme')", "delete")
    assert (first.by, first.call.rule, first.call.arguments) == ("anna", RULE, None)
    assert await pending.list_standing("other") == ()
    for id, tenant in ((first.id, "other"), ("0" * 10, None), ("", None), ("../used/x", None)):
        with pytest.raises(NotStandingError):
            await pending.withdraw(id, tenant)
    assert await pending.withdraw(first.id, "acme") == first
    assert await pending.list_standing() == (second,)
    for one in (client, other):
        assert (await one.call(path="c"))["resultType"] == "input_required"
    with pytest.raises(NotStandingError, match=first.id):
        await pending.withdraw(first.id)
    # It may be approved again.
    await client.answer(await client.call(), ALWAYS)
    assert [one.call.tool for one in await pending.list_standing()] == ["ask_and_delete", "delete"]


async def test_always_over_stdio_ends_with_the_process(setup: Setup) -> None:
    alone = Setup(setup.state, one_client=True)
    client = alone.client(ABLE, Identity(ANNA.principal))
    await client.answer(await client.call(), ALWAYS)
    named = alone.client(ABLE)  # this conversation has a name, and may go on with the next process
    await named.answer(await named.call(), ALWAYS)
    assert len(await alone.approvals.pending.list_standing()) == 2
    await alone.approvals.close()
    assert [one.call.user for one in await alone.approvals.pending.list_standing()] == ["anna"]
    assert text_of(await Setup(setup.state, one_client=True).client(ABLE).call(path="b")) == "deleted b"


async def test_always_ends(setup: Setup) -> None:
    brief = Setup(setup.state, always_seconds=0.0)
    client = brief.client(ABLE)
    await client.answer(await client.call(), ALWAYS)
    assert (await client.call())["resultType"] == "input_required"


async def test_arguments_that_are_named_twice_are_refused(setup: Setup) -> None:
    """The user would be shown one, and the server might take the other."""
    body = b'{"name":"delete","arguments":{"path":"a","path":"b"}}'
    with pytest.raises(InvalidParams, match="'path' twice"):
        await setup.client(ABLE).send(body)


async def test_without_its_store_nothing_is_confirmed() -> None:
    class Dead(MemoryState):
        async def swap(self, *_: Any, **__: Any) -> bool:
            raise StateUnavailableError("redis at 10.0.0.5: gone")

        async def get(self, key: str) -> bytes | None:
            raise StateUnavailableError("redis at 10.0.0.5: gone")

    dead = Setup(Dead())
    client = dead.client(ABLE)
    asked = await client.call()
    with pytest.raises(ApprovalUnavailableError, match="state store is not available") as error:
        await client.answer(asked, APPROVE)
    assert "10.0.0.5" not in str(error.value)
    assert dead.deleted == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_real_client_over_http_asks_its_user(setup: Setup, era: Any) -> None:
    shown: list[Elicitation] = []

    def decide(form: Elicitation) -> ElicitResult:
        shown.append(form)
        return form.accept(decision="approve") if "keep" not in form.message else form.decline()

    edge = HttpEdge(setup.service, Sealer(KEY, "edge"))
    async with serving(edge) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        async with Client(url, era=era, on_elicit=decide) as client:
            done = await client.call_tool("delete", {"path": "a"})
            assert done.text == "deleted a"
            with pytest.raises(Exception, match="was not called: rule 'writes need a person'"):
                await client.call_tool("delete", {"path": "keep"})
    assert len(shown) == 2
    assert setup.deleted == ["a"]
