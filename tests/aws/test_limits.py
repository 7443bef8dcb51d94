"""AWS's own loop around a function of ours: what is too big, what takes too long, and who may look at it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.aws.events import MAX_EVENT
from tests.aws.proxy import at_a_url
from tests.aws.rie import emulated
from tests.aws.works import write
from tests.serving import BOTH, Client, LegacyClient, http, modern

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def works(folder: Path, limit_s: int = 30) -> AsyncIterator[Client]:
    variables = {"PYTHONPATH": str(ROOT), "TOOLYARD_KEY": "the key of these tests, no secret"}
    async with (
        emulated(write(folder), folder / "function.log", variables, limit_s=limit_s) as instance,
        at_a_url(instance) as client,
    ):
        yield client


async def test_a_reply_over_six_megabytes_is_made_small_and_not_cut(tmp_path: Path):
    async with works(tmp_path) as client:
        answer = await client.modern("tools/call", {"name": "much", "arguments": {"megabytes": 8}})
        assert answer.status == 200
        shaped = answer.result["structuredContent"]
        assert shaped["truncated"] is True
        assert shaped["summary"]["item_count"] == 8 * 1024
        whole = await client.modern("tools/call", {"name": "much", "arguments": {"megabytes": 1}})
        assert len(whole.result["structuredContent"]["result"]) == 1024


async def test_a_request_of_almost_six_megabytes_is_served(tmp_path: Path):
    async with works(tmp_path) as client:
        # As JSON inside JSON: what is measured is the event.
        text = "x" * (MAX_EVENT // 2 - 20_000)
        answer = await client.modern("tools/call", {"name": "echo", "arguments": {"text": text}})
        assert answer.result["content"][0]["text"] == text


async def test_a_call_that_never_ends_is_answered_before_the_deadline_and_the_next_one_is_served(
    tmp_path: Path,
):
    # The emulator counts the start of the process, too: it is given time for that on a busy machine.
    async with works(tmp_path, limit_s=6) as client:
        answer = await client.modern("tools/call", {"name": "never", "arguments": {}})
        assert answer.status == 200
        assert answer.result["isError"]
        assert "seconds" in answer.result["content"][0]["text"]
        session = await LegacyClient.start(client)
        assert (await session.call("echo", text="still here")).result["content"][0]["text"] == "still here"


async def test_what_a_call_says_before_it_ends_comes_with_the_answer_when_the_client_takes_streams(
    tmp_path: Path,
):
    async with works(tmp_path) as client:
        params = {"name": "counts", "arguments": {"to": 3}}
        headers, message = modern("tools/call", params, progress="p")
        answer = await client.post(headers, message)
        assert [event.json.get("method") for event in answer.events] == ["notifications/progress"] * 3 + [
            None
        ]
        assert answer.events[-1].json["result"]["structuredContent"] == {"result": 3}
        plain = await client.post(headers | {"Accept": "application/json"}, message)
        assert plain.result["structuredContent"] == {"result": 3}


async def test_paths_methods_and_forms_that_are_not_served_are_told_so(tmp_path: Path):
    async with works(tmp_path) as client:
        headers, _ = modern("tools/list")
        listed = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        assert (await client.post(headers, b"{}", path="/elsewhere")).status == 404
        assert (await client.post(headers | {"Content-Type": "text/plain"}, b"{}")).status == 415
        assert (await client.post(headers | {"Content-Type": "image/png"}, b"\x89PNG\0\xff")).status == 415
        assert (await client.post(headers | {"Accept": "text/html"}, b"{}")).status == 406
        assert (await client.post(headers, b"{")).status == 400
        assert (await client.post(headers, b"\xff\xfe")).status == 400
        for method in ("GET", "DELETE", "PUT"):
            answer = await client.raw(http(method, headers={"Accept": BOTH}))
            assert answer.status == 405
            assert "POST" in answer.headers["allow"]
        origin = {"Origin": "https://claude.ai", "Access-Control-Request-Headers": "x-tiflux-api-key"}
        asked = await client.raw(http("OPTIONS", headers=origin))
        assert asked.status == 204
        assert asked.headers["access-control-allow-origin"] in ("*", "https://claude.ai")
        assert "x-tiflux-api-key" in asked.headers["access-control-allow-headers"]
        shouted = {"CONTENT-TYPE": "Application/JSON; charset=utf-8", "ACCEPT": "*/*"}
        assert (await client.post(shouted, listed)).status == 200
        assert (await client.post(shouted, listed, path="/mcp/")).status == 200
