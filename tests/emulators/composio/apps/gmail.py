"""Gmail."""

from collections.abc import Mapping
from typing import Any

from ..catalogue import Deed, Tool, ToolFailed, Toolkit
from ..schemas import boolean, closed, download, free, integer, opened, text, texts, upload
from .answers import digest, done, kept, many, one

ME = text("The mailbox; `me` is the connected account.", default="me")
MESSAGE = text("The id of a message.")
READ = ("https://www.googleapis.com/auth/gmail.readonly",)
SEND = ("https://www.googleapis.com/auth/gmail.send",)
CHANGE = ("https://www.googleapis.com/auth/gmail.modify",)


def _mail(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
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


def _message(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return _mail(0, {}) | {"messageId": arguments["message_id"]}


def _label(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    name = ("INBOX", "SENT", "DRAFT", "SPAM", "TRASH", "UNREAD", "Work", "Family")[number]
    return {"id": name.upper(), "name": name, "type": "system" if name.isupper() else "user"}


def _attachment(deed: Deed) -> dict[str, Any]:
    name = deed.arguments["file_name"]
    content = f"The attachment {name} of message {deed.arguments['message_id']}.\n".encode()
    return {"file": deed.world.offer(name, "text/plain", content)}


def _send(deed: Deed) -> dict[str, Any]:
    """Keeps the mail as its recipient gets it: with the bytes of the attachment."""
    reply = kept("emails", "recipient_email", "subject", "attachment")(deed)
    if attachment := deed.arguments.get("attachment"):
        received = deed.world.blobs[attachment["s3key"]].content
        deed.world.records["emails"][-1]["received"] = received
    return reply


def _reply(deed: Deed) -> dict[str, Any]:
    if not deed.arguments["thread_id"].isalnum():
        raise ToolFailed(f"Invalid thread id {deed.arguments['thread_id']!r}")
    return kept("emails", "thread_id", "recipient_email")(deed)


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
            _send,
            opened(response_data_=free("The mail as Gmail stored it.")),
            effect="create",
            important=True,
            scopes=SEND,
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
            scopes=READ,
        ),
        Tool(
            "GMAIL_FETCH_MESSAGE_BY_MESSAGE_ID",
            "Fetch Message by ID",
            "Fetches one mail by its id, with headers and body.",
            closed(message_id_=MESSAGE, format=text("minimal, full or raw.", default="full"), user_id=ME),
            one(_message),
            scopes=READ,
        ),
        Tool(
            "GMAIL_REPLY_TO_THREAD",
            "Reply to Thread",
            "Sends a reply within an existing mail thread.",
            closed(
                thread_id_=text("The thread to reply in."),
                recipient_email_=text("The address of the main recipient."),
                message_body_=text("The text of the reply."),
                is_html=boolean("Whether it is HTML.", default=False),
                user_id=ME,
            ),
            _reply,
            effect="create",
            scopes=SEND,
        ),
        Tool(
            "GMAIL_CREATE_EMAIL_DRAFT",
            "Create Email Draft",
            "Creates a draft of a mail, which is not sent.",
            closed(
                recipient_email_=text("The address of the main recipient."),
                subject_=text("The subject line."),
                body_=text("The text of the draft."),
                is_html=boolean("Whether the body is HTML.", default=False),
                attachment=upload("One file to attach."),
                user_id=ME,
            ),
            kept("drafts", "recipient_email", "subject"),
            effect="create",
            scopes=CHANGE,
        ),
        Tool(
            "GMAIL_GET_ATTACHMENT",
            "Get Attachment",
            "Downloads an attachment of a mail.",
            closed(
                message_id_=MESSAGE,
                attachment_id_=text("The id of the attachment."),
                file_name_=text("What to call the file."),
                user_id=ME,
            ),
            _attachment,
            opened(file_=download("The attachment.")),
            scopes=READ,
        ),
        Tool(
            "GMAIL_LIST_LABELS",
            "List Labels",
            "Lists the labels of the mailbox.",
            closed(user_id=ME),
            many("labels", 8, _label),
            scopes=READ,
        ),
        Tool(
            "GMAIL_ADD_LABEL_TO_EMAIL",
            "Modify Labels of Email",
            "Adds labels to a mail, and takes labels off it.",
            closed(
                message_id_=MESSAGE,
                add_label_ids=texts("Labels to add.", default=[]),
                remove_label_ids=texts("Labels to take off.", default=[]),
                user_id=ME,
            ),
            done(),
            effect="update",
            scopes=CHANGE,
        ),
        Tool(
            "GMAIL_MOVE_TO_TRASH",
            "Move to Trash",
            "Moves a mail to the trash.",
            closed(message_id_=MESSAGE, user_id=ME),
            done(),
            effect="delete",
            scopes=CHANGE,
        ),
        Tool(
            "GMAIL_SEARCH_PEOPLE",
            "Search People",
            "Searches the contacts of the account by name or address.",
            closed(query_=text("A part of a name or address."), page_size=integer("How many.", default=10)),
            many(
                "contacts",
                30,
                lambda number, arguments: {
                    "name": f"{arguments['query'].title()} {number}",
                    "email": f"{arguments['query'].lower()}{number}@example.com",
                },
                limit="page_size",
                default=10,
            ),
            scopes=READ,
        ),
        Tool(
            "GMAIL_LIST_MESSAGES_OLD",
            "List Messages (deprecated)",
            "Lists mails. Deprecated: fetch emails instead.",
            closed(user_id=ME),
            many("messages", 5, _mail),
            is_deprecated=True,
            scopes=READ,
        ),
    ),
)
