"""Prints the output of `toolyard deploy`: the steps, the archive, and the commands to deploy it."""

import json
import re
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..ui.messages import is_terminal, one_line
from ..ui.tables import format_size
from .function_zip import FunctionArchive, ReportStep
from .template import FunctionPlan, parameter

if TYPE_CHECKING:
    from ...kit import Server

NEW_KEY = "$(python3 -c 'import secrets; print(secrets.token_hex(32))')"
URL = "${URL}"
JSON_TYPE = "Content-Type: application/json"


@contextmanager
def report_steps() -> Generator[ReportStep]:
    """Show steps with a spinner on a terminal, as lines in a pipe."""
    if not is_terminal(sys.stderr):
        yield lambda step: click.echo(f"… {step}", err=True)
        return
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status("") as status:
        done: list[str] = []

        def report_step(step: str) -> None:
            for earlier in done:
                console.print(f"✓ {earlier}", style="dim")
            done[:] = [one_line(step)]
            status.update(escape(done[0]))

        yield report_step
        for last in done:
            console.print(f"✓ {last}", style="dim")


def print_archive(archive: FunctionArchive, template: Path, is_checked: bool) -> None:
    click.echo(f"{archive.file}  {format_size(archive.size)}, {format_size(archive.unpacked)} unpacked")
    width = max(len(part) for part in archive.parts)
    for part, (packed, unpacked) in sorted(archive.parts.items(), key=lambda row: -row[1][0]):
        click.echo(f"  {part:<{width}}  {format_size(packed):>9}  {format_size(unpacked):>9}")
    click.echo(f"  sha256 {archive.sha256}")
    click.echo(f"{template}  {'checked by cfn-lint' if is_checked else 'not checked'}")


def print_next_steps(plan: FunctionPlan, template: Path, servers: "list[Server]") -> None:
    """Print the commands of SAM, a few requests, and the entries for a client."""
    requests = "\n".join(_requests(server, _path(server, servers)) for server in servers)
    entries = {server.name: _entry(server, _path(server, servers)) for server in servers}
    parts = [
        _deploying(plan, template),
        f'Try it:\n  curl "{URL}health"\n{requests}',
        "Claude Desktop, in claude_desktop_config.json:",
    ]
    click.echo("\n" + "\n\n".join(parts))
    click.echo(json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False))


def _path(server: "Server", servers: "list[Server]") -> str:
    return "mcp" if len(servers) == 1 else f"mcp/{server.name}"


def _header(server: "Server") -> str:
    """The header for the keys of callers."""
    return server.caller_keys.headers[0] if server.caller_keys is not None else ""


def _deploying(plan: FunctionPlan, template: Path) -> str:
    secrets = [f"{parameter(name)}=…" for name in plan.secrets]
    first = f"  sam deploy --template-file {shlex.quote(str(template))} --stack-name {plan.name} \\\n"
    first += "    --resolve-s3 --capabilities CAPABILITY_IAM \\\n"
    first += f"    --parameter-overrides {' '.join([f'ToolyardKey={NEW_KEY}', *secrets])}"
    url = f"  URL=$(aws lambda get-function-url-config --function-name {plan.name} \\\n"
    url += "    --query FunctionUrl --output text)"
    later = "To update it, omit --parameter-overrides: the stack keeps the key."
    return f"Deploy it:\n{first}\n{later}\nGet its URL, which ends in a slash:\n{url}"


def _requests(server: "Server", path: str) -> str:
    header = _header(server)
    key = f" -H '{header}: {_value(header, '…')}'" if header else ""
    asked: list[dict[str, object]] = [{"method": "tools/list"}]
    if (call := _example(server)) is not None:
        asked.append({"method": "tools/call", "params": call})
    lines: list[str] = []
    for number, message in enumerate(asked, 1):
        body = json.dumps({"jsonrpc": "2.0", "id": number, **message})
        lines.append(f"  curl \"{URL}{path}\" -H '{JSON_TYPE}'{key} \\\n    -d {shlex.quote(body)}")
    return "\n".join(lines)


def _example(server: "Server") -> dict[str, object] | None:
    """A call of a read-only tool with at most one required string."""
    for tool in server.tools.values():
        hints = tool.info.annotations
        wanted = tool.info.input_schema.get("required", [])
        properties = tool.info.input_schema.get("properties", {})
        is_easy = len(wanted) <= 1 and all(
            properties.get(name, {}).get("type") == "string" for name in wanted
        )
        if is_easy and hints is not None and hints.read_only_hint:
            return {"name": tool.name, "arguments": dict.fromkeys(wanted, "123")}
    return None


def _entry(server: "Server", path: str) -> dict[str, object]:
    """A client entry that starts mcp-remote, with the key from a variable."""
    header = _header(server)
    variable = f"{re.sub('[^A-Za-z0-9]+', '_', server.name).upper()}_API_KEY"
    arguments = ["-y", "mcp-remote", f"https://….on.aws/{path}"]
    if not header:
        return {"command": "npx", "args": arguments}
    # No space after the colon: Claude Desktop on Windows splits arguments there.
    arguments += ["--header", f"{header}:{_value(header, '${' + variable + '}')}"]
    return {"command": "npx", "args": arguments, "env": {variable: "…"}}


def _value(header: str, key: str) -> str:
    return f"Bearer {key}" if header == "authorization" else key
