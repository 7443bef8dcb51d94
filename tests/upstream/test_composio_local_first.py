"""Local first: results come back to the caller; only those over 5 MB stay in Composio's workbench."""

import json
from typing import Any

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.upstream.composio import EXECUTE, call, emulated, front

USER = {"tool_slug": "HACKERNEWS_GET_USER", "arguments": {"username": "pg"}}
SYNC = "sync_response_to_workbench"


@pytest.mark.parametrize("wish", [{}, {SYNC: False}, {SYNC: True}], ids=["unsaid", "false", "true"])
async def test_a_small_result_comes_back_whatever_the_call_wishes(wish: dict[str, Any]) -> None:
    async with emulated() as (composio, gateway):
        done = (await call(gateway, EXECUTE, {"tools": [USER], **wish})).result["structuredContent"]
        assert done["results"][0]["response"]["data"]["username"] == "pg"
        assert "remote_file_info" not in done
        assert not composio.sandboxes
        (asked,) = composio.asked(EXECUTE)
        assert asked.body["params"]["arguments"].get(SYNC, False) is False


async def test_a_result_over_five_megabytes_stays_in_the_workbench_and_can_be_read_there() -> None:
    async with ComposioEmulator() as composio, front(composio, max_result=64 * 1024 * 1024) as gateway:
        composio.connect("acme", "gmail")
        query = {"query": "x" * 10_000, "max_results": 200}
        some = {"tool_slug": "GMAIL_FETCH_EMAILS", "arguments": query}
        # A result of this size passes through as it is, in Composio's envelope.
        text = (await call(gateway, EXECUTE, {"tools": [some]})).result["content"][0]["text"]
        assert 3_500_000 < len(text) < 5_000_000
        assert len(json.loads(text)["data"]["results"][0]["response"]["data"]["messages"]) == 200
        done = (await call(gateway, EXECUTE, {"tools": [some, some]})).result["structuredContent"]
        assert (done["success_count"], "response" in done["results"][0]) == (2, False)
        path = done["remote_file_info"]["file_path"]
        code = {"code_to_execute": f"import os; print(os.path.getsize({path!r}) > 5_000_000)"}
        ran = (await call(gateway, "COMPOSIO_REMOTE_WORKBENCH", code)).result["structuredContent"]
        assert ran["stdout"] == "True\n"
