"""Every tool in both eras, through the `mcp` client, which checks each answer against the listed schema."""

import base64
from pathlib import Path

import pytest

from tests.programs import needs
from tests.servers.browser.site import Site
from tests.servers.browser.talking import ERAS, at, made, talking

pytestmark = pytest.mark.asyncio(loop_scope="module")


@needs("chromium")
@pytest.mark.parametrize("era", ERAS)
async def test_a_page_is_opened_filled_in_and_sent_by_references(era: str, browser: str, site: Site):
    async with talking(browser, era) as talk:
        opened = await talk("navigate", url=site.url())
        assert (opened.structured["status"], opened.structured["title"]) == (200, "Order tea")
        await talk("type", ref=opened.ref('textbox "Your name"'), text="Ana")
        await talk("select_option", ref=opened.ref('combobox "Tea"'), value="Black")
        chosen = await talk("click", ref=opened.ref('checkbox "With milk"'))
        assert 'textbox "Your name" [ref' in chosen.text
        assert ": Ana" in chosen.text
        assert 'option "Black" [selected]' in chosen.text
        assert 'checkbox "With milk" [checked]' in chosen.text
        sent = await talk("click", ref=opened.ref('button "Order"'))
        assert sent.structured["url"].startswith(site.url("/ordered?who=Ana&tea=b"))
        assert 'heading "Thanks, Ana: b"' in sent.structured["snapshot"]
        assert talk.progress[-1] is None or "opening" in str(talk.progress)


@needs("chromium")
@pytest.mark.parametrize("era", ERAS)
async def test_elements_are_found_by_text_role_label_and_selector(era: str, browser: str, site: Site):
    async with talking(browser, era) as talk:
        await talk("navigate", url=site.url())
        assert (await talk("click", text="Ring")).structured["title"] == "Rung"
        assert (await talk("click", role="button", text="Rung")).structured["title"] == "Rung"
        assert "2 elements match; the first one was used" in (await talk("click", text="Two")).notices
        typed = await talk("type", label="Your name", text="Bo")
        assert ": Bo" in typed.structured["snapshot"]
        typed = await talk("type", selector="input[name=who]", text="Cy")
        assert ": Cy" in typed.structured["snapshot"]
        await talk("select_option", selector="select", value="b")
        sent = await talk("type", label="Your name", text="Di", submit=True)
        assert sent.structured["title"] == "Thanks"
        await talk("navigate", url=site.url())
        assert (await talk("click", selector="nav a")).structured["title"] == "About"


@needs("chromium")
@pytest.mark.parametrize("era", ERAS)
async def test_a_page_is_looked_at_read_pictured_and_scripted(era: str, browser: str, site: Site):
    async with talking(browser, era) as talk:
        await talk("navigate", url=site.url())
        seen = await talk("snapshot")
        assert "Nobody sees this" not in seen.text
        assert "4711" not in seen.text
        assert "- row: Green | 2.50" in seen.text
        read = await talk("read_content")
        assert read.structured["text"].startswith("# Order tea\n\n[About us](/about)")
        assert "| Green | 2.50 |" in read.structured["text"]
        assert "Nobody sees this" not in read.text
        assert (await talk("read_content", selector="h1")).structured["text"] == "# Order tea"
        window = await talk("screenshot")
        assert base64.b64decode(window.images[0].data).startswith(b"\x89PNG")
        assert (window.structured["width"], window.structured["height"]) == (1280, 720)
        part = await talk("screenshot", selector="table")
        assert part.structured["height"] < 200
        assert (await talk("screenshot", full_page=True)).structured["truncated"] is False
        scripted = await talk(
            "evaluate_js", script="document.title = 'Mine'; return {a: [1, null, 'x'], b: undefined}"
        )
        assert scripted.structured["value"] == {"a": [1, None, "x"], "b": None}
        assert scripted.structured["title"] == "Mine"
        assert (await talk("evaluate_js", script="() => 6 * 7")).structured["value"] == 42


@needs("chromium")
@pytest.mark.parametrize("era", ERAS)
async def test_frames_are_seen_used_by_reference_and_switched_to(era: str, browser: str, site: Site):
    async with talking(browser, era) as talk:
        whole = await talk("navigate", url=site.url())
        deep = whole.ref('button "Deep inside"')
        assert deep.startswith("f")
        assert 'button "1"' in (await talk("click", ref=deep)).text
        listed = await talk("switch_frame", list_frames=True)
        assert [frame["name"] for frame in listed.structured["frames"]][:2] == ["main", "news"]
        inside = await talk("switch_frame", name="news")
        assert inside.structured["frame"] == "news"
        assert "Order tea" not in inside.structured["snapshot"]
        await talk("click", text="Mark as read")
        assert (await talk("read_content")).structured["text"].startswith("## Read")
        assert (await talk("evaluate_js", script="location.pathname")).structured["value"] == "/news"
        back = await talk("switch_frame", name="main")
        assert "Order tea" in back.structured["snapshot"]


@needs("chromium")
@pytest.mark.parametrize("era", ERAS)
async def test_a_closed_browser_has_no_page_until_one_is_opened(era: str, browser: str, site: Site):
    async with talking(browser, era) as talk:
        await talk("navigate", url=site.url("/about"))
        assert (await talk("close")).structured == {"closed": True}
        assert (await talk("close")).structured == {"closed": False}
        assert "browser_navigate opens one" in await talk.refusal("snapshot")
        await talk("navigate", url=site.url("/about"))


@needs("chromium")
async def test_what_does_not_fit_is_named_with_what_to_do(browser: str, site: Site):
    async with talking(browser) as talk:
        old = await talk("navigate", url=site.url("/about"))
        await talk("navigate", url=site.url())
        assert old.structured["truncated"] is False
        assert "not a reference" in await talk.refusal("click", ref="button")
        assert "take a new browser_snapshot" in await talk.refusal("click", ref="e99999")
        assert "no element matches text='Nowhere'" in await talk.refusal("click", text="Nowhere")
        assert "name an element" in await talk.refusal("click")
        assert "is not a selector" in await talk.refusal("click", selector="a[")
        assert "'Green', 'Black'" in await talk.refusal("select_option", selector="select", value="Red")
        assert "there is no frame 'sports'; there are: main, news" in await talk.refusal(
            "switch_frame", name="sports"
        )
        assert "boom" in await talk.refusal("evaluate_js", script="throw new Error('boom')")


@needs("chromium")
async def test_a_reference_of_an_earlier_page_finds_nothing_in_the_next(browser: str, site: Site):
    async with talking(browser) as talk:
        old = (await talk("navigate", url=site.url())).ref('button "Order"')
        new = (await talk("navigate", url=site.url())).ref('button "Order"')
        assert old != new
        assert "take a new browser_snapshot" in await talk.refusal("click", ref=old)


async def test_the_other_language_says_the_same_in_its_words(tmp_path: Path):
    async with at(made(tmp_path, locale="pt")) as talk:
        tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
        assert tools["browser_click"].title == "Clicar"
        assert "só http e https são abertos" in await talk.refusal("navigate", url="file:///etc/passwd")
        assert "não é um endereço de página web" in await talk.refusal("navigate", url="duas palavras")
