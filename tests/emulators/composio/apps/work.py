"""GitHub."""

from typing import Any

from ..catalogue import Tool, Toolkit
from ..schemas import choice, closed, integer, text, texts
from .answers import digest, kept, many

OWNER = text("The account or organisation that owns the repository.")
REPO = text("The repository's name, without the owner.")


def _issue(number: int, arguments: Any) -> dict[str, Any]:
    place = f"{arguments['owner']}/{arguments['repo']}"
    return {
        "id": int(digest(place, number), 16) % 10**9,
        "number": number + 1,
        "title": f"Issue {number + 1} of {place}",
        "state": arguments.get("state") or "open",
        "html_url": f"https://github.example.com/{place}/issues/{number + 1}",
        "user": {"login": f"user{number % 7}"},
        "labels": [{"name": ("bug", "feature", "question")[number % 3]}],
        "comments": number % 11,
        "created_at": f"2026-06-{number % 28 + 1:02d}T10:00:00Z",
        "body": f"What was expected, and what happened instead, in report {number + 1}. " * 4,
    }


GITHUB = Toolkit(
    "github",
    "GitHub",
    "GitHub hosts code: repositories, issues, pull requests, actions.",
    ("Developer Tools", "Popular"),
    (
        Tool(
            "GITHUB_LIST_ISSUES",
            "List repository issues",
            "Lists the issues of a repository, open ones unless another state is asked for.",
            closed(
                owner_=OWNER,
                repo_=REPO,
                state=choice("open", "closed", "all", description="Which ones.", default="open"),
                labels=text("Names of labels, separated by commas."),
                per_page=integer("How many on a page.", default=100, minimum=1, maximum=100),
                page=integer("Which page.", default=1, minimum=1),
            ),
            many("issues", 250, _issue, limit="per_page", page="page", default=100),
            important=True,
            scopes=("repo",),
        ),
        Tool(
            "GITHUB_CREATE_AN_ISSUE",
            "Create an issue",
            "Opens a new issue in a repository where issues are enabled.",
            closed(
                owner_=OWNER,
                repo_=REPO,
                title_=text("The issue's title."),
                body=text("Its text, in Markdown."),
                labels=texts("Names of labels."),
                assignees=texts("Logins of those who take it."),
            ),
            kept("issues", "title", "labels"),
            effect="create",
            important=True,
            scopes=("repo",),
        ),
    ),
)

TOOLKITS = (GITHUB,)
