"""The `toolyard` command: one module per subcommand, loaded when it is asked for.

Data goes to standard output, everything else to standard error. Exit status: 0 for success, 1 when a
tool says it failed, 2 when the command could not do its work, 130 when interrupted.
"""

import os
import sys
from importlib import import_module
from typing import Any

import click

from .. import __version__
from .commands.options import wants_debug
from .process import exit_despite_threads
from .ui.messages import CommandError, report_error, unexpected_error

# The command's name, and the module that has it; after a colon, what it is called there if not `command`.
COMMANDS = {
    "serve": "commands.serve:serve",
    "stdio": "commands.serve:stdio",
    "run": "commands.serve:run_bundled",
    "list": "commands.list",
    "search": "commands.search",
    "show": "commands.show",
    "call": "commands.call:call",
    "read": "commands.call:read",
    "prompt": "commands.call:prompt",
    "add": "commands.add_remove:add",
    "import": "commands.import_servers",
    "remove": "commands.add_remove:remove",
    "stats": "commands.stats",
    "openapi": "commands.openapi",
    "deploy": "deploy",
    "completion": "commands.completion",
}
INTERRUPTED = 130
# What `main`, or click below it, knows how to leave with.
FORESEEN = (
    click.ClickException,
    click.exceptions.Exit,
    click.Abort,
    BrokenPipeError,
    KeyboardInterrupt,
    SystemExit,
)


class Commands(click.Group):
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
        """Every failure leaves in the same form, click's own included."""
        extra.setdefault("complete_var", "_TOOLYARD_COMPLETE")  # however the program is called
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            status = super().main(*args, standalone_mode=False, **extra)
        except click.ClickException as error:
            report_error(error)
            status = error.exit_code
        except click.Abort:
            status = INTERRUPTED
        except SystemExit as left:
            status = 2 if isinstance(left.code, str) else left.code
        status = status if isinstance(status, int) else 0
        exit_despite_threads(status)
        sys.exit(status)

    def invoke(self, ctx: click.Context) -> Any:
        """What nobody foresaw is a failure too."""
        try:
            return super().invoke(ctx)
        except FORESEEN:
            raise
        except BaseException as error:
            raise unexpected_error(error, wants_debug(ctx)) from error


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without a TARGET, commands use the servers of toolyard.toml, in this folder or in your"
    " configuration, and the bundled demo where there is none. `toolyard COMMAND -h` tells more.",
)
@click.version_option(__version__, "-V", "--version", prog_name="toolyard", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Serve, inspect and call MCP servers."""
    ctx.color = False if os.environ.get("NO_COLOR") else None
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
