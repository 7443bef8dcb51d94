"""What the emulator refuses, what it does wrong when it is told to, and that it runs as a process."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.emulators.tiflux.bodies import MIB
from tests.emulators.tiflux.plain import Plain, form

TICKET = {"title": "t", "description": "d", "client_id": "1001", "desk_id": "51"}
KNOWLEDGE = {"title": "t", "description": "d"}
CLIENTS_ENTITY = {"entities": [{"entity_field_id": 653, "value": "v"}]}
ITEM = {"name": "n", "start_time": "1:00", "end_time": "120:30"}
ADDRESS = {"cep": "1", "city": "c", "neighborhood": "n", "number": 7, "state": "SC", "street": "s"}


@pytest.fixture
async def api() -> AsyncIterator[Plain]:
    async with TifluxEmulator() as tiflux, aiohttp.ClientSession() as session:
        yield Plain(tiflux, session)


async def test_only_a_known_key_as_bearer_is_let_in(api: Plain) -> None:
    api.tiflux.add_tenant("denied", enable_mcp=False, admin=False)
    for headers in ({}, {"Authorization": API_KEY}, {"Authorization": "Bearer other"}):
        assert (await api("GET", "/users/me", headers))[0] == 401
    leaked = {"Authorization": f"Bearer {API_KEY}", "x-tiflux-api-key": API_KEY}
    assert (await api("GET", "/users/me", leaked))[0] == 400
    assert (await api("GET", "/users/me"))[1]["enable_mcp"] is True
    denied = {"Authorization": "Bearer denied"}
    assert (await api("GET", "/users/me", denied))[1]["enable_mcp"] is False
    assert (await api("GET", "/users", denied))[0] == 403
    assert [request.key for request in api.tiflux.requests[-2:]] == ["denied", "denied"]


async def test_wrong_parameters_are_refused_by_name(api: Plain) -> None:
    sixteen = ",".join(map(str, range(16)))
    wrong = {
        "/tickets?limit=201": "limit",
        "/tickets?limit=0": "limit",
        "/tickets?offset=0": "offset",
        "/tickets?offset=1&offset=2": "offset",
        "/tickets?page=1": "page",
        f"/tickets?desk_ids={sixteen}": "desk_ids",
        "/tickets?desk_ids=1,1": "desk_ids",
        "/tickets?desk_ids=": "desk_ids",
        "/tickets?is_closed=1": "is_closed",
        "/tickets?filter_by=some": "filter_by",
        "/tickets?start_datetime=yesterday": "start_datetime",
        "/users?name=ana": "name",
        "/technical-users?desk_id=51.0": "desk_id",
        "/tickets/1/histories": "history_of",
        "/tickets/1/histories?history_of=0&operation=created": "operation",
        "/appointments?start_date=2026-08-01": "end_date",
        "/reports/billings/history?due_start_date=2026-08-01": "due_start_date",
        "/reports/feedbacks/chats?start_date=2026-08-02&end_date=2026-08-01": "end_date",
        "/contracts?status=dead": "status",
    }
    for url, name in wrong.items():
        status, said = await api("GET", url)
        assert (status, said["error_code"], list(said["detail"])) == (422, 42201, [name]), url


async def test_wrong_bodies_are_refused_by_name(api: Plain) -> None:
    wrong: list[tuple[str, str, Any, str]] = [
        ("PUT", "/tickets/1", {}, "ticket"),
        ("PUT", "/tickets/1", {"desk_name": "x"}, "desk_name"),
        ("PUT", "/tickets/1", {"desk_id": "51"}, "desk_id"),
        ("PUT", "/tickets/1", {"desk_id": 51.0}, "desk_id"),
        ("PUT", "/tickets/1", {"desk_id": True}, "desk_id"),
        ("PUT", "/tickets/1", {"desk_id": 99}, "desk_id"),
        ("PUT", "/tickets/1", {"stage_id": 105}, "stage_id"),
        ("PUT", "/tickets/1/entities", {"entities": [{"entity_name": "x", "value": "v"}]}, "entities"),
        ("PUT", "/tickets/1/entities", CLIENTS_ENTITY, "entity_field_id"),
        ("PUT", "/tickets/1/checklists/6601/items/1", {"value": "x"}, "options"),
        ("POST", "/clients", {"name": "n"}, "social"),
        ("POST", "/clients/1001/addresses", ADDRESS, "address"),
        ("POST", "/clients/1001/addresses", {"address": ADDRESS | {"number": "7"}}, "number"),
        ("POST", "/users", {"name": "n", "email": "e", "technical_group_id": 99}, "technical_group_id"),
        ("POST", "/chats/send_message", {"number": 1, "integration_id": 41}, "message"),
        ("POST", "/knowledges", KNOWLEDGE | {"knowledge_folder_ids": []}, "knowledge_folder_ids"),
        ("POST", "/services-catalogs-areas/401/items", {"item": ITEM | {"start_time": "9"}}, "start_time"),
    ]
    for method, url, body, name in wrong:
        status, said = await api(method, url, json=body)
        assert (status, list(said["detail"])) == (422, [name]), (url, body, said)
    assert (await api("PUT", "/tickets/1/close", json={"now": True}))[0] == 400
    assert (await api("PUT", "/tickets/1", data=b"{", headers=_json()))[0] == 400
    assert (await api("PUT", "/tickets/1", data=form({"title": "t"})))[0] == 415
    assert (await api("PUT", "/tickets/1", data=b"title=t"))[0] == 415
    assert (await api("POST", "/tickets", json=TICKET))[0] == 415


def _json() -> dict[str, str]:
    return {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}


async def test_what_is_not_there_is_404_and_another_method_405(api: Plain) -> None:
    for url in ("/tickets/999", "/tickets/one", "/tickets/..%2Fusers", "/tickets/2/answers/3001", "/nothing"):
        assert (await api("GET", url))[0] == 404, url
    assert (await api("DELETE", "/clients/1002/addresses/1201"))[0] == 404
    assert (await api("PATCH", "/tickets/1"))[0] == 405
    assert api.tiflux.requests[2].path == "/tickets/..%2Fusers"


async def test_files_arrive_whole_and_within_their_limits(api: Plain) -> None:
    content = bytes(range(256)) + b"\r\n--boundary\r\n"
    made = await api("POST", "/tickets", data=form(TICKET, ("files[]", "nota fiscal ção.txt", content)))
    number = made[1]["ticket"]["ticket_number"]
    sent = api.tiflux.requests[-1]
    assert (sent.files[0].filename, sent.files[0].content) == ("nota fiscal ção.txt", content)
    assert sent.form == TICKET
    stored = (await api("GET", f"/tickets/{number}/files"))[1]
    assert [(file["file_name"], file["size"]) for file in stored] == [("nota fiscal ção.txt", len(content))]

    big = b"x" * (25 * MIB + 1)
    wrong = {
        "files": [
            [("files[]", f"{n}.txt", b"x") for n in range(11)],
            [("files[]", "a", b"")],
            [("files[]", "a", big)],
        ],
        "attachment": [[("attachment", "a.txt", b"x")]],
        "files[]": [[("files[]", "../a.txt", b"x")]],
    }
    for name, cases in wrong.items():
        for files in cases:
            status, said = await api("POST", "/tickets", data=form(TICKET, *files))
            assert (status, list(said["detail"])) == (422, [name]), said
    larger = form({"name": "answers may have larger ones"}, ("files[]", "a", big))
    assert (await api("POST", "/tickets/1/answers", data=larger))[0] == 201
    assert (await api("POST", "/tickets/1/files", data=form({"text": "t"})))[1]["detail"].keys() == {"text"}


async def test_pages_are_numbered_from_one_and_the_total_is_in_a_header(api: Plain) -> None:
    total = len(api.tiflux.tenant.tickets)
    headers = {"Authorization": f"Bearer {API_KEY}"}
    seen: list[int] = []
    async with aiohttp.ClientSession(headers=headers) as client:
        for offset in (1, 2, 3, 4):
            async with client.get(f"{api.tiflux.url}/tickets?limit=10&offset={offset}") as response:
                assert response.headers["X-Total-Items"] == str(total)
                seen += [ticket["ticket_number"] for ticket in await response.json()]
    assert seen == list(range(1, total + 1))
    assert len((await api("GET", "/tickets"))[1]) == 20


async def test_what_was_written_is_read_afterwards(api: Plain) -> None:
    number = (await api("POST", "/tickets", data=form(TICKET)))[1]["ticket"]["ticket_number"]
    await api("PUT", f"/tickets/{number}", json={"title": "new", "stage_id": 103, "responsible_id": 802})
    ticket = (await api("GET", f"/tickets/{number}"))[1]
    assert (ticket["title"], ticket["stage"]["id"], ticket["responsible"]["id"]) == ("new", 103, 802)
    assert (await api("PUT", f"/tickets/{number}/close"))[0] == 200
    assert (await api("PUT", f"/tickets/{number}/close"))[0] == 422
    closed = (await api("GET", "/tickets?filter_by=closed&limit=200"))[1]
    assert number in [ticket["ticket_number"] for ticket in closed]
    counted = (await api("GET", "/tickets?group_by=desk"))[1]
    assert counted["total"] == sum(bucket["count"] for bucket in counted["buckets"]) == number
    option = {"entities": [{"entity_field_id": 652, "entity_field_option_id": 702, "value": "x"}]}
    await api("PUT", f"/tickets/{number}/entities", json=option)
    entities = (await api("GET", f"/tickets/{number}?show_entities=true"))[1]["entities"]
    assert entities[0]["entity_fields"][1]["value"] == "Compras t0001"


async def test_it_misbehaves_as_it_is_told_and_no_longer(api: Plain) -> None:
    tiflux = api.tiflux
    tiflux.misbehave(503, "/tickets", times=2, after=1)
    assert [(await api("GET", "/tickets"))[0] for _ in range(4)] == [200, 503, 503, 200]
    tiflux.misbehave("html", r"/tickets/\d+")
    assert "<html>" in (await api("GET", "/tickets/1"))[1]
    tiflux.misbehave("echo_key")
    assert API_KEY in (await api("GET", "/tickets/1"))[1]["message"]
    # More than once, since the client asks again by itself.
    tiflux.misbehave("drop", method="GET", times=-1)
    with pytest.raises(aiohttp.ClientError):
        await api("GET", "/tickets/1")
    tiflux.behave()
    tiflux.misbehave("half")
    with pytest.raises(ValueError, match="Unterminated"):
        await api("GET", "/tickets/1")
    tiflux.misbehave("huge")
    assert len((await api("GET", "/tickets"))[1]) > 10_000
    assert (await api("GET", "/tickets"))[0] == 200


async def test_a_rate_limit_says_how_long_to_wait(api: Plain) -> None:
    api.tiflux.misbehave(429, retry_after="3")
    async with aiohttp.ClientSession() as client, client.get(f"{api.tiflux.url}/tickets") as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "3")


async def test_slow_answers_wait_until_they_are_released_and_others_for_ever(api: Plain) -> None:
    slow = api.tiflux.misbehave("slow")
    waiting = asyncio.create_task(api("GET", "/tickets/1"))
    await slow.arrived.wait()
    assert not waiting.done()
    slow.release()
    assert (await waiting)[0] == 200
    never = api.tiflux.misbehave("never")
    waiting = asyncio.create_task(api("GET", "/tickets/1"))
    await never.arrived.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert api.tiflux.requests[-1].status == 0


async def test_it_runs_as_a_process_that_says_its_url() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.emulators.tiflux", "--tenant", "second", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        assert url.endswith("/api/v2")
        headers = {"Authorization": "Bearer second"}
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.get(f"{url}/tickets/1") as response,
        ):
            assert "t0002" in (await response.json())["title"]
    finally:
        process.terminate()
        await process.wait()
