"""Google Calendar and Google Drive."""

from collections.abc import Mapping
from typing import Any

from ..catalogue import Deed, Tool, Toolkit
from ..schemas import boolean, closed, download, integer, opened, text, texts, upload
from .answers import digest, done, kept, many, one

CALENDAR_ID = text("Which calendar.", default="primary")
EVENT = text("The id of an event.")
FILE = text("The id of a file.")


def _event(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    query = arguments.get("query") or "Meeting"
    return {
        "id": digest("event", query, number, size=20),
        "summary": f"{query} {number + 1}",
        "start": {"dateTime": f"2026-09-{number % 28 + 1:02d}T09:00:00Z"},
        "end": {"dateTime": f"2026-09-{number % 28 + 1:02d}T09:30:00Z"},
        "attendees": [{"email": f"person{number % 5}@example.com", "responseStatus": "accepted"}],
        "status": "confirmed",
    }


def _file(number: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    query = arguments.get("file_contains") or arguments.get("query") or "Document"
    return {
        "id": digest("file", query, number, size=20),
        "name": f"{query} {number + 1}.txt",
        "mimeType": "text/plain",
        "modifiedTime": f"2026-08-{number % 28 + 1:02d}T12:00:00Z",
        "size": str(1000 + number),
    }


def _downloaded(deed: Deed) -> dict[str, Any]:
    content = f"The content of file {deed.arguments['file_id']}.\n".encode()
    return {"downloaded_file_content": deed.world.offer("document.txt", "text/plain", content)}


CALENDAR = Toolkit(
    "googlecalendar",
    "Google Calendar",
    "Google Calendar keeps events and meetings, invitations and free time.",
    ("Scheduling", "Productivity", "Popular"),
    (
        Tool(
            "GOOGLECALENDAR_CREATE_EVENT",
            "Create Event",
            "Creates an event in a calendar, with attendees who are invited.",
            closed(
                start_datetime_=text("When it begins, ISO 8601."),
                summary=text("The title."),
                description=text("More about it."),
                event_duration_minutes=integer("How long.", default=30, minimum=1),
                timezone=text("The IANA name of the time zone."),
                attendees=texts("Addresses to invite."),
                location=text("Where."),
                calendar_id=CALENDAR_ID,
                create_meeting_room=boolean("With a video call.", default=False),
            ),
            kept("events", "summary", "start_datetime"),
            effect="create",
            important=True,
        ),
        Tool(
            "GOOGLECALENDAR_FIND_EVENT",
            "Find Events",
            "Finds events in a calendar by text and time.",
            closed(
                query=text("A text in the event."),
                timeMin=text("Not before, RFC 3339."),
                timeMax=text("Not after, RFC 3339."),
                max_results=integer("How many.", default=10, minimum=1),
                calendar_id=CALENDAR_ID,
            ),
            many("events", 60, _event, limit="max_results", default=10),
            important=True,
        ),
        Tool(
            "GOOGLECALENDAR_EVENTS_LIST",
            "List Events",
            "Lists the events of a calendar.",
            closed(
                calendarId_=CALENDAR_ID,
                timeMin=text("Not before."),
                timeMax=text("Not after."),
                maxResults=integer("How many.", default=250, minimum=1, maximum=2500),
            ),
            many("items", 120, _event, limit="maxResults", default=250),
        ),
        Tool(
            "GOOGLECALENDAR_UPDATE_EVENT",
            "Update Event",
            "Changes an event.",
            closed(
                event_id_=EVENT,
                start_datetime_=text("When it begins, ISO 8601."),
                summary=text("The title."),
                attendees=texts("Addresses to invite."),
                calendar_id=CALENDAR_ID,
            ),
            done(),
            effect="update",
        ),
        Tool(
            "GOOGLECALENDAR_DELETE_EVENT",
            "Delete Event",
            "Deletes an event from a calendar.",
            closed(event_id_=EVENT, calendar_id=CALENDAR_ID),
            done(),
            effect="delete",
        ),
        Tool(
            "GOOGLECALENDAR_FIND_FREE_SLOTS",
            "Find Free Slots",
            "Finds the free and busy times of calendars, to propose an appointment.",
            closed(
                items=texts("Calendars or addresses.", default=["primary"]),
                time_min=text("Not before."),
                time_max=text("Not after."),
                timezone=text("The IANA name of the time zone.", default="UTC"),
            ),
            many(
                "free",
                4,
                lambda number, arguments: {
                    "start": f"2026-09-01T{9 + 2 * number:02d}:00:00Z",
                    "end": f"2026-09-01T{10 + 2 * number:02d}:00:00Z",
                },
            ),
        ),
        Tool(
            "GOOGLECALENDAR_GET_CURRENT_DATE_TIME",
            "Get Current Date and Time",
            "Tells the date and time in a time zone.",
            closed(timezone=text("Hours from UTC or an IANA name.", default="UTC")),
            one(lambda arguments: {"current_datetime": "2026-08-31T12:00:00Z", **arguments}),
        ),
    ),
)

DRIVE = Toolkit(
    "googledrive",
    "Google Drive",
    "Google Drive stores and shares files and folders.",
    ("Document Storage", "Productivity"),
    (
        Tool(
            "GOOGLEDRIVE_FIND_FILE",
            "Find File",
            "Finds files and folders by name, type or text.",
            closed(
                file_contains=text("A text in the name or content."),
                mime_type=text("Only this type."),
                page_size=integer("How many.", default=10, minimum=1, maximum=1000),
            ),
            many("files", 40, _file, limit="page_size", default=10),
            important=True,
        ),
        Tool(
            "GOOGLEDRIVE_UPLOAD_FILE",
            "Upload File",
            "Uploads a file to a folder of the drive.",
            closed(
                file_to_upload_=upload("The file."),
                folder_to_upload_to=text("The id of the folder; the root."),
            ),
            kept("drive_files", "file_to_upload"),
            effect="create",
            important=True,
        ),
        Tool(
            "GOOGLEDRIVE_DOWNLOAD_FILE",
            "Download File",
            "Downloads a file of the drive, exported where it is a Google document.",
            closed(file_id_=FILE, mime_type=text("The type to export to.")),
            _downloaded,
            opened(downloaded_file_content_=download("The file.")),
            important=True,
        ),
        Tool(
            "GOOGLEDRIVE_CREATE_FOLDER",
            "Create Folder",
            "Creates a folder in the drive.",
            closed(folder_name_=text("Its name."), parent_id=text("The id of the folder around it.")),
            kept("folders", "folder_name"),
            effect="create",
        ),
        Tool(
            "GOOGLEDRIVE_ADD_FILE_SHARING_PREFERENCE",
            "Share File",
            "Gives a person, a group or everyone access to a file.",
            closed(
                file_id_=FILE,
                role_=text("reader, commenter, writer or owner."),
                type_=text("user, group, domain or anyone."),
                email_address=text("Who, for a user or group."),
            ),
            done(),
            effect="update",
        ),
    ),
)

TOOLKITS = (CALENDAR, DRIVE)
