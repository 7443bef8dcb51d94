"""Searches: Composio's own and Hacker News, which need no account, and Tavily, which needs a key."""

from collections.abc import Awaitable, Mapping
from typing import Any

from ..catalogue import Answer, Deed, Tool, ToolFailed, Toolkit
from ..schemas import boolean, choice, closed, integer, text, texts
from .answers import digest, many, one

QUERY = text("What to look for.", minLength=1)
KINDS = {
    "SEARCH": ("Web Search", "Searches the web with Google.", "organic_results"),
    "DUCK_DUCK_GO_SEARCH": ("DuckDuckGo Search", "Searches the web with DuckDuckGo.", "organic_results"),
    "NEWS_SEARCH": ("News Search", "Searches the news for current headlines.", "news_results"),
    "SCHOLAR_SEARCH": ("Scholar Search", "Searches academic papers.", "organic_results"),
    "IMAGE_SEARCH": ("Image Search", "Searches for pictures.", "images_results"),
    "SHOPPING_SEARCH": ("Shopping Search", "Searches products and prices.", "shopping_results"),
    "FINANCE_SEARCH": ("Finance Search", "Searches stocks, currencies and markets.", "markets"),
    "EVENT_SEARCH": ("Event Search", "Searches concerts, fairs and other happenings.", "events_results"),
    "TRENDS_SEARCH": ("Trends Search", "Shows how the interest in a term changes.", "interest_over_time"),
}


def _hit(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    query = arguments.get("query") or arguments.get("q") or arguments.get("content") or arguments.get("url")
    return {
        "position": number + 1,
        "title": f"{query}: result {number + 1}",
        "link": f"https://news.example.com/{digest(query, number)}",
        "snippet": f"What there is to know about {query}.",
        "source": f"Paper {number % 4}",
    }


def _searching(member: str) -> Answer:
    """Ten results; or those whose addresses a test has given the world."""
    invented = many(member, 10, _hit)

    def answer(deed: Deed) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        links = deed.world.search_results
        if not links:
            return invented(deed)
        return {member: [_hit(at, deed.arguments) | {"link": link} for at, link in enumerate(links)]}

    return answer


def _plain(slug: str) -> Tool:
    name, description, member = KINDS[slug]
    answer = _searching(member)
    important = slug in ("SEARCH", "NEWS_SEARCH")
    return Tool(
        f"COMPOSIO_SEARCH_{slug}", name, description, closed(query_=QUERY), answer, important=important
    )


SEARCH = Toolkit(
    "composio_search",
    "Composio Search",
    "Searches of the web, news, scholars, maps, finance and more, with no account.",
    ("Search", "Research"),
    (
        *map(_plain, KINDS),
        Tool(
            "COMPOSIO_SEARCH_TAVILY_SEARCH",
            "Tavily Search",
            "Searches the web with Tavily, with an answer if wanted.",
            closed(
                query_=QUERY,
                search_depth=choice("basic", "advanced", description="How thoroughly.", default="basic"),
                max_results=integer("How many.", default=5, minimum=1, maximum=20),
                include_answer=boolean("With an answer.", default=False),
                include_images=boolean("With pictures.", default=False),
                include_raw_content=boolean("With the pages' text.", default=False),
                include_domains=texts("Only from these."),
                exclude_domains=texts("Not from these."),
            ),
            many("results", 20, _hit, limit="max_results", default=5),
        ),
        Tool(
            "COMPOSIO_SEARCH_GOOGLE_MAPS_SEARCH",
            "Google Maps Search",
            "Searches places and businesses on the map.",
            closed(
                q_=QUERY, ll=text("Where, as @latitude,longitude,zoom."), start=integer("From which one.")
            ),
            many("local_results", 20, _hit),
        ),
        Tool(
            "COMPOSIO_SEARCH_EXA_ANSWER",
            "Exa Answer",
            "Answers a question with citations from the web.",
            closed(content_=text("The question.")),
            many("citations", 5, _hit),
        ),
        Tool(
            "COMPOSIO_SEARCH_EXA_SIMILARLINK",
            "Exa Similar Links",
            "Finds pages like a given one.",
            closed(
                url_=text("The page."),
                numResults=integer("How many.", default=10),
                type=text("Which kind of search."),
                includeDomains=texts("Only from these."),
                excludeDomains=texts("Not from these."),
            ),
            many("results", 10, _hit, limit="numResults", default=10),
        ),
    ),
    schemes=(),
)


def _user(deed: Deed) -> dict[str, Any]:
    name = deed.arguments["username"]
    if not name.isalnum():
        raise ToolFailed(f"No such user: {name!r}")
    return {"username": name, "karma": len(name) * 1000, "about": f"This is {name}."}


HACKERNEWS = Toolkit(
    "hackernews",
    "Hacker News",
    "Hacker News is a forum about technology and start-ups.",
    ("News", "Research"),
    (
        Tool(
            "HACKERNEWS_GET_USER",
            "Get User",
            "Gives the profile of a user.",
            closed(username_=text("The user's name.")),
            _user,
        ),
        Tool(
            "HACKERNEWS_GET_FRONTPAGE",
            "Get Frontpage",
            "Gives the stories on the front page.",
            closed(min_points=integer("At least this many points.")),
            many(
                "hits",
                30,
                lambda number, arguments: {"title": f"Story {number + 1}", "points": 500 - 10 * number},
            ),
            important=True,
        ),
        Tool(
            "HACKERNEWS_GET_ITEM_WITH_ID",
            "Get Item",
            "Gives a story or comment by its number.",
            closed(item_id_=integer("The number.")),
            one(lambda arguments: {"id": arguments["item_id"], "type": "story", "title": "A story"}),
        ),
    ),
    schemes=(),
)

TAVILY = Toolkit(
    "tavily",
    "Tavily",
    "Tavily searches the web for language models.",
    ("Search",),
    (
        Tool(
            "TAVILY_TAVILY_SEARCH",
            "Tavily Search",
            "Searches the web with the connected Tavily key.",
            closed(query_=QUERY, max_results=integer("How many.", default=5, minimum=1, maximum=20)),
            many("results", 20, _hit, limit="max_results", default=5),
            important=True,
        ),
        Tool(
            "TAVILY_EXTRACT",
            "Extract",
            "Gives the text of web pages.",
            closed(urls_=texts("The pages.", minItems=1)),
            one(
                lambda arguments: {"results": [{"url": url, "raw_content": ""} for url in arguments["urls"]]}
            ),
        ),
    ),
    schemes=("API_KEY",),
    managed=False,
    fields=("generic_api_key",),
)

TOOLKITS = (SEARCH, HACKERNEWS, TAVILY)
