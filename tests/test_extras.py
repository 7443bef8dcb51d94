"""The command in errors about a missing extra is for the environment that runs."""

import sys
from pathlib import Path

import pytest

from toolyard.extras import install_command


def test_another_environments_pip_is_not_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/my tools/bin/python")
    assert install_command("sql") == "'/my tools/bin/python' -m pip install 'toolyard[sql]'"


def test_in_an_activated_environment_pip_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pip").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert install_command("sql") == "pip install 'toolyard[sql]'"
