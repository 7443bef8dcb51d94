"""The report of a period: appointments of every page, summed by technician and desk."""

from typing import Any

from tests.emulators.tiflux import TifluxEmulator
from tests.servers.tiflux.talking import at

AUGUST = {"start_date": "2026-08-01", "end_date": "2026-08-31"}


def record(tiflux: TifluxEmulator, who: int, desk: int, start: str, end: str, worth: Any = "10.50") -> None:
    tenant = tiflux.tenant
    user, place = tenant.users.one(who), tenant.desks.one(desk)
    tenant.appointments.put(
        1,
        date="2026-08-10",
        init_time=start,
        end_time=end,
        user={"id": who, "name": user["name"]},
        desk={"id": desk, "name": place["name"]},
        ticket_number=1,
        description="",
        valorization={"value": worth, "manual_value": False},
    )


async def test_time_is_summed_over_all_pages_by_technician_and_desk(tiflux: TifluxEmulator):
    for _ in range(250):
        record(tiflux, 802, 51, "09:00", "09:10")
    record(tiflux, 802, 52, "10:00", "11:30", "--")
    record(tiflux, 803, 51, "10:00", "noon", None)
    async with at(tiflux) as talk:
        report = await talk.call("list_appointments_report", **AUGUST, include_valorization=True)
        assert (report["appointments"], report["minutes"]) == (253, 90 + 2500 + 90)
        assert report["value"] == 150 + 250 * 10.5
        bruno, ana, carla = report["technicians"]
        assert [one["name"].split()[0] for one in (bruno, ana, carla)] == ["Bruno", "Ana", "Carla"]
        assert [(desk["name"], desk["minutes"]) for desk in bruno["desks"]] == [
            ("Suporte t0001", 2500),
            ("Comercial t0001", 90),
        ]
        assert (carla["appointments"], carla["minutes"], carla["value"]) == (1, 0, 0)
        report = await talk.call("list_appointments_report", **AUGUST, user_names="Carla Dias")
        assert ("value" in report, report["appointments"]) == (False, 1)


async def test_a_period_without_work_is_empty(tiflux: TifluxEmulator):
    async with at(tiflux) as talk:
        empty = {"start_date": "2020-01-01", "end_date": "2020-01-31"}
        report = await talk.call("list_appointments_report", **empty)
        assert report == {"appointments": 0, "minutes": 0, "technicians": []}
        assert "end_date" in await talk.refusal("list_appointments_report", start_date="2026-08-01")
