"""GitHub."""

from collections.abc import Mapping
from typing import Any

from ..catalogue import Deed, Tool, ToolFailed, Toolkit
from ..schemas import boolean, choice, closed, integer, text, texts
from .answers import digest, done, kept, many, one

OWNER = text("The account or organisation that owns the repository.")
REPO = text("The repository's name, without the owner.")
PER_PAGE = integer("How many on a page.", default=100, minimum=1, maximum=100)
PAGE = integer("Which page.", default=1, minimum=1)
NUMBER = integer("The number of the issue.", minimum=1)
SCOPES = ("repo",)


def _issue(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
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


def _one_issue(deed: Deed) -> dict[str, Any]:
    number = deed.arguments["issue_number"]
    if number > 250:
        raise ToolFailed(f"404 Not Found: issue {number} does not exist")
    return _issue(number - 1, deed.arguments)


def _repository(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    name = f"project-{number + 1}"
    return {
        "id": int(digest("repository", number), 16) % 10**9,
        "name": name,
        "full_name": f"octo/{name}",
        "private": number % 2 == 1,
        "stargazers_count": (number * 37) % 1000,
        "description": f"Project number {number + 1}",
    }


def _pull(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "number": 1000 + number,
        "title": f"Change {number + 1}",
        "state": arguments.get("state") or "open",
        "head": {"ref": f"feature-{number}"},
        "base": {"ref": "main"},
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
                per_page=PER_PAGE,
                page=PAGE,
            ),
            many("issues", 250, _issue, limit="per_page", page="page", default=100),
            important=True,
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_GET_AN_ISSUE",
            "Get an issue",
            "Gives one issue of a repository by its number.",
            closed(owner_=OWNER, repo_=REPO, issue_number_=NUMBER),
            _one_issue,
            scopes=SCOPES,
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
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_UPDATE_AN_ISSUE",
            "Update an issue",
            "Changes an issue: its title, text, state or labels.",
            closed(
                owner_=OWNER,
                repo_=REPO,
                issue_number_=NUMBER,
                title=text("The new title."),
                body=text("The new text."),
                state=choice("open", "closed", description="The new state."),
                labels=texts("The new labels."),
            ),
            done(),
            effect="update",
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_CREATE_AN_ISSUE_COMMENT",
            "Comment on an issue",
            "Writes a comment on an issue or pull request.",
            closed(owner_=OWNER, repo_=REPO, issue_number_=NUMBER, body_=text("The comment, in Markdown.")),
            kept("comments", "body"),
            effect="create",
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_LIST_REPOSITORIES_FOR_THE_AUTHENTICATED_USER",
            "List my repositories",
            "Lists the repositories that the connected user has access to.",
            closed(
                visibility=choice("all", "public", "private", description="Which ones.", default="all"),
                per_page=PER_PAGE,
                page=PAGE,
            ),
            many("repositories", 45, _repository, limit="per_page", page="page", default=30),
            important=True,
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_SEARCH_REPOSITORIES",
            "Search repositories",
            "Searches public repositories by a query.",
            closed(q_=text("The query, with qualifiers."), per_page=PER_PAGE, page=PAGE),
            many("items", 100, _repository, limit="per_page", page="page", default=30),
        ),
        Tool(
            "GITHUB_STAR_A_REPOSITORY_FOR_THE_AUTHENTICATED_USER",
            "Star a repository",
            "Stars a repository for the connected user.",
            closed(owner_=OWNER, repo_=REPO),
            kept("stars", "owner", "repo"),
            effect="update",
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_LIST_PULL_REQUESTS",
            "List pull requests",
            "Lists the pull requests of a repository.",
            closed(
                owner_=OWNER,
                repo_=REPO,
                state=choice("open", "closed", "all", description="Which ones.", default="open"),
                per_page=PER_PAGE,
                page=PAGE,
            ),
            many("pull_requests", 40, _pull, limit="per_page", page="page", default=30),
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_CREATE_A_PULL_REQUEST",
            "Create a pull request",
            "Opens a pull request from one branch to another.",
            closed(
                owner_=OWNER,
                repo_=REPO,
                head_=text("The branch with the changes."),
                base_=text("The branch that takes them."),
                title=text("The title."),
                body=text("The text, in Markdown."),
                draft=boolean("Not ready yet.", default=False),
            ),
            kept("pull_requests", "head", "base", "title"),
            effect="create",
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_GET_REPOSITORY_CONTENT",
            "Get repository content",
            "Gives a file or folder of a repository.",
            closed(owner_=OWNER, repo_=REPO, path_=text("The path."), ref=text("A branch, tag or commit.")),
            one(lambda arguments: {"path": arguments["path"], "content": f"# {arguments['path']}\n"}),
            scopes=SCOPES,
        ),
        Tool(
            "GITHUB_DELETE_A_REPOSITORY",
            "Delete a repository",
            "Deletes a repository for ever.",
            closed(owner_=OWNER, repo_=REPO),
            kept("deletions", "owner", "repo"),
            effect="delete",
            scopes=("delete_repo",),
        ),
    ),
)
