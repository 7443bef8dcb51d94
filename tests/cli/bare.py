"""An environment with Toolyard and what it always needs, and without any extra."""

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGES = Path(sysconfig.get_path("purelib"))


def bare_environment(folder: Path, *more: str) -> Path:
    """Makes it, with links to the packages that are installed here; the path of its Python."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    (there,) = folder.glob("lib/python*/site-packages")
    packages = _needed("toolyard") | {"toolyard", *more}
    for top in {top for name in packages for top in _tops(name)}:
        (there / top).symlink_to(PACKAGES / top)
    return python


def _needed(package: str) -> set[str]:
    """What a package asks for without extras, and what those ask for."""
    found: set[str] = set()
    asked = [package]
    while asked:
        for text in importlib.metadata.requires(asked.pop()) or []:
            name = re.split(r"[^\w.-]", text)[0]
            if "extra ==" in text or name in found:
                continue
            try:
                importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:  # for another Python
                continue
            found.add(name)
            asked.append(name)
    return found


def _tops(package: str) -> set[str]:
    """Its entries in site-packages."""
    files = importlib.metadata.files(package) or []
    return {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
