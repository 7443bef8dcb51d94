"""Gmail."""

from typing import Any

from ..catalogue import Tool, Toolkit
from ..schemas import boolean, closed, integer, opened, text, texts, upload
from .answers import digest, kept, many

ME = text("The mailbox; `me` is the connected account.", default="me")


def _mail(number: int, arguments: Any) -> dict[str, Any]:
    query = arguments.get("query") or "inbox"
    return {
        "messageId": digest("mail", query, number, size=16),
        "threadId": digest("thread", query, number // 2, size=16),
        "messageTimestamp": f"2026-07-{28 - number % 28:02d}T08:{number % 60:02d}:00Z",
        "labelIds": ["INBOX", "UNREAD"] if number % 3 == 0 else ["INBOX"],
        "sender": f"Person {number} <person{number}@example.com>",
        "to": "me@example.com",
        "subject": f"About {query}, part {number + 1}",
        "messageText": f"This is message {number + 1} about {query}.",
        "attachmentList": [],
    }


GMAIL = Toolkit(
    "gmail",
    "Gmail",
    "Gmail is Google's email service: send, read, search and label mail.",
    ("Communication", "Productivity", "Popular"),
    (
        Tool(
            "GMAIL_SEND_EMAIL",
            "Send Email",
            "Sends an email at once from the connected account, as plain text or HTML, with one attachment.",
            closed(
                recipient_email_=text("The address of the main recipient."),
                body_=text("The text of the mail; HTML when is_html is true."),
                subject=text("The subject line."),
                is_html=boolean("Whether the body is HTML.", default=False),
                cc=texts("Addresses for a carbon copy.", default=[]),
                bcc=texts("Addresses for a blind carbon copy.", default=[]),
                extra_recipients=texts("More addresses for the To field.", default=[]),
                attachment=upload("One file to attach."),
                user_id=ME,
            ),
            kept("emails", "recipient_email", "subject", "attachment"),
            opened(response_data_={"type": "object", "description": "The mail as Gmail stored it."}),
            effect="create",
            important=True,
            scopes=("https://www.googleapis.com/auth/gmail.send",),
        ),
        Tool(
            "GMAIL_FETCH_EMAILS",
            "Fetch Emails",
            "Fetches mails from the mailbox, filtered by Gmail's search syntax and by labels.",
            closed(
                query=text("A search in Gmail's syntax, such as `from:ana is:unread`."),
                max_results=integer("How many at most.", default=1, minimum=1, maximum=500),
                label_ids=texts("Only mails with all of these labels."),
                page_token=text("The next page, from an earlier reply."),
                ids_only=boolean("Only the ids.", default=False),
                verbose=boolean("With headers and body.", default=True),
                include_payload=boolean("With the whole MIME payload.", default=True),
                include_spam_trash=boolean("Also from spam and trash.", default=False),
                user_id=ME,
            ),
            many("messages", 200, _mail, limit="max_results", default=1),
            important=True,
            scopes=("https://www.googleapis.com/auth/gmail.readonly",),
        ),
    ),
)

TOOLKITS = (GMAIL,)
