"""The browser behind a gateway that keeps results small: what a model sees of a page is enough to use it."""

import json
import re
from pathlib import Path

import pytest
from mcp import Client

from tests.app.yard import yard
from tests.programs import needs
from tests.reading import text_of
from tests.servers.browser.site import Site
from toolyard.config import InProcess, ResultsConfig, ServerConfig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs("chromium")]

BUTTONS = 400
PAGE = "<title>Rows</title>" + "".join(
    f"<button onclick=\"document.title = 'Pressed {at}'\">Number {at}</button>" for at in range(BUTTONS)
)


def mounted(folder: Path, site: Site) -> ServerConfig:
    options = {"folder": str(folder), "settle": 1.0, "allow": f"127.0.0.1:{site.port}"}
    module = InProcess(module="toolyard.servers.browser", options=options)
    return ServerConfig(name="web", where=module, timeout=30)


@pytest.mark.parametrize("view", ["all", "search"])
async def test_a_long_snapshot_keeps_its_references_and_a_click_by_one_works(
    view: str, site: Site, tmp_path: Path
):
    site.pages["/rows"] = PAGE
    async with (
        yard(mounted(tmp_path, site), results=ResultsConfig(), view=view) as front,
        Client(f"http://127.0.0.1:{front.client.port}/mcp") as client,
    ):
        await client.list_tools()
        opened = await client.call_tool("mcp__web__browser_navigate", {"url": site.url("/rows")})
        shown = text_of(opened.content[0])
        assert len(shown) > 8_000, "over every limit"
        opening = re.search(r"^<(page-[0-9a-f]{8})>", shown, re.MULTILINE)
        assert opening is not None
        assert shown.rstrip().endswith(f"</{opening[1]}>") or f"\n</{opening[1]}>\n" in shown
        line = next(line for line in shown.splitlines() if "Number 237" in line)
        ref = re.search(r"\[ref=(\w+)\]", line)
        assert ref is not None, line
        pressed = await client.call_tool("mcp__web__browser_click", {"ref": ref[1]})
        assert pressed.structured_content["title"] == "Pressed 237"


async def test_where_no_tool_is_believed_a_preview_has_whole_lines_with_their_references_between_marks(
    site: Site, tmp_path: Path
):
    site.pages["/rows"] = PAGE
    async with (
        yard(mounted(tmp_path, site), results=ResultsConfig(bounded=0)) as front,
        Client(f"http://127.0.0.1:{front.client.port}/mcp") as client,
    ):
        await client.list_tools()
        opened = await client.call_tool("mcp__web__browser_navigate", {"url": site.url("/rows")})
        text = json.loads(text_of(opened.content[0]))["preview"]
        mark = re.search(r"^<(page-[0-9a-f]{8})>", text, re.MULTILINE)
        assert mark is not None
        assert text.endswith(f"\n</{mark[1]}>")
        assert text.count("[ref=") > 15
        assert opened.structured_content["preview"]["snapshot"].count("[ref=") > 15
