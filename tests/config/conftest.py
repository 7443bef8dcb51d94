from collections.abc import Callable
from pathlib import Path

import pytest

from toolyard.config import Config, ConfigError, load

Load = Callable[..., Config]
Refused = Callable[..., ConfigError]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a home of its own below it."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loaded(folder: Path) -> Load:
    """What a toolyard.toml with this text gives, under these variables."""

    def load_text(text: str, name: str = "toolyard.toml", **env: str) -> Config:
        (folder / name).write_text(text)
        return load(folder / name, env)

    return load_text


@pytest.fixture
def refused(loaded: Load) -> Refused:
    """The error that it gives instead."""

    def refuse_text(text: str, name: str = "toolyard.toml", **env: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            loaded(text, name, **env)
        return caught.value

    return refuse_text
