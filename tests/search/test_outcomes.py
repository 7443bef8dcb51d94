"""What came of earlier calls moves later rankings: a little, within bounds, for that tenant alone."""

import asyncio

import pytest

from toolyard.meaning.embedding import TextEmbedding
from toolyard.search.documents import ToolQuery
from toolyard.search.feedback import MAX_TOOLS, MOST, SearchFeedback
from toolyard.state.memory import MemoryState
from toolyard.state.store import StateUnavailableError

from .small import index_of, tool

USE_CASE = "find the contacts of a company"


async def test_what_succeeded_comes_first_next_time_and_what_failed_last(semantic: TextEmbedding):
    twins = [tool(server, "find_contacts", "Finds contacts") for server in ("a", "b", "c")]
    index, outcomes = index_of(twins, semantic), SearchFeedback(MemoryState())
    assert [hit.server for hit in index.search(ToolQuery(USE_CASE), 3)] == ["a", "b", "c"]
    await outcomes.note("acme", USE_CASE, "mcp__a__find_contacts", "failure")
    await outcomes.note("acme", USE_CASE, "mcp__c__find_contacts", "success")
    hits = index.search(ToolQuery(USE_CASE), 3, boosts=await outcomes.boosts("acme", USE_CASE))
    assert [hit.server for hit in hits] == ["c", "b", "a"]
    assert hits[0].parts["learnt"] > 0 > hits[2].parts["learnt"]


async def test_wrong_arguments_count_against_a_tool_less_than_a_failure():
    outcomes = SearchFeedback()
    await outcomes.note("acme", USE_CASE, "failed", "failure")
    await outcomes.note("acme", USE_CASE, "misused", "arguments")
    boosts = await outcomes.boosts("acme", USE_CASE)
    assert boosts["failed"] < boosts["misused"] < 0


async def test_no_number_of_outcomes_moves_a_tool_beyond_the_bound():
    outcomes = SearchFeedback(MemoryState())
    seen = []
    for _ in range(60):
        await outcomes.note("acme", USE_CASE, "good", "success")
        await outcomes.note("acme", USE_CASE, "bad", "failure")
        seen.append(dict(await outcomes.boosts("acme", USE_CASE)))
    assert seen[0]["good"] < seen[1]["good"] < seen[2]["good"]
    assert seen[-1]["good"] == pytest.approx(MOST)
    assert seen[-1]["bad"] == pytest.approx(-MOST)
    assert all(abs(boost) <= MOST for boosts in seen for boost in boosts.values())


async def test_one_tenant_learns_nothing_from_another():
    outcomes = SearchFeedback(MemoryState())
    await outcomes.note("acme", USE_CASE, "good", "success")
    assert await outcomes.boosts("globex", USE_CASE) == {}
    assert await outcomes.boosts("acme", USE_CASE) != {}


async def test_the_fewer_words_two_use_cases_share_the_less_is_carried_over():
    outcomes = SearchFeedback()
    await outcomes.note("acme", USE_CASE, "good", "success")
    same, near, far = [
        (await outcomes.boosts("acme", text)).get("good", 0.0)
        for text in (USE_CASE, "contacts abroad", "brew some coffee")
    ]
    assert same > near > far == 0.0


async def test_two_processes_that_learn_at_once_undo_nothing():
    state = MemoryState()
    one, other = SearchFeedback(state), SearchFeedback(state)
    await asyncio.gather(
        *(
            process.note("acme", USE_CASE, name, "success")
            for process, name in [(one, "a"), (other, "b"), (one, "c"), (other, "d")]
        )
    )
    assert set(await one.boosts("acme", USE_CASE)) == {"a", "b", "c", "d"}
    assert await other.boosts("acme", USE_CASE) == await one.boosts("acme", USE_CASE)


async def test_the_tool_longest_without_an_outcome_is_forgotten_first():
    state = MemoryState()
    outcomes = SearchFeedback(state)
    for number in range(MAX_TOOLS + 5):
        await outcomes.note("acme", f"{USE_CASE} {number}", f"tool{number}", "success")
        await outcomes.note("acme", USE_CASE, "tool0", "success")
    kept = await outcomes.boosts("acme", USE_CASE)
    assert len(kept) == MAX_TOOLS
    assert "tool0" in kept
    assert "tool1" not in kept
    assert len(await state.keys("")) == 1


async def test_a_long_story_of_use_cases_for_one_tool_stays_small():
    state = MemoryState()
    outcomes = SearchFeedback(state)
    for number in range(200):
        await outcomes.note("acme", f"word{number} other{number} more{number}", "tool", "success")
    (key,) = await state.keys("")
    assert len(await state.get(key) or b"") < 2000


@pytest.mark.parametrize("text", ["", "the of a", "🙂", "\ud800"])
async def test_a_use_case_that_says_nothing_teaches_nothing(text: str):
    outcomes = SearchFeedback(MemoryState())
    await outcomes.note("acme", text, "tool", "success")
    assert await outcomes.boosts("acme", text) == {}


async def test_what_another_version_wrote_counts_for_nothing():
    state = MemoryState()
    outcomes = SearchFeedback(state)
    await outcomes.note("acme", USE_CASE, "good", "success")
    (key,) = await state.keys("")
    await state.put(key, b"\xc1 not ours")
    assert await outcomes.boosts("acme", USE_CASE) == {}
    await outcomes.note("acme", USE_CASE, "good", "success")
    assert await outcomes.boosts("acme", USE_CASE) != {}


class Down(MemoryState):
    async def get(self, key: str) -> bytes | None:
        raise StateUnavailableError("the store at 'nowhere' is down")


async def test_a_store_that_is_down_costs_what_was_learnt_and_nothing_else():
    outcomes = SearchFeedback(Down())
    await outcomes.note("acme", USE_CASE, "good", "success")
    assert await outcomes.boosts("acme", USE_CASE) == {}
