"""Which results pass as they are, and what takes the place of the others: the seed's cases, and odd ones."""

import json
from typing import Any

import pytest

from tests.results.shelf import LEGACY, NAME, Shelf, local_store, records, structured, text
from toolyard.artifacts.store import ArtifactStoreFullError
from toolyard.results.limits import Limits


def lines(count: int, end: str = "") -> str:
    return "\n".join(f"line {at}" for at in range(count)) + end


def words(size: int) -> str:
    return "word " * (size // 5) + "x" * (size % 5)


FITS = {
    "15 records with many commas, twice": structured(
        {"result": json.dumps(records(15))}, json.dumps(records(15))
    ),
    "an object of many commas": structured({"a": [1, 2] * 8, "b": [3, 4] * 8}),
    "4,000 bytes of text": text(words(4000)),
    "4,000 bytes of letters that have two": text("é" * 2000),
    "20 lines": text(lines(20)),
    "20 lines and a line break": text(lines(20, "\n")),
    "20 items": structured(list(range(20))),
    "20 keys": structured({f"k{at}": at for at in range(20)}),
    "20 items in an envelope": structured({"data": {"items": records(20), "total": 20}}),
    "20 items as text": text(json.dumps(list(range(20)))),
    "20 items in 25 lines": text(json.dumps(records(5), indent=1)),
    "nothing": {"content": []},
    "20 texts": text(*(f"text {at}" for at in range(20))),
    "a text of 3,000 bytes beside 3,000 others": structured({"a": words(3000)}, words(3000)),
}
IS_BIG = {
    "21 items that begin with a space": text(" " + json.dumps(list(range(21)))),
    "21 items in a wrapped text beside a small one": structured({"result": json.dumps([1] * 21)}, "words"),
    "4,001 bytes of text": text(words(4001)),
    "2,001 letters of two bytes": text("é" * 2001),
    "21 lines": text(lines(21)),
    "21 items": structured(list(range(21))),
    "21 keys": structured({f"k{at}": at for at in range(21)}),
    "21 items in an envelope": structured({"data": {"items": records(21), "total": 21}}),
    "21 items as text": text(json.dumps(list(range(21)))),
    "21 lines of JSON": text("\n".join('{"a":1}' for _ in range(21))),
    "21 texts": text(*(f"text {at}" for at in range(21))),
    "two texts of 11 lines": text(lines(11), lines(11)),
    "a line break that is written otherwise": b'{"content":[{"type":"text","text":"%s"}]}'
    % (b"a\\u000A" * 21),
    "a long text beside small structured content": structured({"a": 1}, words(4001)),
    "structured content that is a text": structured(words(5000)),
    "a wrapped text": structured({"result": lines(30)}),
    "a resource's text": {"content": [{"type": "resource", "resource": {"uri": "f://a", "text": lines(30)}}]},
    "21 links": {"content": [{"type": "resource_link", "uri": f"f://{at}", "name": "f"} for at in range(21)]},
}


@pytest.mark.parametrize("case", FITS)
async def test_what_fits_passes_as_it_is(case: str, shelf: Shelf):
    assert (await shelf.fit(FITS[case])).passed
    assert shelf.files == []


@pytest.mark.parametrize("case", IS_BIG)
async def test_what_is_over_a_limit_is_shaped_and_stored(case: str, shelf: Shelf):
    found = await shelf.fit(IS_BIG[case])
    assert not found.passed
    assert found.answer["tool_name"] == NAME
    assert found.answer["truncated"] is True
    assert json.loads(found.text) == found.answer
    assert len(found.text.encode()) <= 4000
    assert await found.whole()


async def test_the_answer_says_where_the_whole_is_in_every_way(shelf: Shelf):
    found = await shelf.fit(structured(records(412), json.dumps(records(412), indent=2)))
    storage = found.answer["storage"]
    assert storage["type"] == "local"
    assert storage["key"].endswith(f"mcp/{found.id}.json")
    assert storage["url"].startswith("https://yard.example.com/results/")
    assert storage["expires_at"].endswith("Z")
    assert found.answer["hint"] == f"read_result(id='{found.id}') shows more of it"
    body = await found.whole()
    assert json.loads(body) == records(412)
    (link,) = [block for block in found.result["content"] if block["type"] == "resource_link"]
    assert link["uri"] == storage["resource"]
    assert link["mimeType"] == "application/json"
    assert link["size"] == len(body)
    assert found.summary["approx_size_bytes"] == len(body)
    assert found.preview == records(10)


async def test_a_long_text_is_stored_byte_for_byte(shelf: Shelf):
    written = "Grüße ☃ \U0001f600\t\x00 \\n\n" * 500
    found = await shelf.fit(text(written))
    assert await found.whole() == written.encode()
    assert written.startswith(found.preview)
    (link,) = [block for block in found.result["content"] if block["type"] == "resource_link"]
    assert link["mimeType"] == "text/plain; charset=utf-8"


TWINS = {
    "the same": lambda value: [json.dumps(value)],
    "the same, indented": lambda value: [json.dumps(value, indent=2)],
    "the same, its keys in another order": lambda value: [json.dumps(value, sort_keys=True, indent=4)],
    "its items, a text each": lambda value: [json.dumps(item) for item in value["result"]],
    "what is wrapped": lambda value: [json.dumps(value["result"])],
}


@pytest.mark.parametrize("twin", TWINS)
async def test_a_text_that_says_the_same_is_not_stored_twice(twin: str, shelf: Shelf):
    value = {"result": [{"name": "Łódź", **item} for item in records(30)]}
    found = await shelf.fit(structured(value, *TWINS[twin](value)))
    assert json.loads(await found.whole()) == value["result"]
    assert found.summary["item_count"] == 30


@pytest.mark.parametrize("twin", ["the same", "the same, its keys in another order", "what is wrapped"])
async def test_a_long_text_that_says_the_same_in_other_letters_is_not_stored_twice(twin: str, shelf: Shelf):
    """Over a megabyte: too long to be decoded only to be compared."""
    value = {"result": [{"name": "Łódź" * 50, "share": 1e5, **item} for item in records(3_000)]}
    found = await shelf.fit(structured(value, *TWINS[twin](value)))
    assert json.loads(await found.whole()) == value["result"]
    assert found.summary["item_count"] == 3_000


async def test_a_long_text_that_differs_in_its_last_item_is_kept(shelf: Shelf):
    value = [{"name": "Łódź" * 50, **item} for item in records(3_000)]
    told = [*value[:-1], {**value[-1], "title": "another"}]
    found = await shelf.fit(structured({"result": value}, json.dumps(told)))
    assert json.loads(await found.whole()) == {"text": told, "structured": value}


async def test_an_object_around_what_the_text_says_is_no_part_of_it(shelf: Shelf):
    tree = json.dumps(records(30), indent=2)
    found = await shelf.fit(structured({"content": tree}, tree))
    assert json.loads(await found.whole()) == records(30)
    assert (await (await shelf.fit(structured({"content": lines(30)}, lines(30)))).whole()) == lines(
        30
    ).encode()


async def test_a_text_that_says_something_else_is_kept_and_shown(shelf: Shelf):
    found = await shelf.fit(structured({"items": records(30)}, "Thirty things were found; the last is new."))
    assert json.loads(await found.whole()) == {
        "text": "Thirty things were found; the last is new.",
        "structured": {"items": records(30)},
    }
    assert found.summary["path"] == "structured.items"
    assert found.summary["around"] == {"text": "Thirty things were found; the last is n…"}
    assert found.preview == records(10)


async def test_a_text_in_other_words_than_the_structured_content_is_kept(shelf: Shelf):
    told = "\n".join(f"- {item['title']}" for item in records(30))
    found = await shelf.fit(structured({"items": records(30)}, told))
    assert json.loads(await found.whole()) == {"text": told, "structured": {"items": records(30)}}


async def test_several_texts_of_json_are_one_list(shelf: Shelf):
    found = await shelf.fit(text(*(json.dumps(item) for item in records(30))))
    assert json.loads(await found.whole()) == records(30)
    assert found.summary["sample_columns"] == ["id", "state", "title"]


async def test_resources_among_others_say_where_they_are_from(shelf: Shelf):
    resource = {"uri": "file:///a", "mimeType": "text/plain", "text": lines(30)}
    found = await shelf.fit(
        {"content": [{"type": "text", "text": "Two:"}, {"type": "resource", "resource": resource}]}
    )
    assert json.loads(await found.whole()) == ["Two:", resource]


async def test_a_resource_by_itself_is_stored_as_its_text(shelf: Shelf):
    resource = {"uri": "file:///a", "mimeType": "text/plain", "text": lines(30)}
    found = await shelf.fit({"content": [{"type": "resource", "resource": resource}]})
    assert await found.whole() == lines(30).encode()
    assert found.summary["uri"] == "file:///a"


async def test_pictures_sounds_links_and_meta_stay_beside_what_is_shaped(shelf: Shelf):
    beside: list[dict[str, Any]] = [
        {"type": "image", "data": "AAAA" * 3000, "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "f://b", "blob": "AAAA" * 3000}},
        {"type": "resource_link", "uri": "f://c", "name": "c"},
    ]
    block = {"type": "text", "text": lines(30)}
    found = await shelf.fit({"content": [*beside[:2], block, *beside[2:]], "_meta": {"a": [1]}})
    assert found.result["content"][2:] == [beside[3], *beside[:3]]
    assert found.result["_meta"] == {"a": [1]}


UNTOUCHED = {
    "a picture": {"content": [{"type": "image", "data": "AAAA" * 30_000, "mimeType": "image/png"}]},
    "a question": {
        "resultType": "input_required",
        "inputRequests": {"a": {"x": words(9000)}},
        "requestState": "s",
    },
    "a task": {"resultType": "task", "taskId": "1", "status": "working", "statusMessage": words(9000)},
    "an error of 30 lines": text(lines(30), isError=True),
}


@pytest.mark.parametrize("case", UNTOUCHED)
async def test_what_is_no_data_passes_however_long_it_is(case: str, shelf: Shelf):
    assert (await shelf.fit(UNTOUCHED[case])).passed


async def test_an_error_over_the_bytes_is_cut_and_stays_an_error(shelf: Shelf):
    found = await shelf.fit(text(words(9000), isError=True))
    assert found.result["isError"] is True
    assert len(found.text) <= 4000
    assert await found.whole() == words(9000).encode()


UNREADABLE = {
    "a block that is no object": b'{"content":["%s"]}' % (b"x" * 9000),
    "a text that is a list": b'{"content":[{"type":"text","text":["%s"]}]}' % (b"x" * 9000),
    "content that is a text": b'{"content":"%s"}' % (b"x" * 9000),
    "an unknown kind of block": b'{"content":[{"type":"video","stream":"%s"}]}' % (b"x" * 9000),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_what_is_not_as_results_are_does_not_pass_for_that(case: str, shelf: Shelf):
    found = await shelf.fit(UNREADABLE[case])
    assert b"x" * 9000 in await found.whole()
    assert len(found.text) <= 4000


async def test_a_legacy_answer_has_no_result_type(shelf: Shelf):
    assert "resultType" not in (await shelf.fit(text(lines(30)), version=LEGACY)).result
    assert (await shelf.fit(text(lines(30)))).result["resultType"] == "complete"


async def test_a_word_of_the_modern_era_lets_nothing_pass_to_a_legacy_client(shelf: Shelf):
    assert not (await shelf.fit(text(lines(30), resultType="task"), version=LEGACY)).passed


async def test_what_came_and_what_goes_on_is_told(shelf: Shelf):
    small, big = json.dumps(text("few words")).encode(), json.dumps(text(lines(3000))).encode()
    await shelf.fit(small)
    found = await shelf.fit(big)
    went = len(json.dumps(found.result["content"], separators=(",", ":"), ensure_ascii=False).encode())
    first, (name, came, gone) = shelf.noted
    assert (first, name, came) == ((NAME, len(small), len(small)), NAME, len(big))
    assert abs(gone - went) < 50, "of the two forms one is counted"


async def test_limits_are_those_of_the_tool(shelf: Shelf):
    assert (await shelf.fit(text(lines(900)), Limits(max_bytes=90_000, max_lines=900))).passed
    assert not (await shelf.fit(text(lines(900)), Limits(max_bytes=90_000, max_lines=899))).passed
    assert (await shelf.fit(structured(records(60)), Limits(max_items=60))).passed
    assert (await shelf.fit(text(words(90_000)), None)).passed
    few = await shelf.fit(structured(records(160)), Limits(max_bytes=10))
    assert len(few.text) <= 1500, "there is always room for a word on it"


class Failing:
    """A store that gives up at one of its steps."""

    type = "failing"

    def __init__(self, store: Any, at: str, error: Exception) -> None:
        self._store = store
        self._at = at
        self._error = error

    async def begin(self, *about: str) -> Any:
        if self._at == "begin":
            raise self._error
        return _FailingWriting(await self._store.begin(*about), self._at, self._error)


class _FailingWriting:
    def __init__(self, writing: Any, at: str, error: Exception) -> None:
        self._writing, self._at, self._error = writing, at, error
        self._pieces = 0

    async def write(self, piece: bytes) -> None:
        self._pieces += 1
        if self._at == "write" and self._pieces > 1:
            raise self._error
        await self._writing.write(piece)

    async def finish(self) -> Any:
        if self._at == "finish":
            raise self._error
        return await self._writing.finish()

    async def discard(self) -> None:
        await self._writing.discard()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ArtifactStoreFullError("the disk is full"), "the disk is full"),
        (RuntimeError("at https://user:secret@store"), "the store failed"),
    ],
    ids=["full", "not foreseen"],
)
@pytest.mark.parametrize("at", ["begin", "write", "finish"])
async def test_a_store_that_fails_costs_the_link_and_nothing_else(
    at: str, error: Exception, reason: str, shelf: Shelf, caplog: pytest.LogCaptureFixture
):
    failing = Shelf(Failing(shelf.store, at, error), shelf.folder)  # type: ignore[arg-type]
    found = await failing.fit(structured(records(20_000)))
    assert found.summary["item_count"] == 20_000
    assert found.preview == records(10)
    assert found.answer["storage"] == {
        "type": "failing",
        "error": f"The full result was not stored: {reason}",
    }
    assert "hint" not in found.answer
    assert [block["type"] for block in found.result["content"]] == ["text"]
    assert shelf.files == []
    assert f"the full result of {NAME} was not stored: {reason}" in caplog.text
    assert str(error) in caplog.text, "the log has what was not foreseen"


async def test_over_the_quota_the_reason_is_told(tmp_path: Any):
    found = await Shelf(local_store(tmp_path, quota=1000), tmp_path).fit(text(words(9000)))
    assert "quota" in found.answer["storage"]["error"]
    assert found.summary["char_count"] == 9000
