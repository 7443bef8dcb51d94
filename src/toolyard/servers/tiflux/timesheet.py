"""The report of appointments: how many and how long, by technician and desk."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct, field

from ...rest.response.result import at

REPORT = "list_appointments_report"
_TIME = re.compile(r"(\d{1,3}):(\d\d)")


class AppointmentTotals(Struct):
    name: str
    appointments: int = 0
    minutes: int = 0
    value: float = 0.0
    parts: dict[str, "AppointmentTotals"] = field(default_factory=dict[str, "AppointmentTotals"])
    """By id, because people may share a name."""

    def add(self, appointment: Any) -> None:
        self.appointments += 1
        self.minutes += minutes(at(appointment, "init_time"), at(appointment, "end_time"))
        self.value += amount(at(appointment, "valorization.value"))

    def part(self, thing: Any) -> "AppointmentTotals":
        """The totals of the technician or desk of an appointment."""
        return self.parts.setdefault(str(at(thing, "id")), AppointmentTotals(str(at(thing, "name") or "?")))

    def plain(self, valued: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"appointments": self.appointments, "minutes": self.minutes}
        return found | ({"value": round(self.value, 2)} if valued else {})

    def ordered(self) -> "list[AppointmentTotals]":
        """The parts with the most time first."""
        return sorted(self.parts.values(), key=lambda part: (-part.minutes, part.name))


def report_of(result: dict[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the report from the appointments of a period."""
    valued = bool(arguments.get("include_valorization"))
    whole = AppointmentTotals("")
    for appointment in result.get("items", ()):
        technician = whole.part(at(appointment, "user"))
        for total in (whole, technician, technician.part(at(appointment, "desk"))):
            total.add(appointment)
    report = whole.plain(valued) | {"technicians": [_technician(one, valued) for one in whole.ordered()]}
    return report | ({"truncated": True} if result.get("truncated") else {})


def _technician(one: AppointmentTotals, valued: bool) -> dict[str, Any]:
    desks = [{"name": desk.name, **desk.plain(valued)} for desk in one.ordered()]
    return {"name": one.name, **one.plain(valued), "desks": desks}


def minutes(start: Any, end: Any) -> int:
    """Minutes between two times HH:MM; 0 if either is malformed."""
    first, last = _TIME.match(str(start)), _TIME.match(str(end))
    if first is None or last is None:
        return 0
    return max(0, (int(last[1]) - int(first[1])) * 60 + int(last[2]) - int(first[2]))


def amount(value: Any) -> float:
    """TiFlux writes amounts as text, and two dashes for callers who may not see them."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return 0.0
    return found if isfinite(found) else 0.0
