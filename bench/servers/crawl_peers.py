"""Other extractors of main content, for the table of `bench.servers.crawl`, in an environment of their own.

Reads a JSON list of HTML pages from standard input; writes the texts by extractor. Imports nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any


def extractors() -> dict[str, Callable[[str], str]]:
    filters: Any = import_module("crawl4ai.content_filter_strategy")
    makers: Any = import_module("crawl4ai.markdown_generation_strategy")
    html: Any = import_module("lxml.html")
    document: Any = import_module("readability").Document

    def readability(page: str) -> str:
        return html.fromstring(document(page).summary()).text_content()

    # The settings of the seed's server.
    excluded = ("nav", "footer", "header", "aside", "script", "style")
    maker = makers.DefaultMarkdownGenerator(
        content_filter=filters.PruningContentFilter(
            threshold=0.5, threshold_type="fixed", min_word_threshold=10
        ),
        options={"ignore_links": True, "ignore_images": True},
    )

    def pruning(page: str) -> str:
        tree = html.fromstring(page)
        for element in list(tree.iter(*excluded)):
            element.drop_tree()
        found = maker.generate_markdown(html.tostring(tree, encoding="unicode"), base_url="http://a.example/")
        return found.fit_markdown or found.raw_markdown

    return {"readability-lxml": readability, "crawl4ai's pruning filter": pruning}


def main() -> None:
    pages: list[str] = json.load(sys.stdin)
    out: dict[str, dict[str, object]] = {}
    for name, extract in extractors().items():
        began, texts = time.process_time(), []
        for page in pages:
            try:
                texts.append(extract(page))
            except Exception as error:  # a peer that fails on a page found nothing there
                print(f"{name}: {error}", file=sys.stderr)
                texts.append("")
        out[name] = {"texts": texts, "cpu": time.process_time() - began}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
