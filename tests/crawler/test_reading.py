"""What is read from pages: main content, metadata, encodings, other types, and pages in front of pages."""

from collections import defaultdict
from collections.abc import Callable
from statistics import mean

import pytest
import trafilatura
from aiohttp import web as http

from tests.crawler.crawling import Crawls
from tests.crawler.pages import known_pages
from tests.crawler.scoring import plain, score
from tests.crawler.web import ATOM, HTML, LAUGHS, RSS, Web, article, pdf
from toolyard.crawler.extraction.encodings import decoded
from toolyard.crawler.extraction.language import language_of
from toolyard.crawler.extraction.markdown import MarkdownWriter
from toolyard.crawler.outcomes import CrawledPage

Make = Callable[..., Crawls]


async def test_a_web_of_hundreds_of_pages_is_read_better_than_by_trafilatura_alone(web: Web, crawls: Make):
    pages = web.add_known(1, 2, 3)
    assert len(pages) > 250
    crawl = crawls()
    summary = await crawl(*pages)
    assert summary.failures == []
    ours: dict[str, list[float]] = defaultdict(list)
    for url, known in pages.items():
        found = crawl.pages[url]
        assert found.title == known.title
        assert found.language == known.language, known.name
        ours[known.split].append(score(plain(found.markdown, known.title), known.text).f1)
    for split, scores in ours.items():
        theirs = [
            score(plain(trafilatura.extract(known.html) or "", known.title), known.text).f1
            for known in pages.values()
            if known.split == split
        ]
        assert mean(scores) > mean(theirs), split
        assert mean(scores) > 0.93, split


async def test_markdown_keeps_headings_lists_tables_code_and_collects_links(web: Web, crawls: Make):
    html = next(page.html for page in known_pages("dev") if page.name == "manual_en_1")
    more = '<p>See <a href="/more">the other page</a> and <b>bold</b> words.</p><ul><li>one<ul><li>deep</li></ul></li></ul>'
    web.pages["/manual"] = html.replace("<h2>Options</h2>", more + "<h2>Options</h2>")
    page = await crawls().page(web.url("/manual"))
    assert "## Usage" in page.markdown
    assert "```" in page.markdown
    assert "    car.pass_over()" in page.markdown
    assert "| Name | Meaning |\n| --- | --- |\n| `option_0` |" in page.markdown
    assert "- one\n  - deep" in page.markdown
    assert "**bold**" in page.markdown
    assert page.links == {web.url("/more"): "the other page"}
    assert "cookies" not in page.markdown


async def test_what_a_page_says_about_itself_is_read(web: Web, crawls: Make):
    said = """<meta property="og:site_name" content="The Bridge"><meta name="description" content="About &amp; around">
<script type="application/ld+json">{"@graph": [{"@type": "NewsArticle", "headline": "The real title",
"datePublished": "2026-03-04T05:06:07Z", "author": [{"name": "Ana"}, {"name": "Rui"}]}]}</script>"""
    web.pages["/a"] = article("Other", head=said)
    page = await crawls().page(web.url("/a"))
    assert (page.title, page.date, page.author) == ("The real title", "2026-03-04", "Ana, Rui")
    assert (page.site, page.description, page.language) == ("The Bridge", "About & around", "en")


@pytest.mark.parametrize(
    ("body", "charset", "encoding"),
    [
        ("é ü ç".encode(), "", "utf-8"),
        (b"\xef\xbb\xbf\xc3\xa9", "iso-8859-1", "utf-8"),
        ("é ü".encode("utf-16"), "", "utf-16-le"),
        ("Привет, мир".encode("koi8-r"), "koi8-r", "koi8-r"),
        (b'<meta charset="windows-1251">' + "Привет".encode("cp1251"), "", "cp1251"),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">'
            + "日本".encode("cp932"),
            "",
            "cp932",
        ),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?><html>' + "é".encode("latin-1"), "", "cp1252"),
        ("“quoted”".encode("cp1252"), "iso-8859-1", "cp1252"),
        ("é ü ç".encode(), "iso-8859-7-broken", "utf-8"),
        ("中文网页".encode("gb18030"), "gb2312", "gb18030"),
        ("é".encode("latin-1") + b"<meta charset=utf-7>", "", "cp1252"),
    ],
)
def test_encodings_are_found_as_browsers_find_them(body: bytes, charset: str, encoding: str):
    text, found = decoded(body, charset)
    if encoding != "cp1252" or b"utf-7" not in body:
        assert found == encoding
    assert "\ufffd" not in text


def test_an_encoding_that_nobody_names_is_detected():
    text = "Старый мост через реку закрыли на ремонт после весеннего паводка. " * 5
    assert decoded(text.encode("windows-1251"))[0] == text
    text = "古い橋は修理のために閉鎖された。技術者たちは橋脚にひびを見つけた。" * 5
    assert decoded(text.encode("shift_jis"))[0] == text


@pytest.mark.parametrize(("code", "text"), [("nl", "De oude brug over de rivier is gesloten en niet voor het verkeer open, maar dat is niet erg."), ("he", "הגשר הישן מעל הנהר נסגר"), ("", "abc")])  # fmt: skip
def test_a_language_is_told_by_its_script_and_small_words(code: str, text: str):
    assert language_of(text) == code


async def test_other_types_than_html_are_read(web: Web, crawls: Make):
    def typed(body: bytes, kind: str) -> http.Response:
        return http.Response(body=body, headers={"Content-Type": kind})

    web.pages |= {
        "/paper": typed(pdf("The bridge was closed.", "It opens in May."), "application/pdf"),
        "/hidden.pdf": typed(pdf("Found by its first bytes."), "application/octet-stream"),
        "/notes": typed("Olá, ponte.\nSegunda linha.".encode(), "text/plain; charset=utf-8"),
        "/data": typed(b'{"title": "Crossings", "rows": [1, 2]}', "application/json"),
        "/rss": typed(RSS.encode(), "application/rss+xml"),
        "/atom": typed(ATOM.encode(), "text/xml"),
        "/plain-feed": typed(RSS.encode(), "text/html"),
        "/readme": typed(b"# Title\n\nSome *text*.", "text/markdown"),
    }
    crawl = crawls()
    summary = await crawl(*map(web.url, web.pages))
    assert summary.failures == []
    found: dict[str, CrawledPage] = {path: crawl.pages[web.url(path)] for path in web.pages}
    assert {path: page.kind for path, page in found.items()} == {
        "/paper": "pdf",
        "/hidden.pdf": "pdf",
        "/notes": "text",
        "/data": "json",
        "/rss": "feed",
        "/atom": "feed",
        "/plain-feed": "feed",
        "/readme": "text",
    }
    paper = found["/paper"]
    assert (paper.title, paper.author, paper.date) == ("A paper", "Rui Dias", "2026-04-01")
    assert "The bridge was closed." in paper.markdown
    assert found["/notes"].markdown == "Olá, ponte.\nSegunda linha."
    assert found["/data"].title == "Crossings"
    assert '"rows": [' in found["/data"].markdown
    rss = found["/rss"]
    assert (rss.title, rss.language, rss.description) == ("Bridge news", "en", "All about bridges")
    assert (
        "## It opens\n\n2026-03-03 · https://a.example/opens\n\nThe bridge **opens** on Monday."
        in rss.markdown
    )
    assert list(rss.links) == ["https://a.example/opens", "https://a.example/closes"]
    assert "A ponte abriu." in found["/atom"].markdown


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "image/png", "binary"),
        (b"PK\x03\x04 something", "application/zip", "binary"),
        (b"\x00\x01\x02", "", "binary"),
        (b"", "text/html", "empty"),
        (b"<html><body></body></html>", "text/html", "empty"),
        (b"%PDF-1.7 broken", "application/pdf", "pdf_broken"),
        (pdf(), "application/pdf", "pdf_pictures"),
    ],
)
async def test_bodies_without_a_text_are_named(web: Web, crawls: Make, body: bytes, kind: str, code: str):
    web.pages["/x"] = http.Response(body=body, headers={"Content-Type": kind} if kind else {})
    assert (await crawls(render=False).failure(web.url("/x"))).code == code


def _page(title: str, body: str, head: str = "") -> str:
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>"


FRONTS = {
    "cloudflare challenge": ("cloudflare", 403, _page("Just a moment...", "<div id=cf-wrapper></div><script>window._cf_chl_opt={}</script>")),
    "cloudflare by header": ("cloudflare", 403, _page("x", "")),
    "cloudflare with 200": ("cloudflare", 200, _page("Just a moment...", "<script src='/cdn-cgi/challenge-platform/h/b/orchestrate'></script>")),
    "recaptcha": ("captcha", 200, _page("Check", "<p>Please confirm you are not a robot</p><div class='g-recaptcha'></div>")),
    "hcaptcha in portuguese": ("captcha", 403, _page("Verificação", "<p>Não sou um robô</p><script src='https://js.hcaptcha.com/1/api.js'></script>")),
    "datadome": ("captcha", 403, _page("site", "<script src='https://ct.captcha-delivery.com/c.js'></script>")),
    "akamai": ("blocked", 403, _page("Access Denied", "<h1>Access Denied</h1>You don't have permission. Reference #18.2d3f")),
    "blocked in german": ("blocked", 403, _page("Zugriff verweigert", "<p>Zugriff verweigert</p>")),
    "consent": ("consent", 200, _page("Before you continue to Example", "<h1>Before you continue to Example</h1><p>We use cookies.</p><button>Accept all</button>")),
    "consent in french": ("consent", 200, _page("Cookies", "<p>Avant de continuer</p><p>Nous et nos partenaires utilisons des cookies.</p>")),
    "login": ("login", 200, _page("Sign in", "<form><input name=u><input type='password' name=p></form><p>Sign in to continue</p>")),
    "login in portuguese": ("login", 200, _page("Entrar", "<p>Faça login para ver esta página.</p>")),
    "unauthorized": ("login", 401, _page("401", "<p>Authorization needed</p>")),
    "paywall": ("paywall", 200, _page("A story", "<article><p>The bridge was closed on Monday after the floods.</p></article><div>Subscribe to continue reading. Already a subscriber?</div>")),
    "paywall in portuguese": ("paywall", 200, _page("Reportagem", "<article><p>A ponte fechou.</p></article><div>Conteúdo exclusivo para assinantes</div>")),
    "paywall by its data": ("paywall", 200, _page("A story", "<p>The bridge was closed on Monday.</p>", '<script type="application/ld+json">{"@type":"NewsArticle","isAccessibleForFree":"False"}</script>')),
    "scripts": ("javascript", 200, _page("App", "<div id=app></div><noscript>Please enable JavaScript to view this page.</noscript><script src=a.js></script>")),
    "scripts in german": ("javascript", 200, _page("App", "<p>Bitte aktivieren Sie JavaScript.</p>")),
}  # fmt: skip


@pytest.mark.parametrize("name", FRONTS)
async def test_a_page_in_front_of_the_page_is_called_by_name(web: Web, crawls: Make, name: str):
    code, status, html = FRONTS[name]
    headers = {"Content-Type": HTML} | ({"cf-mitigated": "challenge"} if "header" in name else {})
    web.pages["/x"] = http.Response(body=html.encode(), status=status, headers=headers)
    assert (await crawls(render=False, retries=0).failure(web.url("/x"))).code == code


async def test_a_redirect_to_a_login_page_is_a_login(web: Web, crawls: Make):
    web.pages["/account/login"] = _page(
        "Welcome", "<p>Hello there, please give your name and your secret.</p>"
    )
    assert (await crawls().failure(web.url("/to?url=/account/login"))).code == "login"


async def test_an_article_with_banners_captchas_and_logins_around_it_is_an_article(web: Web, crawls: Make):
    around = """<div class="consent">We and our 800 partners use cookies. Accept all cookies to continue.</div>
<a href="/login">Sign in to continue</a><form><input type="password"></form><div class="g-recaptcha"></div>
<noscript>Please enable JavaScript for comments.</noscript></body>"""
    web.pages["/a"] = article("An article").replace("</body>", around)
    assert (await crawls().page(web.url("/a"))).title == "An article"


HOSTILE = {
    "deep": "<div>" * 50_000 + "deep",
    "deep lists": "<ul><li>" * 20_000 + "deep",
    "deep tables": "<table><tr><td>" * 3_000 + "deep",
    "open tags": "<a" * 300_000,
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(50_000)) + ">text",
    "long word": "<p>" + "a" * 2_000_000,
    "blanks": "<p>" + " \n" * 1_000_000 + "</p>",
    "nested json": '<script type="application/ld+json">' + "[" * 100_000 + "</script><p>text</p>",
    "wrong date": '<meta property="article:published_time" content="9999-99-99T99:99"><p>text</p>',
    "entities": "<p>" + "&#x110000;&#0;&#xD800;&bogus;" * 10_000,
    "many links": "<a href='http://[bad'>x</a><a href='javascript:1'>y</a>" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_html_has_an_outcome_and_harms_nothing(web: Web, crawls: Make, name: str):
    web.pages |= {"/hostile": HOSTILE[name], "/good": article("Still here")}
    crawl = crawls(render=False)
    summary = await crawl(web.url("/hostile"))
    assert summary.successful + len(summary.failures) == 1
    assert (await crawl.page(web.url("/good"))).title == "Still here"


async def test_entities_of_a_feed_grow_nothing_and_read_no_files(web: Web, crawls: Make):
    web.pages["/feed"] = http.Response(body=LAUGHS.encode(), headers={"Content-Type": "application/rss+xml"})
    crawl = crawls()
    await crawl(web.url("/feed"))
    assert all("root:" not in page.markdown and len(page.markdown) < 10_000 for page in crawl.pages.values())


def test_markdown_of_marks_inside_words_stays_readable():
    from lxml import html

    tree = html.fromstring(
        "<div><p>a <b> bold </b>b<i>x</i>c<br>next</p><pre>one\n  two</pre><blockquote>q</blockquote></div>"
    )
    assert MarkdownWriter().write(tree) == "a **bold** b*x*c\nnext\n\n```\none\n  two\n```\n\n> q"
