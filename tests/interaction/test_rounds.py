"""Multi round trips as they stand on the wire: what the server asks for, and what it takes back."""

import pytest

from tests.interaction.clients import Client, Json, RpcError
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import NAME, Shop

ADA = {"action": "accept", "content": {"name": "Ada"}}


def nobody(_: Json) -> Json:
    raise AssertionError("these tests answer by hand")


async def step(client: Client, tool: str, **trip: object) -> Json:
    return await client.step("tools/call", {"name": tool, "arguments": {}, **trip})


@shows("rounds.input_required")
async def test_a_question_ends_the_request_with_what_to_send_back(connect_wire: Connect, shop: Shop) -> None:
    async with connect_wire(shop.server, elicit=nobody) as client:
        asked = await step(client, "greet")
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question == {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Your name?", "requestedSchema": NAME},
        }
        done = await step(client, "greet", inputResponses={key: ADA}, requestState=asked["requestState"])
    assert done["resultType"] == "complete"
    assert done["content"][0]["text"] == "Hello Ada"


@shows("rounds.missing_answers")
async def test_what_is_still_missing_is_asked_for_again(connect_wire: Connect, shop: Shop) -> None:
    async with connect_wire(shop.server, elicit=nobody, sample=nobody, roots=nobody) as client:
        asked = await step(client, "survey")
        assert set(asked["inputRequests"]) == {"who", "slogan", "places"}
        again = await step(
            client,
            "survey",
            inputResponses={"who": ADA, "places": {"roots": []}, "unasked": 5},
            requestState=asked["requestState"],
        )
        assert again["resultType"] == "input_required"
        assert set(again["inputRequests"]) == {"slogan"}
        slogan = {"role": "assistant", "content": {"type": "text", "text": "Light!"}, "model": "m"}
        done = await step(
            client, "survey", inputResponses={"slogan": slogan}, requestState=again["requestState"]
        )
    assert done["content"][0]["text"] == "Ada: Light! (0)"


@shows("rounds.sealed_state")
async def test_a_state_that_is_not_ours_for_this_request_is_refused(
    connect_wire: Connect, shop: Shop
) -> None:
    async with connect_wire(shop.server, elicit=nobody) as client:
        state = (await step(client, "greet"))["requestState"]
        for tool, forged in (("greet", state[:-2] + "xx"), ("greet", "forged"), ("deliver", state)):
            with pytest.raises(RpcError) as error:
                await step(client, tool, inputResponses={"elicit-1": ADA}, requestState=forged)
            assert error.value.code == -32602


@shows("rounds.malformed_answers")
async def test_a_malformed_answer_is_refused_and_can_be_mended(connect_wire: Connect, shop: Shop) -> None:
    async with connect_wire(shop.server, elicit=nobody) as client:
        asked = await step(client, "greet")
        (key,) = asked["inputRequests"]
        for wrong in ("yes", {"action": "perhaps"}, {"action": "accept", "content": {"name": 5}}):
            with pytest.raises(RpcError) as error:
                await step(client, "greet", inputResponses={key: wrong}, requestState=asked["requestState"])
            assert error.value.code == -32602
        done = await step(client, "greet", inputResponses={key: ADA}, requestState=asked["requestState"])
    assert done["content"][0]["text"] == "Hello Ada"
