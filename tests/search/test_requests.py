"""How people ask: in several languages, with values in their words, for an act, and for none."""

import pytest

from toolyard.meaning.embedding import TextEmbedding
from toolyard.search.documents import ToolDocument, ToolQuery, fits_well, needs_id
from toolyard.search.literals import has_identifier, named

from .small import OFFICE, found, index_of, tool

REPOSITORY = [
    tool("git", "git_branch", "Lists the branches of a repository"),
    tool("git", "git_log", "Shows the commit logs of a branch"),
    tool("git", "git_create_branch", "Creates a branch"),
]
TRACKER = [
    tool("atlassian", "jira_create_issue_link", "Creates a link between two issues of Jira"),
    tool("atlassian", "jira_create_issue", "Creates an issue in Jira"),
    tool("atlassian", "jira_get_issue", "Gets an issue of Jira by its key", needs_id=True),
    tool("atlassian", "jira_search", "Searches issues of Jira"),
    tool("atlassian", "jira_transition_issue", "Moves an issue of Jira to another status"),
    tool("browser", "close_page", "Closes a page of the browser"),
]
MEMORY = [
    tool("memory", "read_graph", "Reads the whole knowledge graph of the memory"),
    tool("memory", "create_entities", "Creates entities in the knowledge graph of the memory"),
    tool("devtools", "take_heapsnapshot", "Takes a snapshot of the memory of the page's heap"),
]
WIKI = [
    tool("wiki", "retrieve_a_database", "Retrieves a database"),
    tool("wiki", "create_page", "Creates a page, or an entry of a database"),
]
MAIL = [
    tool("mail", "send_email", "Sends an email"),
    tool("mail", "draft_email", "Prepares an email as a draft"),
    tool("mail", "read_email", "Reads an email"),
]
WEB = [
    tool("fetch", "fetch", "Fetches a URL from the internet and returns its contents as markdown"),
    tool("files", "read_text_file", "Reads the contents of a text file"),
    tool("notes", "retrieve_page_property", "Retrieves a property of a page"),
    tool("mail", "read_email", "Reads the content of an email"),
]


@pytest.mark.parametrize(
    ("tools", "use_case", "best"),
    [
        (REPOSITORY, "recent commits on a branch", "git_log"),
        (REPOSITORY, "list the branches", "git_branch"),
        (TRACKER, "create a jira issue", "jira_create_issue"),
        (TRACKER, "link two issues in jira", "jira_create_issue_link"),
        (MEMORY, "store a fact in memory", "create_entities"),
        (MEMORY, "remember that Ana prefers tea", "create_entities"),
        (MEMORY, "what do you have in memory", "read_graph"),
        (WIKI, "add an entry to a database", "create_page"),
        (WIKI, "get a database", "retrieve_a_database"),
        (TRACKER, "find the issues about the login", "jira_search"),
        (TRACKER, "get PROJ-12", "jira_get_issue"),
        (WEB, "read the content of a web page", "fetch"),
        (WEB, "get https://example.com/notes for me", "fetch"),
    ],
)
def test_what_is_wanted_counts_more_than_a_noun_that_tools_share(
    semantic: TextEmbedding, tools: list[ToolDocument], use_case: str, best: str
):
    assert found(index_of(tools, semantic), use_case)[0] == best


@pytest.mark.parametrize(
    "use_case",
    [
        "draft an email without sending it",
        "write an email to Ana, but don't send it yet",
        "escreve um email pra Ana mas não envia ainda",
        "escribe un correo para Ana sin enviarlo",
        "écris un e-mail à Ana sans l'envoyer",
        "schreib eine E-Mail an Ana, ohne sie zu senden",
    ],
)
def test_what_must_not_be_done_is_not_offered_first(semantic: TextEmbedding, use_case: str):
    best = found(index_of(MAIL, semantic), use_case)
    assert best[0] == "draft_email"


def test_what_is_not_negated_is_still_wanted(semantic: TextEmbedding):
    assert found(index_of(MAIL, semantic), "send an email to Ana, not to Bob")[0] == "send_email"


@pytest.mark.parametrize(
    ("use_case", "best"),
    [
        ("envía un correo a Ana", "send_email"),
        ("qué eventos tengo esta semana", "list_events"),
        ("apaga la luz del salón", "turn_off"),
        ("borra este cliente", "delete_customer"),
        ("envoie un e-mail à Ana", "send_email"),
        ("allume la lumière de la cuisine", "turn_on"),
        ("crée un événement dans le calendrier", "createEvent"),
        ("sende eine E-Mail an Ana", "send_email"),
        ("lösche diesen Kunden", "delete_customer"),
        ("wie wird das Wetter morgen", "get_forecast"),
        ("zeig mir die Wettervorhersage", "get_forecast"),
    ],
)
def test_spanish_french_and_german_find_their_tool(semantic: TextEmbedding, use_case: str, best: str):
    assert found(index_of(OFFICE, semantic), use_case)[0] == best


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ("open budget.xlsx", "open file spreadsheet xlsx"),
        ("read /var/log/app/server.log", "read file log"),
        ("list /var/log", "list file directory path"),
        ("see https://example.com/a?b=c now", "see url web now"),
        ("what is at example.com", "what is at url web"),
        ("close PROJ-123", "close issue key"),
        ("write to ana@example.com", "write to email"),
        ("post it in #general", "post it in channel"),
        ("meeting at 9:30 and at 3pm", "meeting at and at"),
        ("docs of next.js", "docs of next.js"),
        ("decode UTF-8", "decode UTF-8"),
        ("v2 of the plan. Then rest", "v2 of the plan. Then rest"),
    ],
)
def test_a_value_is_read_as_what_it_is(written: str, kinds: str):
    assert " ".join(named(written).split()) == kinds


def test_a_request_with_a_number_a_key_or_a_link_identifies_something():
    assert all(map(has_identifier, ("issue #4", "close PROJ-1", "see https://a.b", "order 1042")))
    assert not any(map(has_identifier, ("the page about holidays", "find a customer by name", "3 of them")))


@pytest.mark.parametrize(
    ("schema", "needs"),
    [
        ({"required": ["issue_key"]}, True),
        ({"required": ["pageId", "text"]}, True),
        ({"required": ["query"]}, False),
        ({"required": ["valid", "monkey"]}, False),
        ({"properties": {"id": {}}}, False),
        ({"required": "id"}, False),
        (None, False),
    ],
)
def test_a_schema_tells_whether_one_thing_must_be_named(schema: object, needs: bool):
    assert needs_id(schema) is needs


def test_one_server_does_not_take_every_place_unless_it_is_named(semantic: TextEmbedding):
    shop = [tool("shop", f"list_prices_{kind}", "Lists prices") for kind in ("a", "b", "c", "d", "e")]
    other = [tool("market", "product_prices", "Lists the prices of products")]
    index = index_of([*shop, *other], semantic)
    assert "product_prices" in found(index, "list prices")
    asked = index.search(ToolQuery("list prices in the shop"), 5)
    assert {hit.server for hit in asked} == {"shop"}


def test_a_right_hit_scores_high_and_a_wrong_one_low(semantic: TextEmbedding):
    index = index_of(OFFICE, semantic)
    right = index.search(ToolQuery("send an email to Ana"), 5)
    wrong = index.search(ToolQuery("grind the coffee beans coarsely"), 5)
    assert fits_well(hit.score for hit in right)
    assert not fits_well(hit.score for hit in wrong)
    assert not fits_well([])


def test_the_parts_of_a_score_make_it_up(semantic: TextEmbedding):
    for hit in index_of(TRACKER, semantic).search(ToolQuery("close the jira issue"), 5):
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=0.002)
