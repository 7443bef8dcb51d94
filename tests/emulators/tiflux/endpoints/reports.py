"""Money and opinions: contracts, billings, and what clients thought of tickets and chats."""

from ..asked import Asked, Reply
from ..lists import matching, page
from ..refusals import invalid
from ..shelves import Json
from .endpoint import Endpoint, get, pages

CONTRACTS = ("actives", "readjust", "expired")
PERIOD = "start_date end_date offset limit responsible_ids department_ids technical_group_ids"
BILLINGS = (
    "billing_start_date billing_end_date due_start_date due_end_date client_id nfe_number ticket_number _type"
)


def list_contracts(asked: Asked) -> Reply:
    wanted = asked.query.get("status", "actives").split(",")
    for status in wanted:
        if status not in CONTRACTS:
            raise invalid("status", f"must be of {', '.join(CONTRACTS)}")
    among = {"client_ids": "client.id", "contract_type_ids": "contract_type.id"}
    found = matching(asked, asked.tenant.contracts, among=among)
    return page(asked, [contract for contract in found if contract["status"] in wanted])


def billings(asked: Asked) -> Reply:
    for period in ("billing", "due"):
        given = [f"{period}_{end}_date" in asked.query for end in ("start", "end")]
        if any(given) and not all(given):
            raise invalid(f"{period}_start_date", f"and {period}_end_date go together")
    same = {"client_id": "client_id", "nfe_number": "nfe_number", "ticket_number": "ticket_number"}
    found = matching(
        asked,
        asked.tenant.billings,
        same=same,
        since={"billing_start_date": "billing_date", "due_start_date": "due_date"},
        until={"billing_end_date": "billing_date", "due_end_date": "due_date"},
    )
    state = asked.query.get("_type", "")
    return page(asked, [billing for billing in found if _is(billing, state)])


def _is(billing: Json, state: str) -> bool:
    return {"": True, "billed": not billing["reversal"], "reversed": billing["reversal"]}.get(
        state, billing["paid"]
    )


def ticket_opinions(asked: Asked) -> Reply:
    _check_period(asked)
    closed = [ticket for ticket in asked.tenant.tickets if ticket["is_closed"]]
    dates = {"since": {"start_date": "closed_at"}, "until": {"end_date": "closed_at"}}
    found = matching(asked, closed, among={"responsible_ids": "responsible.id"}, **dates)
    judged = [
        {
            "id": ticket["ticket_number"],
            "client_name": ticket["client"]["name"],
            "responsible_name": ticket["responsible"]["name"],
            "desk_name": ticket["desk"]["name"],
            "rating": 5,
            "revised_in_time": ticket["closed_at"],
            "comments": asked.tenant.text("Muito bom"),
        }
        for ticket in found
    ]
    return _report(asked, "tickets", judged)


def chat_opinions(asked: Asked) -> Reply:
    _check_period(asked)
    archived = [chat for chat in asked.tenant.chats if chat["archived"]]
    dates = {"since": {"start_date": "finished_at"}, "until": {"end_date": "finished_at"}}
    found = matching(asked, archived, among={"department_ids": "department.id"}, **dates)
    judged = [
        {
            "id": chat["id"],
            "client_name": chat["client"]["name"],
            "responsible_name": asked.tenant.me["name"],
            "rating": 4,
            "rating_time": chat["finished_at"],
            "ticket_number": None,
        }
        for chat in found
        if chat["client"]
    ]
    return _report(asked, "chats", judged)


def _check_period(asked: Asked) -> None:
    for name in ("start_date", "end_date"):
        if name not in asked.query:
            raise invalid(name, "can't be blank")
    if asked.query["end_date"] < asked.query["start_date"]:
        raise invalid("end_date", "must not be before start_date")


def _report(asked: Asked, what: str, judged: list[Json]) -> Reply:
    """Without a header for the total: the summary has it."""
    ratings = [one["rating"] for one in judged]
    summary = {
        "rating_average": sum(ratings) / len(ratings) if ratings else 0.0,
        f"{what}_evaluated": len(judged),
        f"{what}_finished": len(judged),
        "clients_evaluated": len({one["client_name"] for one in judged}),
        "answers_percentage": 100.0 if judged else 0.0,
    }
    listed = {f"{what}_list": page(asked, judged).body} if asked.query.get(f"{what}_list") else {}
    return Reply({"summary": summary, **listed})


ENDPOINTS: list[Endpoint] = [
    pages("/contracts", list_contracts, "client_ids contract_type_ids status"),
    pages("/reports/billings/history", billings, BILLINGS),
    get("/reports/feedbacks/tickets", ticket_opinions, f"{PERIOD} tickets_list"),
    get("/reports/feedbacks/chats", chat_opinions, f"{PERIOD} chats_list"),
]
