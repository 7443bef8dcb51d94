"""Workspaces opened both ways: by the kernel's `openat2`, and one name after the other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from toolyard.workspace import Workspace, WorkspaceLimits
from toolyard.workspace.beneath import Open, open_by_steps, openat2

OpenWorkspace = Callable[..., Workspace]


@pytest.fixture(params=["openat2", "steps"])
def open_file(request: pytest.FixtureRequest) -> Open:
    if request.param == "steps":
        return open_by_steps
    found = openat2()
    if found is None:
        pytest.skip("this system has no openat2")
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the workspace; beside it is what must not be touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    return tmp_path / "work"


@pytest.fixture
def open_workspace(root: Path, open_file: Open) -> OpenWorkspace:
    def opened(**limits: int) -> Workspace:
        return Workspace(root, WorkspaceLimits(**limits), open_file=open_file)

    return opened


@pytest.fixture
def workspace(open_workspace: OpenWorkspace) -> Workspace:
    return open_workspace()
