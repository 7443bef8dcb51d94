"""Where arguments go: path, query, headers, JSON, forms and files, and what of them is refused before."""

import base64
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest

from tests.rest.asking import KEY, asking, table
from tests.rest.loopback import Loopback, reply
from toolyard.rest.server import RestSettings

OK = reply({"ok": True})


async def test_every_value_arrives_at_its_place(api: Loopback) -> None:
    api.on("PUT /v1/shelves/a%20b%2Fc/things/7", OK)
    rows = table(
        api,
        {
            "put": {
                "method": "PUT",
                "path": "/shelves/{shelf}/things/{id}",
                "use": ["dry"],
                "parameters": {
                    "shelf": {"required": True},
                    "id": {"type": "number"},
                    "name": {},
                    "size": {"type": "number", "as": "measure.size"},
                    "unit": {"as": "measure.unit", "default": "cm"},
                    "tags": {"type": "array"},
                    "trace": {"in": "header", "as": "X-Trace"},
                    "note": {"type": ["string", "null"]},
                    "unsaid": {},
                },
                "fixed": {"source": "mcp"},
            }
        },
        shared={"dry": {"type": "boolean", "in": "query", "as": "dry_run"}},
        headers={"X-Client": "tests"},
        auth={"kind": "bearer"},
    )
    async with asking(rows) as ask:
        given = {"shelf": "a b/c", "id": 7.0, "name": "ü & ö", "size": 2.0, "tags": ["x", "y"], "note": None}
        assert await ask.ok("put", **given, trace="t-1", dry=True) == {"data": {"ok": True}}
    asked = api.last
    assert asked.query == {"dry_run": "true"}
    assert asked.json == {
        "source": "mcp",
        "name": "ü & ö",
        "measure": {"size": 2, "unit": "cm"},
        "tags": ["x", "y"],
        "note": None,
    }
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.headers["x-trace"], asked.headers["x-client"]) == ("t-1", "tests")


async def test_queries_and_forms_are_encoded_and_arrays_are_several_of_a_name(api: Loopback) -> None:
    api.on("GET /v1/find", OK)
    api.on("POST /v1/say", OK)
    api.on("POST /v1/close", OK)
    words = {"q": {}, "many": {"type": "array", "as": "many[]"}, "on": {"type": "boolean"}}
    rows = table(
        api,
        {
            "find": {"path": "/find", "parameters": words, "fixed": {"active": True}},
            "say": {"method": "POST", "body": "form", "path": "/say", "parameters": words},
            "close": {"method": "POST", "path": "/close"},
        },
    )
    given = {"q": "a&b=c+d é?#", "many": [1, 2], "on": False}
    written = "q=a%26b%3Dc%2Bd%20%C3%A9%3F%23&many[]=1&many[]=2&on=false"
    async with asking(rows) as ask:
        await ask.ok("find", **given)
        assert api.last.target == f"/v1/find?active=true&{written}"
        await ask.ok("say", **given)
        assert api.last.body.decode() == written
        assert api.last.headers["content-type"] == "application/x-www-form-urlencoded"
        await ask.ok("close")
    assert (api.last.body, api.last.headers["content-length"]) == (b"", "0")
    assert "content-type" not in api.last.headers


@pytest.mark.parametrize("value", ["", ".", "..", "a\r\nb", "a\0b", "\x7f"])
async def test_a_path_keeps_its_form_whatever_a_caller_gives(api: Loopback, value: str) -> None:
    rows = table(api, {"get": {"path": "/things/{id}", "parameters": {"id": {"required": True}}}})
    async with asking(rows) as ask:
        assert "'id'" in await ask.wrong("get", id=value)
    assert api.asked == []


@pytest.mark.parametrize(
    "value", ["../x", "a/b", "%2e%2e", "a?b=c", "a#b", "a;b", "https://x.test/", "ü\u2028"]
)
async def test_a_value_in_a_path_is_one_step_of_it(api: Loopback, value: str) -> None:
    rows = table(api, {"get": {"path": "/things/{id}/end", "parameters": {"id": {"required": True}}}})
    async with asking(rows) as ask:
        await ask.wrong("get", id=value)  # there is nothing there
    assert api.last.path.count("/") == 4
    assert api.last.plain_path == f"/v1/things/{value}/end"
    assert api.last.query == {}


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb", "ä", "a\0"])
async def test_a_value_in_a_header_begins_no_other_header(api: Loopback, value: str) -> None:
    rows = table(api, {"get": {"path": "/x", "parameters": {"trace": {"in": "header", "as": "X-Trace"}}}})
    async with asking(rows) as ask:
        assert "'trace'" in await ask.wrong("get", trace=value)
    assert api.asked == []


async def test_what_the_caller_leaves_out_comes_from_a_setting_or_the_table(api: Loopback) -> None:
    class Settings(RestSettings, frozen=True, kw_only=True):
        default_shelf: int = 0

    api.on("GET /v1/things", OK)
    shelf = {"type": "integer", "setting": "default_shelf", "default": 1}
    rows = table(api, {"list": {"path": "/things", "parameters": {"shelf": shelf}}})
    for settings, expected in ((Settings(), "1"), (Settings(default_shelf=9), "9")):
        async with asking(rows, settings) as ask:
            await ask.ok("list")
            assert api.last.query == {"shelf": expected}
            await ask.ok("list", shelf=3)
            assert api.last.query == {"shelf": "3"}


async def test_of_a_group_one_parameter_is_needed(api: Loopback) -> None:
    api.on("GET /v1/things", OK)
    parameters = {"desk_id": {"type": "integer"}, "desk_name": {}, "shelf": {"default": "a"}, "shelf_id": {}}
    needs = [["desk_id", "desk_name"], ["shelf", "shelf_id"]]
    rows = table(api, {"list": {"path": "/things", "parameters": parameters, "needs": needs}})
    async with asking(rows) as ask:
        assert "desk_id, desk_name" in await ask.wrong("list")
        await ask.ok("list", desk_name="x")


async def test_id_lists_are_taken_as_text_or_array_and_counted(api: Loopback) -> None:
    api.on("GET /v1/things", OK)
    parameter = {"ids": 3, "type": ["string", "array", "number"]}
    rows = table(api, {"list": {"path": "/things", "parameters": {"ids": parameter}}})
    async with asking(rows) as ask:
        for given, sent in (("1, 2,,3", "1,2,3"), ([1, "2", 3.0], "1,2,3"), (5, "5"), ("7,7,7,7", "7")):
            await ask.ok("list", ids=given)
            assert api.last.query == {"ids": sent}
        await ask.ok("list", ids=" , ")
        assert api.last.query == {}
        before = len(api.asked)
        for given in ("1,2,x", "1;2", [1.5], "1 2", [{"a": 1}], "9" * 40):
            assert "'ids'" in await ask.wrong("list", ids=given)
        assert "3 ids at most" in await ask.wrong("list", ids="1,2,3,4")
        assert len(api.asked) == before


async def test_arguments_that_do_not_fit_are_refused_with_their_name(api: Loopback) -> None:
    size = {"type": "integer", "schema": {"minimum": 1}}
    rows = table(api, {"get": {"path": "/x", "parameters": {"size": size, "kind": {"required": True}}}})
    async with asking(rows) as ask:
        assert "kind" in await ask.wrong("get")
        assert "'size'" in await ask.wrong("get", kind="a", size=0)
        assert "colour" in await ask.wrong("get", kind="a", colour="red")
    assert api.asked == []


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def parts_of(headers: dict[str, str], body: bytes) -> list[Message]:
    whole = message_from_bytes(f"Content-Type: {headers['content-type']}\r\n\r\n".encode() + body)
    assert not whole.defects
    found: Any = whole.get_payload()
    return found


UPLOAD = {
    "method": "POST",
    "body": "multipart",
    "path": "/notes",
    "parameters": {
        "text": {"required": True},
        "loud": {"type": "boolean"},
        "files": {"in": "file", "as": "files[]", "max_files": 2, "max_bytes": 30},
    },
}


async def test_files_travel_as_parts_beside_the_fields(api: Loopback) -> None:
    api.on("POST /v1/notes", OK)
    data = bytes(range(30))
    async with asking(table(api, {"note": UPLOAD})) as ask:
        files = [
            {"content": encoded(data), "filename": "Übersicht; 1.pdf"},
            {"content": "aGk\n=", "filename": "a.unknown"},
        ]
        await ask.ok("note", text="zwei\r\nZeilen ü", loud=True, files=files)
        sent = parts_of(api.last.headers, api.last.body)
        await ask.ok("note", text="no files")
    dispositions = [part["Content-Disposition"] for part in sent]
    assert dispositions[:2] == ['form-data; name="text"', 'form-data; name="loud"']
    assert dispositions[3] == 'form-data; name="files[]"; filename="a.unknown"'
    assert 'filename="Übersicht; 1.pdf"'.encode() in api.asked[0].body
    assert [part.get_content_type() for part in sent[2:]] == ["application/pdf", "application/octet-stream"]
    assert [part.get_payload(decode=True) for part in sent] == [
        "zwei\r\nZeilen ü".encode(),
        b"true",
        data,
        b"hi",
    ]
    assert [part["Content-Disposition"] for part in parts_of(api.last.headers, api.last.body)] == [
        'form-data; name="text"'
    ]


async def test_an_empty_list_of_files_is_no_files_and_one_that_must_be_there_is_not_empty(
    api: Loopback,
) -> None:
    api.on("POST /v1/notes", OK)
    files = {"type": "array", "in": "file"}
    optional = {**UPLOAD, "parameters": {"text": {}, "files": files}}
    needed = {**UPLOAD, "parameters": {"text": {}, "files": {**files, "required": True}}}
    loose = {**files, "type": ["array", "null"], "required": True}
    tools = {
        "optional": optional,
        "one_of": {**optional, "needs": [["text", "files"]]},
        "needed": needed,
        "loose": {**UPLOAD, "parameters": {"files": loose}},
    }
    async with asking(table(api, tools)) as ask:
        await ask.ok("optional", files=[])
        assert (api.last.body, api.last.headers.get("content-type")) == (b"", None)
        await ask.ok("optional", text="x", files=[])
        assert len(parts_of(api.last.headers, api.last.body)) == 1
        sent = len(api.asked)
        assert "text, files" in await ask.wrong("one_of", files=[])
        assert "files" in await ask.wrong("needed", files=[])
        assert "'files' must not be empty" in await ask.wrong("loose", files=[])
        listed = {tool["name"]: tool["inputSchema"] for tool in await ask.client.list_all("tools/list")}
    assert len(api.asked) == sent
    assert listed["needed"]["properties"]["files"]["minItems"] == 1
    assert "minItems" not in listed["optional"]["properties"]["files"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([{"content": "!!!!", "filename": "a.txt"}], ["files[0]", "'a.txt'", "not base64"]),
        ([{"content": "aGk", "filename": "a.txt"}], ["files[0]", "not base64"]),
        ([{"content": "aGk=aGk=", "filename": "a.txt"}], ["files[0]", "not base64"]),
        ([{"content": "data:text/plain;base64,aGk=", "filename": "a.txt"}], ["files[0]", "not base64"]),
        ([{"content": "aGk=", "filename": "ok"}, {"content": "ä", "filename": "b"}], ["files[1]", "'b'"]),
        ([{"content": "", "filename": "a.txt"}], ["files[0]", "empty"]),
        ([{"content": encoded(b"x" * 31), "filename": "a.txt"}], ["31 bytes", "30 are allowed"]),
        ([{"content": encoded(b"x" * 9000), "filename": "a.txt"}], ["9000 bytes", "30 are allowed"]),
        ([{"content": "aGk=", "filename": "../a.txt"}], ["files[0]", "filename"]),
        ([{"content": "aGk=", "filename": "a\\b.txt"}], ["files[0]", "filename"]),
        ([{"content": "aGk=", "filename": 'a".txt'}], ["files[0]", "filename"]),
        ([{"content": "aGk=", "filename": "a\r\nX: y"}], ["files[0]", "filename"]),
        ([{"content": "aGk=", "filename": ""}], ["files[0]", "filename"]),
        ([{"content": "aGk=", "filename": ".."}], ["files[0]", "filename"]),
        ([{"content": "aGk="}], ["filename"]),
        ([{"content": "aGk=", "filename": "a"}] * 3, ["files"]),
        ("aGk=", ["files"]),
    ],
)
async def test_a_file_that_cannot_be_sent_is_named_and_nothing_is_sent(
    api: Loopback, files: Any, words: list[str]
) -> None:
    async with asking(table(api, {"note": UPLOAD})) as ask:
        text = await ask.wrong("note", text="x", files=files)
    assert all(word in text for word in words), text
    assert api.asked == []


async def test_a_servers_own_step_changes_the_arguments_with_what_it_fetches(api: Loopback) -> None:
    api.on("GET /v1/fields/a%20b", reply([{"id": 7}]))
    api.on("PUT /v1/things/1", OK)

    async def prepare(arguments: dict[str, Any], fetch: Any) -> dict[str, Any]:
        (field,) = await fetch("GET", "/fields/a b", {"limit": 200})
        return {**arguments, "fields": [{**one, "id": field["id"]} for one in arguments["fields"]]}

    parameters = {"id": {"type": "integer"}, "fields": {"type": "array"}}
    rows = table(api, {"set": {"method": "PUT", "path": "/things/{id}", "parameters": parameters}})
    async with asking(rows, prepare={"set": prepare}) as ask:
        await ask.ok("set", id=1, fields=[{"value": "x"}])
    assert [asked.query for asked in api.asked] == [{"limit": "200"}, {}]
    assert api.last.json == {"fields": [{"value": "x", "id": 7}]}
