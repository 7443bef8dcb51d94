"""Tickets, by the tools of the first release: found, opened, changed, answered, closed."""

from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from tests.emulators.tiflux import TifluxEmulator
from tests.emulators.tiflux.making import new_client
from tests.servers.tiflux.talking import Talk, at


@pytest.fixture
async def talk(tiflux: TifluxEmulator) -> AsyncIterator[Talk]:
    async with at(tiflux) as talk:
        yield talk


def file(name: str, content: bytes = b"some bytes") -> dict[str, str]:
    return {"filename": name, "content": b64encode(content).decode()}


async def test_a_ticket_is_read_whole_and_its_custom_fields_when_wanted(tiflux: TifluxEmulator, talk: Talk):
    ticket = await talk.data("get_ticket", ticket_number="1")
    assert ticket["ticket_number"] == 1
    assert ticket["title"] == tiflux.tenant.tickets.one(1)["title"]
    assert ticket["stage"]["name"] == "A fazer t0001"
    assert "entities" not in ticket
    ticket = await talk.data("get_ticket", ticket_number="1", show_entities=True)
    assert ticket["entities"][0]["entity_fields"][0]["name"] == "Observação t0001"


async def test_a_ticket_that_is_not_there_or_no_number_is_told_so(tiflux: TifluxEmulator, talk: Talk):
    assert "nothing under that number" in await talk.refusal("get_ticket", ticket_number="999")
    seen = len(tiflux.requests)
    assert "ticket_number" in await talk.refusal("get_ticket")
    assert "ticket_number" in await talk.refusal("get_ticket", ticket_number="..")
    assert "show_entities" in await talk.refusal("get_ticket", ticket_number="1", show_entities="perhaps")
    assert len(tiflux.requests) == seen
    await talk.refusal("get_ticket", ticket_number="1/../../users/me")
    assert tiflux.requests[-1].path == "/tickets/1%2F..%2F..%2Fusers%2Fme"


async def test_a_ticket_is_opened_by_names_with_files(tiflux: TifluxEmulator, talk: Talk):
    ticket = await talk.data(
        "create_ticket",
        title="Sem rede",
        description="<p>Nada funciona</p>",
        client_name="padaria aurora t0001",
        desk_name="mesa suporte",
        catalog_item_name="MANUTENÇÃO de hardware",
        responsible_name="BRUNO",
        requestor_name="Eva",
        requestor_email="eva@example.com",
        followers="ana@example.com,bia@example.com",
        parent_ticket_number=1,
        files_base64=[file("rede.txt"), file("tela é.png", b"\x89PNG")],
    )
    sent = tiflux.requests[-1]
    assert (sent.method, sent.path) == ("POST", "/tickets")
    assert sent.form == {
        "title": "Sem rede",
        "description": "<p>Nada funciona</p>",
        "client_id": "1001",
        "desk_id": "51",
        "services_catalogs_item_id": "502",
        "responsible_id": "802",
        "requestor_name": "Eva",
        "requestor_email": "eva@example.com",
        "followers": "ana@example.com,bia@example.com",
        "ticket_reference_number": "1",
    }
    assert [(part.filename, part.content) for part in sent.files] == [
        ("rede.txt", b"some bytes"),
        ("tela é.png", b"\x89PNG"),
    ]
    assert ticket["desk"]["name"] == "Suporte t0001"
    assert tiflux.tenant.tickets.one(ticket["ticket_number"])["title"] == "Sem rede"


async def test_a_client_is_found_among_many_that_are_called_alike(tiflux: TifluxEmulator, talk: Talk):
    tenant = tiflux.tenant
    for number in range(30):
        tenant.clients.put(**new_client(tenant, f"Silva {number}", "Silva Ltda"))
    client = tenant.clients.put(**new_client(tenant, "x", "Silva Ltda") | {"name": "Silva"})
    new = {"title": "Novo", "description": "Tudo", "desk_id": 51}
    ticket = await talk.data("create_ticket", **new, client_name="silva")
    assert ticket["client"]["id"] == client["id"]


async def test_defaults_stand_in_for_what_a_new_ticket_does_not_name(tiflux: TifluxEmulator):
    defaults: Any = {"default_client_id": 1002, "default_desk_id": 52, "default_priority_id": 207}
    async with at(tiflux, **defaults, default_catalog_item_id=505) as talk:
        ticket = await talk.data(
            "create_ticket", title="Novo", description="Tudo", desk_id=51, priority_id=201
        )
        assert (ticket["client"]["id"], ticket["desk"]["id"], ticket["priority"]["id"]) == (1002, 51, 201)
        assert ticket["services_catalog"]["id"] == 505
        ticket = await talk.data(
            "create_ticket", title="Novo", description="Tudo", catalog_item_name="instalação de hard"
        )
        assert (ticket["desk"]["id"], ticket["priority"]["id"]) == (52, 207)
        assert ticket["services_catalog"]["id"] == 505


async def test_a_new_ticket_with_wrong_files_names_or_values_is_not_opened(
    tiflux: TifluxEmulator, talk: Talk
):
    new = {"title": "Novo", "description": "Tudo", "client_id": 1001, "desk_id": 51}
    count = len(list(tiflux.tenant.tickets))
    for arguments, told in (
        ({"files_base64": [file("a.txt"), {"filename": "b.txt", "content": "not base64!"}]}, "[1] ('b.txt')"),
        ({"files_base64": [file("../a.txt")]}, "'filename'"),
        ({"files_base64": [file("a.txt")] * 11}, "files_base64"),
        ({"files_base64": [file("a.txt", b"")]}, "empty"),
        ({"responsible_name": "Nobody"}, "technician called 'Nobody'"),
        ({"desk_id": 99}, "desk_id"),
        ({"priority_id": "high"}, "priority_id"),
    ):
        assert told in await talk.refusal("create_ticket", **new | arguments)
    without = {"title": "Novo", "description": "Tudo"}
    assert "client_id, client_name" in await talk.refusal("create_ticket", **without, desk_id=51)
    assert "desk_id, desk_name" in await talk.refusal("create_ticket", **without, client_id=1001)
    named = {"desk_name": "t0001", "client_id": 1001}
    assert "Comercial t0001 (52)" in await talk.refusal("create_ticket", **without, **named)
    assert len(list(tiflux.tenant.tickets)) == count


async def test_a_ticket_moves_to_a_stage_of_its_own_desk_by_name(tiflux: TifluxEmulator, talk: Talk):
    ticket = await talk.data(
        "update_ticket",
        ticket_number="2",
        stage_name="em andamento",
        priority_name="Alta",
        priority_change_reason="It burns",
        responsible_name="Carla Dias",
        requestor_name="Eva Prado 2",
    )
    assert ticket["desk"]["id"] == 52
    assert ticket["stage"]["name"] == "Em andamento t0001"
    assert tiflux.requests[-1].body == {
        "desk_id": 52,
        "stage_id": 106,
        "priority_id": 207,
        "priority_change_reason": "It burns",
        "responsible_id": 803,
        "requestor_id": 1603,
    }


async def test_a_ticket_moves_to_another_desk_and_the_stages_are_those_of_that_desk(
    tiflux: TifluxEmulator, talk: Talk
):
    ticket = await talk.data(
        "update_ticket", ticket_number="1", desk_name="Comercial", stage_name="Concluído"
    )
    assert (ticket["desk"]["id"], ticket["stage"]["id"]) == (52, 108)
    told = await talk.refusal("update_ticket", ticket_number="1", stage_name="Nowhere")
    assert "no stage called 'Nowhere'" in told
    assert "A fazer t0001 (105)" in told


async def test_a_change_of_nothing_is_not_sent(tiflux: TifluxEmulator, talk: Talk):
    seen = len(tiflux.requests)
    assert "title" in await talk.refusal("update_ticket", ticket_number="1")
    assert len(tiflux.requests) == seen


async def test_tickets_are_closed_and_cancelled_once(tiflux: TifluxEmulator, talk: Talk):
    assert "closed" in str(await talk.call("close_ticket", ticket_number="1"))
    assert "cancel" in str(await talk.call("cancel_ticket", ticket_number="2"))
    assert tiflux.tenant.tickets.one(1)["status"]["name"] == "Closed"
    assert tiflux.tenant.tickets.one(2)["status"]["name"] == "Canceled"
    assert "Ticket 1 is not open" in await talk.refusal("close_ticket", ticket_number="1")
    assert "Ticket 2 is not open" in await talk.refusal("cancel_ticket", ticket_number="2")
    assert "nothing under" in await talk.refusal("cancel_ticket", ticket_number="999")


async def test_tickets_are_listed_in_pages(tiflux: TifluxEmulator, talk: Talk):
    count = len(list(tiflux.tenant.tickets))
    result = await talk.call("list_tickets")
    assert (len(result["items"]), result["total"], result["next"]) == (20, count, 2)
    assert tiflux.requests[-1].parameters == {"offset": "1", "limit": "20"}
    result = await talk.call("list_tickets", offset=2)
    assert (len(result["items"]), "next" in result) == (count - 20, False)
    await talk.items("list_tickets", limit=5000)
    assert tiflux.requests[-1].parameters["limit"] == "200"
    assert "offset" in await talk.refusal("list_tickets", offset=0)


async def test_tickets_are_found_by_names_and_ids(tiflux: TifluxEmulator, talk: Talk):
    found = await talk.items(
        "list_tickets",
        desk_name="Suporte",
        client_name="Padaria Aurora",
        stage_name="a fazer",
        responsible_name="Ana",
        catalog_query="hardware",
        priority_name="Baixa",
        filter_by="open",
    )
    assert tiflux.requests[-1].parameters == {
        "desk_ids": "51",
        "client_ids": "1001",
        "stage_ids": "101",
        "responsible_ids": "801",
        "services_catalogs_item_ids": "501,502",
        "priority_ids": "201",
        "filter_by": "open",
        "offset": "1",
        "limit": "20",
    }
    assert found == []
    found = await talk.items("list_tickets", desk_ids="51, 52", client_ids="1001,1002", is_closed=False)
    assert {ticket["desk"]["id"] for ticket in found} == {51, 52}
    assert tiflux.requests[-1].parameters["desk_ids"] == "51,52"


async def test_a_list_of_tickets_with_wrong_filters_is_refused(tiflux: TifluxEmulator, talk: Talk):
    seen = len(tiflux.requests)
    many = ",".join(str(number) for number in range(16))
    assert "15" in await talk.refusal("list_tickets", client_ids=many)
    assert "desk_ids" in await talk.refusal("list_tickets", desk_ids="Suporte")
    assert "desk_ids" in await talk.refusal("list_tickets", stage_name="A fazer")
    assert "exactly one id" in await talk.refusal("list_tickets", desk_ids="51,52", stage_name="A fazer")
    assert "filter_by" in await talk.refusal("list_tickets", filter_by="lost")
    assert len(tiflux.requests) == seen
    assert "start_datetime" in await talk.refusal("list_tickets", start_datetime="yesterday")


async def test_tickets_are_counted_and_two_periods_compared(tiflux: TifluxEmulator, talk: Talk):
    counts = await talk.data("list_tickets", group_by="desk")
    assert counts["total"] == len(list(tiflux.tenant.tickets))
    assert counts["buckets"][0]["period"] == "Comercial t0001"
    period = {"start_datetime": "2026-08-08T00:00:00Z", "end_datetime": "2026-08-15T00:00:00Z"}
    result = await talk.call("get_tickets_comparison", **period, group_by="day")
    assert result["current"]["data"]["total"] == 7
    assert result["before"]["data"]["total"] == 7
    asked = tiflux.requests[-1].parameters
    assert datetime.fromisoformat(asked["start_datetime"]) == datetime.fromisoformat("2026-07-31T23:59:59Z")
    assert datetime.fromisoformat(asked["end_datetime"]) == datetime.fromisoformat("2026-08-07T23:59:59Z")
    assert "both" in await talk.refusal("get_tickets_comparison", **period, compare_end_datetime="2026-08-01")
    for start, end, name in (
        ("2026-08-08", "2026-08-01", "end_datetime"),
        ("yesterday", "2026-08-01", "start_datetime"),
        ("0001-01-01", "2026-08-01", "start_datetime"),
    ):
        wrong = {"start_datetime": start, "end_datetime": end}
        assert f"'{name}' must be a moment" in await talk.refusal("get_tickets_comparison", **wrong)


async def test_an_answer_goes_out_with_its_files(tiflux: TifluxEmulator, talk: Talk):
    await talk.call(
        "create_ticket_answer",
        ticket_number="1",
        text="Feito",
        with_signature=True,
        files_base64=[file("a.pdf")],
    )
    sent = tiflux.requests[-1]
    assert (sent.path, sent.form) == ("/tickets/1/answers", {"name": "Feito", "with_signature": "true"})
    assert [part.filename for part in sent.files] == ["a.pdf"]
    texts = [answer["name"] for answer in await talk.items("list_ticket_answers", ticket_number=1)]
    assert texts[-1] == "Feito"
    assert "text" in await talk.refusal("create_ticket_answer", ticket_number="1")
    assert "nothing under" in await talk.refusal("create_ticket_answer", ticket_number="999", text="Feito")


async def test_custom_fields_are_filled_in_by_names_or_ids(tiflux: TifluxEmulator, talk: Talk):
    entries = [
        {"entity_field_id": 651, "value": "urgente"},
        {
            "entity_name": "dados do ticket",
            "entity_field_name": "setor",
            "entity_field_option_name": "Compras",
            "value": "x",
        },
    ]
    await talk.data("update_ticket_entities", ticket_number="1", entities=entries)
    assert tiflux.requests[-1].body == {
        "entities": [
            {"entity_field_id": 651, "value": "urgente"},
            {"entity_field_id": 652, "value": "x", "entity_field_option_id": 702},
        ]
    }
    for wrong, told in (
        ({"value": "x"}, "entities[0] needs entity_field_id"),
        ({"value": "x", "entity_name": "dados do ticket"}, "entity_field_name"),
        ({"value": "x", "entity_name": "dados", "entity_field_name": "setor"}, "Give the id instead"),
        ({"value": "x", "entity_field_id": 652, "entity_field_option_name": "Outro"}, "Fiscal t0001 (701)"),
        ({"value": "x", "entity_field_id": 9999}, "entity_field_id"),
        ({"entity_field_id": 651}, "value"),
    ):
        assert told in await talk.refusal("update_ticket_entities", ticket_number="1", entities=[wrong])
    assert "entities" in await talk.refusal("update_ticket_entities", ticket_number="1", entities=[])


async def test_files_of_a_ticket_are_listed_with_where_they_are(talk: Talk):
    (found,) = await talk.items("get_ticket_files", ticket_number="1")
    assert found["file_name"] == "tela t0001.png"
    assert found["url"].startswith("https://files.example/t0001/")
    assert await talk.items("get_ticket_files", ticket_number="2") == []
    assert "nothing under" in await talk.refusal("get_ticket_files", ticket_number="999")


async def test_an_item_of_a_checklist_is_filled_in_and_emptied(tiflux: TifluxEmulator, talk: Talk):
    item = {"ticket_number": "1", "checklist_id": 6601}
    await talk.call("update_ticket_checklist_item", **item, index=0, value="Cabo")
    assert tiflux.tenant.checklists.one(6601)["fields"][0]["value"] == "Cabo"
    await talk.call("update_ticket_checklist_item", **item, index=0, value=None)
    assert tiflux.requests[-1].body == {"value": None}
    checked = [{"id": 1, "checked": True}, {"id": 2, "checked": False}]
    await talk.call("update_ticket_checklist_item", **item, index=1, options=checked)
    assert tiflux.requests[-1].body == {"options": checked}
    assert "value, options" in await talk.refusal("update_ticket_checklist_item", **item, index=0)
