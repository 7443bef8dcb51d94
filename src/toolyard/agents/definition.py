"""Agents as files: Markdown with YAML front matter, as Claude Code reads them, and where they are looked for.

Owns the part of YAML that such files use, so that the base install needs no YAML library: scalars, quoted or
plain, lists of both forms, and block texts. Keys that only Claude Code knows are kept and named as ignored.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct

from ..config.errors import nearest_or_all
from ..config.patterns import PatternError, parse

SHIPPED = Path(__file__).parent / "shipped"
PROJECT_FOLDERS = (Path(".toolyard/agents"), Path(".claude/agents"))
MAX_FILE = 1024 * 1024
DELEGATE = "delegate"
"""Our tool that runs a sub-agent."""
_DELEGATING = (DELEGATE, "Agent", "Task")
"""Names for it in `tools`; the last two are Claude Code's."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")
_KEY = re.compile(r"([A-Za-z_][\w.-]*)\s*:(?:\s+(.*))?$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "r": "\r", "0": "\0"}


class AgentFileError(Exception):
    """A file that describes no agent. The message begins with the file and the line."""

    def __init__(self, path: Path, line: int, reason: str, hint: str = "") -> None:
        super().__init__(f"{path}, line {line}: {reason}")
        self.message = str(self)
        self.hint = hint


class UnknownAgentError(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """One agent. `tools` are patterns as in `[access]`; None: all that its parent may use."""

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    delegated_tools: tuple[str, ...] = ()
    """Those that it may not call, and its sub-agents may: their rights are made from its own."""
    agents: tuple[str, ...] | None = None
    """The sub-agents that it may use; None: all."""
    model: str = ""
    """Empty: its parent's."""
    max_turns: int | None = None
    ignored: tuple[str, ...] = ()
    """Keys and tools of the file that mean nothing here."""
    path: Path | None = None

    def system_prompt(self, workspace: str, today: date) -> str:
        """The prompt with its placeholders filled in."""
        shown = today.strftime("%A, %d %B %Y")
        found = self.prompt
        for name, value in (
            ("workspace", workspace),
            ("CURRENT_SESSION_WORKSPACE", workspace),
            ("date", shown),
            ("CURRENT_DATE", shown),
        ):
            found = found.replace(f"{{{name}}}", value)
        return found


class AgentLibrary:
    """The agents that can be used, by name. Of two with one name, that of the earlier folder is used."""

    def __init__(self, definitions: Iterable[AgentDefinition]) -> None:
        self._agents: dict[str, AgentDefinition] = {}
        for one in definitions:
            self._agents.setdefault(one.name, one)

    @classmethod
    def load(cls, folder: Path | None = None, project: Path | None = None) -> "AgentLibrary":
        """Reads the folder that was given, the project's (default: this one) and the shipped agents.

        Raises AgentFileError for the first file that cannot be read.
        """
        return cls(_read_folders(folder, project or Path.cwd()))

    def __iter__(self) -> Iterator[AgentDefinition]:
        return iter(self._agents.values())

    def get(self, name: str) -> AgentDefinition:
        """Raises UnknownAgentError."""
        found = self._agents.get(name)
        if found is None:
            raise UnknownAgentError(f"no agent {name!r}", nearest_or_all(name, self._agents) or "")
        return found

    def below(self, agent: AgentDefinition) -> list[AgentDefinition]:
        """The agents that one may delegate to: never itself."""
        return [
            one
            for one in self
            if one.name != agent.name and (agent.agents is None or one.name in agent.agents)
        ]


def _read_folders(folder: Path | None, project: Path) -> Iterator[AgentDefinition]:
    if folder is not None:
        if not folder.is_dir():
            raise AgentFileError(folder, 0, "there is no such folder", "--agents names a folder of .md files")
        yield from _read_folder(folder)
    for inside in PROJECT_FOLDERS:
        if (project / inside).is_dir():
            yield from _read_folder(project / inside)
    yield from _read_folder(SHIPPED)


def _read_folder(folder: Path) -> Iterator[AgentDefinition]:
    for path in sorted(folder.glob("*.md")):
        if path.is_file():
            yield read_agent(path)


def read_agent(path: Path) -> AgentDefinition:
    """Raises AgentFileError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AgentFileError(path, 1, f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_FILE:
        raise AgentFileError(path, 1, f"is larger than {MAX_FILE:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise AgentFileError(path, line, "is not UTF-8") from None
    return parse_agent(text, path)


def parse_agent(text: str, path: Path) -> AgentDefinition:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].strip() != "---":
        advice = "begin with ---, name:, description:, ---, then the prompt"
        raise AgentFileError(path, 1, "there is no front matter", advice)
    try:
        end = next(at for at, line in enumerate(lines[1:], 1) if line.strip() == "---")
    except StopIteration:
        raise AgentFileError(path, len(lines), "the front matter has no end", "close it with ---") from None
    fields = _FrontMatter(path, lines[1:end]).read()
    prompt = "\n".join(lines[end + 1 :]).strip()
    if not prompt:
        raise AgentFileError(path, end + 1, "there is no prompt", "write it below the front matter")
    return _definition(path, fields, prompt)


class _Field(Struct, frozen=True):
    line: int
    value: str | list[str] | None
    """None: a form that is only allowed where the key is ignored."""


class _FrontMatter:
    """Reads `key: value` lines. The first line of the file is `---`, so these begin at line 2."""

    def __init__(self, path: Path, lines: Sequence[str]) -> None:
        self._path = path
        self._lines = lines
        self._at = 0

    def read(self) -> dict[str, _Field]:
        fields: dict[str, _Field] = {}
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip() or line.lstrip().startswith("#"):
                self._at += 1
                continue
            found = _KEY.match(line)
            if found is None:
                raise self._error(f"{line.strip()[:60]!r} is not 'key: value'")
            key, rest = found[1], (found[2] or "").strip()
            if key in fields:
                raise self._error(f"{key!r} is there twice")
            number = self._at + 2
            self._at += 1
            fields[key] = _Field(number, self._value(rest))
        return fields

    def _value(self, rest: str) -> str | list[str] | None:
        if rest[:1] in ("|", ">"):
            return self._block(rest[0] == ">")
        if rest.startswith("["):
            return self._flow_list(rest)
        if rest and not rest.startswith("#"):
            return self._with_continuation(self._scalar(rest, self._at + 1))
        following = self._indented()
        if not following:
            return ""
        stripped = [line.strip() for line in following if line.strip() and not line.strip().startswith("#")]
        if all(line.startswith("-") for line in stripped):
            return [self._scalar(line[1:].strip(), self._at + 1) for line in stripped]
        return None

    def _indented(self) -> list[str]:
        """The lines that belong to the key above: indented, empty, or items of a list."""
        start = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line[0].isspace() and not line.startswith("-"):
                break
            self._at += 1
        return list(self._lines[start : self._at])

    def _with_continuation(self, value: str) -> str:
        more = [line.strip() for line in self._indented()]
        return " ".join([value, *filter(None, more)])

    def _block(self, is_folded: bool) -> str:
        lines = self._indented()
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        cut = [line[margin:].rstrip() for line in lines]
        if not is_folded:
            return "\n".join(cut).strip("\n")
        paragraphs = "\n".join(cut).strip("\n").split("\n\n")
        return "\n".join(" ".join(one.split("\n")) for one in paragraphs)

    def _flow_list(self, rest: str) -> list[str]:
        if not rest.rstrip().endswith("]"):
            raise self._error("a list that begins with [ ends on the same line with ]", back=1)
        inside = rest.rstrip()[1:-1].strip()
        return [self._scalar(item, self._at + 1) for item in _split(inside)]

    def _scalar(self, text: str, line: int) -> str:
        if text[:1] not in ("'", '"'):
            return _before_comment(text)
        quote = text[0]
        end = max(text.rfind("'"), text.rfind('"')) + 1  # a comment here has no quotes
        body = text[:end] + _before_comment(text[end:])
        if len(body) < 2 or not body.endswith(quote):
            raise AgentFileError(self._path, line, f"a {quote} is not closed")
        inside = body[1:-1]
        if quote == "'":
            return inside.replace("''", "'")
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), inside)

    def _error(self, reason: str, back: int = 0) -> AgentFileError:
        return AgentFileError(self._path, self._at + 2 - back, reason)


def _before_comment(text: str) -> str:
    """The text before a `#` that follows a blank."""
    found = re.search(r"\s#", text)
    return text[: found.start() if found else None].rstrip()


def _split(text: str) -> list[str]:
    """At commas, except those in parentheses or quotes: `Agent(a, b), notes/read`."""
    parts = re.findall(r"(?:\([^()]*\)|'[^']*'|\"[^\"]*\"|[^,])+", text)
    return [part.strip() for part in parts if part.strip()]


def _definition(path: Path, fields: dict[str, _Field], prompt: str) -> AgentDefinition:
    def text(key: str, *, required: bool = False) -> str:
        field = fields.get(key)
        if field is None or field.value in ("", None) or isinstance(field.value, list):
            if required or (field is not None and field.value not in ("", None)):
                line = 1 if field is None else field.line
                raise AgentFileError(path, line, f"{key!r} is missing or no text", f"write {key}: …")
            return ""
        return field.value

    name = text("name", required=True)
    if _NAME.fullmatch(name) is None:
        advice = "64 characters at most: letters, digits and . _ @ + -"
        raise AgentFileError(
            path, fields["name"].line, f"{name[:80]!r} cannot be the name of an agent", advice
        )
    ignored = [key for key in fields if key not in _KNOWN]
    allowed, agents, unknown = _tools(path, fields.get("tools"))
    denied, _, unknown_denied = _tools(path, fields.get("disallowedTools"))
    delegated, _, unknown_delegated = _tools(path, fields.get("delegatedTools"))
    model = text("model")
    return AgentDefinition(
        name=name,
        description=text("description", required=True),
        prompt=prompt,
        tools=allowed,
        denied_tools=denied or (),
        delegated_tools=delegated or (),
        agents=agents,
        model="" if model == "inherit" else model,
        max_turns=_count(path, "maxTurns", fields.get("maxTurns")),
        ignored=(*ignored, *unknown, *unknown_denied, *unknown_delegated),
        path=path,
    )


_KNOWN = frozenset({"name", "description", "tools", "disallowedTools", "delegatedTools", "model", "maxTurns"})


def _count(path: Path, key: str, field: _Field | None) -> int | None:
    if field is None or field.value == "":
        return None
    if not isinstance(field.value, str) or not field.value.isdigit() or not 0 < int(field.value) < 10**6:
        raise AgentFileError(path, field.line, f"{key!r} is not a number of turns", f"write {key}: 20")
    return int(field.value)


def _tools(
    path: Path, field: _Field | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...]]:
    """The patterns, the sub-agents, and the names that mean nothing here. Without the key: all, all, none."""
    if field is None:
        return None, None, ()
    if field.value is None:
        raise AgentFileError(path, field.line, "'tools' is neither a list nor names with commas")
    names = _split(field.value) if isinstance(field.value, str) else field.value
    patterns: list[str] = []
    agents: tuple[str, ...] | None = ()
    unknown: list[str] = []
    for name in names:
        call = _CALL.fullmatch(name)
        if name in _DELEGATING:
            agents = None
        elif call is not None and call[1] in _DELEGATING:
            agents = tuple(_split(call[2]))
        elif (pattern := _pattern(name)) is not None:
            try:
                parse(pattern)
            except PatternError as error:
                raise AgentFileError(path, field.line, error.message, error.hint) from None
            patterns.append(pattern)
        else:
            unknown.append(name)
    return tuple(patterns), agents, tuple(unknown)


def _pattern(name: str) -> str | None:
    """`mcp__server__tool`, `mcp__server`, `server/tool` and `*` as patterns of `[access]`; None: no such."""
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return f"{server}/{tool}" if tool else f"{server}/*" if server else None
    # A bare name such as `Read` or `Bash(ls *)` is a tool inside Claude Code.
    return name if name == "*" or ("/" in name and "(" not in name and " " not in name) else None
