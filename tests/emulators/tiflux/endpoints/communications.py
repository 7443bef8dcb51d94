"""What is said about a ticket: answers to the client, internal communications, files of both."""

from ..asked import GONE, Asked, Reply, made
from ..bodies import MIB, Body
from ..clock import NOW
from ..lists import page
from ..making import stored
from ..refusals import invalid
from ..shelves import Json, brief
from .endpoint import Endpoint, delete, get, pages, post, put

ONE = "/tickets/{ticket}"


def _ticket(asked: Asked) -> int:
    return asked.tenant.tickets.one(asked.ids["ticket"])["ticket_number"]


def _files(asked: Asked) -> list[Json]:
    return [stored(asked.tenant, file.filename, file.content_type, len(file.content)) for file in asked.files]


def list_communications(asked: Asked) -> Reply:
    found = asked.tenant.communications.of(_ticket(asked))
    return page(asked, ({n: v for n, v in thing.items() if n != "files"} for thing in found))


def get_communication(asked: Asked) -> Reply:
    return Reply(_communication(asked))


def _communication(asked: Asked) -> Json:
    return asked.tenant.communications.one(asked.ids["id"], _ticket(asked))


def create_communication(asked: Asked) -> Reply:
    files = _files(asked)
    who = brief(asked.tenant.me)
    fields = {"text": asked.body["text"], "user": who, "files": files, "files_count": len(files)}
    return made(asked.tenant.communications.put(_ticket(asked), **fields, created_at=NOW, updated_at=NOW))


def update_communication(asked: Asked) -> Reply:
    thing = _communication(asked)
    thing.update(asked.body, updated_at=NOW)
    return Reply(thing)


def delete_communication(asked: Asked) -> Reply:
    asked.tenant.communications.drop(asked.ids["id"], _ticket(asked))
    return GONE


def list_answers(asked: Asked) -> Reply:
    return page(asked, asked.tenant.answers.of(_ticket(asked)))


def get_answer(asked: Asked) -> Reply:
    answer = asked.tenant.answers.one(asked.ids["id"], _ticket(asked))
    return Reply(answer | {"files": asked.tenant.answer_files.of(answer["id"])})


def create_answer(asked: Asked) -> Reply:
    files = _files(asked)
    answer = asked.tenant.answers.put(
        _ticket(asked),
        name=asked.body["name"],
        author=brief(asked.tenant.me),
        answer_time=NOW,
        answer_origin="api",
        signature=asked.body.get("with_signature") == "true",
        files_count=len(files),
    )
    for file in files:
        asked.tenant.answer_files.put(answer["id"], **file)
    return made(answer)


def delete_answer(asked: Asked) -> Reply:
    asked.tenant.answers.drop(asked.ids["id"], _ticket(asked))
    return GONE


def delete_answer_file(asked: Asked) -> Reply:
    answer = asked.tenant.answers.one(asked.ids["answer"])
    asked.tenant.answer_files.drop(asked.ids["id"], answer["id"])
    answer["files_count"] -= 1
    return GONE


def list_files(asked: Asked) -> Reply:
    return Reply(asked.tenant.files.of(_ticket(asked)))


def upload_files(asked: Asked) -> Reply:
    ticket = _ticket(asked)
    if not asked.files:
        raise invalid("files", "can't be blank")
    return made([asked.tenant.files.put(ticket, **file) for file in _files(asked)])


def delete_file(asked: Asked) -> Reply:
    asked.tenant.files.drop(asked.ids["id"], _ticket(asked))
    return GONE


TEXT = Body("multipart", {"text": "text"}, files=25 * MIB)
ANSWER = Body("multipart", {"name": "text"}, {"with_signature": "bool"}, files=40 * MIB)

ENDPOINTS: list[Endpoint] = [
    pages(f"{ONE}/internal_communications", list_communications),
    post(f"{ONE}/internal_communications", create_communication, TEXT),
    get(f"{ONE}/internal_communications/{{id}}", get_communication),
    put(f"{ONE}/internal_communications/{{id}}", update_communication, Body("json", {"text": "text"})),
    delete(f"{ONE}/internal_communications/{{id}}", delete_communication),
    pages(f"{ONE}/answers", list_answers),
    post(f"{ONE}/answers", create_answer, ANSWER),
    get(f"{ONE}/answers/{{id}}", get_answer),
    delete(f"{ONE}/answers/{{id}}", delete_answer),
    delete("/ticket_answers/{answer}/files/{id}", delete_answer_file),
    get(f"{ONE}/files", list_files),
    post(f"{ONE}/files", upload_files, Body("multipart", files=25 * MIB)),
    delete(f"{ONE}/files/{{id}}", delete_file),
]
