"""The `toolyard` command: a group whose subcommands are imported when they are called.

Data goes to standard output, everything else to standard error. Exit status: 0 for success, 1 if a
tool reports an error or `audit verify` finds damage, 2 if the command fails, 3 if `list` misses servers,
130 if interrupted.
"""

import os
import sys
from importlib import import_module
from typing import Any

import click

from .._version import __version__
from .commands.options import wants_debug
from .process import exit_despite_threads
from .ui.messages import CommandError, can_ask, report_error, unexpected_error

# The command's name and its module; after a colon its name there, if that is not `command`.
COMMANDS = {
    "serve": "commands.serve:serve",
    "stdio": "commands.serve:stdio",
    "run": "commands.serve:run",
    "list": "commands.list",
    "search": "commands.search",
    "show": "commands.show",
    "show-view": "commands.show_view",
    "call": "commands.call:call",
    "read": "commands.call:read",
    "prompt": "commands.call:prompt",
    "add": "commands.add_remove:add",
    "import": "commands.import_servers",
    "remove": "commands.add_remove:remove",
    "envs": "commands.envs",
    "check": "commands.check",
    "doctor": "commands.doctor",
    "extras": "commands.extras",
    "vault": "commands.vault:vault",
    "secret": "commands.vault:secret",
    "login": "commands.login:login",
    "logout": "commands.login:logout",
    "keys": "commands.keys",
    "logins": "commands.logins",
    "grant": "commands.grant",
    "access": "commands.access",
    "record": "commands.recordings:record",
    "replay": "commands.recordings:replay",
    "diff": "commands.recordings:diff",
    "stats": "commands.stats",
    "trace": "commands.trace",
    "usage": "commands.usage",
    "audit": "commands.audit",
    "approvals": "commands.approvals",
    "openapi": "commands.openapi",
    "agent": "commands.agent:agent",
    "chat": "commands.agent:chat",
    "eval": "commands.eval",
    "deploy": "deploy",
    "completion": "commands.completion",
}
INTERRUPTED = 130
# Handled by `main`, or by click itself.
EXPECTED_ERRORS = (
    click.ClickException,
    click.exceptions.Exit,
    click.Abort,
    BrokenPipeError,
    KeyboardInterrupt,
    SystemExit,
)


class CommandGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        return getattr(import_module(f".{module}", __name__), attribute or "command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        typed = args[0]
        if typed in COMMANDS or typed.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # 5 ms, and only a mistake needs it

        near = get_close_matches(typed, COMMANDS, 1)
        raise CommandError(
            f"no command {typed!r}", *(f"did you mean {name!r}?" for name in near), "toolyard -h"
        )

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Report every error in the same form, click's own included."""
        extra.setdefault("complete_var", "_TOOLYARD_COMPLETE")  # whatever the program is called
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            status = super().main(*args, standalone_mode=False, **extra)
        except click.ClickException as error:
            report_error(error)
            status = _status_after(error)
        except click.Abort:
            status = INTERRUPTED
        except SystemExit as exit:
            status = 2 if isinstance(exit.code, str) else exit.code
        status = status if isinstance(status, int) else 0
        exit_despite_threads(status)
        sys.exit(status)

    def invoke(self, ctx: click.Context) -> Any:
        """Report unexpected exceptions as a CommandError."""
        try:
            return super().invoke(ctx)
        except EXPECTED_ERRORS:
            raise
        except BaseException as error:
            raise unexpected_error(error, wants_debug(ctx)) from error


def _status_after(error: click.ClickException) -> int:
    """The status of a failed command, or of the same with the extra that it wanted."""
    if not can_ask():
        return error.exit_code
    from .commands.extras import offer  # 10 ms, for importlib.metadata

    try:
        status = offer(error)
    except click.ClickException as another:
        report_error(another)
        return another.exit_code
    except click.Abort:
        return INTERRUPTED
    return error.exit_code if status is None else status


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without a TARGET, commands use the servers of toolyard.toml in this folder or in your"
    " configuration folder. If there is none, they use the bundled demo. See `toolyard COMMAND -h`.",
)
@click.version_option(__version__, "-V", "--version", prog_name="toolyard", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Serve, inspect and call MCP servers."""
    ctx.color = False if os.environ.get("NO_COLOR") else None
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
