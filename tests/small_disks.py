"""A small disk for one program: mounted in a namespace of its own, so that it is gone with the program."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

_OWN = ["unshare", "--mount"]
_OWN_AS_USER = ["unshare", "--user", "--map-root-user", "--mount"]


def on_tmpfs(place: Path, size: str = "1m") -> list[str]:
    """What runs a program with a disk of this size at `place`. A program may fill it."""
    place.mkdir(exist_ok=True)
    return _prefix(_OWN_AS_USER, f'mount -t tmpfs -o size={size} none "{place}" && exec "$@"')


def on_small_blocks(place: Path, image: Path) -> list[str]:
    """The same with ext4 and blocks of 1 KiB, which mke2fs chooses for disks under 512 MiB. For root only."""
    place.mkdir(exist_ok=True)
    make = f'truncate -s 4M "{image}" && mkfs.ext4 -q -b 1024 -O ^has_journal "{image}"'
    return _prefix(_OWN, f'{make} && mount -o loop "{image}" "{place}" && exec "$@"')


def _prefix(own: list[str], mount: str) -> list[str]:
    prefix = [*own, "sh", "-c", mount, "sh"]
    if reason := _refusal(tuple(prefix)):
        pytest.skip(f"no small disk can be mounted here: {reason}")
    return prefix


@cache
def _refusal(prefix: tuple[str, ...]) -> str:
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no unshare"
    return (tried.stderr.strip() or "it failed") if tried.returncode else ""
