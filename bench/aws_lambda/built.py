"""The function under test: built by `toolyard deploy lambda`, unpacked, with the Pythons that run it.

Owns the folders below `build/`. Measures the content of the zip, with the variables of the template.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.install import CannotInstall, python_environment
from bench.process import ROOT

HOME = ROOT / "build" / "bench-lambda"
LOGS = ROOT / "build" / "bench"
PYTHONS = ("3.13", "3.12")
PEER = "run-mcp-servers-with-aws-lambda==0.5.22"


@dataclass(frozen=True, slots=True)
class Built:
    folder: Path
    zip_bytes: int
    unpacked_bytes: int
    variables: Mapping[str, str]
    """Those of the template that have a value there."""


@dataclass(frozen=True, slots=True)
class Pythons:
    """Two environments of one Python version: with the SDK, and with the other library for Lambda."""

    version: str
    sdk: Path
    peer: Path | None
    missing: str = ""


def pythons() -> Pythons:
    sdk = f"mcp=={importlib.metadata.version('mcp')}"
    try:
        found = python_environment(f"lambda-{sdk.replace('==', '-')}", [sdk], PYTHONS)
    except CannotInstall:  # Lambda no longer offers this version, but all figures use the same one
        found = python_environment(f"lambda-{sdk.replace('==', '-')}", [sdk], ())
    version = _version(found / "python")
    try:
        peer = python_environment(f"lambda-{PEER.replace('==', '-')}", [PEER], (version,)) / "python"
        return Pythons(version, found / "python", peer)
    except CannotInstall as error:
        return Pythons(version, found / "python", None, str(error))


def build(version: str) -> Built:
    """Builds with the public command; shows its output if it fails."""
    shutil.rmtree(HOME, ignore_errors=True)
    folder = HOME / "unpacked"
    folder.mkdir(parents=True)
    LOGS.mkdir(exist_ok=True)
    toolyard = Path(sys.executable).with_name("toolyard")
    command = [str(toolyard), "deploy", "lambda", "tiflux", "--output", str(HOME), "--python", version]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"'toolyard deploy lambda' failed: {done.stderr or done.stdout}")
    file = HOME / "function.zip"
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
        unpacked = sum(entry.file_size for entry in archive.infolist())
    return Built(folder, file.stat().st_size, unpacked, _variables(HOME / "template.yaml"))


def _variables(template: Path) -> dict[str, str]:
    document: Any = yaml.load(template.read_text(encoding="utf-8"), _Plain)
    for resource in document["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            given = resource["Properties"]["Environment"]["Variables"]
            return {name: value for name, value in given.items() if isinstance(value, str)}
    raise RuntimeError(f"{template} has no function")


class _Plain(yaml.SafeLoader):
    """Ignores CloudFormation's own tags, such as `!Ref`."""


_Plain.add_multi_constructor("!", lambda loader, suffix, node: None)


def _version(python: Path) -> str:
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    return subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
