"""A function as it would be uploaded: built by `toolyard deploy lambda` and unpacked, with its template."""

import platform
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from toolyard.cli.deploy import interpreter

ROOT = Path(__file__).resolve().parents[2]
NEWER = "3.12"
"""What a function is made for by itself; used where there is such a Python."""
ARCH = {"aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "x86_64")


@dataclass(frozen=True)
class Python:
    """An interpreter for functions. It sees none of the packages that are installed here."""

    version: str
    program: str

    @property
    def managed(self) -> tuple[str, ...]:
        """How a managed runtime starts a function; its loop is in `loop`."""
        return (self.program, "-S", "-m", "awslambdaric", "function.handler")

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """How a function's own runtime is started."""
        return ("./bootstrap", self.program, "function.handler")

    @property
    def loop(self) -> Path:
        return ROOT / f"build/rie/python{self.version}"


def python() -> Python:
    program = interpreter.find_interpreter(NEWER)
    if program is not None and program != sys.executable:
        return Python(NEWER, program)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Not the environment's own, which would find packages that are not in the zip.
    return Python(version, str(Path(sys.base_prefix, "bin", f"python{version}")))


@dataclass(frozen=True)
class Packed:
    python: Python
    folder: Path
    """What was in the zip."""
    template: dict[str, Any]

    def variables(self, **parameters: str) -> dict[str, str]:
        """The function's environment by the template, with these parameters."""
        resources: dict[str, Any] = self.template["Resources"]
        (function,) = [one for one in resources.values() if one["Type"] == "AWS::Serverless::Function"]
        given: Mapping[str, Any] = function["Properties"]["Environment"]["Variables"]
        return {
            name: parameters[value.name] if isinstance(value, Ref) else str(value)
            for name, value in given.items()
        }


@dataclass(frozen=True)
class Ref:
    """A template's `!Ref`."""

    name: str


class _Loader(yaml.SafeLoader):
    """YAML with the tags of CloudFormation, of which only `!Ref` means something here."""


def _tagged(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> Any:
    assert isinstance(node, yaml.ScalarNode)
    text = str(loader.construct_scalar(node))
    return Ref(text) if tag == "Ref" else f"!{tag} {text}"


_Loader.add_multi_constructor("!", _tagged)


def packed(output: Path, *arguments: str) -> Packed:
    """Runs `toolyard deploy lambda` and unpacks what it made."""
    runs = python()
    command = [sys.executable, "-m", "toolyard", "deploy", "lambda", *arguments, "--output", str(output)]
    command += ["--python", runs.version, "--arch", ARCH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return unpacked(runs, output)


def unpacked(runs: Python, output: Path) -> Packed:
    """What is in the folder that the command has written to; unpacked beside it, as AWS does."""
    folder = output / "unpacked"
    with zipfile.ZipFile(output / "function.zip") as archive:
        for entry in archive.infolist():
            file = Path(archive.extract(entry, folder))
            file.chmod(entry.external_attr >> 16 or 0o644)
    return Packed(runs, folder, yaml.load((output / "template.yaml").read_text("utf-8"), _Loader))
