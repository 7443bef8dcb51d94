"""Slack, Trello, Notion, Linear."""

from collections.abc import Mapping
from typing import Any

from ..catalogue import Tool, Toolkit
from ..schemas import boolean, closed, free, integer, text
from .answers import digest, done, kept, many

CHANNEL = text("The id or name of a channel.")
LIMIT = integer("How many.", default=100, minimum=1, maximum=1000)


def _channel(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    name = ("general", "random", "engineering", "sales", "support")[number % 5] + (
        "" if number < 5 else str(number // 5)
    )
    return {"id": f"C{number:08d}", "name": name, "num_members": 10 + number, "is_archived": False}


def _message(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    about = arguments.get("query") or arguments.get("channel") or "the channel"
    return {
        "ts": f"17880000{number:02d}.000100",
        "user": f"U{number % 9:08d}",
        "text": f"Message {number + 1} about {about}",
        "reactions": [],
    }


def _thing(kind: str) -> Any:
    def row(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
        scope = "/".join(str(value) for value in arguments.values())
        return {"id": digest(kind, scope, number, size=24), "name": f"{kind.title()} {number + 1}"}

    return row


SLACK = Toolkit(
    "slack",
    "Slack",
    "Slack is where teams talk: channels, direct messages, threads, reactions.",
    ("Communication", "Team Chat", "Popular"),
    (
        Tool(
            "SLACK_SEND_MESSAGE",
            "Send message",
            "Posts a message to a Slack channel, direct message or thread.",
            closed(
                channel_=CHANNEL,
                text=text("The message, in Slack's markup."),
                markdown_text=text("The message, in Markdown."),
                thread_ts=text("Reply in this thread."),
                unfurl_links=boolean("Show previews of links."),
            ),
            kept("messages", "channel", "text"),
            effect="create",
            important=True,
        ),
        Tool(
            "SLACK_LIST_ALL_CHANNELS",
            "List channels",
            "Lists the conversations of the workspace that the user may see.",
            closed(exclude_archived=boolean("Without archived ones.", default=False), limit=LIMIT),
            many("channels", 23, _channel, limit="limit", default=100),
            important=True,
        ),
        Tool(
            "SLACK_FETCH_CONVERSATION_HISTORY",
            "Fetch conversation history",
            "Gives the messages of a channel, newest first.",
            closed(channel_=CHANNEL, limit=LIMIT, oldest=text("Not before."), latest=text("Not after.")),
            many("messages", 90, _message, limit="limit", default=100),
        ),
        Tool(
            "SLACK_SEARCH_MESSAGES",
            "Search messages",
            "Searches the messages of the workspace.",
            closed(query_=text("What to look for."), count=integer("How many.", default=20)),
            many("matches", 50, _message, limit="count", default=20),
        ),
        Tool(
            "SLACK_ADD_REACTION_TO_AN_ITEM",
            "Add reaction",
            "Adds an emoji reaction to a message.",
            closed(channel_=CHANNEL, timestamp_=text("The message."), name_=text("The emoji's name.")),
            done(ok=True),
            effect="update",
        ),
        Tool(
            "SLACK_FIND_USERS",
            "Find users",
            "Finds people of the workspace by name or address.",
            closed(search_query_=text("A part of a name or address."), limit=LIMIT),
            many("members", 12, _thing("person"), limit="limit", default=100),
        ),
        Tool(
            "SLACK_CREATE_CHANNEL",
            "Create channel",
            "Creates a public or private channel.",
            closed(name_=text("Its name."), is_private=boolean("Only by invitation.", default=False)),
            kept("channels", "name"),
            effect="create",
        ),
    ),
)

TRELLO = Toolkit(
    "trello",
    "Trello",
    "Trello organises work in boards, lists and cards.",
    ("Project Management", "Productivity"),
    (
        Tool(
            "TRELLO_GET_MEMBERS_BOARDS_BY_ID_MEMBER",
            "Get a member's boards",
            "Lists the boards of a member; `me` is the connected one.",
            closed(idMember_=text("The member.", default="me"), filter=text("Which boards.", default="all")),
            many("details", 6, _thing("board")),
            important=True,
        ),
        Tool(
            "TRELLO_GET_BOARDS_LISTS_BY_ID_BOARD",
            "Get a board's lists",
            "Lists the lists of a board.",
            closed(idBoard_=text("The board."), filter=text("Which lists.", default="open")),
            many("details", 4, _thing("list")),
        ),
        Tool(
            "TRELLO_GET_LISTS_CARDS_BY_ID_LIST",
            "Get a list's cards",
            "Lists the cards of a list.",
            closed(idList_=text("The list.")),
            many("details", 35, _thing("card")),
        ),
        Tool(
            "TRELLO_ADD_CARDS",
            "Add card",
            "Creates a card in a list.",
            closed(
                idList_=text("The list that gets it."),
                name=text("Its title."),
                desc=text("Its text."),
                due=text("When it is due, ISO 8601."),
                idLabels=text("Labels, separated by commas."),
            ),
            kept("cards", "name", "idList"),
            effect="create",
            important=True,
        ),
        Tool(
            "TRELLO_UPDATE_CARDS_BY_ID_CARD",
            "Update card",
            "Changes a card, or moves it to another list.",
            closed(
                idCard_=text("The card."),
                name=text("The new title."),
                desc=text("The new text."),
                idList=text("The new list."),
                closed=boolean("Archive it."),
            ),
            done(),
            effect="update",
        ),
        Tool(
            "TRELLO_ADD_BOARDS",
            "Add board",
            "Creates a board.",
            closed(name_=text("Its name."), desc=text("What it is for.")),
            kept("boards", "name"),
            effect="create",
        ),
        Tool(
            "TRELLO_DELETE_CARDS_BY_ID_CARD",
            "Delete card",
            "Deletes a card for ever.",
            closed(idCard_=text("The card.")),
            done(),
            effect="delete",
        ),
    ),
)

NOTION = Toolkit(
    "notion",
    "Notion",
    "Notion holds notes, documents, wikis and databases.",
    ("Productivity", "Document Storage"),
    (
        Tool(
            "NOTION_SEARCH_NOTION_PAGE",
            "Search pages",
            "Searches the pages and databases that are shared with the integration.",
            closed(query=text("A text in the title."), page_size=integer("How many.", default=10)),
            many("results", 25, _thing("page"), limit="page_size", default=10),
            important=True,
        ),
        Tool(
            "NOTION_CREATE_NOTION_PAGE",
            "Create page",
            "Creates a page under another page or in a database.",
            closed(parent_id_=text("What it is under."), title_=text("Its title."), icon=text("An emoji.")),
            kept("pages", "title", "parent_id"),
            effect="create",
            important=True,
        ),
        Tool(
            "NOTION_ADD_PAGE_CONTENT",
            "Add page content",
            "Appends a block of content to a page.",
            closed(parent_block_id_=text("The page or block."), content_block_=free("The block.")),
            kept("blocks", "parent_block_id"),
            effect="update",
        ),
        Tool(
            "NOTION_FETCH_DATABASE",
            "Fetch database",
            "Gives the structure of a database.",
            closed(database_id_=text("The database.")),
            many("properties", 7, _thing("property")),
        ),
        Tool(
            "NOTION_QUERY_DATABASE",
            "Query database",
            "Gives the rows of a database, sorted.",
            closed(
                database_id_=text("The database."),
                page_size=integer("How many.", default=100, minimum=1, maximum=100),
            ),
            many("results", 300, _thing("row"), limit="page_size", default=100),
        ),
        Tool(
            "NOTION_DELETE_BLOCK",
            "Delete block",
            "Archives a block or a page.",
            closed(block_id_=text("The block.")),
            done(),
            effect="delete",
        ),
    ),
)

LINEAR = Toolkit(
    "linear",
    "Linear",
    "Linear tracks the issues and projects of software teams.",
    ("Project Management", "Developer Tools"),
    (
        Tool(
            "LINEAR_CREATE_LINEAR_ISSUE",
            "Create issue",
            "Creates an issue for a team.",
            closed(
                team_id_=text("The team."),
                title_=text("The title."),
                description=text("The text, in Markdown."),
                priority=integer("0 to 4; 1 is urgent.", minimum=0, maximum=4),
            ),
            kept("linear_issues", "title"),
            effect="create",
            important=True,
        ),
        Tool(
            "LINEAR_LIST_LINEAR_ISSUES",
            "List issues",
            "Lists the issues of a project or of all.",
            closed(project_id=text("Only this project."), first=integer("How many.", default=10, minimum=1)),
            many("issues", 70, _thing("issue"), limit="first", default=10),
            important=True,
        ),
        Tool(
            "LINEAR_LIST_LINEAR_TEAMS",
            "List teams",
            "Lists the teams of the workspace.",
            closed(),
            many("teams", 3, _thing("team")),
        ),
    ),
)

TOOLKITS = (SLACK, TRELLO, NOTION, LINEAR)
