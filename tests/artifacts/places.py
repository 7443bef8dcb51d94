"""Where a test keeps results: a folder or a bucket of its own, at one of the four kinds of store.

What lies there is looked at by other means than our own code.
"""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import obstore
from obstore.store import AzureStore

from tests.artifacts.servers import AZURE_ACCOUNT, AZURE_KEY, Azurite, Moto
from tests.emulators.supabase import SupabaseEmulator
from tests.emulators.supabase.emulator import SERVICE_KEY
from tests.emulators.supabase.world import Object
from toolyard.artifacts.factory import open_store
from toolyard.artifacts.store import ArtifactStore, ResultLinks
from toolyard.config import StoreConfig
from toolyard.wire.seal import Sealer

S3_SECRET = "a-secret-that-nobody-may-see"
GCS_SECRET = "a-token-that-nobody-may-see"


class Place:
    """`remote` ones are reached over HTTP and hand out links of their own."""

    kind: str
    remote = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bucket = f"b{uuid4().hex}"
        self.links = ResultLinks(Sealer(b"a key of sixteen or more bytes"), "https://yard.example")

    @property
    def url(self) -> str:
        raise NotImplementedError

    @property
    def options(self) -> dict[str, str]:
        return {}

    def store(self, *, options: dict[str, str] | None = None, **settings: Any) -> ArtifactStore:
        """A store as a gateway would have it, not started; another one is another gateway."""
        every = self.options | (options or {})
        config = StoreConfig(**({"url": self.url, "options": every, "timeout": 10.0} | settings))
        return open_store(config, self.folder / "state", self.links)

    def prepare(self) -> None:
        """What the store cannot make for itself."""

    async def keys(self) -> list[str]:
        """All that lies there."""
        raise NotImplementedError

    async def put(self, key: str, content: bytes) -> None:
        """Something that is not ours."""
        raise NotImplementedError


class LocalPlace(Place):
    kind = "local"
    remote = False

    @property
    def url(self) -> str:
        return f"local:{self.folder / 'kept'}"

    async def keys(self) -> list[str]:
        root = self.folder / "kept"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*.json"))

    async def put(self, key: str, content: bytes) -> None:
        path = self.folder / "kept" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class S3Place(Place):
    kind = "s3"

    def __init__(self, folder: Path, server: Moto) -> None:
        super().__init__(folder)
        self.server = server
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "eu-west-1"}
        self.client = boto3.client("s3", endpoint_url=server.url, **keys)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/some/prefix"

    @property
    def options(self) -> dict[str, str]:
        keys = {"access_key_id": "key", "secret_access_key": S3_SECRET}
        return {"endpoint": self.server.url, "region": "eu-west-1", **keys}

    def create(self, public: bool = False) -> None:
        where = {"LocationConstraint": "eu-west-1"}
        self.client.create_bucket(Bucket=self.bucket, CreateBucketConfiguration=where)
        if public:
            # moto has a name of its own for HEAD, which AWS counts as GetObject.
            what = {"Action": ["s3:GetObject", "s3:HeadObject"], "Resource": f"arn:aws:s3:::{self.bucket}/*"}
            allowed = {"Effect": "Allow", "Principal": "*", **what}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
            self.client.put_bucket_policy(Bucket=self.bucket, Policy=policy)

    async def keys(self) -> list[str]:
        found = await asyncio.to_thread(self.client.list_objects_v2, Bucket=self.bucket)
        parts = await asyncio.to_thread(self.client.list_multipart_uploads, Bucket=self.bucket)
        unfinished = [f"unfinished {part['Key']}" for part in parts.get("Uploads", [])]
        return [entry["Key"].removeprefix("some/prefix/") for entry in found.get("Contents", [])] + unfinished

    async def put(self, key: str, content: bytes) -> None:
        key = f"some/prefix/{key}"
        await asyncio.to_thread(self.client.put_object, Bucket=self.bucket, Key=key, Body=content)


class SupabasePlace(Place):
    kind = "supabase"

    def __init__(self, folder: Path, emulator: SupabaseEmulator) -> None:
        super().__init__(folder)
        self.emulator = emulator

    @property
    def url(self) -> str:
        return f"supabase://{self.bucket}"

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.emulator.url, "key": SERVICE_KEY}

    async def keys(self) -> list[str]:
        return sorted(self.emulator.bucket(self.bucket).objects)

    async def put(self, key: str, content: bytes) -> None:
        self.emulator.bucket(self.bucket).put(Object(key, content, "text/plain", "", None), replace=True)


class GcsPlace(Place):
    """No server for it can be had from PyPI or npm: only how it fails can be seen."""

    kind = "gcs"

    @property
    def url(self) -> str:
        return "gs://missing"

    @property
    def options(self) -> dict[str, str]:
        return {"bearer_token": GCS_SECRET}


class AzurePlace(Place):
    kind = "azure"

    def __init__(self, folder: Path, server: Azurite) -> None:
        super().__init__(folder)
        self.server = server
        options: Any = self.options
        self._account = AzureStore(self.bucket, config=options, client_options={"allow_http": True})

    @property
    def url(self) -> str:
        return f"az://{self.bucket}"

    @property
    def options(self) -> dict[str, str]:
        keys = {"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY}
        return {"endpoint": f"{self.server.url}/{AZURE_ACCOUNT}", **keys}

    def prepare(self) -> None:
        self.server.create(self.bucket)

    async def keys(self) -> list[str]:
        return sorted(entry["path"] for entry in await obstore.list(self._account).collect_async())

    async def put(self, key: str, content: bytes) -> None:
        await obstore.put_async(self._account, key, content)
