"""Clients, users, stages, catalogue items and notes: the rest of the tools of the first release."""

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from tests.emulators.tiflux import TifluxEmulator
from tests.servers.tiflux.talking import Talk, at


@pytest.fixture
async def talk(tiflux: TifluxEmulator) -> AsyncIterator[Talk]:
    async with at(tiflux) as talk:
        yield talk


async def test_clients_are_found_by_a_part_of_their_name(tiflux: TifluxEmulator, talk: Talk):
    (client,) = await talk.items("search_client", client_name="boa vida")
    assert (client["id"], client["name"]) == (1002, "Clínica Boa Vida t0001")
    assert tiflux.requests[-1].parameters == {"active": "true", "name": "boa vida"}
    assert await talk.items("search_client", client_name="nobody") == []
    assert "client_name" in await talk.refusal("search_client")


async def test_users_are_found_by_name_on_whatever_page_they_are(tiflux: TifluxEmulator, talk: Talk):
    for number in range(205):
        name = f"Guest {number}" if number < 204 else "Zoé Last"
        tiflux.tenant.users.put(name=name, email=f"g{number}@example.com", _type="client", active=True)
    (user,) = await talk.items("search_user", name="zoe")
    assert user["name"] == "Zoé Last"
    assert [user["id"] for user in await talk.items("search_user", name="BRUNO", type="attendant")] == [802]
    result = await talk.call("search_user", name="guest", offset=3, limit=90)
    assert (len(result["items"]), result["total"]) == (204 - 180, 204)
    assert "type" in await talk.refusal("search_user", name="x", type="robot")


async def test_users_are_for_administrators(tiflux: TifluxEmulator):
    tiflux.add_tenant("key-of-a-technician", admin=False)
    async with at(tiflux, key="key-of-a-technician") as talk:
        assert "search_technical_user" in await talk.refusal("search_user", name="bruno")
        assert await talk.items("search_technical_user", name="bruno") != []


async def test_stages_are_those_of_a_desk_by_id_or_name(talk: Talk):
    stages = await talk.items("search_stage", desk_name="comercial")
    assert [stage["id"] for stage in stages] == [105, 106, 107, 108]
    assert stages == await talk.items("search_stage", desk_id=52)
    assert [stage["id"] for stage in await talk.items("search_stage", desk_id=52, limit=1, offset=2)] == [106]
    assert "desk_id, desk_name" in await talk.refusal("search_stage")
    assert "nothing under" in await talk.refusal("search_stage", desk_id=99)


async def test_a_name_is_found_on_whatever_page_it_is_and_mostly_with_one_request(
    tiflux: TifluxEmulator, talk: Talk
):
    before = len(tiflux.requests)
    await talk.items("search_stage", desk_name="comercial")
    assert [asked.path.rpartition("/")[2] for asked in tiflux.requests[before:]] == ["desks", "stages"]
    like = {name: value for name, value in tiflux.tenant.desks.first().items() if name != "id"}
    for number in range(205):
        tiflux.tenant.desks.put(**like | {"name": f"Sala {number}", "display_name": f"Sala {number}"})
    last = tiflux.tenant.desks.put(**like | {"name": "Sala", "display_name": "Sala"})
    await talk.items("search_stage", desk_name="sala")
    assert tiflux.requests[-1].path.endswith(f"/desks/{last['id']}/stages")


async def test_catalogue_items_are_found_by_their_own_name_their_areas_or_their_catalogues(talk: Talk):
    async def found(**arguments: object) -> list[int]:
        return [
            item["id"] for item in await talk.items("search_catalog_item", desk_name="Suporte", **arguments)
        ]

    assert await found() == [501, 502, 503, 504]
    assert await found(catalog_item_name="Manutenção de") == [502, 504]
    assert await found(search="servicos de ti") == [501, 502, 503, 504]
    assert await found(search="software", catalog_id=301) == [503, 504]
    assert await found(area_id=401) == [501, 502]
    assert await found(search="vendas") == []
    assert "desk_id, desk_name" in await talk.refusal("search_catalog_item", search="x")


async def test_notes_among_the_staff_are_written_listed_and_read(tiflux: TifluxEmulator, talk: Talk):
    file = {"filename": "log.txt", "content": b64encode(b"line").decode()}
    await talk.call("create_internal_communication", ticket_number="1", text="Só nós", files_base64=[file])
    sent = tiflux.requests[-1]
    assert (sent.form, [part.filename for part in sent.files]) == ({"text": "Só nós"}, ["log.txt"])
    notes = await talk.items("list_internal_communications", ticket_number="1", limit=50)
    new = next(note for note in notes if note["text"] == "Só nós")
    note = await talk.data("get_internal_communication", ticket_number="1", communication_id=str(new["id"]))
    assert note["text"] == "Só nós"
    assert note["files"][0]["file_name"] == "log.txt"


async def test_notes_that_cannot_be_are_refused(tiflux: TifluxEmulator, talk: Talk):
    assert "text" in await talk.refusal("create_internal_communication", ticket_number="1")
    assert "nothing under" in await talk.refusal("list_internal_communications", ticket_number="999")
    one = {"ticket_number": "1", "communication_id": "9"}
    assert "nothing under" in await talk.refusal("get_internal_communication", **one)
    tiflux.misbehave(415, "/tickets/1/internal_communications", method="POST")
    refused = await talk.refusal("create_internal_communication", ticket_number="1", text="x")
    assert "does not accept that kind" in refused
