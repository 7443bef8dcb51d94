"""`toolyard envs`: the environments of packages from npm and PyPI that servers are started from."""

import os
import sys
from datetime import UTC, datetime

import click

from ...config.files import display_path
from ..presets.environments import MARKER, Environment, Environments, Package, parse_package, program_path
from ..ui.messages import CommandError, hint, warn
from ..ui.output import print_json
from ..ui.tables import format_size, print_table
from .options import debug_option, json_option


@click.group("envs", short_help="Environments of packages that servers run from.")
def command() -> None:
    """Environments of packages from npm and PyPI, in the cache folder.

    `toolyard add` writes `toolyard envs run PACKAGE` as the command of a server. An environment that is
    missing is made at the server's start, so that removing one loses nothing but time.
    """


@command.command(
    "run",
    short_help="Start a program of a package.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--program", default="", metavar="NAME", help="The program. Default: the package's only one.")
@click.option("--module", default="", metavar="NAME", help="A Python module to run instead of a program.")
@click.argument("package")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(program: str, module: str, package: str, arguments: tuple[str, ...]) -> None:
    """Start a program of PACKAGE, such as npm:@playwright/mcp@0.0.83 or pypi:mcp-server-git==2026.10.19.

    The package is installed first if it is not in the cache. Arguments after PACKAGE go to the program.
    """
    wanted = parse_package(package)
    if module and wanted.registry == "npm":
        raise CommandError("--module is for packages from PyPI", "--program names a program")
    with Environments().used(wanted) as made:
        argv = [*made.argv(program, module), *arguments]
        # This process becomes the program: nothing of ours stays between the gateway and its server.
        try:
            os.execve(argv[0], argv, {**os.environ, "PATH": program_path(os.environ)})
        except OSError as error:
            raise CommandError(f"cannot start {argv[0]!r}: {error.strerror or error}") from None


@command.command("install", short_help="Make environments beforehand.")
@click.argument("packages", nargs=-1, required=True, metavar="PACKAGE|PRESET...")
@debug_option
def install(packages: tuple[str, ...], debug: bool) -> None:
    """Make the environments of packages, or of presets by name: for an image, or before going offline."""
    from ..presets.progress import make_environment

    for package in [_package(name) for name in packages]:
        folder, is_new = make_environment(package)
        click.echo(f"{package} {'installed in' if is_new else 'is in'} {display_path(folder)}")


def _package(name: str) -> Package:
    if ":" in name:
        return parse_package(name)
    from ..presets.catalogue import preset
    from ..presets.recipe import PackageStart

    start = preset(name).start
    if not isinstance(start, PackageStart):
        raise CommandError(f"{name!r} needs no environment", f"`toolyard add {name}` adds it")
    return start.package


@command.command("list", short_help="Show the environments.")
@json_option
@debug_option
def show(as_json: bool, debug: bool) -> None:
    """Show the environments, with their size and when each was last used."""
    environments = Environments()
    made = environments.all()
    if as_json:
        print_json([_described(one) for one in made])
        return
    if not made:
        click.echo(f"no environments in {display_path(environments.root)}", err=True)
        return
    rows = [(str(one.package), format_size(one.size()), _last_used(one)) for one in made]
    print_table(("package", "size", "last used"), rows)
    hint(f"they are in {display_path(environments.root)}; `toolyard envs remove PACKAGE` removes one")


def _described(made: Environment) -> dict[str, object]:
    return {
        "package": str(made.package),
        "size": made.size(),
        "last_used": _last_used(made),
        "folder": str(made.folder),
    }


def _last_used(made: Environment) -> str:
    moment = datetime.fromtimestamp((made.folder / MARKER).stat().st_mtime, UTC)
    return moment.strftime("%Y-%m-%d %H:%M")


@command.command("remove", short_help="Remove environments.")
@click.argument("packages", nargs=-1, metavar="[PACKAGE]...")
@click.option("--all", "everything", is_flag=True, help="Remove every environment.")
@debug_option
def remove(packages: tuple[str, ...], everything: bool, debug: bool) -> None:
    """Remove environments of PACKAGE: the whole name, or the part without version or registry.

    A server that runs keeps its environment. One that starts later makes it again.
    """
    if bool(packages) == everything:
        raise CommandError(
            "no package" if not packages else "packages and --all at once", "toolyard envs list"
        )
    environments = Environments()
    made = environments.all()
    chosen = made if everything else [one for name in packages for one in _matching(name, made)]
    busy = [one for one in dict.fromkeys(chosen) if not _removed(one, environments)]
    if everything:
        for folder in environments.half_made():
            environments.remove(folder)
    if busy:
        sys.exit(2)


def _removed(made: Environment, environments: Environments) -> bool:
    size = format_size(made.size())
    if environments.remove(made.folder):
        click.echo(f"removed {made.package}: {size}")
        return True
    warn(f"{made.package} was not removed: a server runs from it", "stop the gateway or client that runs it")
    return False


def _matching(name: str, made: list[Environment]) -> list[Environment]:
    found = [one for one in made if name in (str(one.package), one.package.requirement, one.package.name)]
    if not found:
        raise CommandError(f"no environment of {name!r}", "toolyard envs list")
    return found
