"""A function as it would be uploaded: built by `toolyard deploy lambda` and unpacked, with its template."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Packed:
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
    command = [sys.executable, "-m", "toolyard", "deploy", "lambda", *arguments, "--output", str(output)]
    done = subprocess.run([*command, "--python", PYTHON], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = output / "unpacked"
    with zipfile.ZipFile(output / "function.zip") as archive:
        for entry in archive.infolist():
            file = Path(archive.extract(entry, folder))
            file.chmod(entry.external_attr >> 16 or 0o644)
    template = yaml.load((output / "template.yaml").read_text("utf-8"), _Loader)
    return Packed(folder, template)
