"""The `[audit]` table: what it gives, and what it is refused for."""

from pathlib import Path

from tests.config.conftest import Load, Refused


def test_a_path_starts_at_the_folder_of_the_file_and_texts_may_name_variables(loaded: Load, folder: Path):
    found = loaded(
        """
        [audit]
        url = "file:records"
        unavailable = "open"
        max_bytes = "1MiB"
        webhook = "https://siem.example.com/in"
        webhook_headers = { Authorization = "Bearer ${TOKEN}" }
        syslog = "/dev/log"
        """,
        TOKEN="abc",
    ).audit
    assert found.url == f"file://{folder / 'records'}"
    assert (found.unavailable, found.max_bytes, found.arguments) == ("open", 2**20, "digest")
    assert found.webhook_headers == {"Authorization": "Bearer abc"}
    assert loaded('[audit]\nurl = "sqlite:"').audit.url == "sqlite:"
    assert not loaded("").audit.is_on


def test_what_cannot_be_used_is_named(refused: Refused):
    assert "begins with 'redis'" in refused('[audit]\nurl = "redis://x"').message
    assert "begins with 'file'" in refused('[audit]\nurl = "file"').message
    assert "and no 'url'" in refused('[audit]\nsyslog = "/dev/log"').message
    assert "neither HOST:PORT" in refused('[audit]\nurl = "file:"\nsyslog = "nowhere"').message
    assert '"open" or "closed"' in refused('[audit]\nurl = "file:"\nunavailable = "maybe"').message
