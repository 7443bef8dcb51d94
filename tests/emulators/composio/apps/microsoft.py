"""Outlook."""

from collections.abc import Mapping
from typing import Any

from ..catalogue import Tool, Toolkit
from ..schemas import boolean, closed, integer, text, texts, upload
from .answers import digest, kept, many

ME = text("The mailbox; `me` is the connected account.", default="me")


def _message(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    about = arguments.get("query") or arguments.get("folder") or "inbox"
    return {
        "id": digest("outlook", about, number, size=24),
        "subject": f"Regarding {about}, number {number + 1}",
        "from": {"emailAddress": {"address": f"colleague{number}@example.com"}},
        "receivedDateTime": f"2026-08-{number % 28 + 1:02d}T07:00:00Z",
        "isRead": number % 2 == 0,
    }


OUTLOOK = Toolkit(
    "outlook",
    "Outlook",
    "Outlook is Microsoft's mail, calendar and contacts.",
    ("Communication", "Productivity"),
    (
        Tool(
            "OUTLOOK_OUTLOOK_SEND_EMAIL",
            "Send Email",
            "Sends an email from the connected Outlook account.",
            closed(
                to_email_=text("The address of the main recipient."),
                subject_=text("The subject line."),
                body_=text("The text; HTML when is_html is true."),
                is_html=boolean("Whether the body is HTML.", default=False),
                to_name=text("The recipient's name."),
                cc_emails=texts("Addresses for a carbon copy.", default=[]),
                bcc_emails=texts("Addresses for a blind carbon copy.", default=[]),
                attachment=upload("One file to attach."),
                save_to_sent_items=boolean("Keep it in the sent folder.", default=True),
                user_id=ME,
            ),
            kept("emails", "to_email", "subject"),
            effect="create",
            important=True,
        ),
        Tool(
            "OUTLOOK_OUTLOOK_LIST_MESSAGES",
            "List Messages",
            "Lists the mails of a folder.",
            closed(
                folder=text("The folder.", default="inbox"),
                top=integer("How many.", default=10, minimum=1, maximum=1000),
                is_read=boolean("Only read ones, or only unread ones."),
                user_id=ME,
            ),
            many("value", 80, _message, limit="top", default=10),
            important=True,
        ),
        Tool(
            "OUTLOOK_OUTLOOK_SEARCH_MESSAGES",
            "Search Messages",
            "Searches the mails of the mailbox.",
            closed(query_=text("What to look for."), size=integer("How many.", default=25)),
            many("value", 40, _message, limit="size", default=25),
        ),
        Tool(
            "OUTLOOK_OUTLOOK_CREATE_DRAFT",
            "Create Draft",
            "Creates a draft of a mail, which is not sent.",
            closed(
                subject_=text("The subject line."),
                body_=text("The text."),
                to_recipients=texts("Addresses of the recipients.", default=[]),
            ),
            kept("drafts", "subject"),
            effect="create",
        ),
        Tool(
            "OUTLOOK_OUTLOOK_CALENDAR_CREATE_EVENT",
            "Create Calendar Event",
            "Creates an event in the Outlook calendar.",
            closed(
                subject_=text("The title."),
                start_datetime_=text("When it begins, ISO 8601."),
                end_datetime_=text("When it ends, ISO 8601."),
                time_zone_=text("The name of the time zone."),
                attendees_info=texts("Addresses to invite."),
                location=text("Where."),
            ),
            kept("events", "subject", "start_datetime"),
            effect="create",
        ),
    ),
)

TOOLKITS = (OUTLOOK,)
