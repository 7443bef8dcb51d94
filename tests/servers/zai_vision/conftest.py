import subprocess

import pytest

from tests.programs import need
from tests.servers.zai_vision.talking import VARIABLES
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have keys of their own."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Four seconds: red, then blue."""
    need("ffmpeg")
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    sources = [
        part
        for colour in ("red", "blue")
        for part in ("-f", "lavfi", "-i", f"color={colour}:size=320x200:rate=10:duration=2")
    ]
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-y",
        *sources,
        "-filter_complex",
        "concat=n=2",
        "-pix_fmt",
        "yuv420p",
    ]
    subprocess.run([*command, str(path)], check=True, timeout=PATIENCE)
    return path.read_bytes()
