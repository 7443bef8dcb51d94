"""Finds the main content of an HTML page: what remains without menus, banners, advertising and related links.

Combines three readings. trafilatura finds articles best, measured (docs/concepts/decisions.md). Threads of
posts and questions are read post by post, because trafilatura takes posts for comments and drops them. Where
trafilatura finds much less than a page without its boilerplate has (lists, products, documentation), that
page is taken instead.
"""

import re
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from importlib import import_module
from typing import Any

from msgspec import Struct

from .markdown import SKIPPED, MarkdownWriter

ENOUGH = 0.3
"""trafilatura's reading is taken if it has at least this share of the words without boilerplate,"""
ENOUGH_OF_ROOT = 0.9
"""or this share where the page marks its main part,"""
OWN_SHARE = 0.85
"""and if at least this share of it is not boilerplate."""
HALF = 0.5
FEW_WORDS = 25
POST_WORDS = 12
"""Posts of a thread have at least this many words on average."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]|\w+")
_ARTICLE_TYPE = re.compile(
    r'"@type"\s*:\s*\[?[^\]}]{0,80}"(?:\w*Article|BlogPosting|Report|LiveBlogPosting)"'
)
_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog", "menu"}
)
_BOILERPLATE = re.compile(
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|ccpa|newsletter|subscri(?:be|ption)|sign-?up|promo(?:tion)?|adverts?|"
    r"advertis(?:ement|ing)|ads?|sponsor(?:ed)?|related|recommend(?:ed|ations?)?|read-?more|more-?(?:stories|news)|"
    r"share|sharing|social|breadcrumbs?|sidebar|side-?bar|menu|nav(?:bar|igation)?|site-?footer|footer|popup|modal|"
    r"overlay|banner|pagination|pager|skip-?link|toolbar|widget|masthead|topbar|site-?header|outbrain|taboola|"
    r"disqus|donat(?:e|ion)|paywall-?prompt|login|signin|print-only|sr-only|visually-hidden|screen-reader-text)"
    r"(?:$|[\s_-])",
    re.IGNORECASE,
)
_COMMENTS = re.compile(
    r"(?:^|[\s_-])(?:comments?|comment-?list|respond|replies|disqus)(?:$|[\s_-])", re.IGNORECASE
)
_POST = re.compile(
    r"(?:^|[\s_-])(?:post|message|msg|reply|answer|question|topic-?post|comment|thread-?item|postbody)(?:$|[\s_-]|s?-?\d+$)",
    re.IGNORECASE,
)
_FORUM_MARKS = re.compile(
    r"DiscussionForumPosting|QAPage|\"Question\"|phpbb|vbulletin|xenforo|discourse|flarum|nodebb|"
    r"simple machines|mybb|vanilla forums|stack exchange",
    re.IGNORECASE,
)
_POST_NOISE = re.compile(
    r"(?:^|[\s_-])(?:author|user|profile|avatar|signature|sig|vote|votes|actions?|buttons?|controls|meta|rank|badge|"
    r"quote-?link|permalink|tools)(?:$|[\s_-]|\w*info)",
    re.IGNORECASE,
)


class MainContent(Struct, frozen=True):
    markdown: str
    links: dict[str, str]
    reader: str
    """`trafilatura`, `posts` or `page`."""


def word_count(text: str) -> int:
    """Words; in scripts without blanks, characters."""
    return len(_WORD.findall(text))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def main_content(tree: Any, base: str = "") -> MainContent:
    is_article = _says_article(tree)
    posts = None if is_article else _posts(tree)
    if posts is not None:
        writer = MarkdownWriter(base)
        return MainContent(writer.write(posts), writer.links, "posts")
    article = _article(tree, base)
    page, has_root = _page(tree, base)
    return _better(article, page, is_article, has_root)


def _better(article: MainContent, page: MainContent, is_article: bool, has_root: bool) -> MainContent:
    """Prefers trafilatura for articles, and the page where it says which part is the main one."""
    of_article, of_page = Counter(_words(article.markdown)), Counter(_words(page.markdown))
    found, most = of_article.total(), of_page.total()
    shared = (of_article & of_page).total()
    if found < FEW_WORDS:
        return page if most > found else article
    if is_article or most < FEW_WORDS:
        return article
    if shared < found * OWN_SHARE and (has_root or most >= found * HALF):
        return page
    return article if shared >= most * (ENOUGH_OF_ROOT if has_root else ENOUGH) else page


def _says_article(tree: Any) -> bool:
    if tree.xpath('//meta[@property="og:type" and contains(@content, "article")]'):
        return True
    if tree.xpath('//*[contains(@itemtype, "schema.org") and contains(@itemtype, "Article")]'):
        return True
    scripts = tree.xpath('//script[@type="application/ld+json"]/text()')
    return any(_ARTICLE_TYPE.search(text[:200_000]) for text in scripts)


def _article(tree: Any, base: str) -> MainContent:
    from trafilatura import bare_extraction  # 330 ms

    found: Any = bare_extraction(
        deepcopy(tree),
        include_comments=False,
        include_tables=True,
        include_formatting=True,
        include_links=True,
        with_metadata=False,
    )
    writer = MarkdownWriter(base)
    body = None if found is None else found.body
    return MainContent("" if body is None else writer.write(body), writer.links, "trafilatura")


def _page(tree: Any, base: str) -> tuple[MainContent, bool]:
    """The page without what is or looks like boilerplate, and whether it marks its main part."""
    whole = deepcopy(tree)
    body = whole.find("body") if whole.tag == "html" else whole
    body = whole if body is None else body
    strip_boilerplate(body)
    root = _root(body)
    writer = MarkdownWriter(base)
    return MainContent(writer.write(root), writer.links, "page"), root is not body


def strip_boilerplate(body: Any) -> None:
    for element in list(body.iter()):
        if element is not body and _is_boilerplate(element):
            _drop(element)
    total = word_count("".join(body.itertext()))
    for element in list(body.iter("ul", "ol", "div", "section", "table", "td", "p", "dl")):
        if element is not body and _is_link_list(element, total):
            _drop(element)


def _is_boilerplate(element: Any) -> bool:
    tag = element.tag
    if not isinstance(tag, str) or tag in SKIPPED or tag in ("nav", "aside", "footer"):
        return True
    if is_hidden(element) or element.get("role") in _ROLES:
        return True
    if tag == "header":
        return not any(one.tag in ("article", "main", "section") for one in element.iterancestors())
    if tag in ("body", "html", "main", "article", "h1", "code", "pre"):
        return False
    name = f"{element.get('class') or ''} {element.get('id') or ''}"
    return len(name) < 300 and (_BOILERPLATE.search(name) is not None or _COMMENTS.search(name) is not None)


def is_hidden(element: Any) -> bool:
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = (element.get("style") or "").replace(" ", "").lower()
    return "display:none" in style or "visibility:hidden" in style


def _is_link_list(element: Any, words_of_page: int) -> bool:
    """Whether nearly all words are links: a menu, if they are short or the rest of the page is more."""
    links = [word_count("".join(one.itertext())) for one in element.iter("a")]
    if len(links) < 4:
        return False
    total = word_count("".join(element.itertext()))
    if sum(links) >= total * 0.95 and len(links) >= 6 and total < words_of_page * 0.4:
        return True
    return sum(links) >= total * 0.8 and sum(links) / len(links) < 6


def _drop(element: Any) -> None:
    """Removes an element but keeps the text after it."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        before = element.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + element.tail
        else:
            parent.text = (parent.text or "") + element.tail
    parent.remove(element)


def _root(body: Any) -> Any:
    """The element that says it is the main one, if it has most of the words."""
    total = word_count("".join(body.itertext()))
    for path in (
        "//main",
        '//*[@role="main"]',
        '//*[@id="content" or @id="main" or @id="main-content"]',
        "//article",
    ):
        found = body.xpath("." + path)
        if len(found) == 1 and word_count("".join(found[0].itertext())) >= total * 0.4:
            return found[0]
    return body


def _posts(tree: Any) -> Any | None:
    """The posts of a thread under one element, or None if the page is no thread."""
    groups: dict[tuple[Any, str], list[Any]] = {}
    for element in tree.iter("div", "article", "li", "section", "tr", "table", "td"):
        name = f"{element.get('class') or ''} {element.get('itemtype') or ''}"
        itemprop = element.get("itemprop") or ""
        is_post = itemprop in ("suggestedAnswer", "acceptedAnswer", "comment") or (
            len(name) < 300 and _POST.search(name) is not None
        )
        if is_post and not any(one.tag == "footer" for one in element.iterancestors()):
            groups.setdefault((element.getparent(), element.tag), []).append(element)
    candidates = [posts for posts in groups.values() if len(posts) >= 2]
    if not candidates:
        return None
    posts = max(candidates, key=lambda one: sum(word_count("".join(post.itertext())) for post in one))
    if not _is_thread(tree, posts):
        return None
    return _joined_posts(tree, posts)


def _is_thread(tree: Any, posts: list[Any]) -> bool:
    words = [word_count("".join(post.itertext())) for post in posts]
    if sum(words) / len(words) < POST_WORDS:
        return False
    total = word_count(visible_text(tree))
    head = tree.find("head")
    marks = "" if head is None else _text_of_head(head)
    body = tree.find("body")
    marks += (
        ""
        if body is None
        else f" {body.get('id') or ''} {body.get('class') or ''} {body.get('itemtype') or ''}"
    )
    share = sum(words) / max(1, total)
    if _FORUM_MARKS.search(marks) or tree.xpath(
        '//*[contains(@itemtype, "QAPage") or contains(@itemtype, "DiscussionForum")]'
    ):
        return share >= 0.3
    # An article with many comments is no thread: its posts are comments below a longer text.
    in_comments = any(
        _COMMENTS.search(f"{one.get('class') or ''} {one.get('id') or ''}")
        for one in posts[0].iterancestors()
    )
    are_teasers = sum(1 for post in posts if _is_teaser(post)) * 2 > len(posts)
    return share >= 0.6 and not in_comments and not are_teasers and len(posts) >= 3


def _is_teaser(post: Any) -> bool:
    """Whether the heading of a post is a link to the rest: a list of articles, not a thread."""
    return any(
        next(heading.iter("a"), None) is not None or heading.getparent().tag == "a"
        for heading in post.iter("h1", "h2", "h3", "h4")
    )


def _text_of_head(head: Any) -> str:
    parts = [f"{one.get('name')} {one.get('content')}" for one in head.iter("meta")]
    parts += [
        "".join(one.itertext())[:20_000] for one in head.iter("script") if "json" in (one.get("type") or "")
    ]
    return " ".join(parts)


def visible_text(tree: Any) -> str:
    body = tree.find("body")
    root = tree if body is None else body
    return " ".join(_texts(root))


def _texts(element: Any) -> Iterable[str]:
    for one in element.iter():
        if isinstance(one.tag, str) and one.tag not in SKIPPED and one.text:
            yield one.text
        if one.tail:
            yield one.tail


def _joined_posts(tree: Any, posts: list[Any]) -> Any:
    etree: Any = import_module("lxml.etree")  # untyped

    root = etree.Element("div")
    first = posts[0]
    for heading in tree.iter("h1"):
        if first not in heading.iterancestors():
            root.append(deepcopy(heading))
            break
    # The question of a question-and-answer page stands apart from its answers.
    question = tree.xpath('//*[@itemprop="mainEntity" or contains(concat(" ", @class, " "), " question ")]')
    if question and not any(question[0] in post.iterancestors() or question[0] is post for post in posts):
        posts = [question[0], *posts]
    seen: Counter[str] = Counter()
    for post in posts:
        copied = deepcopy(post)
        copied.tail = None
        if copied.tag in ("tr", "td", "li", "table"):
            copied.tag = "div"
        for element in list(copied.iter()):
            if element is not copied and (_is_post_noise(element) or _is_boilerplate(element)):
                _drop(element)
        text = " ".join("".join(copied.itertext()).split())
        seen[text] += 1
        if text and seen[text] == 1:
            root.append(copied)
    return root


def _is_post_noise(element: Any) -> bool:
    if not isinstance(element.tag, str):
        return True
    name = element.get("class") or ""
    return bool(name) and len(name) < 300 and _POST_NOISE.search(name) is not None
