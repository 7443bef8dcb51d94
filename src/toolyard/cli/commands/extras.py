"""`toolyard extras`: packages that only some parts need, listed and installed; offered after errors too."""

import shutil
import subprocess
import sys
from importlib.util import find_spec

import click

from ...extras import PURPOSES, install_command, missing, named_in, requirements
from ..ui.messages import CommandError, hint
from ..ui.output import print_json
from ..ui.tables import print_table
from .options import json_option

NO_PIP = "install uv, or pip for it: {} -m ensurepip"


@click.group("extras", short_help="List and install what only some parts need.", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the extras: what each is for, and whether it is installed."""
    if ctx.invoked_subcommand is not None:
        return
    absent = {name: missing(name) for name in PURPOSES}
    if as_json:
        print_json(
            [
                {"extra": name, "installed": not absent[name], "missing": absent[name], "for": about}
                for name, about in PURPOSES.items()
            ]
        )
        return
    rows = [(name, "" if absent[name] else "installed", about) for name, about in PURPOSES.items()]
    print_table(("extra", "", "for"), rows)
    if any(absent.values()):
        hint(f"{install_command('NAME')} installs one")


@command.command("add", short_help="Install extras beside this Toolyard.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def add(names: tuple[str, ...]) -> None:
    """Install extras into the environment that this command runs in."""
    if unknown := [name for name in names if name not in PURPOSES]:
        raise CommandError(f"no extra {unknown[0]!r}", f"there are {', '.join(PURPOSES)}")
    install(*(name for name in names if missing(name)))
    for name in names:
        click.echo(f"{name} is installed: {PURPOSES[name]}", err=True)


def install(*extras: str) -> None:
    """Install the packages of extras. Their own name is not asked for: on PyPI it is another project's."""
    wanted = [text for extra in extras for text in requirements()[extra]]
    if not wanted:
        return
    click.echo(f"installing {', '.join(name for extra in extras for name in missing(extra))}", err=True)
    done = subprocess.run([*_installer(), *wanted], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode or any(map(missing, extras)):
        raise CommandError(
            f"cannot install {', '.join(extras)}; the lines above say why",
            f"by hand, for {sys.executable}: {' '.join(map(repr, wanted))}",
        )


def _installer() -> list[str]:
    if find_spec("pip") is not None:
        return [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]
    if (uv := shutil.which("uv")) is not None:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise CommandError(f"there is no pip for {sys.executable}", NO_PIP.format(sys.executable))


def offer(error: click.ClickException) -> int | None:
    """Offer the extra that an error names, to whoever sits at a terminal.

    Returns the status of the command, run again with the extra, or None if there is none to run.
    """
    if not isinstance(error, CommandError):
        return None
    extra = named_in("\n".join([error.message, *error.hints]))
    if extra is None or not click.confirm(f"Install {extra} now, and try again?", default=True, err=True):
        return None
    install(extra)
    return subprocess.run([sys.executable, *sys.orig_argv[1:]], check=False).returncode
