"""Recipes: the two of the example against a site like theirs, what they keep to themselves, and bad ones."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.programs import needs
from tests.servers.browser.site import ACCOUNT, Site
from tests.servers.browser.talking import ERAS, at, made, talking
from tests.serving import serving
from toolyard.kit.loader import LoadError, load

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = Path(__file__).parents[3] / "examples" / "browser-recipes.toml"
NAMES = ("SSW_DOMINIO", "SSW_CPF", "SSW_LOGIN", "SSW_SENHA")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kitchen(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    server = made(tmp_path_factory.mktemp("recipes"), allow="127.0.0.1", recipes=str(EXAMPLE))
    async with serving(server.asgi()) as edge:
        yield edge.url


@needs("chromium")
async def test_secrets_reach_the_page_and_no_answer(
    kitchen: str, site: Site, monkeypatch: pytest.MonkeyPatch
):
    for name, value in zip(NAMES, ("XX", "00000000000", "someone", "wrong secret"), strict=True):
        monkeypatch.setenv(name, value)
    async with talking(kitchen) as talk:
        monkeypatch.delenv("SSW_URL", raising=False)
        assert "variables of the server: SSW_URL" in await talk.refusal("ssw_login")
        monkeypatch.setenv("SSW_URL", "http://wrong secret/")
        failed = await talk.refusal("ssw_login")
        assert "step 1 of browser_ssw_login (goto {env.SSW_URL}) failed" in failed
        assert "wrong secret" not in failed
        monkeypatch.setenv("SSW_URL", site.url("/mirror"))
        site.pages["/mirror"] = """<input name="f1"><input name="f3"><input name="f4" type="password">
          <a href="#" onclick="document.querySelector('p').textContent =
            document.querySelector('[name=f4]').value; more()">►</a><p></p><iframe></iframe>
          <script>function more() { document.body.append(document.createElement('iframe')) }</script>"""
        await talk("navigate", url=site.url("/mirror"))
        stuck = await talk.refusal("ssw_navigate_option", option_number=1)
        assert "(wait_for :is(frame, iframe) >> nth=1) failed" in stuck
        shown = await talk("ssw_login")
        assert "paragraph: [SSW_SENHA]" in shown.structured["snapshot"]
        assert "wrong secret" not in shown.text + str(shown.structured)
        assert shown.structured["url"] == site.url("/mirror#")


@needs("chromium")
async def test_a_secret_that_is_a_word_of_ours_breaks_no_answer(
    kitchen: str, site: Site, monkeypatch: pytest.MonkeyPatch
):
    for name, value in zip(NAMES, ("note", "frame", "title", "snapshot"), strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SSW_URL", site.url("/menu"))
    site.pages["/menu"] = "<title>a title</title><iframe></iframe><iframe></iframe>"
    async with talking(kitchen) as talk:
        shown = await talk("ssw_login")
        assert "nothing to do" in shown.text
        assert [notice["kind"] for notice in shown.structured["notices"]] == ["note"]
        assert shown.structured["title"] == "a [SSW_LOGIN]"
        await talk("close")


@needs("chromium")
async def test_of_an_address_only_what_is_secret_is_hidden(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    address = site.url("/shop").replace("://", "://maria:opensesame@")
    monkeypatch.setenv("SHOP", f"{address}?key=a%20ticket&n=1#the-end")
    monkeypatch.setenv("PART", "branch")
    site.pages["/shop/branch"] = site.pages["/shop"] = "<p></p>"
    recipes = {
        "browser_open": {"steps": [{"goto": "{env.SHOP}"}]},
        "browser_part": {"steps": [{"goto": site.url("/shop/{env.PART}")}]},
    }
    async with at(made(tmp_path, allow="127.0.0.1", recipes=recipes)) as talk:
        opened = await talk("open")
        assert "/shop?key=[SHOP: key]&n=1#" in opened.structured["url"]
        said = opened.text + str(opened.structured)
        assert not any(secret in said for secret in ("opensesame", "a%20ticket", "the-end"))
        part = await talk("part")
        assert part.structured["url"] == site.url("/shop/[PART]")


@needs("chromium")
async def test_secrets_are_known_in_every_spelling_and_in_later_visits(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHOP_USER", "maria")
    monkeypatch.setenv("SHOP_PASSWORD", 'maria & "2024"/x')
    site.pages["/enter"] = (
        '<form action="/entered"><input name="u"><input name="p"><button>Go</button></form>'
    )
    site.pages["/entered"] = "<p></p><script>document.querySelector('p').textContent = location.href</script>"
    site.pages["/later"] = """<button>maria &amp; "2024"/x</button>"""
    steps = [
        {"goto": site.url("/enter")},
        {"fill": "[name=u]", "value": "{env.SHOP_USER}"},
        {"fill": "[name=p]", "value": "{env.SHOP_PASSWORD}"},
        {"press": "Enter", "on": "[name=p]"},
    ]
    server = made(tmp_path, allow="127.0.0.1", recipes={"browser_enter": {"steps": steps}})
    async with at(server) as talk:
        entered = await talk("enter")
        assert "/entered?u=[SHOP_USER]&p=[SHOP_PASSWORD]" in entered.structured["url"]
        script = "({said: new URLSearchParams(location.search).get('p')})"
        told = await talk("evaluate_js", script=script)
        await talk("close")
        later = await talk("navigate", url=site.url("/later"))
        for said in (entered, told, later):
            assert "2024" not in said.text + str(said.structured)


@needs("chromium")
async def test_the_example_logs_in_once_and_goes_to_an_option(
    kitchen: str, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSW_URL", site.url("/ssw/"))
    for name, value in zip(NAMES, ACCOUNT.split("/"), strict=True):
        monkeypatch.setenv(name, value)
    for number, era in enumerate(ERAS):
        async with talking(kitchen, era) as talk:
            tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
            assert len(tools) == 12
            hints = tools["browser_ssw_login"].annotations
            assert hints is not None
            assert (hints.read_only_hint, hints.open_world_hint) == (False, True)
            assert tools["browser_ssw_navigate_option"].input_schema["required"] == ["option_number"]
            entered = await talk("ssw_login")
            assert entered.structured["title"] == "Menu"
            assert any("nothing to do" in notice for notice in entered.notices) == bool(number)
            assert any(str(message).startswith("step ") for message in talk.progress)
            option = await talk("ssw_navigate_option", option_number=7)
            assert "option 007" in option.structured["snapshot"]
            assert "option_number" in await talk.refusal("ssw_navigate_option", option_number="seven")


STEPS: list[tuple[Any, str]] = [
    ({"steps": []}, "has no steps"),
    ({"steps": [{}]}, "needs exactly one of goto"),
    ({"steps": [{"goto": "a", "click": "b"}]}, "needs exactly one of goto"),
    ({"steps": [{"goto": "{nobody}"}]}, "uses 'nobody'"),
    ({"steps": [{"click": "a", "value": "b"}]}, "only fill and select take a value"),
    ({"steps": [{"if_present": "a"}]}, "if_present needs steps"),
    ({"steps": [{"dance": "a"}]}, "dance"),
]


@pytest.mark.parametrize(("recipe", "reason"), STEPS)
async def test_a_recipe_that_cannot_be_followed_is_refused_at_the_start(recipe: Any, reason: str):
    with pytest.raises(LoadError) as refused:
        load("toolyard.servers.browser", options={"recipes": {"mine": recipe}})
    assert reason in refused.value.message


async def test_a_recipe_takes_no_name_of_a_tool_and_a_file_must_be_there():
    with pytest.raises(LoadError, match="already has a tool 'browser_click'"):
        load("toolyard.servers.browser", options={"recipes": {"browser_click": {"steps": [{"goto": "a"}]}}})
    with pytest.raises(LoadError, match="No such file"):
        load("toolyard.servers.browser", options={"recipes": "nowhere.toml"})
    with pytest.raises(LoadError, match="allow: 'http://x/' is not a host"):
        load("toolyard.servers.browser", options={"allow": "http://x/"})
