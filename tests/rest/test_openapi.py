"""From an OpenAPI document to a table: what becomes of it, what is left out, and that the result works."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import Toolyard
from tests.rest.loopback import Loopback, reply
from toolyard import Client
from toolyard.rest.definition.loader import check
from toolyard.rest.definition.model import ApiDefinition, ParameterDefinition
from toolyard.rest.openapi import Conversion, ConversionOptions, OpenApiDocument, OpenApiError, convert
from toolyard.rest.server import RestSettings, build

BOOKSHOP = Path(__file__).with_name("bookshop.yaml")


def made(document: Any, **wishes: Any) -> tuple[Conversion, ApiDefinition]:
    """Whatever is made must load."""
    found = convert(OpenApiDocument(document), ConversionOptions(**wishes), "the-document")
    return found, check(found.text, Path("made.toml"))


@pytest.fixture(scope="module")
def bookshop() -> tuple[Conversion, ApiDefinition]:
    return made(yaml.safe_load(BOOKSHOP.read_text("utf-8")))


def small(**operation: Any) -> dict[str, Any]:
    """A document of one operation."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Small", "version": "1"},
        "servers": [{"url": "https://small.example"}],
        "paths": {"/things": {"get": {"responses": {}, **operation}}},
    }


def of_query(**parameter: Any) -> dict[str, ParameterDefinition]:
    _, table = made(small(parameters=[{"in": "query", "name": "q", **parameter}]))
    return table.tools["get_things"].parameters


def test_the_server_is_named_placed_and_keyed_as_the_document_says(
    bookshop: tuple[Conversion, ApiDefinition],
):
    _, table = bookshop
    assert (table.name, table.title) == ("bookshop", "Bookshop API")
    assert table.base_url == "https://eu.bookshop.example/v2"
    assert (table.auth.kind, table.auth.name, table.auth.variable) == (
        "header",
        "X-Shop-Key",
        "BOOKSHOP_API_KEY",
    )


def test_operations_become_tools_with_unique_names_that_clients_accept(
    bookshop: tuple[Conversion, ApiDefinition],
):
    _, table = bookshop
    methods = {name: (tool.method, tool.path) for name, tool in table.tools.items()}
    assert methods == {
        "books_list": ("GET", "/books"),
        "addBook": ("POST", "/books"),
        "getBook": ("GET", "/books/{book-id}"),
        "getBook_2": ("PUT", "/books/{book-id}"),
        "delete_books_by_book_id": ("DELETE", "/books/{book-id}"),
        "uploadTheCoverOfABookWithAVeryLongNameThatGoesOnAndOnAndOnAndOnF": (
            "POST",
            "/books/{book-id}/cover",
        ),
        "put_books_by_book_id_cover": ("PUT", "/books/{book-id}/cover"),
        "listLoans": ("GET", "/loans"),
        "lend": ("POST", "/loans"),
        "listEvents": ("GET", "/events"),
        "importAll": ("POST", "/shelves/{shelf}/import"),
        "getShelf": ("GET", "/shelves/{shelf}"),
    }
    assert table.tools["getBook_2"].description == "Deprecated. Change a book"


def test_tags_become_groups_by_which_tools_are_chosen(bookshop: tuple[Conversion, ApiDefinition]):
    _, table = bookshop
    assert table.tools["addBook"].groups == ("books",)
    assert table.tools["lend"].groups == ("loans",)
    assert table.tools["listEvents"].groups == ()
    _, spoken = made(small(tags=["Pet Store", "pet store", "書"]))
    assert spoken.tools["get_things"].groups == ("pet-store",)


def test_parameters_keep_their_places_types_limits_and_what_the_api_calls_them(
    bookshop: tuple[Conversion, ApiDefinition],
):
    _, table = bookshop
    listing = table.tools["books_list"].parameters
    assert listing["X-Trace"].place == "header"
    assert listing["genre"].schema["enum"] == ["novel", "poem", "no"]
    assert (listing["authors"].type, listing["authors"].schema) == ("array", {"items": {"type": "integer"}})
    assert (listing["langs"].type, "commas" in listing["langs"].description) == ("string", True)
    assert listing["filter_year"].name == "filter[year]"
    assert table.shared["book-id"].schema == {"exclusiveMinimum": 0}
    changing = table.tools["getBook_2"].parameters
    assert (changing["notify"].place, changing["body_book-id"].name) == ("query", "book-id")


def test_bodies_are_taken_apart_one_level_deep(bookshop: tuple[Conversion, ApiDefinition]):
    _, table = bookshop
    adding = table.tools["addBook"].parameters
    assert "id" not in adding, "the API gives it"
    assert adding["title"].required
    assert adding["price"].type == ("number", "null")
    assert adding["genre"].default == "novel"
    assert adding["shelf"].schema["properties"]["name"] == {"type": "string"}
    cover = table.tools["uploadTheCoverOfABookWithAVeryLongNameThatGoesOnAndOnAndOnAndOnF"]
    assert (cover.body, cover.parameters["image"].place, cover.parameters["image"].max_files) == (
        "multipart",
        "file",
        1,
    )
    lending = table.tools["lend"]
    assert lending.body == "form"
    assert {name: item.required for name, item in lending.parameters.items()} == {
        "book": True,
        "card": False,
        "reader": False,
    }


def test_paging_is_recognised_by_its_parameters_and_its_reply(bookshop: tuple[Conversion, ApiDefinition]):
    _, table = bookshop
    pages = table.paging[table.tools["books_list"].paging]
    assert (pages.kind, pages.position, pages.first, pages.size) == ("page", "page", 1, "per_page")
    assert (pages.default, pages.most, pages.total) == (10, 50, "total")
    assert table.tools["books_list"].result.items == "books"
    cursors = table.paging[table.tools["listLoans"].paging]
    assert (cursors.kind, cursors.position, cursors.next) == ("cursor", "cursor", "meta.next_cursor")


def test_what_is_left_out_or_unsure_is_said_and_stands_in_the_comments(
    bookshop: tuple[Conversion, ApiDefinition],
):
    found, _ = bookshop
    said = "\n".join(found.notes)
    for told in (
        "HEAD /books: no tool is made of this method",
        "the cookie 'session' is left out",
        "'isbn.13' is left out",
        "'Key' is used; other security schemes: SignIn",
        "the pattern of 'X-Trace' is left out",
        "seems to be paged (offset)",
    ):
        assert told in said
        assert told in "".join(line for line in found.text.splitlines() if line.startswith("#"))


def test_a_schema_that_holds_itself_ends_somewhere(bookshop: tuple[Conversion, ApiDefinition]):
    _, table = bookshop
    assert table.tools["getShelf"].output["properties"]["data"]["properties"]["inside"] == {}
    many = {
        f"S{n}": {
            "type": "object",
            "properties": {f"p{m}": {"$ref": f"#/components/schemas/S{m}"} for m in range(8)},
        }
        for n in range(8)
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    document = small()
    document["paths"]["/things"] = {"post": {"requestBody": body}}
    found, _ = made({**document, "components": {"schemas": many}})
    assert len(found.text) < 200_000


@pytest.mark.parametrize(
    ("scheme", "auth"),
    [
        ({"type": "http", "scheme": "Bearer"}, {"kind": "bearer"}),
        (
            {"type": "http", "scheme": "basic"},
            {"kind": "header", "name": "Authorization", "prefix": "Basic "},
        ),
        ({"type": "apiKey", "in": "query", "name": "api_key"}, {"kind": "query", "name": "api_key"}),
        ({"type": "oauth2"}, {"kind": "bearer"}),
        ({"type": "apiKey", "in": "cookie", "name": "sid"}, {"kind": "none"}),
        ({"type": "mutualTLS"}, {"kind": "none"}),
    ],
)
def test_security_schemes_become_auth(scheme: dict[str, Any], auth: dict[str, str]):
    document = {**small(security=[{"S": []}]), "components": {"securitySchemes": {"S": scheme}}}
    found, table = made(document)
    assert {key: getattr(table.auth, key) for key in auth} == auth
    assert (auth["kind"] != "none") or "is not supported" in found.notes[0]


def test_types_are_worked_out_where_a_document_does_not_name_them():
    assert of_query(schema={"enum": ["a", "b"]})["q"].type == "string"
    assert of_query(schema={"type": ["integer", "null"]})["q"].type == ("integer", "null")
    assert of_query(schema={"anyOf": [{"type": "null"}, {"type": "integer"}]})["q"].type == (
        "integer",
        "null",
    )
    assert of_query(schema={"type": "integer", "default": "many"})["q"] == ParameterDefinition(type="integer")
    assert of_query(schema={"type": "integer", "minimum": -(2**70), "maximum": 9})["q"].schema == {
        "maximum": 9
    }
    assert of_query(content={"application/json": {}})["q"].type == "string"
    assert len(of_query()["q"].type) > 1, "anything"


def test_a_name_that_no_client_takes_is_replaced_and_sent_as_the_api_wants_it():
    found = of_query(name="$filter(a b)")
    assert {name: item.name for name, item in found.items()} == {"filter_a_b": "$filter(a b)"}
    document = small()
    document["paths"] = {"/things/{thing id}": document["paths"]["/things"]}
    _, table = made(document)
    assert next(iter(table.tools.values())).path == "/things/{thing_id}"


def test_a_path_with_more_than_a_path_in_it_is_taken_apart():
    document = small()
    document["paths"] = {"/all things?beta=true#v2": document["paths"]["/things"]}
    _, table = made(document)
    tool = next(iter(table.tools.values()))
    assert (tool.path, tool.parameters["beta"].default) == ("/all%20things", "true")
    document["paths"]["/a/../b"] = {"get": {}}
    found, table = made(document)
    assert len(table.tools) == 1
    assert "GET /a/../b: path has '.' or '..' as a step" in found.notes


async def test_paging_under_names_that_models_do_not_take_is_called_otherwise(api: Loopback):
    listing = {
        "content": {
            "application/json": {"schema": {"type": "object", "properties": {"data": {"type": "array"}}}}
        }
    }
    names = ("page[number]", "page[size]")
    asked = [{"in": "query", "name": name, "schema": {"type": "integer"}} for name in names]
    _, table = made(small(parameters=asked, responses={"200": listing}), base_url=api.url)
    api.on("GET /things", reply({"data": [1, 2]}))
    server = build(table, RestSettings())
    async with Client(server) as client:
        tool = (await client.list_tools())[0]
        result = await client.call_tool("get_things", {"page_number": 3, "page_size": 2})
    await server.close()
    assert [*tool.input_schema["properties"]] == ["page_number", "page_size"]
    assert api.last.query == {"page[number]": "3", "page[size]": "2"}
    assert result.structured == {"items": [1, 2], "next": 4}


def test_lists_that_are_documented_to_have_links_follow_them():
    listing = {"headers": {"Link": {}}, "content": {"application/json": {"schema": {"type": "array"}}}}
    cursor = {"in": "query", "name": "cursor", "schema": {"type": "string"}}
    _, table = made(small(parameters=[cursor], responses={"200": listing}))
    assert table.paging[table.tools["get_things"].paging].kind == "link"
    assert table.tools["get_things"].parameters == {}


def test_only_what_is_wanted_is_made():
    document = yaml.safe_load(BOOKSHOP.read_text("utf-8"))
    assert [*made(document, only=("loans",))[1].tools] == ["listLoans", "lend"]
    assert [*made(document, only=("/books/{book-id}*", "getShelf"))[1].tools][-1] == "getShelf"
    with pytest.raises(OpenApiError, match="'loan'") as caught:
        made(document, only=("loan",))
    assert caught.value.hint == "did you mean 'Loans'?"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "it is not a mapping"),
        ({"swagger": "2.0", "paths": {}}, "Swagger 2.0 is older"),
        ({"openapi": "4.0"}, "'openapi' is '4.0'"),
        ({"openapi": "3.0.0", "paths": {}}, "no paths"),
        ({**small(), "servers": [{"url": "/v1"}]}, r"no usable server URL \('/v1'\)"),
        (small(parameters=[{"$ref": "other.yaml#/X"}]), "'other.yaml#/X', which is in another file"),
        (small(parameters=[{"$ref": "#/nowhere"}]), "'#/nowhere', which does not exist"),
        ({**small(parameters=[{"$ref": "#/x"}]), "x": {"$ref": "#/x"}}, "'#/x' is circular"),
        ({**small(), "paths": {"/a": {"trace": {}}}}, "no operation of the document can become a tool"),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_with_the_reason(document: Any, told: str):
    with pytest.raises(OpenApiError, match=told):
        made(document)


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        ({"name": "my api"}, "'my api' is not a valid"),
        ({"base_url": "shop.example"}, "'shop.example' cannot be used"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(wishes: dict[str, str], told: str):
    with pytest.raises(OpenApiError, match=told):
        made(small(), **wishes)


def test_an_address_without_a_path_is_given_that_of_the_document():
    document = {**small(), "servers": [{"url": "/v1"}]}
    assert made(document, base_url="https://here.example")[1].base_url == "https://here.example/v1"
    assert made(document, base_url="https://here.example/x/")[1].base_url == "https://here.example/x"


def test_a_document_that_holds_itself_is_refused():
    document: dict[str, Any] = small()
    document["x"] = document
    with pytest.raises(OpenApiError, match="contains itself"):
        OpenApiDocument(document)


def test_texts_of_a_document_cannot_break_out_of_the_table():
    nasty = 'a"""\n[tools.evil]\npath = "/"\n\\ \x00\x1b \u2028 \ud800'
    document = small(operationId=nasty, summary=nasty, description=nasty, tags=[nasty])
    document["info"] = {"title": nasty, "version": nasty, "description": nasty}
    document["paths"]["/things"]["get"]["parameters"] = [
        {"in": "query", "name": nasty, "description": nasty, "schema": {"type": "string", "enum": [nasty]}}
    ]
    _, table = made(document)
    assert len(table.tools) == 1
    assert next(iter(table.tools.values())).path == "/things"


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)


async def test_a_document_becomes_a_table_that_is_listed_called_and_pages(api: Loopback, toolyard: Toolyard):
    async def run(*words: str, **environment: str) -> Any:
        return await asyncio.to_thread(toolyard, *words, **environment)

    toolyard.write("shop.yaml", BOOKSHOP.read_text("utf-8"))
    outcome = await run("openapi", "shop.yaml", "--output", "shop.toml", "--base-url", f"{api.url}/v2")
    assert outcome.status == 0, outcome
    assert "12 tools in shop.toml" in outcome.out
    assert "warning: HEAD /books: no tool is made of this method" in outcome.err
    again = await run("openapi", "shop.yaml", "--output", "shop.toml")
    assert (again.status, "exists" in again.err) == (2, True)

    api.on("GET /v2/books", reply({"books": [{"id": 1, "title": "Solaris"}], "total": 31}))
    key = {"BOOKSHOP_API_KEY": "sesame"}
    called = await run(
        "call", "books_list", "--target", "shop.toml", "per_page=1", "filter_year=1961", "--json", **key
    )
    assert called.status == 0, called
    structured = json.loads(called.out)["structuredContent"]
    assert structured == {"items": [{"id": 1, "title": "Solaris"}], "total": 31, "next": 2}
    assert api.last.query == {"filter[year]": "1961", "page": "1", "per_page": "1"}
    assert api.last.headers["x-shop-key"] == "sesame"

    api.on("POST /v2/books", reply({"id": 2, "title": "Ubik", "price": None}, 201))
    added = await run("call", "addBook", "--target", "shop.toml", "title=Ubik", "--json", **key)
    assert json.loads(added.out)["structuredContent"]["data"]["id"] == 2
    assert api.last.json == {"title": "Ubik", "genre": "novel"}


def test_a_table_goes_to_standard_output_and_all_else_to_standard_error(toolyard: Toolyard):
    toolyard.write("small.json", json.dumps(small()))
    outcome = toolyard("openapi", "small.json", "--name", "tiny")
    assert outcome.status == 0, outcome
    assert check(outcome.out, Path("x.toml")).name == "tiny"
    assert outcome.err.startswith("hint: 1 tool; ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{\n oops", ":2: not JSON"),
        ("openapi: 3.0.0\npaths: {a: ]", ":2: not YAML"),
        ("[" * 100_000, "nested too deeply"),
        ("", "it is not a mapping"),
    ],
)
def test_a_file_that_is_no_document_is_told_without_a_traceback(text: str, told: str, toolyard: Toolyard):
    toolyard.write("bad.yaml", text)
    outcome = toolyard("openapi", "bad.yaml")
    assert outcome.status == 2
    assert told in outcome.err
    assert "Traceback" not in outcome.err
    assert "unexpected error" not in outcome.err
