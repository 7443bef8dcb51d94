"""Every endpoint is asked once by each of two tenants, in plain HTTP."""

import re
from typing import Any

import aiohttp
import pytest

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.emulators.tiflux.endpoints import ENDPOINTS
from tests.emulators.tiflux.plain import form

OTHER = "key-of-the-second-tenant"
WHEN = "start_date=2026-08-01&end_date=2026-09-30"
ENTITY = {"entities": [{"entity_field_id": 652, "entity_field_option_id": 701, "value": "x"}]}
ADDRESS = {"cep": "1", "city": "c", "neighborhood": "n", "number": 7, "state": "SC", "street": "s"}
ASKER = {"entities": [{"entity_field_id": 655, "value": "v"}]}
ITEM = {"name": "n", "start_time": "1:00", "end_time": "120:30"}
CONTACT = {"use": "u", "number": "47", "owner": "o", "email": "e"}
APPOINTMENT = {"date": "2026-08-09", "init_time": "09:00", "end_time": "09:30", "description": "d"}
PRE_TICKET = {
    "title": "t",
    "description": "d",
    "requestor_name": "n",
    "requestor_email": "e",
    "requestor_telephone": "47",
}
FILE = ("files[]", "nota.txt", b"content")

READ = [
    "/tickets?desk_ids=51,52&start_datetime=2026-08-02T00:00:00Z&date_type=created_at&filter_by=open",
    "/tickets/1?show_entities=true&include_filled_entity=true",
    "/tickets/1/internal_communications?offset=1&limit=5",
    "/tickets/1/internal_communications/4001",
    "/tickets/1/answers",
    "/tickets/1/answers/3001",
    "/tickets/1/files",
    f"/tickets/1/appointments?user_id=801&{WHEN}",
    f"/appointments?{WHEN}&user_ids=801&desk_ids=51&include_valorization=true",
    "/tickets/1/pre-appointments",
    "/tickets/1/service-types?date=2026-08-04",
    "/tickets/1/shifts?contract_id=9001",
    "/tickets/1/checklists",
    "/tickets/1/stages-slas",
    "/tickets/1/histories?history_of=1&operation=created",
    "/clients?active=true&name=padaria",
    "/clients/1001?show_entities=true",
    "/clients/1001/desks",
    "/clients/1001/technical-groups",
    "/clients/1001/addresses",
    "/clients/1001/addresses/1201",
    "/clients/1001/contacts",
    "/clients/1001/contacts/1401",
    "/clients/1001/requestors?name=eva&include_entity_fields=true",
    "/clients/1001/requestors/1601?include_entity_fields=true",
    "/requestors?can_open_ticket=true&email=eva",
    "/users/me",
    "/users?type=attendant&active=true",
    "/users/802",
    "/technical-users?name=bruno&desk_id=51",
    "/technical-groups",
    "/technical-groups/31/users",
    "/desks?active=true&name=mesa suporte",
    "/desks/51",
    "/desks/51/stages",
    "/desks/51/priorities",
    "/desks/51/services-catalogs",
    "/desks/51/services-catalogs-items?area_id=401&catalog_id=301&name=insta",
    "/departments?name=aten",
    "/services-catalogs?name=ti",
    "/services-catalogs/301/areas?name=hard",
    "/services-catalogs-areas/401/items?name=insta",
    "/entities?active=true&applied_in=tickets",
    "/entities/601/fields?field_type=text&required=false",
    "/entity_fields/652/options?value=fis",
    "/chats/inbox?client_id=1001&origins=whatsapp,telegram",
    "/chats/mine?created_at_start=2026-08-01",
    "/chats/in_attendance?user_id=802",
    "/chats/archived?canceled=false&finished_at_end=2026-09-30",
    "/chats/8001",
    "/chats/8001/messages",
    "/templates/gupshup?integration_id=41",
    "/templates/whatsapp_cloud?status=APPROVED",
    "/knowledges?search=como&knowledge_folder_ids=9701",
    "/knowledges/9801",
    "/knowledge-folders?search=proc",
    "/pre-tickets?archived=false&include_description=true",
    "/equipments?client_id=1001&include_manufacturer=true&include_system=true",
    "/equipments/9201?show_entities=true",
    "/equipments/9201/softwares",
    "/equipment-groups?client_id=1001",
    "/equipment-types?name=note",
    "/contracts?client_ids=1001&status=actives,expired",
    "/reports/billings/history?_type=billed&billing_start_date=2026-08-01&billing_end_date=2026-08-31",
    f"/reports/feedbacks/tickets?{WHEN}&tickets_list=true",
    f"/reports/feedbacks/chats?{WHEN}&chats_list=true",
]
JSON: list[tuple[str, str, Any, int]] = [
    ("PUT", "/tickets/2", {"title": "new", "stage_id": 106, "desk_id": 52}, 200),
    ("PUT", "/tickets/2/close", None, 200),
    ("PUT", "/tickets/2/reopen", {"disapproval_reason": "r"}, 200),
    ("PUT", "/tickets/2/cancel", None, 200),
    ("PUT", "/tickets/1/entities", ENTITY, 200),
    ("PUT", "/tickets/1/internal_communications/4001", {"text": "t"}, 200),
    ("DELETE", "/tickets/1/internal_communications/4002", None, 204),
    ("DELETE", "/ticket_answers/3001/files/5501", None, 204),
    ("DELETE", "/tickets/1/answers/3001", None, 204),
    ("DELETE", "/tickets/1/files/5001", None, 204),
    ("POST", "/tickets/1/appointments", APPOINTMENT, 201),
    ("PUT", "/tickets/1/checklists/6601/items/1", {"options": [{"id": 1, "checked": True}]}, 200),
    ("POST", "/clients", {"name": "n", "social": "s", "desk_ids": [51]}, 201),
    ("PUT", "/clients/1001", {"max_agents": 3}, 200),
    ("PUT", "/clients/1001/entities", {"entities": [{"entity_field_id": 653, "value": None}]}, 200),
    ("POST", "/clients/1001/users", {"user": {"name": "n", "email": "e"}}, 201),
    ("POST", "/clients/1001/email_tickets_permissions", {"address": "a.example"}, 201),
    ("POST", "/clients/1001/addresses", {"address": ADDRESS}, 201),
    ("PUT", "/clients/1001/addresses/1201", {"address": {"city": "c"}}, 200),
    ("DELETE", "/clients/1001/addresses/1201", None, 204),
    ("POST", "/clients/1001/contacts", {"contact": CONTACT}, 201),
    ("PUT", "/clients/1001/contacts/1401", {"contact": {"number": "48"}}, 200),
    ("DELETE", "/clients/1001/contacts/1401", None, 204),
    ("POST", "/clients/1001/requestors", {"name": "n", "email": "e", "country": "BR"}, 201),
    ("PUT", "/clients/1001/requestors/1601", {"extension": "9"}, 200),
    ("PUT", "/clients/1001/requestors/1601/entities", ASKER, 200),
    ("POST", "/users", {"name": "n", "email": "e", "technical_group_id": 31, "api_license": True}, 201),
    ("PUT", "/users/802", {"active": False, "client_ids": [1001]}, 200),
    ("POST", "/services-catalogs", {"services_catalog": {"name": "n"}}, 201),
    ("PUT", "/services-catalogs/301", {"services_catalog": {"name": "m"}}, 200),
    ("POST", "/services-catalogs/301/areas", {"area": {"name": "n"}}, 201),
    ("PUT", "/services-catalogs/301/areas/401", {"area": {"name": "m"}}, 200),
    ("DELETE", "/services-catalogs/301/areas/402", None, 204),
    ("POST", "/services-catalogs-areas/401/items", {"item": ITEM}, 201),
    ("PUT", "/services-catalogs-areas/401/items/501", {"item": {"end_time": "9:00"}}, 200),
    ("DELETE", "/services-catalogs-areas/401/items/502", None, 204),
    ("DELETE", "/services-catalogs/302", None, 204),
    ("PUT", "/chats/8001", {"user_id": 801, "ticket_number": 1}, 200),
    ("PUT", "/chats/8001/archive", {}, 202),
    ("POST", "/chats/send_message", {"number": 479, "integration_id": 41, "template_id": 10201}, 201),
    ("POST", "/knowledges", {"title": "t", "description": "d", "knowledge_folder_ids": [9701]}, 201),
    ("POST", "/equipments", {"name": "n", "client_id": 1001, "equipment_type_id": 9501}, 201),
    ("PUT", "/equipments/9201", {"equipment_type_id": 9502}, 200),
]  # fmt: skip
FORMS: list[tuple[str, dict[str, str]]] = [
    ("/tickets", {"title": "t", "description": "d", "client_id": "1001", "desk_id": "51", "status_id": "1"}),
    ("/tickets/1/answers", {"name": "<p>Olá</p>", "with_signature": "true"}),
    ("/tickets/1/internal_communications", {"text": "Olá"}),
    ("/tickets/1/files", {}),
    ("/pre-tickets", PRE_TICKET | {"client_id": "1001", "requestor_ramal": "7"}),
]


def template(method: str, url: str) -> tuple[str, str]:
    """The endpoint that a call is for, as the table of endpoints has it but for the names of ids."""
    return method, re.sub(r"/\d+(?=/|$)", "/{}", url.partition("?")[0])


def test_every_endpoint_is_called_by_these_tests() -> None:
    called = {template("GET", url) for url in READ} | {template("POST", url) for url, _ in FORMS}
    called |= {template(method, url) for method, url, _, _ in JSON}
    there = {(endpoint.method, re.sub(r"\{\w+\}", "{}", endpoint.path)) for endpoint in ENDPOINTS}
    assert called == there
    assert len(there) == 114


@pytest.mark.parametrize("mine", ["t0001", "t0002"])
async def test_everything_that_is_read_is_the_tenants_own(mine: str) -> None:
    async with TifluxEmulator() as tiflux:
        tiflux.add_tenant(OTHER)
        key, others = (API_KEY, "t0002") if mine == "t0001" else (OTHER, "t0001")
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as client:
            for url in READ:
                async with client.get(tiflux.url + url) as response:
                    text = await response.text()
                assert response.status == 200, (url, text)
                assert mine in text, (url, text)
                assert others not in text, (url, text)


async def test_everything_that_is_written_stays_with_the_tenant() -> None:
    async with TifluxEmulator() as tiflux:
        before = tiflux.add_tenant(OTHER)
        untouched = {name: len(shelf) for name, shelf in vars(before).items() if hasattr(shelf, "put")}
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {API_KEY}"}) as client:
            for method, url, body, status in JSON:
                async with client.request(method, tiflux.url + url, json=body) as response:
                    text = await response.text()
                assert response.status == status, (method, url, text)
                assert "t0002" not in text, (method, url, text)
            for url, fields in FORMS:
                async with client.post(tiflux.url + url, data=form(fields, FILE)) as response:
                    text = await response.text()
                assert response.status == 201, (url, text)
                assert "t0002" not in text, (url, text)
        after = {name: len(shelf) for name, shelf in vars(before).items() if hasattr(shelf, "put")}
        assert after == untouched
