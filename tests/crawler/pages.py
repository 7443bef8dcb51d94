"""HTML pages whose main text is known, by kind: articles, documentation, threads, products, lists and others.

A template is for `dev`, where the extraction was tuned, or `held_out`, which only reports; no template, and no
markup of menus and banners, is in both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Literal

from tests.crawler.prose import LANGUAGES, Prose

Split = Literal["dev", "held_out"]


@dataclass(frozen=True)
class KnownPage:
    name: str
    kind: str
    split: Split
    language: str
    title: str
    html: str
    text: str
    """The main text, without the title."""


@dataclass(frozen=True)
class _Template:
    kind: str
    split: Split
    make: Callable[[Prose, str], tuple[str, list[str]]]
    languages: tuple[str, ...]


_templates: list[_Template] = []
_Made = tuple[str, list[str]]


def _template(
    kind: str, split: Split, languages: str = "en pt"
) -> Callable[..., Callable[[Prose, str], _Made]]:
    def declare(make: Callable[[Prose, str], _Made]) -> Callable[[Prose, str], _Made]:
        chosen = LANGUAGES if languages == "all" else tuple(languages.split())
        _templates.append(_Template(kind, split, make, chosen))
        return make

    return declare


def known_pages(split: Split | None = None, seed: int = 1) -> Iterator[KnownPage]:
    for template in _templates:
        if split is not None and template.split != split:
            continue
        for language in template.languages:
            prose = Prose(language, seed)
            title = prose.title()
            html, texts = template.make(prose, title)
            name = f"{template.make.__name__}_{language}_{seed}"
            yield KnownPage(name, template.kind, template.split, language, title, html, "\n".join(texts))


def _p(texts: list[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _dev(prose: Prose, title: str, body: str, head: str = "", before: str = "", after: str = "") -> str:
    """The frame of most pages of `dev`."""
    links = "".join(f'<li><a href="/s{n}">{escape(prose.title())}</a></li>' for n in range(9))
    return f"""<!doctype html><html lang="{prose.language}"><head><meta charset="utf-8">
<title>{escape(title)} | The Daily Bridge</title>{head}</head><body>
<div class="cookie-banner"><p>We use cookies and similar technologies to improve your experience, to show
personalised advertising and to measure it. You can change your settings at any time.</p>
<button>Accept all</button><button>Settings</button></div>
<header class="site-header"><a href="/">The Daily Bridge</a><nav><ul>{links}</ul></nav></header>{before}
{body}{after}
<footer class="site-footer"><ul><li><a href="/imprint">Imprint</a></li><li><a href="/privacy">Privacy</a></li>
<li><a href="/contact">Contact</a></li><li><a href="/jobs">Jobs</a></li></ul><p>© 2026 The Daily Bridge. All rights
reserved.</p></footer></body></html>"""


def _held(prose: Prose, title: str, body: str, head: str = "", side: str = "") -> str:
    """The frame of most pages of `held_out`."""
    menu = "".join(f'<a class="mi" href="/c/{n}">{escape(prose.title())}</a> ' for n in range(7))
    return f"""<!DOCTYPE html><html lang="{prose.language}"><head><meta charset="utf-8"/><title>{escape(title)} -
Riverside</title>{head}</head><body><div id="wrap"><div id="hd"><div class="logo"><a href="/">Riverside</a></div>
<div class="topnav" role="navigation">{menu}</div><form action="/find"><input name="q"><button>Go</button></form></div>
<div id="gdpr-box" role="dialog" aria-label="Privacy"><h2>Your privacy</h2><p>Our 814 partners and we store or access
information on a device, such as unique identifiers, to personalise ads and content.</p><a href="#">Agree</a></div>
<div id="cols"><div id="centre">{body}</div><div id="right">{side}</div></div>
<div id="ft"><p>Riverside Media Ltd. <a href="/terms">Terms of use</a> · <a href="/about">About us</a> ·
<a href="/ads">Advertise with us</a> · <a href="/help">Help</a></p></div></div></body></html>"""


# ---- dev -------------------------------------------------------------------------------------------------------


@_template("article", "dev", "all")
def article(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(6)
    body = f"<main><article><h1>{escape(title)}</h1><p class='byline'>By Ana Souza, 3 May 2026</p>{_p(texts)}</article></main>"
    related = "".join(f'<a href="/r{n}"><h3>{escape(prose.title())}</h3></a>' for n in range(5))
    after = f'<section class="related"><h2>Related stories</h2>{related}</section>'
    head = '<meta property="og:type" content="article"><meta name="author" content="Ana Souza">'
    return _dev(prose, title, body, head, after=after), texts


@_template("comments", "dev", "en pt de")
def article_with_comments(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(5)
    comments = "".join(
        f'<li class="comment"><b class="author">user{n}</b><p>{escape(prose.paragraph(2))}</p></li>'
        for n in range(7)
    )
    body = f'<div class="entry"><h1>{escape(title)}</h1>{_p(texts)}</div>'
    after = f'<div id="comments"><h3>7 comments</h3><ol class="comment-list">{comments}</ol></div>'
    return _dev(prose, title, body, after=after), texts


@_template("docs", "dev", "en pt zh")
def manual(prose: Prose, title: str) -> _Made:
    one, two, three = prose.paragraphs(3, 3)
    code = "import bridge\n\nbridge.open(width=3)\nfor car in bridge:\n    car.pass_over()"
    options = [(f"option_{n}", prose.sentence()) for n in range(4)]
    rows = "".join(f"<tr><td><code>{name}</code></td><td>{escape(text)}</td></tr>" for name, text in options)
    toc = "".join(f'<li><a href="#s{n}">Chapter {n}</a></li>' for n in range(12))
    body = f"""<div class="layout"><aside class="toc"><ul>{toc}</ul></aside><main class="doc"><h1>{escape(title)}</h1>
<p>{escape(one)}</p><h2>Usage</h2><p>{escape(two)}</p><pre><code class="language-python">{code}</code></pre>
<h2>Options</h2><table><thead><tr><th>Name</th><th>Meaning</th></tr></thead><tbody>{rows}</tbody></table>
<p>{escape(three)}</p><div class="pagination"><a href="/prev">Previous</a><a href="/next">Next</a></div></main></div>"""
    table = ["Name Meaning", *(f"{name} {text}" for name, text in options)]
    return _dev(prose, title, body), [one, "Usage", two, code, "Options", *table, three]


@_template("thread", "dev", "en pt ru")
def forum(prose: Prose, title: str) -> _Made:
    posts = [prose.paragraph(3) for _ in range(6)]
    items = "".join(
        f'<div class="post" id="p{n}"><div class="author-info">member{n}<br>Posts: {prose.number()}</div>'
        f'<div class="content"><p>{escape(text)}</p></div><div class="actions"><a href="#">Quote</a> <a href="#">Report</a></div></div>'
        for n, text in enumerate(posts)
    )
    head = '<meta name="generator" content="phpBB">'
    body = f'<div id="topic"><h1>{escape(title)}</h1>{items}</div>'
    return _dev(prose, title, body, head), posts


@_template("product", "dev", "en pt es")
def product(prose: Prose, title: str) -> _Made:
    description = prose.paragraphs(2, 3)
    facts = [("Weight", f"{prose.number()} g"), ("Colour", "Red"), ("Warranty", "24 months")]
    rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in facts)
    others = "".join(
        f'<li class="card"><a href="/p{n}">{escape(prose.title())}</a><span>{prose.number()},00</span></li>'
        for n in range(8)
    )
    body = f"""<main><div class="gallery"><img src="a.jpg" alt="picture"></div><h1>{escape(title)}</h1>
<button>Add to basket</button><div class="description"><h2>Description</h2>{_p(description)}</div>
<div class="specs"><h2>Details</h2><table>{rows}</table></div></main>"""
    after = f'<div class="recommendations"><h2>Customers also bought</h2><ul>{others}</ul></div>'
    facts_text = [f"{name} {value}" for name, value in facts]
    return _dev(prose, title, body, after=after), ["Description", *description, "Details", *facts_text]


@_template("list", "dev", "en pt fr")
def front_page(prose: Prose, title: str) -> _Made:
    teasers = [(prose.title(), prose.paragraph(2)) for _ in range(8)]
    items = "".join(
        f'<div class="teaser"><h2><a href="/a{n}">{escape(head)}</a></h2><p>{escape(text)}</p></div>'
        for n, (head, text) in enumerate(teasers)
    )
    body = f"<main><h1>{escape(title)}</h1>{items}</main>"
    return _dev(prose, title, body), [part for pair in teasers for part in pair]


@_template("list", "dev", "en pt")
def steps(prose: Prose, title: str) -> _Made:
    lead = prose.paragraph(2)
    parts = [prose.sentence() for _ in range(7)]
    done = [prose.paragraph(2) for _ in range(5)]
    body = f"""<main><h1>{escape(title)}</h1><p>{escape(lead)}</p><h2>You need</h2>
<ul>{"".join(f"<li>{escape(one)}</li>" for one in parts)}</ul><h2>How it is done</h2>
<ol>{"".join(f"<li>{escape(one)}</li>" for one in done)}</ol></main>"""
    return _dev(prose, title, body), [lead, "You need", *parts, "How it is done", *done]


@_template("table", "dev", "en pt")
def results_table(prose: Prose, title: str) -> _Made:
    lead = prose.paragraph(2)
    rows = [
        [prose.title(), str(prose.number()), str(prose.number()), str(prose.number(99))] for _ in range(15)
    ]
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    html = f"""<div class="content"><h1>{escape(title)}</h1><p>{escape(lead)}</p>
<table class="data"><tr><th>Place</th><th>Cars</th><th>Boats</th><th>Age</th></tr>{body}</table></div>"""
    return _dev(prose, title, html), [lead, "Place Cars Boats Age", *(" ".join(row) for row in rows)]


@_template("old layout", "dev", "en pt ja")
def table_layout(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(5, 3)
    menu = "<br>".join(f'<a href="{n}.htm">{escape(prose.title())}</a>' for n in range(8))
    text = "<br><br>".join(escape(one) for one in texts)
    html = f"""<html><head><title>{escape(title)}</title></head><body bgcolor="#ffffff"><center><table width="760"
border="0"><tr><td colspan="2"><img src="logo.gif"></td></tr><tr><td width="150" valign="top"><font size="2">{menu}
</font></td><td valign="top"><font face="Arial" size="3"><b>{escape(title)}</b><p>{text}</font></td></tr><tr>
<td colspan="2" align="center"><font size="1">Best viewed with Netscape. <a href="mailto:a@b.example">Webmaster</a>
</font></td></tr></table></center></body></html>"""
    return html, texts


@_template("ads", "dev", "en de")
def advertised(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(6)
    ad = '<div class="ad-slot" id="ad-{0}"><span>Advertisement</span><p>Buy the finest bridges today and save!</p></div>'
    inner = "".join(f"<p>{escape(one)}</p>{ad.format(n)}" for n, one in enumerate(texts))
    box = '<div class="newsletter-signup"><h3>Never miss a story</h3><p>Subscribe to our newsletter.</p><input></div>'
    body = f'<article class="story"><h1>{escape(title)}</h1>{inner}{box}</article>'
    return _dev(prose, title, body), texts


@_template("short", "dev", "en pt ko")
def short_note(prose: Prose, title: str) -> _Made:
    texts = [prose.paragraph(2)]
    return _dev(prose, title, f"<main><h1>{escape(title)}</h1>{_p(texts)}</main>"), texts


@_template("code", "dev", "en")
def repository(prose: Prose, title: str) -> _Made:
    lead, more = prose.paragraphs(2, 2)
    code = "pip install bridge\nbridge --width 3\nbridge --close"
    files = "".join(
        f'<tr><td><a href="/f{n}">file_{n}.py</a></td><td>2 months ago</td></tr>' for n in range(6)
    )
    body = f"""<div class="repo"><table class="files">{files}</table><div class="readme"><h1>{escape(title)}</h1>
<p>{escape(lead)}</p><h2>Install</h2><pre>{code}</pre><p>{escape(more)}</p></div></div>"""
    return _dev(prose, title, body), [lead, "Install", code, more]


@_template("questions", "dev", "en pt")
def questions(prose: Prose, title: str) -> _Made:
    pairs = [(prose.title() + "?", prose.paragraph(2)) for _ in range(7)]
    items = "".join(
        f'<details class="faq"><summary>{escape(one)}</summary><div>{escape(two)}</div></details>'
        for one, two in pairs
    )
    return _dev(prose, title, f"<main><h1>{escape(title)}</h1>{items}</main>"), [
        t for pair in pairs for t in pair
    ]


# ---- held out ----------------------------------------------------------------------------------------------------


@_template("article", "held_out", "all")
def news(prose: Prose, title: str) -> _Made:
    lead = prose.sentence()
    texts = prose.paragraphs(7, 3)
    quote = prose.sentence()
    side = (
        "<h4>Most read</h4><ol>"
        + "".join(f'<li><a href="/m{n}">{escape(prose.title())}</a></li>' for n in range(10))
        + "</ol>"
    )
    body = f"""<div class="crumbs"><a href="/">Home</a> › <a href="/w">World</a></div><h1 class="headline">{escape(title)}</h1>
<p class="standfirst">{escape(lead)}</p><div class="meta">Jo Lima · <time datetime="2026-02-03T10:00:00Z">3 February
2026</time></div><div class="share-tools"><a href="#">Tweet</a><a href="#">Mail</a></div><div class="story-body">
{_p(texts[:4])}<blockquote><p>{escape(quote)}</p></blockquote><h2>{escape(texts[4][:30])}</h2>{_p(texts[4:])}</div>
<div class="tags">Tags: <a href="/t1">bridges</a> <a href="/t2">rivers</a></div>"""
    head = """<script type="application/ld+json">{"@type":"NewsArticle","author":{"name":"Jo Lima"},
"datePublished":"2026-02-03T10:00:00Z"}</script>"""
    return _held(prose, title, body, head, side), [lead, *texts[:4], quote, texts[4][:30], *texts[4:]]


@_template("article", "held_out", "en pt fr el")
def essay_of_divs(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(8, 3)
    body = f'<div class="t1">{escape(title)}</div>' + "".join(
        f'<div class="x9">{escape(one)}</div>' for one in texts
    )
    return _held(prose, title, body), texts


@_template("comments", "held_out", "en es ru")
def blog_with_replies(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(4)
    replies = "".join(
        f'<article class="reply depth-{n % 3}"><footer><b>guest {n}</b> says:</footer><p>{escape(prose.paragraph(3))}</p>'
        f'<a href="?r={n}">Reply</a></article>'
        for n in range(9)
    )
    body = f"""<article class="hentry"><header><h1 class="entry-title">{escape(title)}</h1></header>
<div class="entry-content">{_p(texts)}</div></article><section class="comments-area"><h2>9 thoughts</h2>{replies}
<form><label>Leave a reply</label><textarea></textarea></form></section>"""
    return _held(prose, title, body), texts


@_template("docs", "held_out", "en pt de")
def api_reference(prose: Prose, title: str) -> _Made:
    lead = prose.paragraph(2)
    calls = [
        (f"open_{n}(width, *, height=3)", prose.paragraph(2), f"open_{n}(4)\n# returns {n}") for n in range(4)
    ]
    tree = "".join(f'<div class="treeitem"><a href="/api/{n}">module_{n}</a></div>' for n in range(20))
    parts = "".join(
        f'<dl class="py function"><dt id="f{n}"><code>{escape(name)}</code></dt><dd><p>{escape(text)}</p>'
        f'<div class="highlight"><pre>{escape(code)}</pre></div></dd></dl>'
        for n, (name, text, code) in enumerate(calls)
    )
    body = f'<div class="rst-content"><section><h1>{escape(title)}<a class="headerlink" href="#t">¶</a></h1><p>{escape(lead)}</p>{parts}</section></div>'
    return _held(prose, title, body, side=tree), [lead, *(part for call in calls for part in call)]


@_template("thread", "held_out", "en pt ja")
def question_and_answers(prose: Prose, title: str) -> _Made:
    question = prose.paragraph(3)
    code = "bridge.open()\nraise Flood"
    answers = [prose.paragraph(4) for _ in range(4)]
    items = "".join(
        f'<div class="answer" itemprop="suggestedAnswer" itemscope itemtype="https://schema.org/Answer"><div class="votecell">'
        f'{prose.number(99)}</div><div class="answercell" itemprop="text"><p>{escape(text)}</p></div>'
        f'<div class="user-details">person {n}, 2 May</div></div>'
        for n, text in enumerate(answers)
    )
    side = "<h4>Hot questions</h4>" + "".join(
        f'<div><a href="/q{n}">{escape(prose.title())}</a></div>' for n in range(9)
    )
    body = f"""<div itemscope itemtype="https://schema.org/QAPage"><div class="question" itemprop="mainEntity"><h1>{escape(title)}</h1>
<div class="votecell">12</div><div class="postcell" itemprop="text"><p>{escape(question)}</p><pre><code>{code}</code></pre></div></div>
<h2>4 Answers</h2>{items}</div>"""
    return _held(prose, title, body, side=side), [question, code, "4 Answers", *answers]


@_template("thread", "held_out", "en de zh")
def old_forum(prose: Prose, title: str) -> _Made:
    posts = [prose.paragraph(3) for _ in range(7)]
    rows = "".join(
        f'<table class="tborder" id="post{n}"><tr><td class="alt2"><b>name{n}</b><br>Join date: 2004<br>Posts: {prose.number()}</td>'
        f'<td class="alt1"><div id="post_message_{n}">{escape(text)}</div></td></tr></table>'
        for n, text in enumerate(posts)
    )
    head = '<meta name="generator" content="vBulletin 3.8">'
    return _held(prose, title, f"<h1>{escape(title)}</h1><div id='posts'>{rows}</div>", head), posts


@_template("product", "held_out", "en pt ar")
def shop_item(prose: Prose, title: str) -> _Made:
    points = [prose.sentence() for _ in range(5)]
    text = prose.paragraphs(3, 3)
    specs = [(prose.title(), str(prose.number())) for _ in range(6)]
    rows = "".join(
        f'<li><span class="k">{escape(a)}</span> <span class="v">{b}</span></li>' for a, b in specs
    )
    side = "<h3>Similar items</h3>" + "".join(
        f'<div class="sim"><a href="/i{n}">{escape(prose.title())}</a> {prose.number()} €</div>'
        for n in range(6)
    )
    body = f"""<h1 class="product-title">{escape(title)}</h1><div class="price">{prose.number()},99 €</div><button>Buy now</button>
<ul class="feature-bullets">{"".join(f"<li>{escape(one)}</li>" for one in points)}</ul><div id="long-description">{_p(text)}</div>
<ul class="spec-list">{rows}</ul>"""
    return _held(prose, title, body, side=side), [*points, *text, *(f"{a} {b}" for a, b in specs)]


@_template("list", "held_out", "en pt ko")
def directory(prose: Prose, title: str) -> _Made:
    entries = [(prose.title(), prose.sentence()) for _ in range(14)]
    items = "".join(
        f'<dt><a href="/d{n}">{escape(a)}</a></dt><dd>{escape(b)}</dd>' for n, (a, b) in enumerate(entries)
    )
    return _held(prose, title, f"<h1>{escape(title)}</h1><dl class='dir'>{items}</dl>"), [
        t for pair in entries for t in pair
    ]


@_template("list", "held_out", "en fr")
def ranking(prose: Prose, title: str) -> _Made:
    lead = prose.paragraph(3)
    items = [(prose.title(), prose.paragraph(3)) for _ in range(7)]
    parts = "".join(
        f'<div class="rank"><h3>{n}. {escape(a)}</h3><img src="x.png"><p>{escape(b)}</p></div>'
        for n, (a, b) in enumerate(items, 1)
    )
    texts = [lead, *(t for n, (a, b) in enumerate(items, 1) for t in (f"{n}. {a}", b))]
    return _held(
        prose, title, f"<article><h1>{escape(title)}</h1><p>{escape(lead)}</p>{parts}</article>"
    ), texts


@_template("table", "held_out", "en pt hi")
def statistics(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(2, 2)
    rows = [[str(2000 + n), str(prose.number()), prose.title()] for n in range(20)]
    cells = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    body = f"""<h1>{escape(title)}</h1><p>{escape(texts[0])}</p><div class="table-wrap"><table class="wikitable"><caption>Crossings by
year</caption><thead><tr><th>Year</th><th>Count</th><th>Remark</th></tr></thead><tbody>{cells}</tbody></table></div><p>{escape(texts[1])}</p>"""
    known = [texts[0], "Crossings by year", "Year Count Remark", *(" ".join(row) for row in rows), texts[1]]
    return _held(prose, title, body), known


@_template("old layout", "held_out", "en ru zh")
def frames_of_tables(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(6, 3)
    left = "".join(
        f'<tr><td><a href="p{n}.html"><font color="navy">{escape(prose.title())}</font></a></td></tr>'
        for n in range(10)
    )
    inner = "".join(f'<tr><td><font size="2" face="Verdana">{escape(one)}</font></td></tr>' for one in texts)
    html = f"""<HTML><HEAD><TITLE>{escape(title)}</TITLE></HEAD><BODY><TABLE WIDTH=100%><TR><TD WIDTH=20%><TABLE>{left}</TABLE></TD>
<TD><TABLE><TR><TD><H1>{escape(title)}</H1></TD></TR>{inner}</TABLE></TD></TR></TABLE><HR><CENTER><FONT SIZE=1>You are visitor 12345.
Last changed 1999.</FONT></CENTER></BODY></HTML>"""
    return html, texts


@_template("ads", "held_out", "en pt")
def sponsored(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(6)
    inserts = '<aside class="promo-box"><a href="/shop">Get 20% off your first bridge. Offer ends soon, order today!</a></aside>'
    more = "".join(
        f'<div class="rec-item"><img><a href="//x.example/{n}">{escape(prose.title())}</a><small>Sponsored</small></div>'
        for n in range(8)
    )
    inner = "".join(f"<p>{escape(one)}</p>{inserts if n % 2 else ''}" for n, one in enumerate(texts))
    body = f'<main id="maincol"><h1>{escape(title)}</h1><section itemprop="articleBody">{inner}</section></main><div class="around-the-web"><h3>From the web</h3>{more}</div>'
    return _held(prose, title, body), texts


@_template("encyclopedia", "held_out", "en pt de ja")
def encyclopedia(prose: Prose, title: str) -> _Made:
    lead, history, design = prose.paragraphs(3, 4)
    notes = "".join(f"<li>{escape(prose.title())}, 19{n}0.</li>" for n in range(3, 9))
    nav = "".join(f'<td><a href="/wiki/{n}">{escape(prose.title())}</a></td>' for n in range(12))
    body = f"""<h1 id="firstHeading">{escape(title)}</h1><div class="mw-parser-output"><table class="infobox"><tr><th>Length</th><td>120 m</td></tr></table>
<p><b>{escape(title)}</b> {escape(lead)}<sup class="reference"><a href="#n1">[1]</a></sup></p><div id="toc"><ul><li><a href="#h">History</a></li>
<li><a href="#d">Design</a></li></ul></div><h2>History<span class="mw-editsection">[<a href="/edit">edit</a>]</span></h2><p>{escape(history)}</p>
<h2>Design</h2><p>{escape(design)}</p><div class="reflist"><ol>{notes}</ol></div><div class="navbox"><table><tr>{nav}</tr></table></div></div>"""
    return _held(prose, title, body), [f"{title} {lead}", "History", history, "Design", design]


@_template("short", "held_out", "en pt")
def notice(prose: Prose, title: str) -> _Made:
    texts = [prose.paragraph(3)]
    return _held(prose, title, f"<h1>{escape(title)}</h1><div class='msg'>{escape(texts[0])}</div>"), texts


@_template("code", "held_out", "en pt")
def tutorial(prose: Prose, title: str) -> _Made:
    texts = prose.paragraphs(4, 2)
    codes = [f"def step_{n}(bridge):\n    return bridge.lift({n})" for n in range(3)]
    inner = "".join(
        f"<p>{escape(text)}</p><div class='code-block'><button>Copy</button><pre class='brush: python'>{escape(code)}</pre></div>"
        for text, code in zip(texts, codes, strict=False)
    )
    body = f'<article class="md-content"><h1>{escape(title)}</h1>{inner}<p>{escape(texts[3])}</p></article>'
    known = [part for text, code in zip(texts, codes, strict=False) for part in (text, code)]
    return _held(prose, title, body), [*known, texts[3]]


@_template("questions", "held_out", "en pt")
def help_centre(prose: Prose, title: str) -> _Made:
    pairs = [(prose.title() + "?", prose.paragraph(2)) for _ in range(6)]
    items = "".join(
        f'<div class="accordion-item"><h3><button>{escape(a)}</button></h3><div class="panel">{escape(b)}</div></div>'
        for a, b in pairs
    )
    return _held(prose, title, f"<h1>{escape(title)}</h1><div class='accordion'>{items}</div>"), [
        t for pair in pairs for t in pair
    ]


@_template("event", "held_out", "en pt")
def event(prose: Prose, title: str) -> _Made:
    text = prose.paragraphs(2, 3)
    facts = [("When", "3 June 2026, 18:00"), ("Where", "Old bridge, north side"), ("Price", "Free")]
    rows = "".join(f"<p><strong>{a}:</strong> {b}</p>" for a, b in facts)
    side = (
        "<h4>Other events</h4><ul>"
        + "".join(f'<li><a href="/e{n}">{escape(prose.title())}</a></li>' for n in range(6))
        + "</ul>"
    )
    return _held(prose, title, f"<h1>{escape(title)}</h1>{rows}{_p(text)}", side=side), [
        *(f"{a}: {b}" for a, b in facts),
        *text,
    ]
