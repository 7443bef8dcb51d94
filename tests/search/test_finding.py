"""What is found for a use case, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.meaning.embedding import TextEmbedding
from toolyard.search.documents import ToolQuery

from .small import OFFICE, found, index_of, tool


@pytest.mark.parametrize(
    ("use_case", "best"),
    [
        ("send an email to Ana", "send_email"),
        ("what will the weather be like in Lisbon tomorrow", "get_forecast"),
        ("make a PDF out of this document", "convert_to_pdf"),
        ("invite attendees to a meeting event", "createEvent"),
        ("turn off the light", "turn_off"),
        ("turn on the light", "turn_on"),
        ("read the text file at this path", "read_file"),
    ],
)
def test_the_tool_that_fits_comes_first(semantic: TextEmbedding, use_case: str, best: str):
    assert found(index_of(OFFICE, semantic), use_case)[0] == best


@pytest.mark.parametrize(
    ("use_case", "best"),
    [
        ("ligar a luz da sala", "turn_on"),
        ("desligar a luz", "turn_off"),
        ("enviar um email para a equipe", "send_email"),
        ("previsão do tempo para a cidade", "get_forecast"),
        ("consulta ao banco de dados", "consultar_sql"),
    ],
)
def test_a_portuguese_use_case_finds_its_tool_whatever_language_that_is_in(
    semantic: TextEmbedding, use_case: str, best: str
):
    assert found(index_of(OFFICE, semantic), use_case)[0] == best


def test_an_english_use_case_finds_a_portuguese_tool(semantic: TextEmbedding):
    assert found(index_of(OFFICE, semantic), "query the rows of a database")[0] == "consultar_sql"


def test_each_step_of_a_whole_task_finds_its_tool(semantic: TextEmbedding):
    task = (
        "Look up the weather forecast for Porto. Then create a calendar event for the picnic, "
        "convert the invitation to PDF, and send it by email to everybody."
    )
    best = found(index_of(OFFICE, semantic), task)
    assert {"get_forecast", "createEvent", "convert_to_pdf", "send_email"} <= set(best)


def test_a_tool_that_destroys_is_not_above_one_that_reads_when_something_is_only_asked(
    semantic: TextEmbedding,
):
    index = index_of(OFFICE, semantic)
    for asking in (
        "show the customer's details",
        "customer details",
        "list the last post of a customer",
        "ver cliente",
    ):
        order = found(index, asking, 12)
        assert order.index("get_customer") < order.index("delete_customer")
    for doing in (
        "delete the customer's details",
        "find the customer's details and delete them",
        "apagar cliente",
    ):
        assert found(index, doing)[0] == "delete_customer"


def test_a_tool_that_only_its_name_calls_destructive_is_treated_as_one(semantic: TextEmbedding):
    index = index_of([tool("db", "drop_table", "A table"), tool("db", "table_rows", "A table")], semantic)
    assert found(index, "look at a table")[0] == "table_rows"
    assert found(index, "drop a table")[0] == "drop_table"


REPOSITORY = [
    tool("git", "git_commit", "Records changes to the repository", read_only=False),
    tool("git", "git_log", "Shows the commit logs", read_only=True),
]


@pytest.mark.parametrize(
    "asking",
    ["recent commits", "show the commits", "who committed last", "últimos commits", "listar commits"],
)
def test_a_tool_that_changes_something_is_below_one_that_reads_when_something_is_only_asked(
    semantic: TextEmbedding, asking: str
):
    assert found(index_of(REPOSITORY, semantic), asking)[0] == "git_log"


@pytest.mark.parametrize("doing", ["commit my changes", "commit", "make a commit of the changes"])
def test_a_tool_that_changes_something_is_first_when_that_is_wanted(semantic: TextEmbedding, doing: str):
    assert found(index_of(REPOSITORY, semantic), doing)[0] == "git_commit"


def test_without_hints_a_name_says_whether_a_tool_changes_something(semantic: TextEmbedding):
    shop = [
        tool("shop", "set_price", "The price of an article"),
        tool("shop", "price_of", "The price of an article"),
    ]
    index = index_of(shop, semantic)
    assert found(index, "what is the price of the article")[0] == "price_of"
    assert found(index, "set the price of the article")[0] == "set_price"


def test_a_question_about_changes_wants_to_know_and_not_to_change(semantic: TextEmbedding):
    files = [
        tool("files", "modify_files", "Modified files", read_only=False),
        tool("files", "modified_files", "Modified files", read_only=True),
    ]
    index = index_of(files, semantic)
    for asking in (
        "which files have I modified",
        "when was the file modified",
        "files modified today",
        "what files did Bob modify",
    ):
        assert found(index, asking)[0] == "modified_files"
    for doing in (
        "modify the file",
        "find the file and modify it",
        "is there a way to modify the files",
        "how do I modify files",
    ):
        assert found(index, doing)[0] == "modify_files"


def test_who_names_a_thing_alone_wants_to_see_it_and_nothing_special_done_with_it(semantic: TextEmbedding):
    clock = [
        tool("time", "convert_time", "Convert time between timezones", read_only=True),
        tool("time", "get_current_time", "Get current time in a specific timezone", read_only=True),
    ]
    index = index_of(clock, semantic)
    assert found(index, "time in Tokyo")[0] == "get_current_time"
    assert found(index, "convert time from Tokyo to Lisbon")[0] == "convert_time"


@pytest.mark.parametrize(
    "words",
    [
        "Reads a text file. DEPRECATED: use read_text instead",
        "[Deprecated] Reads a text file",
        "Deprecated: reads a text file",
        "Reads a text file. This tool is deprecated.",
        "Reads a text file (deprecated in favor of read_text)",
        "Reads a text file. Deprecated, please use read_text.",
        "Lê um arquivo de texto. Esta ferramenta foi descontinuada. Reads a text file",
    ],
)
def test_a_tool_that_calls_itself_deprecated_is_below_the_one_that_took_its_place(
    semantic: TextEmbedding, words: str
):
    old = tool("files", "read_text_file", words)
    index = index_of([old, tool("files", "read_text", "Reads a file")], semantic)
    hits = index.search(ToolQuery("read a text file"), 2)
    assert [hit.tool for hit in hits] == ["mcp__files__read_text", "mcp__files__read_text_file"]
    assert hits[1].parts["deprecated"] < 0


@pytest.mark.parametrize(
    "words",
    [
        "Lists the deprecated functions of a library",
        "Finds uses of deprecated calls. The argument `old` is deprecated.",
        "Replaces obsolete packages (also deprecations)",
    ],
)
def test_a_tool_about_deprecated_things_is_not_deprecated(semantic: TextEmbedding, words: str):
    (hit,) = index_of([tool("code", "deprecations", words)], semantic).search(ToolQuery("deprecations"), 1)
    assert "deprecated" not in hit.parts


def test_what_people_call_otherwise_than_tools_do_is_found(semantic: TextEmbedding):
    index = index_of([*OFFICE, tool("memory", "create_entities", "Entities in a graph")], semantic)
    assert found(index, "remember that Alice works at Acme")[0] == "create_entities"
    assert "create_entities" in found(index, "lembre que Alice trabalha na Acme", 3)


def test_a_heavy_tool_is_below_its_light_twin_unless_it_is_asked_for(semantic: TextEmbedding):
    twins = [tool("crm", "export_contacts", "Contacts"), tool("crm", "find_contacts", "Contacts")]
    index = index_of(twins, semantic)
    assert found(index, "contacts")[0] == "find_contacts"
    assert found(index, "export my contacts")[0] == "export_contacts"


def test_a_tool_whose_results_turned_out_big_sinks_and_comes_back_when_they_are_small_again(
    semantic: TextEmbedding,
):
    twins = [tool("a", "contacts_one", "Contacts"), tool("a", "contacts_two", "Contacts")]
    index = index_of(twins, semantic)
    assert found(index, "contacts") == ["contacts_one", "contacts_two"]
    index.sizes.note("mcp__a__contacts_one", 900_000)
    assert found(index, "contacts") == ["contacts_two", "contacts_one"]
    for _ in range(40):
        index.sizes.note("mcp__a__contacts_one", 500)
    assert found(index, "contacts") == ["contacts_one", "contacts_two"]


def test_measured_sizes_outweigh_what_a_name_promises(semantic: TextEmbedding):
    index = index_of([tool("a", "dump_stock", "Stock"), tool("a", "stock", "Stock")], semantic)
    index.sizes.note("mcp__a__dump_stock", 300)
    hits = {hit.tool: hit for hit in index.search(ToolQuery("stock"), 5)}
    assert "heavy" not in hits["mcp__a__dump_stock"].parts


def test_a_pinned_tool_is_above_its_twin_but_not_above_what_fits_better(semantic: TextEmbedding):
    pinned = tool("b", "weather_report", "Weather report for a city", pinned=True)
    index = index_of([tool("a", "weather_report", "Weather report for a city"), pinned, *OFFICE], semantic)
    assert index.search(ToolQuery("weather report for a city"), 1)[0].tool == "mcp__b__weather_report"
    assert found(index, "send an email")[0] == "send_email"


def test_tools_of_servers_that_are_down_or_not_connected_are_marked_and_lowered(semantic: TextEmbedding):
    three = [tool(server, "find_contacts", "Finds contacts") for server in ("a", "b", "c")]
    index = index_of(three, semantic)
    states = {"a": "down", "b": "unconnected", "c": "up"}
    hits = index.search(ToolQuery("find contacts"), 5, state_of=states.__getitem__)
    assert [hit.server for hit in hits] == ["c", "b", "a"]
    assert [hit.parts.get("unavailable", 0) < 0 for hit in hits] == [False, True, True]


def test_the_parts_of_a_score_add_up_to_it(semantic: TextEmbedding):
    index = index_of([tool("a", "export_mail", "Sends an email", pinned=True), *OFFICE], semantic)
    hits = index.search(ToolQuery("send an email"), 9, boosts={"mcp__mail__send_email": 0.05})
    assert len(hits) > 3
    for hit in hits:
        assert 0 < hit.score <= 1
        assert hit.score == pytest.approx(sum(hit.parts.values()), abs=0.001)
    assert {"lexical", "semantic", "pinned", "heavy", "learnt"} <= {
        part for hit in hits for part in hit.parts
    }


def test_only_what_the_caller_may_see_is_found_even_when_that_is_little_of_much(semantic: TextEmbedding):
    many = [tool("big", f"find_contacts_{number}", "Finds contacts") for number in range(400)]
    index = index_of([*many, *OFFICE], semantic)
    allowed = {"mcp__mail__search_inbox", "mcp__big__find_contacts_399"}
    hits = index.search(ToolQuery("find contacts in the inbox"), 5, among=allowed.__contains__)
    assert {hit.tool for hit in hits} == allowed


def test_a_query_for_one_server_finds_only_its_tools(semantic: TextEmbedding):
    hits = index_of(OFFICE, semantic).search(ToolQuery("send an email", server="calendar"), 5)
    assert {hit.server for hit in hits} == {"calendar"}


def test_what_is_said_of_a_server_tells_its_tools_from_those_of_its_twins(semantic: TextEmbedding):
    about = {"a": "orders of the shop in Berlin", "b": "HR: staff and salaries", "c": ""}
    tools = [
        tool(server, name, words, about=text)
        for server, text in about.items()
        for name, words in (("query", "Runs a query on a database"), ("list_tables", "Lists the tables"))
    ]
    index = index_of(tools, semantic)
    for use_case, best in (
        ("query the orders of the shop in Berlin", "mcp__a__query"),
        ("which tables do the staff's salaries have", "mcp__b__list_tables"),
    ):
        assert index.search(ToolQuery(use_case), 1)[0].tool == best
    assert index.search(ToolQuery("what we pay our employees"), 1)[0].server == "b"


def test_what_is_said_of_a_server_counts_less_than_the_words_of_tools(semantic: TextEmbedding):
    words = "emails, events and files: to send an email, read a text file, list the events of a week"
    diary = [
        tool("diary", "add_entry", "Adds an entry", about=words),
        tool("diary", "undo", "Undoes", about=words),
    ]
    index = index_of([*OFFICE, *diary], semantic)
    for use_case, best in (
        ("send an email to Ana", "send_email"),
        ("list the events of the week", "list_events"),
        ("read a text file", "read_file"),
        ("undo the entry", "undo"),
    ):
        assert found(index, use_case)[0] == best


def test_known_fields_tell_apart_what_the_use_case_does_not(semantic: TextEmbedding):
    by_id = tool("x", "profile_a", "Shows a profile", parameters=(("account_id", "The account"),))
    by_mail = tool("x", "profile_b", "Shows a profile", parameters=(("mail_address", "The address"),))
    index = index_of([by_id, by_mail], semantic)
    for fields, best in (("account_id: 17", "profile_a"), ("mail_address: a@example.com", "profile_b")):
        assert index.search(ToolQuery("a profile", known_fields=fields), 1)[0].tool == f"mcp__x__{best}"


def test_a_category_lifts_its_tools(semantic: TextEmbedding):
    notes = [tool("finance", "add_note", "Adds a note"), tool("health", "add_note", "Adds a note")]
    index = index_of(notes, semantic)
    for category in ("finance", "health"):
        assert index.search(ToolQuery("add a note", category=category), 1)[0].server == category


def test_better_evidence_means_a_higher_score(semantic: TextEmbedding):
    index = index_of(OFFICE, semantic)
    exact = index.search(ToolQuery("send an email to some people"), 1)[0].score
    vague = index.search(ToolQuery("people who enjoy astronomy on Sundays"), 1)
    assert not vague or exact > 2 * vague[0].score


def test_a_limit_is_kept_and_the_order_does_not_depend_on_it(semantic: TextEmbedding):
    index = index_of(OFFICE, semantic)
    query = ToolQuery("events of the week in the calendar and the weather")
    whole = index.search(query, 12)
    assert index.search(query, 3) == whole[:3]
    assert index.search(query, 0) == []


ODD = [
    "",
    "   ",
    "🙂🙃",
    "\x00\x01",
    "((((.*+?[a-z]{2,})\\",
    "a" * 10_000,
    "send " * 2000,
    "and and, and; and. e e e",
    "发送电子邮件",
    "\ud800",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_queries_are_answered(semantic: TextEmbedding, text: str):
    index = index_of(OFFICE, semantic)
    odd = ToolQuery(text, known_fields=text, category=text)
    assert index.search(odd, 5) == index.search(odd, 5)
    assert index.nearest(text) == index.nearest(text)


@given(st.text(max_size=200))
def test_any_text_gets_scores_in_order_and_within_bounds(semantic: TextEmbedding, text: str):
    hits = index_of(OFFICE, semantic).search(ToolQuery(text), 12)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


def test_nothing_mounted_finds_nothing(semantic: TextEmbedding):
    index = index_of([], semantic)
    assert (index.search(ToolQuery("send an email"), 5), index.nearest("send"), len(index)) == ([], [], 0)
