"""Asking in the modern era, step by step: what is asked, what travels in `requestState`, what is refused."""

from typing import Any

import pytest

from tests.kit.calls import NAME, TASKS, Steps, accept, said, text_of
from toolyard.kit import Context, Elicit, Long, Sample, Server
from toolyard.wire.call import Identity, Principal
from toolyard.wire.errors import InvalidParams

ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}


@pytest.fixture
def greeter(server: Server) -> Server:
    @server.tool
    async def greet(ctx: Context, style: str = "") -> str:
        return f"Hello {(await ctx.elicit('Your name?', NAME, key='who')).content['name']}{style}"

    @server.tool
    async def part(ctx: Context) -> str:
        return f"Bye {(await ctx.elicit('Your name?', NAME, key='who')).content['name']}"

    return server


async def test_a_question_ends_the_call_with_what_is_needed_to_go_on(greeter: Server) -> None:
    asked = await Steps(greeter, ABLE).call("greet")
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"] == {
        "who": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Your name?", "requestedSchema": NAME},
        }
    }
    assert isinstance(asked["requestState"], str)
    assert "content" not in asked


async def test_the_retry_needs_nothing_of_this_process_but_the_key() -> None:
    key = b"the key that all replicas share"
    replicas = [Server("replica", key=key) for _ in range(2)]
    for replica in replicas:

        @replica.tool
        async def greet(ctx: Context) -> str:
            first = (await ctx.elicit("First?", NAME, key="first")).content["name"]
            return f"{first} {(await ctx.elicit('Second?', NAME, key='second')).content['name']}"

    one, other = (Steps(replica, ABLE) for replica in replicas)
    asked = await other.retry("greet", await one.call("greet"), {"first": accept(name="Ada")})
    result = await one.retry("greet", asked, {"second": accept(name="King")})
    assert text_of(result) == "Ada King", "the first answer travelled in the state"


async def test_keys_that_are_not_given_are_made_by_kind_and_order(server: Server) -> None:
    @server.tool
    async def many(ctx: Context) -> str:
        await ctx.elicit("1?", NAME)
        await ctx.elicit("2?", NAME, key="mine")
        await ctx.elicit("3?", NAME)
        await ctx.sample("4?")
        await ctx.roots()
        return "done"

    client = Steps(server, ABLE)
    answers = {
        "elicitation/create": accept(name="A"),
        "sampling/createMessage": said("s"),
        "roots/list": {"roots": []},
    }
    asked = await client.call("many")
    keys: list[str] = []
    while asked["resultType"] == "input_required":
        ((key, request),) = asked["inputRequests"].items()
        keys.append(key)
        asked = await client.retry("many", asked, {key: answers[request["method"]]})
    assert keys == ["elicit-1", "mine", "elicit-2", "sample-1", "roots-1"]


async def test_several_questions_are_one_round(server: Server) -> None:
    @server.tool
    async def plan(ctx: Context) -> str:
        answers = await ctx.ask(who=Elicit("Who?", NAME), line=Sample("A line"))
        return f"{answers['who'].content['name']} {answers['line'].text}"

    client = Steps(server, ABLE)
    asked = await client.call("plan")
    assert set(asked["inputRequests"]) == {"who", "line"}
    result = await client.retry("plan", asked, {"who": accept(name="Ada"), "line": said("so")})
    assert text_of(result) == "Ada so"


async def test_what_is_still_missing_is_asked_again_and_what_came_is_kept(server: Server) -> None:
    @server.tool
    async def plan(ctx: Context) -> str:
        answers = await ctx.ask(who=Elicit("Who?", NAME), where=Elicit("Where?", NAME))
        return f"{answers['who'].content['name']} in {answers['where'].content['name']}"

    client = Steps(server, ABLE)
    again = await client.retry("plan", await client.call("plan"), {"who": accept(name="Ada")})
    assert set(again["inputRequests"]) == {"where"}
    assert text_of(await client.retry("plan", again, {"where": accept(name="Porto")})) == "Ada in Porto"


async def test_a_retry_without_answers_is_asked_the_same_again(greeter: Server) -> None:
    client = Steps(greeter, ABLE)
    asked = await client.call("greet")
    again = await client.retry("greet", asked, {})
    assert again["inputRequests"] == asked["inputRequests"]


async def test_answers_nobody_asked_for_are_ignored(greeter: Server) -> None:
    client = Steps(greeter, ABLE)
    answers = {"who": accept(name="Ada"), "else": {"what": "ever"}, "more": 5}
    assert text_of(await client.retry("greet", await client.call("greet"), answers)) == "Hello Ada"


async def test_an_answer_once_given_is_not_changed_by_a_later_round(server: Server) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        first = (await ctx.elicit("First?", NAME, key="first")).content["name"]
        second = (await ctx.elicit("Second?", NAME, key="second")).content["name"]
        return f"{first} {second}"

    client = Steps(server, ABLE)
    asked = await client.retry("greet", await client.call("greet"), {"first": accept(name="Ada")})
    answers = {"first": accept(name="Eve"), "second": accept(name="King")}
    assert text_of(await client.retry("greet", asked, answers)) == "Ada King"


async def test_a_malformed_answer_is_refused_and_the_round_can_be_tried_again(greeter: Server) -> None:
    client = Steps(greeter, ABLE)
    asked = await client.call("greet")
    with pytest.raises(InvalidParams, match=r"inputResponses\['who'\].*name"):
        await client.retry("greet", asked, {"who": accept(name=5)})
    assert text_of(await client.retry("greet", asked, {"who": accept(name="Ada")})) == "Hello Ada"


@pytest.mark.parametrize("responses", [[], "x", 5, {"who": None}])
async def test_responses_of_the_wrong_form_are_refused(greeter: Server, responses: Any) -> None:
    client = Steps(greeter, ABLE)
    asked = await client.call("greet")
    with pytest.raises(InvalidParams):
        await client.retry("greet", asked, responses)


# The state is attacker-controlled


async def refused(client: Steps, tool: str, state: str, arguments: dict[str, Any] | None = None) -> str:
    with pytest.raises(InvalidParams) as error:
        await client.call(tool, arguments, requestState=state, inputResponses={"who": accept(name="Eve")})
    return error.value.message


async def test_an_altered_state_is_refused(greeter: Server) -> None:
    client = Steps(greeter, ABLE)
    state = (await client.call("greet"))["requestState"]
    middle = len(state) // 2
    swapped = "A" if state[middle] != "A" else "B"
    for forged in ("", "x", state[:-1], state + "A", state[:middle] + swapped + state[middle + 1 :], "é"):
        assert "not issued by this server" in await refused(client, "greet", forged)


async def test_a_state_is_refused_even_by_a_tool_that_asks_nothing(server: Server) -> None:
    @server.tool
    async def plain() -> str:
        return "plain"

    assert "not issued by this server" in await refused(Steps(server), "plain", "forged")


async def test_the_state_of_another_server_is_refused(greeter: Server) -> None:
    other = Server("other")

    @other.tool
    async def greet(ctx: Context) -> str:
        return (await ctx.elicit("?", NAME)).action

    state = (await Steps(other, ABLE).call("greet"))["requestState"]
    assert "not issued by this server" in await refused(Steps(greeter, ABLE), "greet", state)


async def test_a_state_belongs_to_the_principal_who_got_it(greeter: Server) -> None:
    state = (await Steps(greeter, ABLE, Identity(Principal("acme", "clerk"))).call("greet"))["requestState"]
    for thief in (Identity(Principal("acme", "other")), Identity(Principal("rival", "clerk")), Identity()):
        assert "another request" in await refused(Steps(greeter, ABLE, thief), "greet", state)


async def test_a_state_belongs_to_its_request(greeter: Server) -> None:
    client = Steps(greeter, ABLE)
    state = (await client.call("greet", {"style": "!"}))["requestState"]
    assert "another request" in await refused(client, "greet", state, {"style": "?"})
    assert "another request" in await refused(client, "greet", state)
    assert "another request" in await refused(client, "part", state)


async def test_the_spelling_of_the_arguments_does_not_matter(server: Server) -> None:
    @server.tool
    async def greet(ctx: Context, a: int, b: dict[str, int]) -> str:
        return (await ctx.elicit("?", NAME, key="who")).content["name"]

    client = Steps(server, ABLE)
    asked = await client.call("greet", {"a": 1, "b": {"x": 1, "y": 2}})
    again = {"b": {"y": 2, "x": 1}, "a": 1}
    assert text_of(await client.retry("greet", asked, {"who": accept(name="Ada")}, again)) == "Ada"


async def test_a_state_is_good_for_a_limited_time() -> None:
    hasty = Server("hasty", state_ttl=1e-9)

    @hasty.tool
    async def greet(ctx: Context) -> str:
        return (await ctx.elicit("?", NAME)).action

    client = Steps(hasty, ABLE)
    state = (await client.call("greet"))["requestState"]
    assert "expired" in await refused(client, "greet", state)


async def test_prompts_and_resources_seal_their_state_in_the_same_way(server: Server) -> None:
    @server.prompt
    async def greet(ctx: Context) -> str:
        return (await ctx.elicit("?", NAME, key="who")).content["name"]

    @server.resource("notes://{of}")
    async def notes(of: str, ctx: Context) -> str:
        return (await ctx.elicit("?", NAME, key="who")).content["name"]

    client = Steps(server, ABLE)
    prompt = await client.request("prompts/get", {"name": "greet"})
    resource = await client.request("resources/read", {"uri": "notes://today"})
    trip = {"inputResponses": {"who": accept(name="Ada")}}
    for method, params, state in (
        ("prompts/get", {"name": "greet"}, resource["requestState"]),
        ("resources/read", {"uri": "notes://today"}, prompt["requestState"]),
        ("resources/read", {"uri": "notes://tomorrow"}, resource["requestState"]),
    ):
        with pytest.raises(InvalidParams, match="another request"):
            await client.request(method, {**params, **trip, "requestState": state})
    done = await client.request(
        "resources/read", {"uri": "notes://today", **trip, "requestState": resource["requestState"]}
    )
    assert done["contents"][0]["text"] == "Ada"


async def test_a_task_is_made_once_the_questions_before_it_are_answered(server: Server) -> None:
    @server.tool(long=Long(detach="by_hand"))
    async def clean(ctx: Context) -> str:
        number = await ctx.remember("number", lambda: "n-1")
        answer = await ctx.elicit("Sure?", NAME, key="sure")
        await ctx.detach()
        return f"{number} for {answer.content['name']}"

    client = Steps(server, ABLE | TASKS)
    task = await client.retry("clean", await client.call("clean"), {"sure": accept(name="Ada")})
    assert task["resultType"] == "task"
    state = await client.finished(task["taskId"])
    assert text_of(state["result"]) == "n-1 for Ada"
