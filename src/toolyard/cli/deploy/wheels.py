"""Third-party packages for AWS: wheels for its machines, in the versions that are installed here."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ..ui.messages import CommandError

MACHINES = {"x86_64": "x86_64", "arm64": "aarch64"}
# Runtimes from 3.12 on use Amazon Linux 2023 (glibc 2.34), earlier ones Amazon Linux 2 (glibc 2.26).
GLIBC = ("2_34", "2_31", "2_28")
OLD_GLIBC = ("2_26", "2_24", "2_17")
# Licences, and METADATA, by which vulnerability scanners know the version.
KEPT_INFO = re.compile(r"(METADATA|entry_points\.txt|.*(licen[cs]e|notice|copying|authors).*)", re.I)
DROPPED_SUFFIXES = {".pyi", ".pyx", ".pxd", ".c", ".h", ".cpp", ".hpp", ".pyc"}
DROPPED_FOLDERS = {"tests", "__pycache__"}


def requirements(packages: Iterable[str]) -> tuple[list[str], list[str]]:
    """The requirements for packages with these import names, and the names that are not installed here."""
    owners = metadata.packages_distributions()
    extras = _extras()
    found: set[str] = set()
    missing: list[str] = []
    for name in sorted(packages):
        for owner in owners.get(name, ()):
            found.add(f"{owner}{extras.get(_normal(owner), '')}{_pin(owner)}")
        if name not in owners:
            missing.append(name)
    return sorted(found), missing


def install(wanted: list[str], folder: Path, python: str, arch: str) -> None:
    """Unpack the wheels for a function's Python and machine into `folder`."""
    if find_spec("pip") is None:
        raise CommandError(f"no pip in {sys.prefix}", "python -m ensurepip")
    pins = folder.with_name("pins.txt")
    pins.write_text("".join(f"{name}=={version}\n" for name, version in sorted(_installed().items())))
    platforms = [f"--platform={platform}" for platform in _platforms(python, MACHINES[arch])]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
         "--target", str(folder), "--only-binary=:all:", "--no-compile", "--implementation=cp",
         f"--python-version={python}", *platforms, "--constraint", str(pins), *wanted],
        capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        raise _install_error(done.stderr, python, arch)
    _remove_unneeded(folder)


def _install_error(said: str, python: str, arch: str) -> CommandError:
    named = re.search(r"(?:No matching distribution found for|Cannot install) ([^\s(]+)", said)
    if "connection broken" in said:  # pip then reports packages as missing that it could not look up
        return CommandError("pip cannot reach its package index", "check the network", details=said)
    if named is None:
        return CommandError("pip could not install the packages of the function", details=said)
    return CommandError(
        f"no wheel of {named[1]!r} for Python {python} on {arch}",
        "try another --python or --arch, or install a version that has one",
        details=said,
    )


def _platforms(python: str, machine: str) -> list[str]:
    is_old = tuple(map(int, python.split("."))) < (3, 12)
    versions = OLD_GLIBC if is_old else (*GLIBC, *OLD_GLIBC)
    return [f"manylinux_{version}_{machine}" for version in versions] + [f"manylinux2014_{machine}"]


def _pin(owner: str) -> str:
    version = metadata.version(owner)
    return "" if "+" in version else f"=={version}"


def _installed() -> dict[str, str]:
    return {one.name: one.version for one in metadata.distributions() if one.name and "+" not in one.version}


def _extras() -> dict[str, str]:
    """The extras with which Toolyard requires a package, such as `psycopg[binary]`."""
    try:
        asked = metadata.requires("toolyard") or []
    except metadata.PackageNotFoundError:
        return {}
    found = [re.match(r"([\w.-]+)\s*(\[[^\]]*\])", line) for line in asked]
    return {_normal(one[1]): one[2] for one in found if one}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _remove_unneeded(folder: Path) -> None:
    """Delete everything that is not needed to run, except licences."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if path.name in DROPPED_FOLDERS:
                shutil.rmtree(path)
            elif not any(path.iterdir()):
                path.rmdir()
        elif _is_unwanted(path, folder):
            path.unlink()


def _is_unwanted(file: Path, folder: Path) -> bool:
    top = file.relative_to(folder).parts[0]
    if top.endswith(".dist-info"):
        return KEPT_INFO.fullmatch(file.name) is None
    return file.suffix in DROPPED_SUFFIXES
