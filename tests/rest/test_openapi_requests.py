"""What a table made of an OpenAPI document sends: every kind of body, and keys that are no arguments.

The document has the shapes of the well-known pet shop: bodies of several media types, an upload of bare
bytes, lists of users as a whole body, and the header of the key among the parameters.
"""

import asyncio
import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import Toolyard
from tests.rest.asking import asking
from tests.rest.loopback import NEVER, Asked, Loopback, Raw, reply
from toolyard.rest.definition.loader import check
from toolyard.rest.definition.model import ApiDefinition
from toolyard.rest.openapi import Conversion, ConversionOptions, OpenApiDocument, convert
from toolyard.rest.server import RestSettings

ANIMAL = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "legs": {"type": "integer"}},
}
KEEPER = {"type": "object", "properties": {"name": {"type": "string"}, "phone": {"type": "string"}}}
ID = {"name": "animalId", "in": "path", "required": True, "schema": {"type": "integer"}}
KEY = {"name": "Api_Key", "in": "header", "required": True, "schema": {"type": "string"}}
DONE = {"200": {"description": "Done"}}


def body(kind: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"content": {kind: {} if schema is None else {"schema": schema}}, **more}


SHELTER: dict[str, Any] = {
    "openapi": "3.0.4",
    "info": {"title": "Shelter", "version": "1.0.27"},
    "servers": [{"url": "/api/v3"}],
    "components": {
        "schemas": {"Animal": ANIMAL, "Keeper": KEEPER},
        "securitySchemes": {
            "sign_in": {"type": "oauth2", "flows": {}},
            "key": {"type": "apiKey", "in": "header", "name": "api_key"},
        },
    },
    "security": [{"key": []}],
    "paths": {
        "/animal": {
            "put": {
                "operationId": "changeAnimal",
                "requestBody": {
                    "required": True,
                    "content": {
                        kind: {"schema": {"$ref": "#/components/schemas/Animal"}}
                        for kind in (
                            "application/xml",
                            "application/json",
                            "application/x-www-form-urlencoded",
                        )
                    },
                },
                "responses": DONE,
            }
        },
        "/animal/{animalId}": {
            "delete": {"operationId": "deleteAnimal", "parameters": [KEY, ID], "responses": DONE},
        },
        "/animal/{animalId}/picture": {
            "post": {
                "operationId": "uploadPicture",
                "parameters": [ID, {"name": "caption", "in": "query", "schema": {"type": "string"}}],
                "requestBody": body("application/octet-stream", {"type": "string", "format": "binary"}),
                "responses": DONE,
            },
            "put": {
                "operationId": "replacePicture",
                "parameters": [ID],
                "requestBody": {"content": {"image/png": {}, "image/jpeg": {}}},
                "responses": DONE,
            },
            "patch": {
                "operationId": "addToPicture",
                "parameters": [ID],
                "requestBody": body("*/*", {"type": "string", "format": "binary"}),
                "responses": DONE,
            },
        },
        "/animal/{animalId}/notes": {
            "put": {
                "operationId": "writeNotes",
                "parameters": [ID],
                "requestBody": body(
                    "text/plain", {"type": "string", "maxLength": 20}, description="What to keep"
                ),
                "responses": DONE,
            },
            "post": {
                "operationId": "importNotes",
                "parameters": [ID],
                "requestBody": body("application/xml", ANIMAL, required=False),
                "responses": DONE,
            },
        },
        "/keepers": {
            "post": {
                "operationId": "addKeepers",
                "requestBody": body(
                    "application/json", {"type": "array", "items": {"$ref": "#/components/schemas/Keeper"}}
                ),
                "responses": DONE,
            },
            "patch": {
                "operationId": "labelKeepers",
                "requestBody": body(
                    "application/json", {"type": "object", "additionalProperties": {"type": "string"}}
                ),
                "responses": DONE,
            },
            "put": {
                "operationId": "patchKeepers",
                "requestBody": body(
                    "application/json-patch+json", {"type": "array", "items": {"type": "object"}}
                ),
                "responses": DONE,
            },
            "delete": {
                "operationId": "removeKeepers",
                "requestBody": body("application/json", {"type": "array", "items": {"type": "integer"}}),
                "responses": DONE,
            },
        },
        "/odd": {
            "get": {
                "operationId": "askOddly",
                "requestBody": body("application/json", ANIMAL, required=True),
            },
            "post": {
                "operationId": "formless",
                "requestBody": body("multipart/form-data", {"type": "object"}),
            },
            "patch": {
                "operationId": "dotted",
                "requestBody": body(
                    "application/json",
                    {"type": "object", "required": ["a.b"], "properties": {"a.b": {"type": "integer"}}},
                ),
            },
            "put": {
                "operationId": "crumbs",
                "parameters": [
                    {"name": "crumb", "in": "cookie", "required": True, "schema": {"type": "string"}}
                ],
            },
            "head": {"operationId": "peek"},
            "delete": {"operationId": "related", "requestBody": body("multipart/related", ANIMAL)},
        },
    },
}


@pytest.fixture
def shelter(api: Loopback) -> tuple[Conversion, ApiDefinition]:
    found = convert(OpenApiDocument(SHELTER), ConversionOptions(base_url=api.url), "shelter.json")
    for path, item in SHELTER["paths"].items():
        for method in item:
            api.on(f"{method.upper()} /api/v3{path.replace('{animalId}', '7')}", reply({"ok": True}))
    return found, check(found.text, Path("shelter.toml"))


def content(api: Loopback) -> tuple[str | None, bytes]:
    return api.last.headers.get("content-type"), api.last.body


def file(data: bytes, name: str) -> list[dict[str, str]]:
    return [{"content": base64.b64encode(data).decode(), "filename": name}]


async def test_every_kind_of_body_arrives_as_the_document_says(
    api: Loopback, shelter: tuple[Conversion, ApiDefinition]
) -> None:
    picture = bytes(range(256))
    async with asking(shelter[1], RestSettings(api_key="sesame")) as ask:
        await ask.ok("changeAnimal", name="Rex", legs=3)
        assert (content(api)[0], api.last.json) == ("application/json", {"name": "Rex", "legs": 3})

        await ask.ok("uploadPicture", animalId=7, caption="big", file=file(picture, "rex.png"))
        assert content(api) == ("application/octet-stream", picture)
        assert api.last.query == {"caption": "big"}

        for name, kind in (("rex.png", "image/png"), ("rex.jpg", "image/jpeg")):
            await ask.ok("replacePicture", animalId=7, file=file(picture, name))
            assert content(api) == (kind, picture)

        await ask.ok("addToPicture", animalId=7, file=file(picture, "rex.bin"))
        assert content(api) == ("application/octet-stream", picture)

        await ask.ok("writeNotes", animalId=7, body="Zwei Kätzchen")
        assert content(api) == ("text/plain; charset=utf-8", "Zwei Kätzchen".encode())

        await ask.ok("importNotes", animalId=7, body="<notes/>")
        assert content(api) == ("application/xml", b"<notes/>")
        await ask.ok("importNotes", animalId=7)
        assert content(api) == (None, b""), "it need not be given"

        keepers = [{"name": "Ada", "phone": "1"}, {"name": "Bo"}]
        await ask.ok("addKeepers", body=keepers)
        assert (content(api)[0], api.last.json) == ("application/json", keepers)
        await ask.ok("addKeepers", body=[])
        assert content(api) == ("application/json", b"[]")
        await ask.ok("labelKeepers", body={"a.b": "c", "d": "e"})
        assert api.last.json == {"a.b": "c", "d": "e"}
        await ask.ok("patchKeepers", body=[{"op": "remove", "path": "/0"}])
        assert content(api) == ("application/json-patch+json", b'[{"op":"remove","path":"/0"}]')
        await ask.ok("removeKeepers", body=[1, 2])
        assert (api.last.method, api.last.json) == ("DELETE", [1, 2])
        await ask.ok("dotted", body={"a.b": 5})
        assert api.last.json == {"a.b": 5}


async def test_a_body_that_is_missing_or_wrong_is_refused_and_nothing_is_sent(
    api: Loopback, shelter: tuple[Conversion, ApiDefinition]
) -> None:
    async with asking(shelter[1], RestSettings(api_key="sesame")) as ask:
        assert "file" in await ask.wrong("uploadPicture", animalId=7)
        assert "file" in await ask.wrong("uploadPicture", animalId=7, file=[])
        assert "base64" in await ask.wrong(
            "uploadPicture", animalId=7, file=[{"content": "!", "filename": "a.png"}]
        )
        assert "file" in await ask.wrong("uploadPicture", animalId=7, file=file(b"a", "a") * 2)
        assert "body" in await ask.wrong("addKeepers")
        assert "body" in await ask.wrong("addKeepers", body={"name": "Ada"})
        assert "body" in await ask.wrong("writeNotes", animalId=7, body="x" * 21)
    assert api.asked == []


async def test_a_key_is_no_argument_and_is_sent_all_the_same(
    api: Loopback, shelter: tuple[Conversion, ApiDefinition]
) -> None:
    async with asking(shelter[1], RestSettings(api_key="sesame")) as ask:
        listed = {tool["name"]: tool["inputSchema"] for tool in await ask.client.list_all("tools/list")}
        await ask.ok("deleteAnimal", animalId=7)
    assert [*listed["deleteAnimal"]["properties"]] == ["animalId"]
    assert api.last.headers["api_key"] == "sesame"


@pytest.mark.parametrize(
    ("scheme", "parameter", "auth"),
    [
        ({"type": "http", "scheme": "bearer"}, {"in": "header", "name": "Authorization"}, ("bearer", "")),
        (
            {"type": "apiKey", "in": "query", "name": "token"},
            {"in": "query", "name": "token"},
            ("query", "token"),
        ),
        (None, {"in": "header", "name": "X-API-Key"}, ("header", "X-API-Key")),
        (None, {"in": "header", "name": "authorization"}, ("bearer", "")),
        (None, {"in": "query", "name": "access_token"}, ("query", "access_token")),
        ({"type": "http", "scheme": "bearer"}, {"in": "header", "name": "X-Auth-Token"}, ("bearer", "")),
        (
            {"type": "apiKey", "in": "cookie", "name": "sid"},
            {"in": "cookie", "name": "sid", "required": True},
            ("none", ""),
        ),
    ],
)
def test_no_form_of_a_key_is_an_argument(
    scheme: Any, parameter: dict[str, Any], auth: tuple[str, str]
) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Keyed", "version": "1"},
        "servers": [{"url": "https://keyed.example"}],
        "paths": {"/a": {"get": {"parameters": [{**parameter, "schema": {"type": "string"}}]}}},
    }
    if scheme is not None:
        document |= {"components": {"securitySchemes": {"S": scheme}}, "security": [{"S": []}]}
    made = convert(OpenApiDocument(document), ConversionOptions(), "x")
    table = check(made.text, Path("x.toml"))
    assert table.tools["get_a"].parameters == {}
    assert (table.auth.kind, table.auth.name) == auth
    told = "\n".join(made.notes)
    assert ("carries a key" in told) == (parameter["name"] in ("X-Auth-Token", "sid"))
    assert ("guessed" in told) == (scheme is None)


def test_what_has_no_tool_is_listed_in_the_file_with_its_reason(
    shelter: tuple[Conversion, ApiDefinition],
) -> None:
    made, table = shelter
    reasons = [
        "GET /odd: it needs a body, and GET has none",
        "POST /odd: its body is a multipart form of object without named members",
        "PUT /odd: it needs the cookie 'crumb'",
        "HEAD /odd: no tool is made of this method",
        "DELETE /odd: its body is multipart/related",
    ]
    head = made.text.partition("\nname = ")[0].splitlines()
    listed = head[head.index("# Operations without a tool (5):") + 1 :]
    assert sorted(line for line in listed if line) == sorted(f"# - {reason}" for reason in reasons)
    assert made.left_out == 5
    operations = sum(len(item) for item in SHELTER["paths"].values())
    assert len(table.tools) == made.tools == operations - 5


SCHEMAS = st.sampled_from(
    [
        None,
        {},
        ANIMAL,
        {"type": "array", "items": ANIMAL},
        {"type": "string", "format": "binary"},
        {"type": "string"},
        {"type": "object"},
        {"oneOf": [ANIMAL, {"type": "array"}]},
        {"$ref": "#/components/schemas/Animal"},
        {"type": "object", "required": ["a.b"], "properties": {"a.b": {}, "c": {}}},
        {"type": "object", "properties": {"body": {}, "file": {"format": "binary"}, "animalId": {}}},
    ]
)
KINDS = st.sampled_from(
    [
        *("application/json", "application/json; charset=utf-8", "a/b+json", "*/*", "image/*", "text/plain"),
        *("multipart/form-data", "multipart/mixed", "application/x-www-form-urlencoded", "application/xml"),
        *("application/octet-stream", "", "png", 'a/b"\n[tools.evil]', "a/b\r\nX-Evil: 1", "TEXT/CSV", "*"),
    ]
)
BODIES = st.builds(
    lambda contents, more: {
        "content": {kind: {} if schema is None else {"schema": schema} for kind, schema in contents.items()},
        **more,
    },
    st.dictionaries(KINDS, SCHEMAS, min_size=1, max_size=3),
    st.sampled_from([{}, {"required": True}, {"required": False}]),
)


@given(method=st.sampled_from(["get", "post", "put", "patch", "delete"]), request=BODIES)
def test_an_operation_with_a_body_has_a_tool_that_takes_it_or_is_listed(method: str, request: Any) -> None:
    operation = {"parameters": [ID], "requestBody": request}
    other = {"get": {"operationId": "other"}}
    document = {**SHELTER, "paths": {"/a/{animalId}": {method: operation}, "/b": other}}
    made = convert(OpenApiDocument(document), ConversionOptions(base_url="https://a.example"), "x")
    table = check(made.text, Path("x.toml"))
    assert made.tools + made.left_out == 2
    (tool,) = [tool for name, tool in table.tools.items() if name != "other"] or [None]
    if tool is None:
        assert any(note.startswith(f"{method.upper()} /a/") for note in made.notes)
    elif method == "get":
        assert "the body is left out, since GET has none" in "".join(made.notes)
    else:
        assert set(tool.parameters) - {"animalId"}, "the body is an argument"


# A document at a URL


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)


async def run(toolyard: Toolyard, *words: str, **environment: str) -> Any:
    return await asyncio.to_thread(toolyard, *words, **environment)


async def test_a_document_at_a_url_becomes_a_table_that_uploads(api: Loopback, toolyard: Toolyard) -> None:
    api.on("GET /docs/openapi.json", reply(SHELTER))
    source = f"http://user:hunter2@127.0.0.1:{api.port}/docs/openapi.json?token=hunter3"
    made = await run(toolyard, "openapi", source, "--output", "shelter.toml")
    assert made.status == 0, made
    assert "12 tools in shelter.toml" in made.out
    assert "warning: 5 of 17 operations have no tool; the table lists them" in made.err
    text = (toolyard.folder / "shelter.toml").read_text("utf-8")
    assert tomllib.loads(text)["base_url"] == f"{api.url}/api/v3", "below the document's own address"
    assert f"generated from {api.url}/docs/openapi.json by" in text
    assert "hunter" not in text + made.err + made.out

    api.on("POST /api/v3/animal/7/picture", reply({"ok": True}))
    arguments = json.dumps({"animalId": 7, "file": file(b"\x89PNG", "a.png")})
    called = await run(
        toolyard,
        *("call", "uploadPicture", "--target", "shelter.toml", "--args", arguments),
        SHELTER_API_KEY="sesame",
    )
    assert called.status == 0, called
    assert content(api) == ("application/octet-stream", b"\x89PNG")


async def test_yaml_and_redirects_are_followed_and_addresses_count_from_where_they_end(
    api: Loopback, toolyard: Toolyard
) -> None:
    document = {**SHELTER, "servers": [{"url": "../v9"}]}
    api.on("GET /old", reply(None, 302, Location="/new/docs/api.yaml"))
    api.on("GET /new/docs/api.yaml", reply(yaml.safe_dump(document).encode(), kind="application/yaml"))
    made = await run(toolyard, "openapi", f"{api.url}/old")
    assert made.status == 0, made
    assert check(made.out, Path("x.toml")).base_url == f"{api.url}/new/v9"


def endless(asked: Asked) -> Raw:
    return reply(None, 302, Location=f"{asked.path}x")


HUGE = Raw(
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{" + b" " * (33 * 1024 * 1024), close=True
)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (reply(b"<!DOCTYPE html><html></html>", kind="text/html"), "is a web page, not an OpenAPI document"),
        (reply({"error": "no"}, 404), "answered 404"),
        (reply({"error": "no"}, 401), "answered 401"),
        (HUGE, "is over 32 MiB"),
        (reply({"hello": "world"}), "not an OpenAPI 3 document: there is no 'openapi' in it"),
        (reply({"swagger": "2.0", "paths": {}}), "Swagger 2.0 is older"),
        (reply(b"\xff\xfe\x00", kind="application/json"), "is not UTF-8"),
        (reply(b"{ oops"), "not JSON"),
        (reply(b"", 200), "it is not a mapping"),
        (reply(None, 302, Location="ftp://127.0.0.1/x"), "cannot be reached"),
        (Raw(b"", close=True), "cannot be reached"),
    ],
    ids=[
        "page",
        "404",
        "401",
        "huge",
        "other",
        "swagger",
        "bytes",
        "broken",
        "empty",
        "elsewhere",
        "hangs up",
    ],
)
async def test_what_is_no_document_at_a_url_is_told_in_a_sentence(
    answer: Raw, told: str, api: Loopback, toolyard: Toolyard
) -> None:
    api.on("GET /openapi.json", answer)
    made = await run(toolyard, "openapi", f"{api.url}/openapi.json", "--output", "x.toml")
    assert made.status == 2, made
    assert told in made.err
    assert "Traceback" not in made.err
    assert "unexpected error" not in made.err
    assert not (toolyard.folder / "x.toml").exists()


async def test_redirects_have_an_end(api: Loopback, toolyard: Toolyard) -> None:
    for length in range(20):
        api.on(f"GET /r{'x' * length}", endless)
    made = await run(toolyard, "openapi", f"{api.url}/r")
    assert (made.status, "redirects more than 5 times" in made.err) == (2, True), made
    assert len(api.asked) <= 6


async def test_a_document_that_never_comes_is_not_waited_for(api: Loopback, toolyard: Toolyard) -> None:
    api.on("GET /openapi.json", NEVER)
    made = await run(toolyard, "openapi", f"{api.url}/openapi.json", "--timeout", "0.5")
    assert (made.status, "did not send its document within 0.5 seconds" in made.err) == (2, True), made


# A table written by hand


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"body": "raw"}, "no parameter is the raw body"),
        ({"content_type": "image/png"}, "is that of a raw body, or a kind of JSON"),
        (
            {"body": "raw", "content_type": "png", "parameters": {"b": {"in": "body"}}},
            "'png' is not a media type",
        ),
        ({"parameters": {"a": {}, "b": {"in": "body", "type": "array"}}}, "'b' is the whole body"),
        ({"parameters": {"a": {"in": "body"}, "b": {"in": "body"}}}, "'a' is the whole body already"),
        ({"fixed": {"a": 1}, "parameters": {"b": {"in": "body"}}}, "'b' is the whole body"),
        ({"body": "raw", "parameters": {"b": {"in": "body", "type": "array"}}}, "a raw body is a text"),
        ({"body": "raw", "parameters": {"b": {"in": "file", "type": "array"}}}, "a raw body is one file"),
        ({"body": "form", "parameters": {"b": {"in": "body"}}}, "the body of the tool is form, not json"),
        ({"parameters": {"b": {"in": "body", "as": "c"}}}, "the whole body has no name"),
        ({"method": "GET", "parameters": {"b": {"in": "body"}}}, "GET has no body for it"),
    ],
)
def test_a_table_with_a_whole_body_is_checked(row: dict[str, Any], told: str) -> None:
    tool = {"description": "d", "method": "POST", "path": "/a", **row}
    text = json.dumps({"name": "t", "base_url": "https://t.example", "tools": {"post": tool}})
    with pytest.raises(Exception, match=told):
        check(text, Path("t.json"))


# Small documents that would become huge

TIMES = 9
LEVELS = 12


def aliases(start: str, form: str) -> str:
    """A document in which each line has nine times what the line before it stands for."""
    lines = [f"x0: &x0 {start}"]
    for level in range(1, LEVELS):
        lines.append(f"x{level}: &x{level} " + form % ", ".join([f"*x{level - 1}"] * TIMES))
    parameter = f"{{name: q, in: query, schema: {{type: array, default: *x{LEVELS - 1}}}}}"
    paths = f"paths: {{/a: {{get: {{operationId: a, parameters: [{parameter}], responses: {{}}}}}}}}"
    return "\n".join(["openapi: 3.0.0", "info: {title: Bomb}", *lines, paths])


@pytest.mark.parametrize(("start", "form"), [("[x]", "[%s]"), ("{a: b}", "{<<: [%s]}")])
async def test_aliases_that_stand_for_too_much_are_refused(toolyard: Toolyard, start: str, form: str) -> None:
    (toolyard.folder / "bomb.yaml").write_text(aliases(start, form))
    made = await run(toolyard, "openapi", "bomb.yaml", "--base-url", "http://127.0.0.1:9")
    assert made.status == 2
    assert "error: bomb.yaml: too large with its aliases expanded" in made.err


async def test_schemas_that_lead_to_the_same_by_many_ways_are_followed_once(toolyard: Toolyard) -> None:
    def ref(level: int) -> Any:
        return {"$ref": f"#/components/schemas/S{level}"}

    schemas: dict[str, Any] = {f"S{level}": {"allOf": [ref(level + 1)] * TIMES} for level in range(LEVELS)}
    schemas[f"S{LEVELS}"] = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
    body = {"content": {"application/json": {"schema": ref(0)}}}
    post = {"operationId": "make", "requestBody": body, "responses": {}}
    document = {"openapi": "3.0.0", "info": {}, "paths": {"/a": {"post": post}}}
    (toolyard.folder / "many.json").write_text(json.dumps({**document, "components": {"schemas": schemas}}))
    made = await run(toolyard, "openapi", "many.json", "--base-url", "http://127.0.0.1:9")
    assert made.status == 0, made
    assert tomllib.loads(made.out)["tools"]["make"]["parameters"]["x"]["required"] is True


async def test_a_number_without_end_is_an_error_of_the_document(toolyard: Toolyard) -> None:
    (toolyard.folder / "long.json").write_text('{"openapi": "3.0.0", "x": %s}' % ("9" * 5000))
    made = await run(toolyard, "openapi", "long.json")
    assert made.status == 2
    assert "error: long.json: " in made.err
    assert "unexpected error" not in made.err
