"""Composio's own search toolkit; no account is needed."""

from typing import Any

from ..catalogue import Tool, Toolkit
from ..schemas import closed, text
from .answers import digest, many


def _news(number: int, arguments: Any) -> dict[str, Any]:
    query = arguments["query"]
    return {
        "position": number + 1,
        "title": f"{query}: story {number + 1}",
        "link": f"https://news.example.com/{digest(query, number)}",
        "snippet": f"What is new about {query}.",
        "source": f"Paper {number % 4}",
    }


SEARCH = Toolkit(
    "composio_search",
    "Composio Search",
    "Searches of the web, news, scholars, maps, finance and more, with no account.",
    ("Search", "Research"),
    (
        Tool(
            "COMPOSIO_SEARCH_NEWS_SEARCH",
            "News Search",
            "Searches the news for a query.",
            closed(query_=text("What to look for.")),
            many("news_results", 10, _news),
            important=True,
        ),
    ),
    schemes=(),
)

TOOLKITS = (SEARCH,)
