"""The official `storage3` client works against the emulated Supabase Storage, and is refused as by it."""

from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from storage3 import SyncStorageClient
from storage3.exceptions import StorageApiError

from tests.emulators.supabase import SupabaseEmulator
from tests.emulators.supabase.emulator import ANON_KEY, SERVICE_KEY

BODY = b'{"a": [1, 2, 3]}'
JSON: Any = {"content-type": "application/json", "metadata": {"made": "by us"}}


@pytest.fixture(scope="module")
def supabase() -> Iterator[SupabaseEmulator]:
    with SupabaseEmulator() as emulator:
        yield emulator


def storage(supabase: SupabaseEmulator, key: str = SERVICE_KEY) -> SyncStorageClient:
    headers = {"apiKey": key, "Authorization": f"Bearer {key}"}
    return SyncStorageClient(f"{supabase.url}/storage/v1/", headers)


def test_the_official_client_makes_a_bucket_fills_it_and_reads_it_back(supabase: SupabaseEmulator) -> None:
    with storage(supabase) as client:
        assert client.create_bucket("files", options={"public": False}) == {"name": "files"}
        assert client.get_bucket("files").public is False
        assert [bucket.id for bucket in client.list_buckets()] == ["files"]
        files = client.from_("files")
        assert files.upload("mcp/one.json", BODY, JSON).full_path == "files/mcp/one.json"
        assert files.download("mcp/one.json") == BODY
        assert files.exists("mcp/one.json")
        assert not files.exists("mcp/two.json")
        told = files.info("mcp/one.json")
        assert (told["size"], told["content_type"]) == (len(BODY), "application/json")
        assert told["metadata"] == {"made": "by us"}
        assert [entry["name"] for entry in files.list()] == ["mcp"]
        assert [entry["metadata"]["size"] for entry in files.list("mcp")] == [len(BODY)]
        files.copy("mcp/one.json", "mcp/three.json")
        files.move("mcp/three.json", "mcp/two.json")
        files.update("mcp/two.json", b"other", {"content-type": "text/plain"})
        assert files.download("mcp/two.json") == b"other"
        assert [gone["name"] for gone in files.remove(["mcp/one.json", "mcp/none.json"])] == ["mcp/one.json"]
        client.empty_bucket("files")
        assert client.delete_bucket("files") == {"message": "Successfully deleted"}


def test_its_links_open_what_they_were_made_for(supabase: SupabaseEmulator) -> None:
    with storage(supabase) as client:
        client.create_bucket("linked", options={"public": False})
        files = client.from_("linked")
        files.upload("mcp/one.json", BODY, JSON)
        link = files.create_signed_url("mcp/one.json", 60)["signedURL"]
        assert link is not None
        assert urlopen(link).read() == BODY
        with pytest.raises(OSError, match="400"):
            urlopen(link.replace("one", "two"))
        with pytest.raises(OSError, match="400"):
            urlopen(files.get_public_url("mcp/one.json"))
        client.update_bucket("linked", {"public": True})
        assert urlopen(files.get_public_url("mcp/one.json")).read() == BODY


def test_it_refuses_what_supabase_refuses(supabase: SupabaseEmulator) -> None:
    with storage(supabase) as client, storage(supabase, ANON_KEY) as anon, storage(supabase, "x") as stranger:
        client.create_bucket("strict")
        refused = {
            ("404", "Bucket not found"): lambda: client.get_bucket("missing"),
            ("409", "The resource already exists"): lambda: client.create_bucket("strict"),
            ("404", "Object not found"): lambda: client.from_("strict").download("none"),
            ("400", "Invalid key: a%b"): lambda: client.from_("strict").upload("a%25b", BODY),
            ("403", "Invalid Compact JWS"): lambda: stranger.get_bucket("strict"),
            ("403", "new row violates row-level security policy"): lambda: anon.create_bucket("mine"),
        }
        for (status, message), attempt in refused.items():
            with pytest.raises(StorageApiError) as error:
                attempt()
            assert (str(error.value.status), error.value.message) == (status, message)
