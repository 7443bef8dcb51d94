"""The pinned versions hold for every Python that the README names, Debian's old 3.11.2 among them."""

import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent.parent
OLDEST = ["3.11.0", "3.12.0", "3.13.0", "3.14.0"]


def environments() -> list[Path]:
    """Where everything that is pinned gets installed: ours, and those of programs that tests run."""
    found = [Path(path) for path in sys.path if path.endswith("site-packages")]
    return [*found, *(ROOT / "build" / "envs").glob("*/lib/python*/site-packages")]


def left_out(python: str) -> set[str]:
    """The packages that pyproject.toml asks for only on other Pythons."""
    marked = re.findall(
        r'"([\w.-]+)[^";]*; (python_version [^"]+)"', (ROOT / "pyproject.toml").read_text("utf-8")
    )
    version = {"python_version": python.rpartition(".")[0]}
    return {name for name, marker in marked if not Marker(marker).evaluate(version)}


@pytest.mark.parametrize("python", OLDEST)
def test_no_pinned_package_asks_for_a_newer_python(python: str):
    packages = {
        package.name: package.metadata["Requires-Python"]
        for package in distributions(path=[str(path) for path in environments()])
        if "Requires-Python" in package.metadata
    }
    assert len(packages) > 100
    unfit = {name for name, asks in packages.items() if python not in SpecifierSet(asks)}
    assert unfit <= left_out(python)


def test_the_readme_and_the_package_name_the_oldest_of_these():
    (readme,) = re.findall(r"Python (3\.\d+) or newer", (ROOT / "README.md").read_text("utf-8"))
    (package,) = re.findall(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert readme == package == OLDEST[0].removesuffix(".0")


def test_a_run_without_its_programs_says_what_it_left_out(tmp_path: Path):
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", __file__],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert (
        "tests left out: Chromium is not installed (chromium not found); hint: apt-get install chromium"
        in said
    )
