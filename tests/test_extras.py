"""The command in errors about a missing extra is for the environment that runs."""

import sys
from pathlib import Path

import pytest

from toolyard.extras import install_command


def test_another_environments_program_is_not_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "toolyard").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/my tools/bin/python")
    assert install_command("sql") == "'/my tools/bin/python' -m toolyard extras add sql"


def test_a_program_that_is_not_on_path_has_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "toolyard").touch(mode=0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert install_command("sql") == f"{tmp_path}/toolyard extras add sql"


def test_in_an_activated_environment_the_name_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "toolyard").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert install_command("sql") == "toolyard extras add sql"
