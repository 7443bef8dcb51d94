"""The file of a recording: JSON lines, a header first, then one event a line, and an end with a digest.

`RecordingWriter` writes each line as it happens, so a recording that was killed is usable as far as it goes.
`read_lines` reads a file of any length line by line, and refuses one that was edited; `seal` accepts it as it
is. Owns nothing of what the lines are for.

RecordingError            the file cannot be used; `hint` says what to do
├── NotARecordingError    it is something else
├── OtherFormatError      a newer version of Toolyard wrote it
├── DamagedRecordingError it was edited: a line, a number or the digest is wrong
└── WriteError            it cannot be written: the disk is full, or somebody else is writing it
"""

import errno
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from .._version import __version__

try:
    import fcntl
except ImportError:  # Windows; there, an open file cannot be replaced anyway
    fcntl = None

FORMAT = 1
MAX_LINE = 256 * 2**20
"""The longest line that is read. Results that would make a longer one are left out when recording."""
_DIGEST_SIZE = 16


class RecordingError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotARecordingError(RecordingError):
    pass


class OtherFormatError(RecordingError):
    pass


class DamagedRecordingError(RecordingError):
    pass


class WriteError(RecordingError):
    pass


# The lines


class _Line(Struct, frozen=True, tag_field="kind", omit_defaults=True):
    pass


class HeaderLine(_Line, frozen=True, tag="recording"):
    format: int = 0
    toolyard: str = ""
    at: str = ""
    """When it began, as ISO 8601 in UTC."""
    command: tuple[str, ...] = ()
    salt: str = ""
    """Another one in each recording; the ids of results are made of it."""


class _Event(_Line, frozen=True):
    seq: int
    """Counts the events from 1, in the order in which they happened."""
    t: float
    """Seconds since the recording began."""


class GatewayLine(_Event, frozen=True, tag="gateway"):
    """A gateway was built: its servers in order, and its settings that decide what a client sees."""

    servers: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = {}


class ServerLine(_Event, frozen=True, tag="server"):
    """What a server says about itself, and the settings of its entry that change what a client sees."""

    server: str
    version: str
    info: Raw = Raw(b"{}")
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    settings: dict[str, Any] = {}


class RequestLine(_Event, frozen=True, tag="request"):
    server: str
    method: str
    name: str | None = None
    """The tool, prompt or resource."""
    params: Raw = Raw(b"{}")
    era: Literal["modern", "legacy"] = "modern"
    """The caller's, in whose form the result is."""
    by: Literal["client", "gateway"] = "client"
    """`gateway`: lists and changes that it reads in its own name."""
    retry_of: int | UnsetType = UNSET
    """The request that this one repeats, because it was not answered."""


class NotificationLine(_Event, frozen=True, tag="notification"):
    of: int
    """The request that it belongs to."""
    method: str
    params: Raw = Raw(b"{}")


class QuestionLine(_Event, frozen=True, tag="question"):
    """A server asks its client: elicitation, sampling, roots."""

    of: int
    method: str
    params: Raw = Raw(b"{}")


class RecordedError(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: Any = None
    type: str = ""
    """For an upstream that did not answer: the class of the error in the gateway."""


class AnswerLine(_Event, frozen=True, tag="answer"):
    """A client answers a question."""

    of: int
    result: Raw | UnsetType = UNSET
    error: RecordedError | UnsetType = UNSET


class ResponseLine(_Event, frozen=True, tag="response"):
    """How a request ended: with a result, an error, or without an answer."""

    of: int
    result: Raw | UnsetType = UNSET
    error: RecordedError | UnsetType = UNSET
    cancelled: bool = False
    """Its caller gave up, or its time was over."""
    left_out: int = 0
    """The bytes of a result that was too long to be recorded."""


class ModelRequestLine(_Event, frozen=True, tag="model_request"):
    url: str
    headers: dict[str, str] = {}
    body: Raw | UnsetType = UNSET
    text: str = ""
    """A body that is not JSON."""


class ModelHeadLine(_Event, frozen=True, tag="model_head"):
    of: int
    status: int
    headers: dict[str, str] = {}


class ModelChunkLine(_Event, frozen=True, tag="model_chunk"):
    of: int
    text: str


class ModelEndLine(_Event, frozen=True, tag="model_end"):
    of: int
    error: str = ""
    """Why the answer did not end as it should."""
    error_kind: str = ""
    cancelled: bool = False


class EndLine(_Line, frozen=True, tag="end"):
    count: int
    """The events before it."""
    digest: str
    """Of all bytes before it."""
    status: int | None = None
    """The exit status of the command."""


EventLine = (
    GatewayLine
    | ServerLine
    | RequestLine
    | NotificationLine
    | QuestionLine
    | AnswerLine
    | ResponseLine
    | ModelRequestLine
    | ModelHeadLine
    | ModelChunkLine
    | ModelEndLine
)
REFERRING = (
    NotificationLine,
    QuestionLine,
    AnswerLine,
    ResponseLine,
    ModelHeadLine,
    ModelChunkLine,
    ModelEndLine,
)
E = TypeVar("E", bound=EventLine)

_encode = msgspec.json.Encoder().encode
_decode_event = msgspec.json.Decoder(EventLine | EndLine).decode
# Of one kind alone, msgspec would not ask for the tag.
_decode_header = msgspec.json.Decoder(HeaderLine | EndLine).decode


# Writing


class RecordingWriter:
    """Writes a new file. `on_fault` hears once that a line could not be written; later lines are dropped."""

    def __init__(self, path: Path, header: HeaderLine, *, overwrite: bool = False) -> None:
        self.path = path
        self.count = 0
        self.fault: WriteError | None = None
        self.on_fault: Callable[[WriteError], None] | None = None
        began = datetime.now(UTC)
        self.salt = secrets.token_hex(8)
        self.today = began.date()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._digest = blake2b(digest_size=_DIGEST_SIZE)
        self._size = 0
        self._fd = _open_new(path, overwrite)
        self._write(replace(header, format=FORMAT, toolyard=__version__, at=_iso(began), salt=self.salt))
        if self.fault is not None:
            fault, self.fault = self.fault, None
            self.close()
            raise fault

    def add(self, make: Callable[[int, float], EventLine]) -> int:
        """Write the event that `make` builds of its number and time; returns the number."""
        with self._lock:
            self.count += 1
            number = self.count
            self._write(make(number, round(time.monotonic() - self._began, 6)))
        return number

    def end(self, status: int | None = None) -> None:
        """Write the last line and close the file."""
        with self._lock:
            if self.fault is None and self._fd >= 0:
                self._write(EndLine(self.count, self._digest.hexdigest(), status))
            self.close()

    def close(self) -> None:
        """Close the file without an end, as if it were cut."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: HeaderLine | EventLine | EndLine) -> None:
        if self.fault is not None or self._fd < 0:
            return
        data = _encode(line) + b"\n"
        try:
            _write_all(self._fd, data)
        except OSError as error:
            # Half a line would look like damage; without it the file is one that was cut.
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
                os.lseek(self._fd, self._size, os.SEEK_SET)
            reason = error.strerror or str(error)
            self.fault = WriteError(
                f"cannot write the recording {str(self.path)!r}: {reason}",
                f"what happened until then is in it: {self.count - 1 if self.count else 0} events",
            )
            if self.on_fault is not None:
                self.on_fault(self.fault)
            return
        self._size += len(data)
        self._digest.update(data)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _open_new(path: Path, overwrite: bool) -> int:
    try:
        flags = os.O_WRONLY | os.O_CREAT | (0 if overwrite else os.O_EXCL)
        fd = os.open(path, flags, 0o600)
    except FileExistsError:
        raise WriteError(f"{str(path)!r} exists", "--force overwrites it") from None
    except OSError as error:
        raise WriteError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_size:
            os.ftruncate(fd, 0)
    except BlockingIOError:
        os.close(fd)
        raise WriteError(
            f"another command is recording to {str(path)!r}", "record to another file, or end that command"
        ) from None
    except OSError as error:
        # Not every file system has locks, and a device has no length.
        if error.errno not in _NO_LOCKS:
            os.close(fd)
            raise WriteError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    return fd


_NO_LOCKS = {errno.EINVAL, errno.ENOTTY, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# Reading


class LineAt(NamedTuple):
    """An event, and where its line is in the file."""

    event: EventLine
    offset: int
    length: int


class RecordingFile:
    """An open recording. `lines` reads it once through, in constant memory; `at` reads one line again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BufferedReader = open(path, "rb")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise RecordingError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
        try:
            self.header = self._header()
        except BaseException:
            self._file.close()
            raise
        self.cut = ""
        """Why it is not whole, once `lines` has come to its end; empty if it is."""
        self.status: int | None = None
        self.count = 0

    def close(self) -> None:
        self._file.close()

    def _header(self) -> HeaderLine:
        what = repr(str(self.path))
        hint = "recordings are made by `toolyard record FILE COMMAND …`"
        line = self._read_line(1)
        if not line:
            raise NotARecordingError(f"{what} is empty", hint)
        try:
            header = _decode_header(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            header = None
        if not isinstance(header, HeaderLine):
            raise NotARecordingError(f"{what} is not a recording of Toolyard", hint)
        if header.format != FORMAT:
            raise OtherFormatError(
                f"{what} has format {header.format}, and this version reads {FORMAT}",
                f"Toolyard {header.toolyard[:40] or 'of another version'} wrote it",
            )
        return header

    def _read_line(self, number: int) -> bytes:
        line = self._file.readline(MAX_LINE + 1)
        if len(line) > MAX_LINE:
            raise DamagedRecordingError(
                f"{str(self.path)!r}, line {number}: longer than {MAX_LINE >> 20} MiB"
            )
        return line

    def lines(self, *, trust: bool = False) -> Generator[LineAt, None, None]:
        """Read all events, in order. Raises DamagedRecordingError, unless edits are trusted."""
        self._file.seek(0)
        digest = blake2b(digest_size=_DIGEST_SIZE)
        first = self._read_line(1)
        digest.update(first)
        offset = len(first)
        number, known = 1, 0
        while line := self._read_line(number := number + 1):
            try:
                event = _decode_event(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    break  # killed in the middle of it
                raise self._damaged(number, f"not a line of a recording ({error})") from None
            if isinstance(event, EndLine):
                self._check_end(event, known, digest.hexdigest(), number, trust)
                self.count, self.status = known, event.status
                return
            if not trust:
                self._check_order(event, known, number)
            known += 1
            digest.update(line)
            yield LineAt(event, offset, len(line))
            offset += len(line)
        self.count = known
        self.cut = f"{str(self.path)!r} is cut: it ends after {known} events"

    def _check_order(self, event: EventLine, known: int, number: int) -> None:
        if event.seq != known + 1:
            what = "occurs twice" if event.seq <= known else f"follows {known}"
            raise self._damaged(number, f"number {event.seq} {what}")
        if isinstance(event, REFERRING) and not 0 < event.of < event.seq:
            raise self._damaged(number, f"it belongs to {event.of}, which is not before it")

    def _check_end(self, end: EndLine, known: int, digest: str, number: int, trust: bool) -> None:
        if trust:
            return
        if end.count != known:
            raise self._damaged(number, f"it has {known} events, and its end says {end.count}")
        if end.digest != digest:
            raise self._damaged(number, "its digest is not that of the lines before")
        if self._read_line(number + 1).strip():
            raise self._damaged(number + 1, "something follows the end")

    def _damaged(self, number: int, reason: str) -> DamagedRecordingError:
        return DamagedRecordingError(
            f"{str(self.path)!r}, line {number}: {reason}; it was edited",
            f"to accept it as it is: toolyard record --seal {self.path}",
        )

    def read(self, offset: int, length: int) -> EventLine:
        """Read one line again."""
        self._file.seek(offset)
        try:
            event = _decode_event(self._file.read(length))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise DamagedRecordingError(f"{str(self.path)!r} was changed while it was open") from None
        assert not isinstance(event, EndLine), "the end is not indexed"
        return event

    def at(self, offset: int, length: int, form: type[E]) -> E:
        """Read one line again that is of a known kind."""
        event = self.read(offset, length)
        if not isinstance(event, form):
            raise DamagedRecordingError(f"{str(self.path)!r} was changed while it was open")
        return event


def read_lines(path: Path) -> Iterator[EventLine]:
    """All events of a whole or cut recording."""
    file = RecordingFile(path)
    try:
        for line in file.lines():
            yield line.event
    finally:
        file.close()


# Accepting an edited file


def seal(path: Path) -> int:
    """Number the events of an edited or cut recording anew, and end it with a digest; returns the count."""
    file = RecordingFile(path)
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent or Path("."), prefix=path.name)
        try:
            with os.fdopen(handle, "wb") as out:
                count = _write_sealed(out.write, file.header, _renumbered(file))
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise WriteError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    finally:
        file.close()
    return count


def _renumbered(file: RecordingFile) -> Iterator[EventLine]:
    numbers: dict[int, int] = {}
    for number, line in enumerate(file.lines(trust=True), 1):
        event = line.event
        if event.seq in numbers:
            raise RecordingError(f"{str(file.path)!r}: two events have the number {event.seq}")
        numbers[event.seq] = number
        if isinstance(event, REFERRING):
            if event.of not in numbers:
                raise RecordingError(
                    f"{str(file.path)!r}: event {event.seq} belongs to {event.of}, which is not before it",
                    "remove it too",
                )
            event = replace(event, of=numbers[event.of])
        elif isinstance(event, RequestLine) and event.retry_of is not UNSET:
            event = replace(event, retry_of=numbers.get(event.retry_of, UNSET))
        yield replace(event, seq=number)


def _write_sealed(write: Callable[[bytes], object], header: HeaderLine, events: Iterable[EventLine]) -> int:
    digest = blake2b(digest_size=_DIGEST_SIZE)
    count = 0

    def put(line: HeaderLine | EventLine) -> None:
        data = _encode(line) + b"\n"
        digest.update(data)
        write(data)

    put(header)
    for event in events:
        put(event)
        count += 1
    write(_encode(EndLine(count, digest.hexdigest())) + b"\n")
    return count
