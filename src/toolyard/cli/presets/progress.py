"""Makes an environment while a person watches: a spinner on a terminal, a line elsewhere."""

from pathlib import Path

import click

from ...config.files import display_path
from ..ui.terminal import Terminal
from .environments import Environments, Package


class SpinnerProgress:
    """The last line of the installer, on a terminal. Elsewhere nothing: an error has the last lines."""

    shows_everything = False

    def __init__(self, user: Terminal, package: Package) -> None:
        self._user = user
        self._package = package

    def show(self, line: str) -> None:
        self._user.waiting(0, 1, f"installing {self._package}: {line.strip()}")


def make_environment(package: Package) -> tuple[Path, bool]:
    """The folder of the environment, and whether it is new."""
    with Terminal() as user:
        environments = Environments(SpinnerProgress(user, package))
        is_new = environments.find(package) is None
        if is_new:
            click.echo(f"installing {package} into {display_path(environments.root)}", err=True)
        with environments.used(package) as made:
            return made.folder, is_new
