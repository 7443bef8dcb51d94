"""`read_result`: reads a part of a stored result, held to the limits of every other result.

Reads a page straight off the disk; runs JMESPath and SQL in a worker process. An id of another tenant
is an unknown id.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...artifacts.store import ArtifactReader, ArtifactStore, ArtifactStoreError
from ...config import ResultsConfig
from ...extras import install_command
from ...languages import current_locale, said
from ...workers.pool import (
    TooManyWaitingError,
    WaitedTooLongError,
    WorkerDiedError,
    WorkerPool,
    WorkerStartError,
    WorkerTimeoutError,
)
from ..formats.json_parts import decode_line, decode_or_excerpt, items_of, value_of
from ..formats.tables import as_record, cut, record_of, rows_of
from ..limits import Limits
from .content import IndexCache, PositionIndex, ResultPage, index_file, page_of_items, split_lines
from .worker import LONGEST_PATH, QueryAnswer, QueryRequest

LARGEST_OFFSET = 10**12
MOST_ITEMS = 1_000
LONGEST_QUERY = 20_000
ReadMode = Literal["page", "query", "sql"]


class ReadResultError(Exception):
    """A request cannot be answered; the message is for the model and says what to do."""


class ReadRequest(Struct, frozen=True):
    id: str
    way: ReadMode
    text: str = ""
    """The expression or statement."""
    offset: int = 0
    limit: int | None = None


def parse_read_request(arguments: dict[str, Any]) -> ReadRequest:
    unknown = set(arguments) - {"id", "offset", "limit", "query", "sql"}
    if unknown:
        first = min(unknown)
        raise ReadResultError(
            said(
                f"unknown argument {first!r}; known: id, offset, limit, query and sql",
                f"argumento desconhecido {first!r}; há: id, offset, limit, query e sql",
            )
        )
    id = arguments.get("id")
    if not isinstance(id, str) or not id:
        raise ReadResultError(
            said(
                "'id' is missing: it is in the 'storage' of a truncated result",
                "falta 'id': está em 'storage' de um resultado encurtado",
            )
        )
    id = id.removeprefix("toolyard://results/")
    query, sql = _text(arguments, "query"), _text(arguments, "sql")
    if query and sql:
        raise ReadResultError(
            said("give 'query' (JMESPath) or 'sql', not both", "dê 'query' (JMESPath) ou 'sql', não os dois")
        )
    way: ReadMode = "query" if query else "sql" if sql else "page"
    offset = _number(arguments, "offset", 0, LARGEST_OFFSET)
    limit = _number(arguments, "limit", 1, MOST_ITEMS)
    return ReadRequest(id, way, query or sql, offset or 0, limit)


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise ReadResultError(
            said(
                f"{name!r} must be a text that is not empty", f"{name!r} deve ser um texto que não seja vazio"
            )
        )
    if not _can_be_written(value):
        raise ReadResultError(
            said(
                f"{name!r} contains half of a surrogate pair", f"{name!r} contém metade de um par substituto"
            )
        )
    if len(value) > LONGEST_QUERY:
        raise ReadResultError(
            said(
                f"{name!r} is over {LONGEST_QUERY} characters",
                f"{name!r} passa de {LONGEST_QUERY} caracteres",
            )
        )
    return value


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(arguments: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ReadResultError(
            said(
                f"{name!r} must be a whole number from {least} to {most}",
                f"{name!r} deve ser um número inteiro de {least} a {most}",
            )
        )
    return value


logger = logging.getLogger("toolyard.results")

AROUND = 400
"""Bytes of an answer besides the page itself."""
WORTH_READING = 8
"""How many times the room to read from the file: it also holds white space between items."""
LONGEST_READ = 2**20
IN_A_THREAD = 2**20
"""Bytes; a longer result is indexed by a worker, which has limits and can be killed but starts in 50 ms. A
result of this size takes 10 ms in a thread, or 300 ms with very short items."""

PROCESSES = 3
"""Worker processes; each may use the memory of one query."""
MOST_WAITING = 16
"""Waiting queries of one tenant."""
LONGEST_ANSWER = 16 * 2**20


@cache
def answers_sql() -> bool:
    """Whether the extra for it is installed. Looked up once: every call of a view with `read_result` asks."""
    return find_spec("duckdb") is not None


class ResultReader:
    def __init__(self, store: ArtifactStore, settings: ResultsConfig) -> None:
        self._store = store
        self._indexes = IndexCache()
        self._workers = WorkerPool(
            "toolyard.results.query.worker", max_workers=PROCESSES, max_waiting=MOST_WAITING
        )
        self.reconfigure(settings)

    def reconfigure(self, settings: ResultsConfig) -> None:
        self._settings = settings
        limits = Limits(max_bytes=settings.max_bytes)
        self._room = limits.answer_bytes - AROUND

    async def read(
        self, tenant: str, arguments: dict[str, Any], permits: Callable[[str], bool] = lambda tool: True
    ) -> dict[str, Any]:
        """Returns the answer. Raises ReadResultError with a message for the model."""
        request = parse_read_request(arguments)
        if request.way == "sql" and not answers_sql():
            command = install_command("sql")
            raise ReadResultError(
                said(
                    f"SQL needs DuckDB: {command}. Pages and 'query' work without it",
                    f"SQL precisa do DuckDB: {command}. Páginas e 'query' funcionam sem ele",
                )
            )
        try:
            reading = await self._store.open(tenant, request.id)
            shown = request.id[:40]
            unknown = ReadResultError(
                said(
                    f"No result {shown!r}: it has expired or never existed",
                    f"Não há o resultado {shown!r}: expirou ou nunca existiu",
                )
            )
            if reading is None:
                raise unknown
            try:
                if not permits(reading.artifact.tool):
                    raise unknown
                return await self._answer(tenant, request, reading)
            finally:
                await reading.close()
        except ArtifactStoreError as error:
            raise ReadResultError(
                said(
                    f"The stored result cannot be read now: {error.reason}",
                    f"O resultado guardado não pode ser lido agora: {error.reason}",
                )
            ) from None

    async def _answer(self, tenant: str, request: ReadRequest, reading: ArtifactReader) -> dict[str, Any]:
        index = await self._index(tenant, request, reading) if request.way == "page" else None
        if index is None or index.kind == "value":
            wanted = await self._request(request.way, request, reading)
            part = (await self._asked(tenant, wanted)).part
            assert part is not None
        else:
            part = await self._page(request, reading, index)
        return part.told(request.id)

    async def _index(self, tenant: str, request: ReadRequest, reading: ArtifactReader) -> PositionIndex:
        index = self._indexes.get(request.id)
        if index is None:
            if reading.artifact.size <= IN_A_THREAD:
                index = await asyncio.to_thread(index_file, await reading.path(), _is_json(reading))
            else:
                wanted = await self._request("index", request, reading)
                index = (await self._asked(tenant, wanted)).index
                assert index is not None
            self._indexes.put(request.id, index)
        return index

    async def _page(self, request: ReadRequest, reading: ArtifactReader, index: PositionIndex) -> ResultPage:
        start = min(request.offset, index.count)
        count = min(index.count - start, self._limit(request))
        begins, ends, skipped = index.span(start, count)
        while count > 1 and ends - begins > self._room * WORTH_READING:
            count = count // 2
            begins, ends, skipped = index.span(start, count)
        path = cut(".".join(index.path), LONGEST_PATH)
        if ends - begins > LONGEST_READ:
            size = ends - begins
            told = said(f"it has {size} bytes", f"tem {size} bytes")
            return ResultPage("items", [told], start, 1, index.count, cut=True, path=path)
        body = await reading.read(begins, ends - begins)
        found = _READERS[index.kind](body, index)[skipped : skipped + count]
        kind = "lines" if index.kind == "lines" else "items"
        return replace(page_of_items(found, index.count, start, self._room, kind), path=path)

    async def _request(self, way: str, request: ReadRequest, reading: ArtifactReader) -> QueryRequest:
        return QueryRequest(
            way=way,
            path=str(await reading.path()),
            json=_is_json(reading),
            text=request.text,
            offset=request.offset,
            limit=self._limit(request),
            room=self._room,
            memory=self._settings.sql_memory,
            locale=current_locale(),
        )

    async def _asked(self, tenant: str, request: QueryRequest) -> QueryAnswer:
        seconds = self._settings.sql_seconds
        try:
            found = await self._workers.ask(
                msgspec.json.encode(request),
                seconds=seconds,
                max_bytes=LONGEST_ANSWER,
                caller=tenant,
                wait_seconds=seconds,
                kind=request.kind,
                subject=request.path if request.kind == "sql" else "",
            )
        except TooManyWaitingError as error:
            raise ReadResultError(
                said(
                    f"{error.count} of your queries are waiting already; try again when some are done",
                    f"{error.count} consultas suas já esperam; tente de novo quando algumas terminarem",
                )
            ) from None
        except WaitedTooLongError:
            raise ReadResultError(
                said(
                    "Other queries are still running; try again in a moment",
                    "Outras consultas ainda estão rodando; tente de novo em um momento",
                )
            ) from None
        except WorkerTimeoutError:
            raise ReadResultError(
                said(f"It took more than {seconds:g} s; ask for less", f"Passou de {seconds:g} s; peça menos")
            ) from None
        except WorkerDiedError:
            raise ReadResultError(
                said(
                    "The query used too much memory, or crashed its process",
                    "A consulta usou memória demais, ou derrubou o processo dela",
                )
            ) from None
        except WorkerStartError as error:
            logger.warning("no process can be started for queries: %s", error)
            raise ReadResultError(
                said(
                    "Queries cannot be run now: no process can be started for them",
                    "Não é possível rodar consultas agora: nenhum processo pode ser iniciado para elas",
                )
            ) from None
        answer = msgspec.json.decode(found, type=QueryAnswer)
        if answer.failed:
            raise ReadResultError(answer.failed)
        return answer

    def _limit(self, request: ReadRequest) -> int:
        return request.limit or self._settings.max_items

    async def close(self) -> None:
        await self._workers.close()


def _is_json(reading: ArtifactReader) -> bool:
    return reading.artifact.content_type.startswith("application/json")


def _items(body: bytes, index: PositionIndex) -> list[Any]:
    """Decodes a part of a list, which may end with a comma."""
    part = b"[" + body.rstrip(b" \t\r\n,") + b"]"
    try:
        found = cast(list[Any], value_of(part))
    except ValueError:  # one item cannot be decoded
        items = items_of(part)
        found = [] if items is None else [decode_or_excerpt(raw) for raw in items.parts]
    return [as_record(index.columns, item) for item in found]


def _records(body: bytes, index: PositionIndex) -> list[Any]:
    return [decode_line(line) for line in body.split(b"\n") if line.strip()]


def _rows(body: bytes, index: PositionIndex) -> list[Any]:
    rows = rows_of(body.decode("utf-8", "replace"), index.separator)
    return [record_of(index.columns, row) for row in rows]


def _lines(body: bytes, index: PositionIndex) -> list[Any]:
    return split_lines(body)


_READERS: dict[str, Callable[[bytes, PositionIndex], list[Any]]] = {
    "items": _items,
    "records": _records,
    "rows": _rows,
    "lines": _lines,
}
