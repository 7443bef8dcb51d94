"""A child's standard error: logged line by line, with the last lines kept to explain a failure."""

import logging
import re
import time
from collections import deque

from ...wire.secrets import NO_SECRETS, KnownSecrets

MAX_LINE = 2000
KEPT = 60
LINES_PER_SECOND = 100
BYTES_PER_SECOND = 256 * 2**20
"""With `LINE_COST` for each line: reading as much takes less than a tenth of a second. A program that writes
more has to wait, and answers nothing meanwhile."""
LINE_COST = 40
"""Taking a line costs as much as so many bytes."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Lines around an error that do not say what went wrong.
_CHATTER = _any(
    r"\W*$",
    r"Node\.js v\d",
    r"npm (notice|warn|info|http|verb)",
    r"(Run|See) '.*--help",
    r"For more (information|details)",
    r"(usage|hint):",
    r"note: run with",
    r"goroutine \d",
    r"exit status ",
    r"Traceback \(",
    r"(File \"|at |- /|\^)",
    r"(During handling|The above exception|Require stack)",
    r"\w+: ['\"\d\[]",  # members of an error that Node shows
)
_NPM = re.compile(r"npm (?:error|ERR!) ?")
_NPM_CHATTER = _any(
    r"\W*$",
    r"\d+ *$",
    r"(code|errno|syscall|path|dest|cwd|command|type|address|port)\b",
    r"at ",
    r"A complete log",
    r"If you are behind",
    r"This is (probably )?not",
    r".*\b(Note that|tarball,|In most cases)\b",
)
_EXCEPTION = re.compile(
    r"(?:Uncaught )?[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure)(?: \[\w+\])?(?:: .+)?$"
)
_ERROR = _any(
    r"\W*(error|fatal|critical|panic|exception|failed)\b",
    r"[\u00d7\u2717\u2716\u274c]",
    r".*: (fatal )?error\b",
    r".* panicked at ",
    r".*: (command )?not found$",
    r".*: No module named",
    r".*\b(cannot|could not|unable to)\b",
)
_CAUSE = re.compile(r"(?:cause:|╰─▶|Caused by:?|reason:) *(.*)")
_FRAME = re.compile(r"^[|+ ]+")
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029], " ")


class ErrorStream:
    """Limits the lines logged and the bytes read in each second, so that a flood stays cheap."""

    def __init__(self, name: str, secrets: KnownSecrets = NO_SECRETS) -> None:
        """`secrets` were given to the program, and are in none of its lines."""
        self._logger = logging.getLogger(f"toolyard.upstream.{name}")
        self._secrets = secrets
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._rest = b""
        self._second = 0
        self._lines = self._bytes = self._left_out = 0

    @property
    def lines(self) -> list[str]:
        """The last lines as text."""
        return [text for line in self._kept if (text := self._readable(line))]

    @property
    def latest(self) -> str:
        """The last line, which may be unfinished, such as a progress bar."""
        for line in (self._rest, *reversed(self._kept)):
            for part in reversed(line.split(b"\r")):
                if text := self._readable(part):
                    return text
        return ""

    def feed(self, data: bytes) -> float:
        """Add data; returns how many seconds to stop reading, so that a flood does not block the loop."""
        now = time.monotonic()
        if int(now) != self._second:
            self._summarise()
            self._second = int(now)
            self._lines = self._bytes = 0
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._bytes += len(data) + LINE_COST * len(lines)
        if len(self._rest) > MAX_LINE + self._secrets.reach:  # so that none is torn at the cut
            lines.append(self._cut(self._rest))
            self._rest = b""
        self._add(lines)
        return 0.0 if self._bytes < BYTES_PER_SECOND else self._second + 1 - now

    def finish(self) -> None:
        if self._rest:
            self._add([self._rest])
            self._rest = b""
        self._summarise()

    def _add(self, lines: list[bytes]) -> None:
        room = max(0, LINES_PER_SECOND - self._lines)
        self._lines += len(lines)
        self._left_out += max(0, len(lines) - room)
        self._kept.extend(self._cut(line) for line in lines[-KEPT:] if line.strip())
        if self._logger.isEnabledFor(logging.INFO):
            for line in lines[:room]:
                if text := self._readable(self._cut(line)):
                    # npm writes one such line for each package that it fetches.
                    level = logging.DEBUG if text.startswith("npm http ") else logging.INFO
                    self._logger.log(level, "%s", text)

    def _cut(self, line: bytes) -> bytes:
        return (self._secrets.clean(line) if self._secrets.values else line)[: MAX_LINE + 1]

    def _readable(self, line: bytes) -> str:
        text = readable(line)
        # Again, as colours may have stood in the middle of one.
        return self._secrets.clean_text(text) if self._secrets.values else text

    def _summarise(self) -> None:
        if self._left_out:
            self._logger.info("… %d lines left out", self._left_out)
            self._left_out = 0


def readable(line: bytes) -> str:
    text = line[:MAX_LINE].decode(errors="replace") + ("…" if len(line) > MAX_LINE else "")
    return _ESCAPES.sub("", text).translate(_CONTROLS).strip()


def explaining_line(lines: list[str]) -> str:
    """Return the line that says why a program failed, from the last lines of its standard error.

    It is seldom the last: runtimes and installers add their version, a trace or where to find help.
    """
    bare = [_FRAME.sub("", line) for line in lines]
    useful = [line for line in bare if not _CHATTER.match(line)]
    from_npm = [_NPM.sub("", line, count=1) for line in useful if _NPM.match(line)]
    for line in from_npm:
        if not _NPM_CHATTER.match(line):
            return f"npm error {line}"
    exceptions = [line for line in useful if _EXCEPTION.match(line) and "sub-exception" not in line]
    if exceptions:
        return exceptions[-1]
    for at in range(len(useful) - 1, -1, -1):
        line = useful[at]
        if not _ERROR.match(line) or _CAUSE.match(line):
            continue
        after = useful[at + 1] if at + 1 < len(useful) else ""
        if cause := _CAUSE.match(after):
            return f"{line.rstrip(':')}: {cause[1]}"
        return f"{line} {after}".strip() if line.endswith(":") else line
    return useful[-1] if useful else (bare[-1] if bare else "")
