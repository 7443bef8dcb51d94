"""Makes the terminal pictures of the documentation: `python scripts/screenshots.py [picture ...]`.

Owns the commands that are shown and the drawing of a terminal. Each command runs in its own pty, and its
output becomes an SVG in `docs/images`. The pictures load nothing from a network: the fonts are those of the
reader's machine. A picture that needs a gateway starts one at the address in the documentation.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
ROWS = 60
LINE_LIMIT = 60  # readers skip longer pictures
SCALE = 0.64  # scale of rich's drawing: letters as large as the text around the picture
GATEWAY = "http://127.0.0.1:8321"
URL = f"{GATEWAY}/mcp"
MEDIA = "http://127.0.0.1:8322"
START_SECONDS = 60
BY_ANA, BY_BEN = (f"--url {URL}/shop --key $(cat ~/{name})" for name in ("ana", "ben"))
# The id of the last stored result, in the lines of later commands.
ID = "<id>"
STORED = re.compile(r"toolyard://results/([0-9a-f]{32})")

# Rich's own template loads a font from the web; this one does not.
PICTURE = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
  .{unique_id}-matrix, .{unique_id}-title {{
    font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  }}
  .{unique_id}-matrix {{ font-size: {char_height}px; line-height: {line_height}px }}
  .{unique_id}-title {{ font-size: 16px }}
  {styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
  <rect x="0" y="0" width="{terminal_width}" height="100%" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Command:
    """A line typed at a shell, and the answers to the program's questions."""

    line: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """Its commands run in the checkout, or in a folder with `files`, whose parent is `~`.

    With `serves` a gateway of that configuration runs meanwhile, with `beside` another program, which prints
    a line when it is ready. `before` runs first and is not shown.
    """

    title: str
    commands: tuple[Command, ...]
    width: int = 100
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    serves: str = ""
    beside: str = ""
    before: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


# Servers that `make setup` installs for the tests, the demo, and one that is not there.
YARD = """\
[servers.git]
command = "mcp-server-git"
allow = ["git_status", "git_log", "git_diff"]

[servers.time]
command = "mcp-server-time"

[servers.demo]
module = "toolyard.servers.demo:server"
allow = ["echo", "add", "now"]

[servers.notes]
url = "http://127.0.0.1:9/mcp"
"""

# The configuration of `make run`, in a separate folder.
EXAMPLE = {name: (ROOT / "examples" / name).read_text("utf-8") for name in ("toolyard.toml", "shop.py")}

# A main agent and a sub-agent, as docs/guides/access.md has them.
AGENTS = {
    "toolyard.toml": (ROOT / "examples" / "access.toml").read_text("utf-8"),
    "research.py": (ROOT / "examples" / "research.py").read_text("utf-8"),
}

# The shop for two agents with keys, a budget and an audit.
TEAM = """\
[state]
url = "sqlite:"

[auth]
keys = true

[audit]
url = "file:"

[servers.shop]
module = "shop.py"

[[access.rules]]
name = "everybody reads"
allow = ["shop/*:read"]

[[access.rules]]
name = "sales refunds"
who = ["sales"]
allow = ["shop/refund_order"]

[[limits.rules]]
name = "a fair share"
calls_a_day = 4
"""

MCP_JSON = """\
{"mcpServers": {
  "memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "disabled": true},
  "git": {"command": "uvx", "args": ["mcp-server-git"]}
}}
"""

CLAUDE_JSON = """\
{"mcpServers": {
  "time": {"command": "mcp-server-time"},
  "search": {"type": "http", "url": "https://search.example.com/mcp",
             "headers": {"Authorization": "Bearer ${SEARCH_TOKEN}"}}
}}
"""

# A table with two mistakes.
TABLE = """\
name = "desk"
base_url = "https://desk.example/api"

[tools.get_ticket]
description = "One ticket with all that is known of it."
path = "/tickets/{ticket_id}"

[tools.get_ticket.parameters]
ticket_id = { type = "integer", requird = true, description = "The ticket's number" }

[tools.list_tickets]
description = "Tickets, newest first."
path = "/tickets"
metod = "GET"
"""
# A research session in the workspace of the local_toolkit server.
RESEARCH = {
    "toolyard.toml": """\
[servers.local_toolkit]
module = "local_toolkit"
options = { workspace = "work" }
""",
    "work/teas/search_results/teas.json": """\
{"results": [{"url": "https://tea.example/green"}, {"url": "https://tea.example/mint"}]}
""",
    "work/teas/search_results/crawl_0b1e5cc2f7a1.md": """\
---
title: Green tea
source: https://tea.example/green
date: 2026-03-01
---
Green tea is made from leaves that have not oxidised.
""",
}
PICTURES = {
    "list": Picture("toolyard list", (Command("toolyard list"),), width=100),
    "show": Picture("toolyard show", (Command("toolyard show text_statistics"),), width=100),
    "call": Picture(
        "toolyard call",
        (
            Command("toolyard call add a=1 b=2.5"),
            Command("toolyard call echo text=hello | tr a-z A-Z"),
            Command("toolyard call add a=1 b=two"),
            Command("toolyard call now zone=Mars"),
        ),
        width=84,
    ),
    "ask": Picture(
        "a tool that asks", (Command("toolyard call ask_name", answers=("Ada", "formal")),), width=84
    ),
    "yard": Picture("toolyard list", (Command("toolyard list"),), width=110, files={"toolyard.toml": YARD}),
    "import": Picture(
        "toolyard import",
        (Command("toolyard import", answers=("y",)),),
        width=100,
        files={"toolyard.toml": YARD, "~/.cursor/mcp.json": MCP_JSON, "~/.claude.json": CLAUDE_JSON},
    ),
    "presets": Picture(
        "toolyard add",
        (
            Command("toolyard add --list"),
            Command("toolyard add edgartools", answers=("Ada Lovelace ada@example.com",)),
        ),
        width=132,
        files={"empty.txt": ""},
        before=("toolyard envs install edgartools",),
    ),
    "search": Picture(
        "toolyard search",
        (
            Command("toolyard search which orders are still open"),
            Command("toolyard search reembolsar um pedido --limit 2 --explain"),
        ),
        width=126,
        files=EXAMPLE,
    ),
    "flow": Picture(
        "search, call, ask",
        (
            Command("toolyard search which orders are still open --limit 1"),
            Command(f"toolyard call mcp__shop__list_orders --url {URL}"),
            Command(f"toolyard call read_result id={ID} query=\"length([?status=='open'])\" --url {URL}"),
        ),
        width=130,
        files=EXAMPLE,
        serves="toolyard.toml",
    ),
    "access": Picture(
        "toolyard access",
        (
            Command("toolyard access"),
            Command("toolyard access --tools"),
            Command("toolyard access --explain report-creation-expert composio/GMAIL_SEND_EMAIL"),
        ),
        width=100,
        files=AGENTS,
    ),
    "audit": Picture(
        "toolyard audit, toolyard usage",
        (
            Command("toolyard audit"),
            Command("toolyard audit verify"),
            Command("toolyard usage"),
        ),
        width=120,
        files={"toolyard.toml": TEAM, "shop.py": EXAMPLE["shop.py"]},
        serves="toolyard.toml",
        before=(
            "toolyard keys create ana --agent sales > ~/ana",
            "toolyard keys create ben --agent support > ~/ben",
            f"for n in 1001 1042 1377; do toolyard call get_order number=$n {BY_ANA}; done",
            f"toolyard call refund_order number=1042 {BY_ANA}",
            f"toolyard call get_order number=1043 {BY_ANA}",  # over the limit
            f"toolyard call find_customer text=Lisbon {BY_BEN}",
            f"toolyard call get_order number=1 {BY_BEN}",
        ),
    ),
    "local_toolkit": Picture(
        "files in a workspace",
        (
            Command("toolyard call mcp__local_toolkit__write_local_file path=teas/report.md content='# Tea'"),
            Command("toolyard call mcp__local_toolkit__finalize_research session_dir=teas | sed '/^{/,$d'"),
            Command("toolyard call mcp__local_toolkit__read_local_file path=../../etc/passwd"),
            Command("toolyard call mcp__local_toolkit__read_local_file path=teas/link/passwd"),
        ),
        width=118,
        files=RESEARCH,
        before=("ln -s /etc work/teas/link",),
    ),
    "stats": Picture(
        "toolyard stats",
        (Command("toolyard stats"),),
        width=84,
        files=EXAMPLE,
        serves="toolyard.toml",
        before=(
            f"for n in 1 2 3; do toolyard call mcp__shop__list_orders --url {URL}; done",
            f"for n in 1001 1042 1377; do toolyard call mcp__shop__get_order number=$n --url {URL}; done",
            f"toolyard call mcp__shop__find_customer text=Lisbon --url {URL}",
            f"toolyard call mcp__demo__now --url {URL}",
            "sleep 11",  # the ledger is written every ten seconds
        ),
    ),
    "agent": Picture(
        "toolyard agent",
        (
            Command(
                'toolyard agent "Write a comprehensive report on tea news and mail it to bo@example.com."'
            ),
        ),
        width=118,
        files={"empty.txt": ""},
        beside=f"env PYTHONPATH={ROOT} python -m tests.flow.story 8323",
        variables={
            "OPENAI_BASE_URL": "http://127.0.0.1:8323/v1",
            "OPENAI_API_KEY": "none",
            "TOOLYARD_MODEL": "openai:scripted",
            "TOOLYARD_PRICES": "scripted=1/2",
        },
    ),
    "trace": Picture(
        "toolyard trace",
        (Command("toolyard trace"), Command("toolyard trace last")),
        width=118,
        files={"empty.txt": ""},
        before=(f"PYTHONPATH={ROOT} python -m tests.telemetry.played_run",),
    ),
    "table": Picture(
        "a REST API as a table",
        (
            Command("toolyard list desk.toml"),
            Command("sed -i 's/requird/required/; s/metod/method/' desk.toml"),
            Command("toolyard list desk.toml"),
        ),
        width=104,
        files={"desk.toml": TABLE},
    ),
    "deploy": Picture(
        "toolyard deploy lambda",
        (Command("toolyard deploy lambda tiflux"),),
        width=110,
        files={"empty.txt": ""},
    ),
    "youtube": Picture(
        "toolyard run youtube",
        (
            Command(f"toolyard call --target youtube download_video url={MEDIA}/tea resolution=720p"),
            Command(f"toolyard call --target youtube download_subtitles url={MEDIA}/tea"),
            Command("toolyard call --target youtube download_audio url=http://169.254.169.254/song.mp3"),
        ),
        width=104,
        files={"empty.txt": ""},
        beside=f"python {ROOT}/scripts/picture_sites.py media",
        variables={"TOOLYARD_YOUTUBE_ALLOW": "127.0.0.1:8322", "TOOLYARD_WORKSPACE": "workspace"},
    ),
    "zai_vision": Picture(
        "toolyard run zai_vision",
        (
            Command("toolyard list zai_vision"),
            Command(
                "toolyard call --target zai_vision analyze_image image_source=screens.webp prompt='Size?'"
            ),
            Command("toolyard call --target zai_vision analyze_image image_source=report.pdf prompt='What?'"),
        ),
        width=104,
        files={"empty.txt": "", "workspace/report.pdf": "%PDF-1.7"},
        beside=f"python {ROOT}/scripts/picture_sites.py vision",
        before=(
            'python -c "from PIL import Image; '
            "Image.new('RGB', (7680, 2160), 'teal').save('workspace/screens.webp')\"",
        ),
        variables={
            "TOOLYARD_WORKSPACE": "workspace",
            "Z_AI_API_KEY": "zai-test-key-0123456789",
            "Z_AI_BASE_URL": "http://127.0.0.1:8323/v4",
            "Z_AI_VISION_MODEL": "stand-in",
        },
    ),
    "conformance": Picture("make conformance", (Command("make conformance 2>/dev/null"),), width=100),
}


@contextmanager
def place(files: Mapping[str, str]) -> Generator[tuple[Path, dict[str, str]]]:
    """The folder to run in, and its environment, without the user's own configuration."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = (
                Path(folder, name.removeprefix("~/")) if name.startswith("~/") else Path(folder, "yard", name)
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        empty = {"XDG_CONFIG_HOME": f"{folder}/.config", "XDG_STATE_HOME": f"{folder}/.state"}
        yield (Path(folder, "yard"), {**empty, "HOME": folder}) if files else (ROOT, empty)


def environment_with(more: dict[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    bins = [ROOT / ".venv" / "bin", ROOT / "build" / "envs" / "thirdparty" / "bin"]
    return {**ours, "TERM": "xterm-256color", "PATH": ":".join(map(str, [*bins, ours["PATH"]])), **more}


@contextmanager
def served(config: str, folder: Path, environment: dict[str, str]) -> Generator[None]:
    """A running gateway at the address in the documentation; none without a configuration."""
    if not config:
        yield
        return
    command = ["toolyard", "serve", "--config", config]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait_for(process)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def running(line: str, folder: Path, environment: dict[str, str]) -> Generator[None]:
    """A program that runs meanwhile; none without a line."""
    if not line:
        yield
        return
    process = subprocess.Popen(line.split(), cwd=folder, env=environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            sys.exit(f"error: {line!r} did not start")
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            sys.exit(f"error: the gateway did not start at {GATEWAY}; is one running there already?")
        try:
            with urllib.request.urlopen(f"{GATEWAY}/health"):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"error: the gateway was not ready after {START_SECONDS} s")


def run(command: Command, width: int, folder: Path, environment: dict[str, str]) -> str:
    """The output of a command on a terminal of that width, with answers typed when it asks."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command.line],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, waiting = b"", list(command.answers)
    while chunk := _read(ours):
        said += chunk
        if waiting and said.endswith(b": "):
            os.write(ours, waiting.pop(0).encode() + b"\n")
    os.close(ours)
    process.wait()
    if waiting:
        sys.exit(f"error: {command.line!r} ended without asking for {waiting[0]!r}")
    return settled(said.decode())


def settled(said: str) -> str:
    """The final text of lines that were rewritten, as by a progress bar."""
    lines = [""]
    for piece in re.split(r"(\r?\n|\r|\x1b\[1A|\x1b\[2K)", said):
        if piece.endswith("\n"):
            lines.append("")
        elif piece == "\x1b[1A":
            lines.pop()
        elif piece == "\x1b[2K":
            lines[-1] = ""
        elif piece != "\r":
            lines[-1] += piece
    return "\n".join(lines)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports a closed pty so
        return b""


def transcript(picture: Picture) -> Text:
    shown = Text()
    with place(picture.files) as (folder, more):
        environment = environment_with({**more, **picture.variables})
        with served(picture.serves, folder, environment), running(picture.beside, folder, environment):
            for line in picture.before:
                run(Command(line), picture.width, folder, environment)
            for command in picture.commands:
                stored = STORED.findall(shown.plain)
                line = command.line.replace(ID, stored[-1] if stored else ID)
                shown.append("$ ", "bold green").append(line, "bold").append("\n")
                said = run(Command(line, command.answers), picture.width, folder, environment)
                shown.append_text(Text.from_ansi(_settled(said))).append("\n")
    shown.rstrip()
    return shown


def _settled(output: str) -> str:
    """The final output: of lines that were rewritten, only the last form.

    Without make's installation steps.
    """
    lines = output.replace("\r\n", "\n").split("\n")
    shown = (re.split(r"\r(?:\x1b\[2?K)?", line)[-1] for line in lines)
    return "\n".join(line for line in shown if not line.startswith("setup: "))


def draw(name: str, picture: Picture) -> Path:
    shown = transcript(picture)
    if shown.plain.count("\n") > LINE_LIMIT:
        sys.exit(f"error: picture {name!r} has more than {LINE_LIMIT} lines")
    if str(ROOT) in shown.plain:
        sys.exit(f"error: picture {name!r} shows {str(ROOT)!r}, which exists on one machine only")
    console = Console(record=True, width=picture.width, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115
    console.print(shown)
    svg = console.export_svg(title=picture.title, code_format=PICTURE, unique_id=f"toolyard-{name}")
    path = IMAGES / f"{name}.svg"
    path.write_text("\n".join(line.rstrip() for line in _sized(svg).splitlines()) + "\n", "utf-8")
    return path


def _sized(svg: str) -> str:
    """Sets the size: without one, a page draws every picture at its full width."""

    def add_size(box: re.Match[str]) -> str:
        width, height = (round(float(side) * SCALE) for side in box.groups())
        return f'{box[0]} width="{width}" height="{height}"'

    return re.sub(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', add_size, svg, count=1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python scripts/screenshots.py", description=__doc__.split("\n")[0])
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=f"of {', '.join(PICTURES)}; else all")
    chosen = parser.parse_args().pictures or list(PICTURES)
    if unknown := set(chosen) - set(PICTURES):
        parser.error(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        print(draw(name, PICTURES[name]).relative_to(ROOT))


if __name__ == "__main__":
    main()
