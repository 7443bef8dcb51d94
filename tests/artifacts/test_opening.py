"""What `[store]` may say, and what is said when it cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.artifacts.keeping import keep, running
from tests.emulators.supabase import SupabaseEmulator
from tests.emulators.supabase.emulator import SERVICE_KEY
from toolyard.artifacts.factory import open_store
from toolyard.artifacts.store import ArtifactStore, ResultLinks
from toolyard.config import ConfigError, StoreConfig, load
from toolyard.wire.seal import Sealer

LINKS = ResultLinks(Sealer(), "")


def opened(folder: Path, url: str, options: dict[str, str] | None = None) -> ArtifactStore:
    return open_store(StoreConfig(url=url, options=options or {}), folder, LINKS)


@pytest.mark.parametrize(
    ("url", "options", "message", "hint"),
    [
        ("s3://", {}, "does not name a bucket", "s3://BUCKET/PREFIX"),
        ("s3://b", {"acces_key": "x"}, "acces_key", "obstore"),
        ("s3://b", {"compress": "zip"}, "compress = 'zip'", 'compress = "identity" or "gzip"'),
        ("s3://b", {"sweep": "never"}, "sweep = 'never'", 'sweep = "on" or "off"'),
        ("az://c", {}, "Account must be specified", "obstore"),
        ("gs://b", {"service_account": "/nowhere.json"}, "service account", "obstore"),
        ("supabase:", {}, "needs the url of a project", "SUPABASE_URL"),
        ("supabase:", {"url": "https://x.supabase.co"}, "needs the key", "SUPABASE_SERVICE_ROLE_KEY"),
        ("supabase:", {"url": "x.supabase.co", "key": "k"}, "url of the Supabase project", "https://"),
        ("supabase:", {"url": "https://x", "key": "k", "region": "eu"}, "'region' is unknown", "url, key"),
        ("supabase:", {"url": "https://x", "key": "k", "compress": "gzip"}, "gzip", "leave it out"),
    ],
)
def test_what_cannot_be_used_is_told_of_with_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    options: dict[str, str],
    message: str,
    hint: str,
) -> None:
    for name in ("SUPABASE_URL", "SUPABASE_SERVICE_ROLE_KEY", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError) as told:
        opened(tmp_path, url, options)
    assert message in told.value.message
    assert hint in (told.value.hint or "")


def test_without_the_extra_the_command_to_install_it_is_given(tmp_path: Path) -> None:
    config = tmp_path / "toolyard.toml"
    config.write_text('[store]\nurl = "s3://bucket"\n')
    # As if the package were not installed.
    start = "import sys; sys.modules['obstore'] = None; from toolyard.cli import main; main()"
    command = [sys.executable, "-c", start, "stdio", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode != 0
    assert "extras add objects" in done.stderr
    assert "Traceback" not in done.stderr


async def test_supabase_needs_only_the_variables_that_its_users_have(
    supabase: SupabaseEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPABASE_URL", supabase.url)
    monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", SERVICE_KEY)
    async with running(opened(tmp_path, "supabase:")) as store:
        stored = await keep(store, b"[]")
        assert (stored.type, stored.bucket) == ("supabase", "tool-outputs")
    monkeypatch.setenv("SUPABASE_TOOL_OUTPUT_BUCKET", "from-the-environment")
    async with running(opened(tmp_path, "supabase:")) as store:
        assert (await keep(store, b"[]")).bucket == "from-the-environment"
    async with running(opened(tmp_path, "supabase://named/below/this")) as store:
        stored = await keep(store, b"[]")
        assert stored.bucket == "named"
        assert stored.key.startswith("below/this/acme/mcp/")


def test_a_file_names_a_store_its_options_and_the_variables_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIO_SECRET", "s3cret")
    file = tmp_path / "toolyard.toml"
    file.write_text(
        '[store]\nurl = "s3://results/yard"\nquota = "1 GiB"\nlinks = "signed"\n'
        '[store.options]\nendpoint = "http://minio:9000"\naccess_key_id = "k"\n'
        'secret_access_key = "${MINIO_SECRET}"\n'
    )
    config = load(file).store
    assert config.options["secret_access_key"] == "s3cret"
    assert open_store(config, tmp_path, LINKS).type == "s3"
    for url, kind in (("gs://bucket", "gcs"), ("local:", "local"), ("", "local")):
        assert opened(tmp_path, url).type == kind
