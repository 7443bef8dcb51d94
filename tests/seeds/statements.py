"""What the four documents say, one declaration for each statement, and how a transcript is read.

A transcript is what a reader would see in a terminal: `$ ` begins a command and `>>> ` Python, all other
lines are what is printed, with `…` for anything. It is at once what the page shows and what the
test holds the real output against, so the page cannot say anything else than what happens.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Literal

Kind = Literal["shell", "python"]


@dataclass(frozen=True)
class Step:
    """One command of a transcript, and what it has to print."""

    kind: Kind
    text: str
    expected: str

    def fits(self, output: str) -> bool:
        """Whether an output is as expected; how wide the blanks are does not count."""
        wanted, found = (" ".join(text.split()) for text in (self.expected, output))
        first, *others = (part.strip() for part in wanted.split("…"))
        if not others:
            return found == wanted
        # Not as one pattern: many `.*` in a row take for ever to find that nothing fits.
        *middle, last = others
        place = len(first)
        for part in middle:
            at = found.find(part, place)
            if at < 0:
                return False
            place = at + len(part)
        return found.startswith(first) and found.endswith(last) and place + len(last) <= len(found)


@dataclass(frozen=True)
class Stage:
    """What commands are run in: a folder with a configuration, and emulators of the services behind it.

    `about` and `files` are on the page; `hidden` are files that need not be. `imports` come before Python.
    `call` in a transcript is `toolyard call` at this stage's gateway.
    """

    name: str
    about: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    emulators: Sequence[str] = ()
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    imports: str = "from toolyard import Client"

    @property
    def config(self) -> str:
        return self.files.get("toolyard.toml", self.hidden.get("toolyard.toml", ""))


@dataclass(frozen=True)
class Statement:
    """One thing that a document says, in our words.

    `shown` is a transcript. `as_in` is the number of another statement of the document that shows it too.
    `otherwise` is why it is not as the document says; `note` is what else its reader should know. `pending`
    names who is changing it, so that its check does not count yet. `needs` is a program of the system, as
    `tests.programs` knows it, without which it is left out.
    """

    says: str
    shown: str = ""
    at: str = ""
    as_in: int = 0
    note: str = ""
    otherwise: str = ""
    pending: str = ""
    needs: str = ""

    @property
    def steps(self) -> list[Step]:
        return list(_steps(dedent(self.shown).strip())) if self.shown.strip() else []


@dataclass(frozen=True)
class Heading:
    """A part of a document."""

    title: str


@dataclass(frozen=True)
class Seed:
    """A document: its statements in its own order, and the stages that they are shown on."""

    number: str
    title: str
    stages: Sequence[Stage]
    parts: Sequence[Statement | Heading]

    def numbered(self) -> Iterator[tuple[int, Statement]]:
        statements = (part for part in self.parts if isinstance(part, Statement))
        return enumerate(statements, 1)

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)


_PROMPTS: dict[str, Kind] = {"$ ": "shell", ">>> ": "python"}


def _steps(transcript: str) -> Iterator[Step]:
    kind: Kind | None = None
    text: list[str] = []
    printed: list[str] = []
    for line in transcript.split("\n"):
        begins = next((prompt for prompt in _PROMPTS if line.startswith(prompt)), None)
        if kind == "python" and line.startswith((">>> ", "... ")) and not printed:
            text.append(line[4:])
        elif begins is not None:
            if kind is not None:
                yield Step(kind, "\n".join(text), "\n".join(printed))
            kind, text, printed = _PROMPTS[begins], [line.removeprefix(begins)], []
        elif kind == "shell" and text[-1].endswith("\\") and not printed:
            text.append(line)
        else:
            assert kind is not None, f"a transcript begins with a command: {line!r}"
            printed.append(line)
    if kind is not None:
        yield Step(kind, "\n".join(text), "\n".join(printed))
