"""A store that fails says why in words fit for a model, within its time, and is not asked again at once."""

import logging
from contextlib import suppress

import aiohttp
import boto3
import pytest

from tests.artifacts.broken import (
    CUTS,
    HALF_LETTERS,
    HANGS,
    MANY_DIGITS,
    SAYS_403,
    SAYS_500,
    SAYS_NO_BUCKET,
    TALKS_NONSENSE,
    broken,
)
from tests.artifacts.keeping import JSON, TOOL, keep, read, running, send
from tests.artifacts.places import GCS_SECRET, S3_SECRET, AzurePlace, Place, S3Place, SupabasePlace
from tests.artifacts.servers import AZURE_KEY
from tests.emulators.supabase.emulator import ANON_KEY, SERVICE_KEY, Fault
from tests.waiting import until
from toolyard.artifacts.store import ArtifactStoreError, ArtifactStoreUnreachableError

MIB = 1024 * 1024
SECRETS = (
    S3_SECRET,
    GCS_SECRET,
    AZURE_KEY,
    SERVICE_KEY,
    ANON_KEY,
    "Bearer",
    "http://",
    "127.0.0.1",
    "<",
    "Error",
    "{",
)


def at(place: Place, url: str) -> dict[str, str]:
    """The options that lead to another address."""
    return {{"supabase": "url", "gcs": "base_url"}.get(place.kind, "endpoint"): url}


def fit_for_a_model(error: ArtifactStoreError) -> str:
    assert not [secret for secret in SECRETS if secret in error.reason], error.reason
    assert len(error.reason) < 200
    return error.reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (SAYS_500, "the store answers with HTTP 500"),
        (HANGS, "did not answer"),
        (SAYS_403, "does not allow this with our key"),
        (TALKS_NONSENSE, "store"),
        (CUTS, "the store cannot be reached"),
        (HALF_LETTERS, "the store"),
        (MANY_DIGITS, "the store answers with HTTP 400"),
    ],
    ids=["500", "hangs", "403", "nonsense", "cuts", "half letters", "many digits"],
)
async def test_a_broken_store_is_told_of_and_costs_one_timeout(
    any_place: Place, answer: bytes, reason: str
) -> None:
    async with broken(answer) as server:
        store = any_place.store(timeout=1.5, options=at(any_place, server.url))
        with pytest.raises(ArtifactStoreError) as told:
            await keep(store, b"[]")
        assert reason in fit_for_a_model(told.value)
        if answer is HANGS:
            asked = server.asked
            with pytest.raises(ArtifactStoreError, match="a moment ago"):
                await keep(store, b"[]")
            assert server.asked == asked
        elif answer is not TALKS_NONSENSE:
            with pytest.raises(ArtifactStoreError) as told:
                await store.open("acme", "0" * 32)
            fit_for_a_model(told.value)
            with pytest.raises(ArtifactStoreError):
                await store.sweep()
        await store.close()


async def test_a_refused_connection_is_told_of(any_place: Place) -> None:
    store = any_place.store(timeout=5.0, options=at(any_place, "http://127.0.0.1:1"))
    with pytest.raises(ArtifactStoreUnreachableError, match="the store cannot be reached"):
        await store.start()
    await store.close()


async def test_a_store_that_comes_back_is_used_again(supabase_place: SupabasePlace) -> None:
    supabase_place.emulator.fault = "500"
    store = supabase_place.store(timeout=0.5)
    with pytest.raises(ArtifactStoreError, match="HTTP 500"):
        await store.start()
    supabase_place.emulator.fault = None

    ids: list[str] = []

    async def kept() -> bool:
        with suppress(ArtifactStoreError):
            ids.append((await keep(store, b"[]")).artifact.id)
        return bool(ids)

    await until(kept)
    assert await read(store, "acme", ids[0]) == b"[]"
    await store.close()


@pytest.mark.parametrize("fault", ["500", "html", "hang", "drop"])
async def test_an_upload_that_fails_half_way_is_told_of_and_leaves_nothing(
    supabase_place: SupabasePlace, fault: Fault
) -> None:
    async with running(supabase_place.store(timeout=1.0)) as store:
        writing = await store.begin("acme", TOOL, JSON)
        supabase_place.emulator.fault = fault
        with pytest.raises(ArtifactStoreError) as told:
            await send(writing, b"x" * 40 * MIB)
        fit_for_a_model(told.value)
        await writing.discard()
        supabase_place.emulator.fault = None
    assert await supabase_place.keys() == []


@pytest.mark.parametrize("size", [1000, 3 * MIB])
async def test_what_arrived_after_it_was_given_up_is_removed(
    supabase_place: SupabasePlace, size: int
) -> None:
    async with running(supabase_place.store(timeout=1.0)) as store:
        writing = await store.begin("acme", TOOL, JSON)
        await send(writing, b"x" * size)
        supabase_place.emulator.fault = "mute"
        with pytest.raises(ArtifactStoreError, match="did not answer within 1 seconds"):
            await writing.finish()

        async def has_arrived() -> bool:
            return len(await supabase_place.keys()) == 1

        await until(has_arrived)
        await writing.discard()
    assert await supabase_place.keys() == []


@pytest.mark.parametrize("kind", ["s3", "supabase"])
async def test_a_missing_bucket_is_made(kind: str, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(f"{kind}_place")
    async with running(place.store()) as store:
        assert await place.keys() == []
        await keep(store, b"[]")
        assert len(await place.keys()) == 1


async def test_a_bucket_that_goes_missing_costs_one_result_and_is_made_again(
    supabase_place: SupabasePlace,
) -> None:
    async with running(supabase_place.store()) as store:
        await keep(store, b"[]")
        del supabase_place.emulator.world.buckets[supabase_place.bucket]
        with pytest.raises(ArtifactStoreError, match="there is no bucket"):
            await keep(store, b"[]")
        await keep(store, b"[1]")
        assert len(await supabase_place.keys()) == 1


async def test_a_missing_bucket_that_cannot_be_made_is_told_of_with_what_to_do(
    gcs_place: Place, azure_place: AzurePlace, supabase_place: SupabasePlace
) -> None:
    async with broken(SAYS_NO_BUCKET) as server:
        store = gcs_place.store(options=at(gcs_place, server.url))
        with pytest.raises(ArtifactStoreError, match="gcloud storage buckets create gs://missing"):
            await store.start()
        await store.close()
    azure_place.bucket = "missing"
    store = azure_place.store()
    with pytest.raises(ArtifactStoreError, match="az storage container create --name missing"):
        await store.start()
    await store.close()
    store = supabase_place.store(options={"key": ANON_KEY})
    with pytest.raises(ArtifactStoreError, match="cannot be seen or created with this key"):
        await store.start()
    await store.close()


async def test_a_wrong_key_is_told_of_and_not_shown(
    s3_place: S3Place, azure_place: AzurePlace, supabase_place: SupabasePlace
) -> None:
    wrong_azure = "QSB3cm9uZyBrZXksIGFuZCBhIGxvbmcgb25l"
    attempts: list[tuple[Place, dict[str, str], str]] = [
        (s3_place, {}, "the key for the bucket .* is not accepted"),
        (azure_place, {"account_key": wrong_azure}, "does not allow this with our key"),
        (supabase_place, {"key": "wrong"}, "does not allow this with our key"),
    ]
    with s3_place.server.strict():
        for place, options, reason in attempts:
            store = place.store(options=options)
            with pytest.raises(ArtifactStoreError, match=reason) as told:
                await keep(store, b"[]")
            fit_for_a_model(told.value)
            assert wrong_azure not in told.value.reason
            await store.close()


async def test_a_key_that_may_write_and_not_list_is_good_enough(
    s3_place: S3Place, caplog: pytest.LogCaptureFixture
) -> None:
    s3_place.create()
    key, secret = _user_who_may(s3_place, ["s3:PutObject", "s3:GetObject"])
    with s3_place.server.strict():
        options = {"access_key_id": key, "secret_access_key": secret}
        with caplog.at_level(logging.WARNING):
            async with running(s3_place.store(options=options, quota=100)) as store:
                id = (await keep(store, b"x" * 60)).artifact.id
                assert await read(store, "acme", id) == b"x" * 60
                with pytest.raises(ArtifactStoreError, match="quota"):
                    await keep(store, b"x" * 60)
    assert "quotas count only results of this gateway" in caplog.text


def _user_who_may(place: S3Place, actions: list[str]) -> tuple[str, str]:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    iam = boto3.client("iam", endpoint_url=place.server.url, **keys)
    iam.create_user(UserName=place.bucket)
    allowed = f'{{"Effect": "Allow", "Action": {actions}, "Resource": "*"}}'.replace("'", '"')
    policy = f'{{"Version": "2012-10-17", "Statement": [{allowed}]}}'
    iam.put_user_policy(UserName=place.bucket, PolicyName="narrow", PolicyDocument=policy)
    made = iam.create_access_key(UserName=place.bucket)["AccessKey"]
    return made["AccessKeyId"], made["SecretAccessKey"]


async def test_public_links_lead_to_a_public_bucket(s3_place: S3Place, supabase_place: SupabasePlace) -> None:
    s3_place.create(public=True)
    for place in (s3_place, supabase_place):
        async with running(place.store(links="public")) as store, aiohttp.ClientSession() as browser:
            url = (await keep(store, b"[1]")).url
            assert url is not None
            assert "?" not in url
            async with browser.get(url) as reply:
                assert await reply.read() == b"[1]"


async def test_links_to_a_private_bucket_are_signed_when_public_ones_were_asked_for_and_the_log_says_so(
    s3_place: S3Place,
    azure_place: AzurePlace,
    supabase_place: SupabasePlace,
    caplog: pytest.LogCaptureFixture,
) -> None:
    supabase_place.emulator.world.create(supabase_place.bucket, public=False)
    for place in (s3_place, azure_place, supabase_place):
        caplog.clear()
        async with running(place.store(links="public")) as store, aiohttp.ClientSession() as browser:
            for _ in range(2):
                url = (await keep(store, b"[1]")).url
                assert url is not None
                async with browser.get(url) as reply:
                    assert await reply.read() == b"[1]"
        assert caplog.text.count("is private, so links to it are signed") == 1
    assert supabase_place.emulator.bucket(supabase_place.bucket).public is False
